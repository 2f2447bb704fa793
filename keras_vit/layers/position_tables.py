"""Positions of a grid of patches as numbers: fixed waves, and the offsets between patches."""

from __future__ import annotations

import numpy as np

from keras_vit._checks import positive_integer


def as_grid(grid: tuple[int, int] | None) -> tuple[int, int] | None:
    """Rows and columns as plain integers, from a tuple, or a list of a configuration; or None."""
    return None if grid is None else tuple(positive_integer("grid", side) for side in grid)


def sincos_2d(grid: tuple[int, int], width: int, temperature: float = 10_000.0) -> np.ndarray:
    """Fixed waves for each position of a grid: (rows * columns, width), in float64.

    The quarters of the width are sin and cos of the column, then sin and cos of the row, each at
    width / 4 frequencies from 1 down to 1 / temperature (big_vision `posemb_sincos_2d`).
    """
    rows, columns = np.indices(grid).reshape(2, -1)  # raster order
    frequencies = temperature ** -np.linspace(0, 1, width // 4)
    x, y = np.outer(columns, frequencies), np.outer(rows, frequencies)
    return np.concatenate([np.sin(x), np.cos(x), np.sin(y), np.cos(y)], axis=1)


def relative_entries(grid: tuple[int, int], class_token: bool) -> int:
    """How many offsets two patches of a grid can have, and three more for a class token."""
    return (2 * grid[0] - 1) * (2 * grid[1] - 1) + 3 * class_token


def relative_index(grid: tuple[int, int], class_token: bool) -> np.ndarray:
    """The entry of a table of offsets for each pair of tokens: (tokens, tokens), query by key.

    Entries follow the offset from key to query, (row, column) in raster order from the most
    negative. The last three are, as in BEiT: class token to patch, patch to class token, class
    token to itself.
    """
    positions = np.indices(grid).reshape(2, -1)  # (2, patches), raster order
    offsets = positions[:, :, None] - positions[:, None, :]  # (2, patches, patches)
    rows, columns = (offset + side - 1 for offset, side in zip(offsets, grid, strict=True))
    index = rows * (2 * grid[1] - 1) + columns
    if class_token:
        entries = relative_entries(grid, class_token)
        index = np.pad(index, ((1, 0), (1, 0)))
        index[0, :] = entries - 3
        index[:, 0] = entries - 2
        index[0, 0] = entries - 1
    return index
