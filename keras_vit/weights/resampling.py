"""Resamples the kernels that read an image: to another patch size, to other channels."""

from __future__ import annotations

import numpy as np

from keras_vit.encoder.patch_grids import half_pixel_matrix


def resample_patches(kernel: np.ndarray, patch_size: int) -> np.ndarray:
    """Resamples the kernel of a patch projection to another patch size (FlexiViT, section 3.4).

    It uses the pseudo-inverse of bilinear resizing, so that patches that are resized to a larger
    size keep their embeddings. Source: big_vision `models/proj/flexi/vit.py`.

    Args:
        kernel: (P, P, channels, hidden_dim).
        patch_size: the new P.

    Returns:
        float32 (patch_size, patch_size, channels, hidden_dim).
    """
    # Resizing is a Kronecker product of two matrices, and so is its pseudo-inverse.
    rows, columns = (
        np.linalg.pinv(half_pixel_matrix(side, patch_size).T) for side in kernel.shape[:2]
    )
    resampled = np.einsum("ip,pqcd,jq->ijcd", rows, kernel, columns, optimize=True)
    return resampled.astype(np.float32)


def fold_channels(kernel: np.ndarray, channels: int) -> np.ndarray:
    """A kernel of RGB images for images of `channels` channels.

    The kernel for one channel is the sum over the three, so that a grey picture gives the same as
    its three equal channels gave. For other numbers the three are repeated, and scaled by
    3 / channels, which keeps the size of the outputs. Source: timm `models/_manipulate.py`
    (`adapt_input_conv`).

    Args:
        kernel: (rows, columns, 3, features).
        channels: the new number of channels.

    Returns:
        float32 (rows, columns, channels, features).
    """
    if channels == 1:
        return kernel.sum(2, keepdims=True, dtype=np.float32)
    folded = kernel[:, :, np.arange(channels) % 3] * (3 / channels)
    return folded.astype(np.float32)
