"""Grids of patches, and the resampling of a table from one grid to another.

Every method is linear and separable: one matrix for the rows and one for the columns, in float64.
"""

from __future__ import annotations

import functools
from typing import NamedTuple, get_args

import numpy as np

from keras_vit._checks import Resampling, choice, positive_integer

Grid = tuple[int, int]


class Tokens(NamedTuple):
    """A sequence of tokens: learned tokens, such as a class token, then patches in raster order.

    Attributes:
        grid: rows and columns of patches.
        prefix: the number of tokens before the patches.
        registers: how many of these, the last ones, have no positions.
    """

    grid: Grid
    prefix: int
    registers: int = 0

    @property
    def count(self) -> int:
        """The number of tokens."""
        return self.grid[0] * self.grid[1] + self.prefix

    @property
    def prefix_positions(self) -> int:
        """The number of tokens before the patches that can have positions."""
        return self.prefix - self.registers


def as_grid(grid: Grid | None) -> Grid | None:
    """Rows and columns as a tuple of plain integers; configurations have lists. None stays None."""
    return None if grid is None else tuple(positive_integer("grid", side) for side in grid)


def resample_grid(table: np.ndarray, new: Grid, method: Resampling = "bilinear") -> np.ndarray:
    """Resamples a table to another grid.

    Args:
        table: (rows, columns, channels).
        new: the other grid.
        method: how other programs do it. "bilinear" as the official code (`interpolate_posembed`):
            corners stay corners, without smoothing. "bicubic" as timm (`resample_abs_pos_embed`)
            and transformers for DINOv2 with registers: half-pixel centres, with smoothing when the
            grid shrinks. "bicubic_sharp" as transformers for ViT and DINOv2: without smoothing.
            "bicubic_dinov2" as Meta's own code for DINOv2 without registers, which also steps by
            old / (new + 0.1).

    Returns:
        float32 (*new, channels).

    Raises:
        UsageError: the method is unknown.
    """
    matrix = _MATRICES[choice("method", method, get_args(Resampling))]
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


def sharp_bicubic_matrix(old: int, new: int, offset: float = 0.0) -> np.ndarray:
    """(new, old): cubic convolution (a = -0.75) at half-pixel centres, edges repeated.

    The same as `torch.nn.functional.interpolate(mode="bicubic")`; with an offset, as if it were
    given the scale (new + offset) / old.
    """
    at = (np.arange(new) + 0.5) * (old / (new + offset)) - 0.5
    low = np.floor(at).astype(int)
    matrix = np.zeros((new, old))
    for tap in range(-1, 3):
        distance = np.abs(at - (low + tap))
        near = 1.25 * distance**3 - 2.25 * distance**2 + 1
        far = -0.75 * (distance**3 - 5 * distance**2 + 8 * distance - 4)
        weight = np.where(distance <= 1, near, far)
        np.add.at(matrix, (np.arange(new), (low + tap).clip(0, old - 1)), weight)
    return matrix


def _linear(at: np.ndarray, old: int) -> np.ndarray:
    low = np.minimum(at.astype(int), max(old - 2, 0))
    fraction = at - low
    matrix = np.zeros((len(at), old))
    index = np.arange(len(at))
    np.add.at(matrix, (index, low), 1 - fraction)
    np.add.at(matrix, (index, np.minimum(low + 1, old - 1)), fraction)
    return matrix


_MATRICES = {
    "bilinear": align_corners_matrix,
    "bicubic": bicubic_matrix,
    "bicubic_sharp": sharp_bicubic_matrix,
    "bicubic_dinov2": functools.partial(sharp_bicubic_matrix, offset=0.1),
}
