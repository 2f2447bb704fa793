"""One learned half vector for each column and one for each row (paper, appendix D.4)."""

from __future__ import annotations

import functools

import numpy as np

from keras_vit.parts.grids import resample_grid
from keras_vit.parts.positions.position_embedding import PositionEmbedding, PositionWeight


def _table(weights, tokens, width, ops):
    rows, columns = tokens.grid
    shape = (rows, columns, width // 2)
    halves = [
        ops.broadcast_to(weights["columns"][None], shape),
        ops.broadcast_to(weights["rows"][:, None], shape),
    ]
    # (rows, columns, hidden_dim) to (1, patches, hidden_dim)
    return ops.reshape(ops.concatenate(halves, axis=-1), (1, rows * columns, width))


def _resample(table, old, new, prefix, method, axis) -> np.ndarray:
    # The table for one axis is resampled as a grid with one column.
    return resample_grid(table[:, None], (new[axis], 1), method)[:, 0]  # (side, hidden_dim / 2)


# No official file has this kind of positions, so keras_vit defines its keys.
LEARNED2D = PositionEmbedding(
    weights=tuple(
        PositionWeight(
            name=name,
            key=key,
            shape=lambda tokens, width, axis=axis: (tokens.grid[axis], width // 2),
            resample=functools.partial(_resample, axis=axis),
            stddev=0.02,
        )
        for name, key, axis in (("columns", "column_embedding", 1), ("rows", "row_embedding", 0))
    ),
    table=_table,
    grid_from_shapes=lambda shapes, prefix: (shapes["rows"][0], shapes["columns"][0]),
    width_multiple=2,
)
