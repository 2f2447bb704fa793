"""The positions that a ViT can have: embeddings of the tokens, biases in attention, rotations.

To add an embedding: its functions, its `PositionEmbedding`, and a row in `POSITION_EMBEDDINGS`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from keras_vit._checks import Resampling
from keras_vit._errors import UsageError
from keras_vit.encoder.patch_grids import Grid, Tokens, resample_grid


@dataclasses.dataclass(frozen=True)
class PositionWeight:
    """A weight of a position embedding.

    Attributes:
        name: the variable's name in its layer.
        key: the end of its official key; `weights/names.py` has the prefix.
        shape: a function of the tokens and the width that returns the shape. The width is
            hidden_dim, or the number of heads for weights in attention. The last axis must depend
            only on the width.
        resample: a function that returns the array for a new grid, given the array, the old and
            the new grid, the number of positions before those of the patches, and the method.
        stddev: standard deviation of the initial values; 0 for zeros.
    """

    name: str
    key: str
    shape: Callable[[Tokens, int], tuple[int, ...]]
    resample: Callable[[np.ndarray, Grid, Grid, int, Resampling], np.ndarray]
    stddev: float = 0.0


@dataclasses.dataclass(frozen=True)
class PositionEmbedding:
    """A kind of position embedding: a table that is added to the tokens, or a bias in attention.

    The Keras layers and the inference graph both call `table` and `bias`: the layers with
    `keras.ops` as `ops`, the graph with NumPy.

    Attributes:
        weights: the weights of `table`; they belong to `PatchEncoder`.
        table: a function of weights by name, tokens, hidden_dim and ops that returns (1, patches,
            hidden_dim), or with `prefix_slots` (1, prefix_positions + patches, hidden_dim). None if
            nothing is added to the tokens.
        prefix_slots: whether the table begins with a row for each token before the patches, except
            registers.
        needs_grid: whether `table` needs rows and columns, and not only their product.
        attention_weights: the weights of `bias`; they belong to each block's `MultiHeadAttention`.
        bias: a function of weights by name, tokens and ops that returns (1, heads, tokens, tokens),
            query by key, to be added to the attention logits. None if nothing is added. There are
            never other learned tokens than a class token.
        grid_from_shapes: a function of the shapes of the weights in a file and of the number of
            positions before those of the patches. It returns the grid of patches, or None if the
            shapes do not determine it.
        width_multiple: hidden_dim must be a multiple of this.
        most_prefix_tokens: the largest number of learned tokens before the patches.
    """

    weights: tuple[PositionWeight, ...] = ()
    table: Callable[[Mapping[str, Any], Tokens, int, Any], Any] | None = None
    prefix_slots: bool = False
    needs_grid: bool = True
    attention_weights: tuple[PositionWeight, ...] = ()
    bias: Callable[[Mapping[str, Any], Tokens, Any], Any] | None = None
    grid_from_shapes: Callable[[Mapping[str, tuple[int, ...]], int], Grid | None] | None = None
    width_multiple: int = 1
    most_prefix_tokens: float = math.inf


# "learned": a vector for each position, also of the tokens before the patches (section 3.1).


def resample_positions(
    table: np.ndarray, old: Grid, new: Grid, prefix: int = 1, method: Resampling = "bilinear"
) -> np.ndarray:
    """Resamples a table of position embeddings to another grid of patches.

    Args:
        table: (1, tokens, hidden_dim), first the positions of the tokens before the patches.
        old, new: rows and columns of the grids.
        prefix: the number of positions before those of the patches; they are not changed. 1 for a
            class token, 2 for a class and a distillation token.
        method: "bilinear" as in the official code, or another of `resample_grid`.

    Returns:
        float32 (1, new tokens, hidden_dim).

    Raises:
        UsageError: the table does not have the size of the old grid.
    """
    if table.ndim != 3 or table.shape[:2] != (1, prefix + old[0] * old[1]):
        raise UsageError(
            f"expected a position table (1, {prefix + old[0] * old[1]}, hidden_dim) for a grid of "
            f"{old[0]} x {old[1]}. Received: shape={table.shape}."
        )
    if old == new:
        return np.asarray(table, np.float32)
    grid = table[0, prefix:].reshape(*old, -1)  # (rows, columns, hidden_dim)
    # (rows, columns, hidden_dim) to (1, patches, hidden_dim)
    patches = resample_grid(grid, new, method).reshape(1, new[0] * new[1], -1)
    return np.concatenate([np.asarray(table[:, :prefix], np.float32), patches], axis=1)


def _learned_shape(tokens: Tokens, width: int) -> tuple[int, ...]:
    return 1, tokens.count - tokens.registers, width


def _learned_square(shapes: Mapping[str, tuple[int, ...]], prefix: int) -> Grid | None:
    patches = max(shapes["positions"][1] - prefix, 0)
    side = math.isqrt(patches)
    return (side, side) if side and side * side == patches else None


LEARNED = PositionEmbedding(
    weights=(
        PositionWeight("positions", "pos_embedding", _learned_shape, resample_positions, 0.02),
    ),
    table=lambda weights, tokens, width, ops: weights["positions"],
    prefix_slots=True,
    needs_grid=False,
    grid_from_shapes=_learned_square,
)


# "learned2d": one half vector for each column and one for each row (appendix D.4).


def _learned2d_table(weights, tokens, width, ops):
    rows, columns = tokens.grid
    shape = (rows, columns, width // 2)
    halves = [
        ops.broadcast_to(weights["columns"][None], shape),
        ops.broadcast_to(weights["rows"][:, None], shape),
    ]
    # (rows, columns, hidden_dim) to (1, patches, hidden_dim)
    return ops.reshape(ops.concatenate(halves, axis=-1), (1, rows * columns, width))


def _resample_axis(table, old, new, prefix, method, axis) -> np.ndarray:
    # The table for one axis is resampled as a grid with one column.
    return resample_grid(table[:, None], (new[axis], 1), method)[:, 0]  # (side, hidden_dim / 2)


# No official file has this kind of positions, so keras_vit defines its keys.
LEARNED2D = PositionEmbedding(
    weights=tuple(
        PositionWeight(
            name,
            key,
            lambda tokens, width, axis=axis: (tokens.grid[axis], width // 2),
            functools.partial(_resample_axis, axis=axis),
            0.02,
        )
        for name, key, axis in (("columns", "column_embedding", 1), ("rows", "row_embedding", 0))
    ),
    table=_learned2d_table,
    grid_from_shapes=lambda shapes, prefix: (shapes["rows"][0], shapes["columns"][0]),
    width_multiple=2,
)


# "sincos2d": fixed sines and cosines for each position of the grid (big_vision `posemb_sincos_2d`).


def sincos_2d(grid: Grid, width: int, endpoint: bool = True) -> np.ndarray:
    """Sines and cosines for each position of a grid: (rows * columns, width), in float64.

    The four quarters of the width are sin and cos of the column, then sin and cos of the row. Each
    quarter has width / 4 frequencies, from 1 down to 1 / 10,000, or, without `endpoint`, down
    to the one before (MAE, He et al. 2022).
    """
    rows, columns = np.indices(grid).reshape(2, -1)  # (2, patches), raster order
    frequencies = 10_000.0 ** -np.linspace(0, 1, width // 4, endpoint=endpoint)
    x, y = np.outer(columns, frequencies), np.outer(rows, frequencies)
    return np.concatenate([np.sin(x), np.cos(x), np.sin(y), np.cos(y)], axis=1)


SINCOS2D = PositionEmbedding(
    table=lambda weights, tokens, width, ops: sincos_2d(tokens.grid, width)[None],
    width_multiple=4,
)


# "relative": a learned bias for each head and offset between two patches (BEiT, Bao et al. 2022;
# Swin).


_BIAS = "relative_position_bias"


def relative_entries(tokens: Tokens) -> int:
    """The number of offsets between two patches, plus three if there is a class token."""
    return math.prod(_offsets(tokens.grid)) + 3 * tokens.prefix


def _relative_shape(tokens: Tokens, heads: int) -> tuple[int, ...]:
    return relative_entries(tokens), heads


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


def _relative_bias(weights, tokens, ops):
    index = relative_index(tokens)
    bias = ops.take(weights[_BIAS], index.ravel(), axis=0)
    bias = ops.reshape(bias, (*index.shape, -1))  # (tokens, tokens, heads)
    return ops.transpose(bias, (2, 0, 1))[None]  # (1, heads, tokens, tokens)


def _resample_offsets(table, old, new, prefix, method) -> np.ndarray:
    old, new = _offsets(old), _offsets(new)
    offsets = table[: math.prod(old)].reshape(*old, -1)  # (row offsets, column offsets, heads)
    # (row offsets, column offsets, heads) to (offsets, heads)
    offsets = resample_grid(offsets, new, method).reshape(math.prod(new), -1)
    return np.concatenate([offsets, table[math.prod(old) :]])  # then the class token's three


def _relative_square(shapes: Mapping[str, tuple[int, ...]], prefix: int) -> Grid | None:
    offsets = max(shapes[_BIAS][0] - 3 * prefix, 0)
    side = (math.isqrt(offsets) + 1) // 2
    return (side, side) if side and math.prod(_offsets((side, side))) == offsets else None


def _offsets(grid: Grid) -> Grid:
    # The offsets between the patches of a grid form a grid too.
    return 2 * grid[0] - 1, 2 * grid[1] - 1


# No official file has this kind of positions, so keras_vit defines its key.
RELATIVE = PositionEmbedding(
    attention_weights=(PositionWeight(_BIAS, _BIAS, _relative_shape, _resample_offsets),),
    bias=_relative_bias,
    grid_from_shapes=_relative_square,
    most_prefix_tokens=1,
)


POSITION_EMBEDDINGS: dict[str, PositionEmbedding] = {
    "learned": LEARNED,
    "learned2d": LEARNED2D,
    "sincos2d": SINCOS2D,
    "relative": RELATIVE,
    "none": PositionEmbedding(),
}

# Rotary position embeddings: queries and keys turn by their patch's angles (Su et al. 2021).


def _axial_angles(
    grid: Grid, head_dim: int, base: float, places: Callable[[int], np.ndarray]
) -> np.ndarray:
    """One half of the angles are the row's place, the other the column's, times frequencies.

    `places` gives the places along an axis of n patches; the frequencies are head_dim / 4, from 1
    down to nearly 1 / base.
    """
    frequencies = base ** -(np.arange(head_dim // 4) / (head_dim // 4))
    axes = (np.outer(places(side), frequencies) for side in grid)
    rows, columns = np.indices(grid).reshape(2, -1)  # (2, patches), raster order
    return np.concatenate([a[i] for a, i in zip(axes, (rows, columns), strict=True)], axis=1)


# For each kind a function of the grid and of head_dim that returns the angles of each patch, in
# radians (patches, head_dim / 2). They turn the pairs of a head's first and second half.
ROTATIONS: dict[str, Callable[[Grid, int], np.ndarray] | None] = {
    # Simeoni et al. 2025, arXiv 2508.10104: the centres of n patches, between -1 and 1, times 2 pi.
    "dinov3": functools.partial(
        _axial_angles,
        base=100.0,
        places=lambda n: 2 * np.pi * ((2 * np.arange(n) + 1) / n - 1),
    ),
    # Fang et al. 2023, arXiv 2303.11331: places in the grid of pre-training.
    "eva02": functools.partial(
        _axial_angles, base=10_000.0, places=lambda n: np.arange(n) * (16 / n)
    ),
    "none": None,
}


def rotation_factors(kind: str, tokens: Tokens, head_dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays (1, tokens, 1, head_dim): x * first + exchanged(x) * second is x, turned.

    `exchanged` exchanges the halves of the channels. Tokens before the patches do not turn.
    """
    angles = np.pad(ROTATIONS[kind](tokens.grid, head_dim), ((tokens.prefix, 0), (0, 0)))
    cos, sin = np.cos(angles), np.sin(angles)
    pairs = np.concatenate([cos, cos], -1), np.concatenate([-sin, sin], -1)
    return tuple(each.astype(np.float32)[None, :, None] for each in pairs)
