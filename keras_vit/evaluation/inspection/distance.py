"""How far attention reaches (paper, figure 7, right, figure 11 and appendix D.7)."""

from __future__ import annotations

import numpy as np

from keras_vit.parts.grids import Grid


def attention_distance(scores: np.ndarray, grid: Grid, stride: int) -> np.ndarray:
    """The mean distance from a patch to the patches that it attends to, in pixels of the image.

    For each query patch, the sum over all patches of attention times distance; then the mean over
    the queries. Tokens before the patches are left out, as queries and as keys, and what is left
    is not normalised again: attention to a class token counts as a distance of 0.

    Args:
        scores: attention scores (..., tokens, tokens), query by key; the patches come last.
        grid: rows and columns of patches.
        stride: from one patch to the next in pixels: `ViTSpec.stride`.

    Returns:
        (...): of scores (n, heads, tokens, tokens), a distance for each image and head.
    """
    distances = grid_distances(grid, stride)
    first = scores.shape[-1] - len(distances)
    patches = scores[..., first:, first:]
    return np.einsum("...qk,qk->...", patches, distances) / len(distances)


def even_distance(grid: Grid, stride: int, prefix: int) -> float:
    """The attention distance of scores that are the same for all tokens, in pixels."""
    patches = grid[0] * grid[1]
    scores = np.full((patches + prefix,) * 2, 1 / (patches + prefix))
    return float(attention_distance(scores, grid, stride))


def grid_distances(grid: Grid, stride: int) -> np.ndarray:
    """The Euclidean distance between the centres of any two patches: (patches, patches)."""
    places = np.indices(grid).reshape(2, -1).T  # (patches, 2), raster order
    return stride * np.linalg.norm(places[:, None] - places[None], axis=-1)
