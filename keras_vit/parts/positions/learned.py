"""A learned vector for each position, including the class token's (paper, section 3.1)."""

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
    class_token: bool = True,
    method: Method = "bilinear",
) -> np.ndarray:
    """Resamples a table of position embeddings to another grid of patches.

    Args:
        table: (1, tokens, hidden_dim), the class token's position first if there is one.
        old, new: rows and columns of the grids.
        class_token: whether the first position is the class token's; it is not changed.
        method: "bilinear" as in the official code, or "bicubic" as in timm; see `resample_grid`.

    Returns:
        float32 (1, new tokens, hidden_dim).

    Raises:
        UsageError: the table does not have the size of the old grid.
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
    # (rows, columns, hidden_dim) to (1, patches, hidden_dim)
    patches = resample_grid(grid, new, method).reshape(1, new[0] * new[1], -1)
    return np.concatenate([np.asarray(table[:, :extra], np.float32), patches], axis=1)


def _square(shapes: Mapping[str, tuple[int, ...]], class_token: bool) -> Grid | None:
    patches = max(shapes["positions"][1] - int(class_token), 0)
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
    class_slot=True,
    needs_grid=False,
    grid_from_shapes=_square,
)
