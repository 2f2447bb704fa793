"""Fixed sines and cosines for each position of the grid (big_vision `posemb_sincos_2d`)."""

from __future__ import annotations

import numpy as np

from keras_vit.parts.grids import Grid
from keras_vit.parts.positions.position_embedding import PositionEmbedding


def sincos_2d(
    grid: Grid, width: int, temperature: float = 10_000.0, endpoint: bool = True
) -> np.ndarray:
    """Sines and cosines for each position of a grid: (rows * columns, width), in float64.

    The four quarters of the width are sin and cos of the column, then sin and cos of the row. Each
    quarter has width / 4 frequencies, from 1 down to 1 / temperature, or, without `endpoint`, down
    to the one before (MAE, He et al. 2022).
    """
    rows, columns = np.indices(grid).reshape(2, -1)  # (2, patches), raster order
    frequencies = temperature ** -np.linspace(0, 1, width // 4, endpoint=endpoint)
    x, y = np.outer(columns, frequencies), np.outer(rows, frequencies)
    return np.concatenate([np.sin(x), np.cos(x), np.sin(y), np.cos(y)], axis=1)


SINCOS2D = PositionEmbedding(
    table=lambda weights, tokens, width, ops: sincos_2d(tokens.grid, width)[None],
    width_multiple=4,
)
