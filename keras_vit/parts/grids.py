"""Grids of patches, and tables over a grid resampled for another one.

Every method here is linear and separable: a matrix for the rows and one for the columns, in double
precision.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from keras_vit._checks import positive_integer
from keras_vit._errors import UsageError

Grid = tuple[int, int]
Method = Literal["bilinear", "bicubic"]


class Tokens(NamedTuple):
    """The sequence that positions are for: patches in raster order, perhaps after a class token."""

    grid: Grid
    class_token: bool

    @property
    def patches(self) -> int:
        """The number of patches."""
        return self.grid[0] * self.grid[1]

    @property
    def count(self) -> int:
        """The number of tokens."""
        return self.patches + int(self.class_token)


def as_grid(grid: Grid | None) -> Grid | None:
    """Rows and columns as plain integers, from a tuple, or a list of a configuration; or None."""
    return None if grid is None else tuple(positive_integer("grid", side) for side in grid)


def resample_grid(table: np.ndarray, new: Grid, method: Method = "bilinear") -> np.ndarray:
    """A table over a grid for another grid.

    Args:
        table: (rows, columns, channels).
        new: the other grid.
        method: "bilinear" is the rule of the official code (`interpolate_posembed`): the corners
            stay where they are and nothing is smoothed. "bicubic" is timm's
            (`resample_abs_pos_embed`): half-pixel centres, smoothed when shrinking.

    Returns:
        float32 (*new, channels).

    Raises:
        UsageError: the method is unknown.
    """
    matrix = {"bilinear": align_corners_matrix, "bicubic": bicubic_matrix}.get(method)
    if matrix is None:
        raise UsageError(f'expected "bilinear" or "bicubic". Received: {method!r}.')
    rows, columns = (matrix(table.shape[axis], new[axis]) for axis in (0, 1))
    resampled = np.einsum("ip,pqc,jq->ijc", rows, table, columns, optimize=True, dtype=np.float64)
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
    fraction = at - low
    matrix = np.zeros((len(at), old))
    index = np.arange(len(at))
    np.add.at(matrix, (index, low), 1 - fraction)
    np.add.at(matrix, (index, np.minimum(low + 1, old - 1)), fraction)
    return matrix
