"""Patch kernels for another patch size."""

from __future__ import annotations

import numpy as np

from keras_vit.parts.grids import half_pixel_matrix


def resample_patches(kernel: np.ndarray, patch_size: int) -> np.ndarray:
    """The kernel of a patch projection for patches of another size (FlexiViT, section 3.4).

    The pseudo-inverse of bilinear resizing: with it, patches resized to the larger of two sizes
    have the embeddings they had before. Source: big_vision `models/proj/flexi/vit.py`.

    Args:
        kernel: (P, P, channels, hidden_dim).
        patch_size: the new P.

    Returns:
        float32 (patch_size, patch_size, channels, hidden_dim).
    """
    # The resizing is B kron B, and so is its pseudo-inverse.
    rows, columns = (
        np.linalg.pinv(half_pixel_matrix(side, patch_size).T) for side in kernel.shape[:2]
    )
    resampled = np.einsum("ip,pqcd,jq->ijcd", rows, kernel, columns, optimize=True)
    return resampled.astype(np.float32)
