"""A learned bias for each head and offset between two patches (BEiT, Bao et al. 2022; Swin)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from keras_vit.parts.grids import Grid, Tokens, resample_grid
from keras_vit.parts.positions.position_embedding import PositionEmbedding, PositionWeight

_BIAS = "relative_position_bias"


def relative_entries(tokens: Tokens) -> int:
    """The number of offsets between two patches, plus three if there is a class token."""
    return math.prod(_offsets(tokens.grid)) + 3 * tokens.prefix


def relative_index(tokens: Tokens) -> np.ndarray:
    """The entry of the bias table for each pair of tokens: (tokens, tokens), query by key.

    Entries are ordered by the offset (row, column) from key to query, in raster order from the
    most negative offset. As in BEiT, the last three are: class token to patch, patch to class
    token, class token to itself.
    """
    grid = tokens.grid
    positions = np.indices(grid, np.int32).reshape(2, -1)  # (2, patches), raster order
    offsets = positions[:, :, None] - positions[:, None, :]  # (2, patches, patches)
    rows, columns = (offset + side - 1 for offset, side in zip(offsets, grid, strict=True))
    index = rows * (2 * grid[1] - 1) + columns
    if tokens.prefix:
        entries = relative_entries(tokens)
        index = np.pad(index, ((1, 0), (1, 0)))
        index[0, :] = entries - 3
        index[:, 0] = entries - 2
        index[0, 0] = entries - 1
    return index


def _bias(weights, tokens, ops):
    index = relative_index(tokens)
    bias = ops.take(weights[_BIAS], index.ravel(), axis=0)
    bias = ops.reshape(bias, (*index.shape, -1))  # (tokens, tokens, heads)
    return ops.transpose(bias, (2, 0, 1))[None]  # (1, heads, tokens, tokens)


def _resample(table, old, new, prefix, method) -> np.ndarray:
    old, new = _offsets(old), _offsets(new)
    offsets = table[: math.prod(old)].reshape(*old, -1)  # (row offsets, column offsets, heads)
    # (row offsets, column offsets, heads) to (offsets, heads)
    offsets = resample_grid(offsets, new, method).reshape(math.prod(new), -1)
    return np.concatenate([offsets, table[math.prod(old) :]])  # then the class token's three


def _square(shapes: Mapping[str, tuple[int, ...]], prefix: int) -> Grid | None:
    offsets = max(shapes[_BIAS][0] - 3 * prefix, 0)
    side = (math.isqrt(offsets) + 1) // 2
    return (side, side) if side and math.prod(_offsets((side, side))) == offsets else None


def _offsets(grid: Grid) -> Grid:
    # The offsets between the patches of a grid form a grid too.
    return 2 * grid[0] - 1, 2 * grid[1] - 1


# No official file has this kind of positions, so keras_vit defines its key.
RELATIVE = PositionEmbedding(
    attention_weights=(
        PositionWeight(
            name=_BIAS,
            key=_BIAS,
            shape=lambda tokens, heads: (relative_entries(tokens), heads),
            resample=_resample,
        ),
    ),
    bias=_bias,
    grid_from_shapes=_square,
)
