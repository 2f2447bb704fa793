"""Grids of patches, and the resampling of a table from one grid to another.

Every method is linear and separable: one matrix for the rows and one for the columns, in float64.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from keras_vit._checks import positive_integer
from keras_vit._errors import UsageError

Grid = tuple[int, int]
Method = Literal["bilinear", "bicubic"]


class Tokens(NamedTuple):
    """A sequence of tokens: learned tokens, such as a class token, then patches in raster order.

    Attributes:
        grid: rows and columns of patches.
        prefix: the number of tokens before the patches.
    """

    grid: Grid
    prefix: int

    @property
    def count(self) -> int:
        """The number of tokens."""
        return self.grid[0] * self.grid[1] + self.prefix


def as_grid(grid: Grid | None) -> Grid | None:
    """Rows and columns as a tuple of plain integers; configurations have lists. None stays None."""
    return None if grid is None else tuple(positive_integer("grid", side) for side in grid)


def resample_grid(table: np.ndarray, new: Grid, method: Method = "bilinear") -> np.ndarray:
    """Resamples a table to another grid.

    Args:
        table: (rows, columns, channels).
        new: the other grid.
        method: "bilinear" as in the official code (`interpolate_posembed`): corners stay corners,
            without smoothing. "bicubic" as in timm (`resample_abs_pos_embed`): half-pixel centres,
            with smoothing when the grid shrinks.

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
    """(new, old): linear interpolation at i * (old - 1) / (new - 1); both ends are kept.

    The official code calls `scipy.ndimage.zoom(order=1)`, which does the same. But for some sizes
    (28 to 14, 16 to 30) rounding makes scipy read outside the table and return zeros at the end.
    """
    at = np.arange(new) * ((old - 1) / max(new - 1, 1))
    return _linear(at, old)


def half_pixel_matrix(old: int, new: int) -> np.ndarray:
    """(new, old): linear interpolation at (i + 0.5) * old / new - 0.5, edges repeated.

    Like `tf.image.resize(method="bilinear")`, it does not smooth when shrinking.
    """
    at = (np.arange(new) + 0.5) * (old / new) - 0.5
    return _linear(at.clip(0, old - 1), old)


def bicubic_matrix(old: int, new: int) -> np.ndarray:
    """(new, old): cubic convolution (a = -0.5) at half-pixel centres, smoothed when shrinking.

    The same as `torch.nn.functional.interpolate(mode="bicubic", antialias=True)`.
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
