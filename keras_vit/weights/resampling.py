"""Position tables for another grid, patch kernels for another patch size.

Every method here is linear and separable: a matrix for the rows and one for the columns, in double
precision.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from keras_vit._errors import UsageError

Method = Literal["bilinear", "bicubic"]
Grid = tuple[int, int]


def resample_positions(
    table: np.ndarray,
    old: Grid,
    new: Grid,
    class_token: bool = True,
    method: Method = "bilinear",
) -> np.ndarray:
    """A table of position embeddings for another grid of patches.

    Args:
        table: (1, tokens, hidden_dim), the class token's position first if there is one.
        old, new: rows and columns of the grids.
        class_token: whether the first position is the class token's; it is kept as it is.
        method: "bilinear" is the rule of the official code (`interpolate_posembed`): the corners
            stay where they are and nothing is smoothed. "bicubic" is timm's
            (`resample_abs_pos_embed`): half-pixel centres, smoothed when shrinking.

    Returns:
        float32 (1, new tokens, hidden_dim).

    Raises:
        UsageError: the table is not of the old grid.
    """
    extra = int(class_token)
    if table.ndim != 3 or table.shape[:2] != (1, extra + old[0] * old[1]):
        raise UsageError(
            f"expected a position table (1, {extra + old[0] * old[1]}, hidden_dim) for a grid of "
            f"{old[0]} x {old[1]}. Received: shape={table.shape}."
        )
    if old == new:
        return np.asarray(table, np.float32)
    grid = table[0, extra:].reshape(*old, -1)  # (rows, columns, hidden_dim)
    grid = resample_grid(grid, new, method).reshape(1, new[0] * new[1], -1)
    return np.concatenate([np.asarray(table[:, :extra], np.float32), grid], axis=1)


def resample_grid(grid: np.ndarray, new: Grid, method: Method = "bilinear") -> np.ndarray:
    """(rows, columns, channels) to float32 (*new, channels); see `resample_positions`."""
    matrix = {"bilinear": align_corners_matrix, "bicubic": bicubic_matrix}.get(method)
    if matrix is None:
        raise UsageError(f'expected "bilinear" or "bicubic". Received: {method!r}.')
    rows, columns = (matrix(grid.shape[axis], new[axis]) for axis in (0, 1))
    resampled = np.einsum("ip,pqc,jq->ijc", rows, grid, columns, optimize=True, dtype=np.float64)
    return resampled.astype(np.float32)


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


def align_corners_matrix(old: int, new: int) -> np.ndarray:
    """(new, old): linear interpolation at i * (old - 1) / (new - 1), the first and last kept.

    `scipy.ndimage.zoom(order=1)`, which the official code calls, is this rule, but for some sizes
    (28 to 14, 16 to 30) rounding makes it read outside of the table and give zeros at the end.
    """
    at = np.arange(new) * ((old - 1) / max(new - 1, 1))
    return _linear(at, old)


def half_pixel_matrix(old: int, new: int) -> np.ndarray:
    """(new, old): linear interpolation at (i + 0.5) * old / new - 0.5, edges repeated.

    As `tf.image.resize(method="bilinear")`: nothing is smoothed when shrinking.
    """
    at = (np.arange(new) + 0.5) * (old / new) - 0.5
    return _linear(at.clip(0, old - 1), old)


def bicubic_matrix(old: int, new: int) -> np.ndarray:
    """(new, old): cubic convolution (a = -0.5) at half-pixel centres, smoothed when shrinking.

    As `torch.nn.functional.interpolate(mode="bicubic", antialias=True)`.
    """
    stretch = max(old / new, 1.0)
    centres = (np.arange(new) + 0.5) * (old / new)
    distance = np.abs(np.arange(old) + 0.5 - centres[:, None]) / stretch
    near = 1.5 * distance**3 - 2.5 * distance**2 + 1
    far = -0.5 * distance**3 + 2.5 * distance**2 - 4 * distance + 2
    weights = np.where(distance < 1, near, np.where(distance < 2, far, 0.0))
    return weights / weights.sum(axis=1, keepdims=True)


def _linear(at: np.ndarray, old: int) -> np.ndarray:
    low = np.minimum(at.astype(int), max(old - 2, 0))
    share = at - low
    matrix = np.zeros((len(at), old))
    index = np.arange(len(at))
    np.add.at(matrix, (index, low), 1 - share)
    np.add.at(matrix, (index, np.minimum(low + 1, old - 1)), share)
    return matrix
