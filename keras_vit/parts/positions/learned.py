"""A learned vector for each position, also of the tokens before the patches (section 3.1)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from keras_vit._errors import UsageError
from keras_vit.parts.grids import Grid, Method, resample_grid
from keras_vit.parts.positions.position_embedding import PositionEmbedding, PositionWeight


def resample_positions(
    table: np.ndarray,
    old: Grid,
    new: Grid,
    prefix: int = 1,
    method: Method = "bilinear",
) -> np.ndarray:
    """Resamples a table of position embeddings to another grid of patches.

    Args:
        table: (1, tokens, hidden_dim), first the positions of the tokens before the patches.
        old, new: rows and columns of the grids.
        prefix: the number of positions before those of the patches; they are not changed. 1 for a
            class token, 2 for a class and a distillation token.
        method: "bilinear" as in the official code, or "bicubic" as in timm; see `resample_grid`.

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


def _square(shapes: Mapping[str, tuple[int, ...]], prefix: int) -> Grid | None:
    patches = max(shapes["positions"][1] - prefix, 0)
    side = math.isqrt(patches)
    return (side, side) if side and side * side == patches else None


LEARNED = PositionEmbedding(
    weights=(
        PositionWeight(
            name="positions",
            key="pos_embedding",
            shape=lambda tokens, width: (1, tokens.count, width),
            resample=resample_positions,
            stddev=0.02,
        ),
    ),
    table=lambda weights, tokens, width, ops: weights["positions"],
    prefix_slots=True,
    needs_grid=False,
    grid_from_shapes=_square,
)
