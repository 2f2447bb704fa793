"""Which positions a model takes for similar."""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_vit.parts.grids import Grid, Tokens
from keras_vit.parts.positions import POSITION_EMBEDDINGS


def position_similarity(table: np.ndarray, grid: Grid) -> np.ndarray:
    """The cosine similarity of each position with each other one (paper, figure 7, centre).

    Args:
        table: the position embeddings of the patches, (patches, width), in raster order.
        grid: rows and columns of patches.

    Returns:
        (rows, columns, rows, columns) in [-1, 1]; [i, j] is the map of the patch in row i and
        column j. An embedding of zeros has the similarity 0 with all.
    """
    table = np.asarray(table, np.float64)
    norms = np.linalg.norm(table, axis=1, keepdims=True)
    units = np.divide(table, norms, out=np.zeros_like(table), where=norms > 0)
    return (units @ units.T).reshape(*grid, *grid)  # (rows, columns, rows, columns)


def position_table(model: Any) -> np.ndarray | None:
    """What a ViT adds to its patches, (patches, hidden_dim); None if it adds nothing."""
    kind = POSITION_EMBEDDINGS[model.spec.position_embedding]
    if kind.table is None:
        return None
    encoder, tokens = model.get_layer("patch_encoder"), _tokens(model)
    weights = {weight.name: np.asarray(getattr(encoder, weight.name)) for weight in kind.weights}
    table = kind.table(weights, tokens, model.spec.hidden_dim, np)[0]
    return table[tokens.prefix :] if kind.prefix_slots else table


def position_bias(model: Any) -> np.ndarray | None:
    """What positions add to the attention logits of the patch in the middle of the grid.

    Returns:
        (depth, heads, rows, columns), a number for each patch that is attended to; None if
        positions add nothing to the logits.
    """
    kind = POSITION_EMBEDDINGS[model.spec.position_embedding]
    if kind.bias is None:
        return None
    rows, columns = model.grid
    tokens = _tokens(model)
    middle = tokens.prefix + (rows // 2) * columns + columns // 2
    maps = []
    for i in range(model.spec.depth):
        attention = model.get_layer(f"encoderblock_{i}").attention
        weights = {w.name: np.asarray(getattr(attention, w.name)) for w in kind.attention_weights}
        bias = kind.bias(weights, tokens, np)[0, :, middle, tokens.prefix :]  # (heads, patches)
        maps.append(bias.reshape(-1, rows, columns))  # (heads, rows, columns)
    return np.stack(maps)


def _tokens(model: Any) -> Tokens:
    return Tokens(model.grid, model.spec.prefix_tokens)
