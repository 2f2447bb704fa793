"""What each head attends to."""

from __future__ import annotations

import numpy as np

from keras_vit.parts.grids import Grid


def head_maps(scores: np.ndarray, grid: Grid) -> np.ndarray:
    """What the class token attends to in each head (as in DINO, figure 1).

    Args:
        scores: attention scores (n, heads, tokens, tokens); the patches come last.
        grid: rows and columns of patches.

    Returns:
        (n, heads, rows, columns): the row of the class token over the patches, the mean of the rows
        of class and distillation token, or the mean of all rows without such tokens.
    """
    prefix = scores.shape[-1] - grid[0] * grid[1]
    readers = scores[:, :, : prefix or None, prefix:]
    maps = readers.mean(axis=2, dtype=np.float64)  # (n, heads, patches)
    return maps.reshape(*maps.shape[:2], *grid)  # (n, heads, rows, columns)
