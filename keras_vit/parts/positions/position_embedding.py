"""The record that describes a kind of position embedding."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from keras_vit.parts.grids import Grid, Method, Tokens


@dataclasses.dataclass(frozen=True)
class PositionWeight:
    """A weight of a position embedding.

    Attributes:
        name: the variable's name in its layer.
        key: the end of its official key. What stands before it is in `weights/names.py`.
        shape: from the tokens and the width to the shape, whose last axis depends on the width
            alone. The width is hidden_dim, for weights of attention the number of heads.
        resample: from the array, the grids before and after, whether there is a class token, and
            the method, to the array for the new grid.
        stddev: standard deviation of the initial values; 0 for zeros.
    """

    name: str
    key: str
    shape: Callable[[Tokens, int], tuple[int, ...]]
    resample: Callable[[np.ndarray, Grid, Grid, bool, Method], np.ndarray]
    stddev: float = 0.0


@dataclasses.dataclass(frozen=True)
class PositionEmbedding:
    """A kind of position embedding: a table that is added to the tokens, or a bias of attention.

    `table` and `bias` are written once, for the Keras layers and for the inference graph: `ops` is
    `keras.ops` in the former and NumPy in the latter.

    Attributes:
        weights: the weights of `table`, held by `PatchEncoder`.
        table: from weights by name, tokens, hidden_dim and ops to (1, patches, hidden_dim); with a
            `class_slot` to (1, tokens, hidden_dim). None if nothing is added to the tokens.
        class_slot: whether the table begins with a row for the class token, if there is one.
        needs_grid: whether `table` needs to know rows and columns, not just their product.
        attention_weights: the weights of `bias`, held by each block's `MultiHeadAttention`.
        bias: from weights by name, tokens and ops to (1, heads, tokens, tokens), query by key,
            which is added to the logits of attention. None if nothing is added.
        grid_from_shapes: from the weights' shapes in a file and whether there is a class token to
            the grid of patches, or None where the shapes do not determine it.
        width_multiple: hidden_dim must be a multiple of this.
    """

    weights: tuple[PositionWeight, ...] = ()
    table: Callable[[Mapping[str, Any], Tokens, int, Any], Any] | None = None
    class_slot: bool = False
    needs_grid: bool = True
    attention_weights: tuple[PositionWeight, ...] = ()
    bias: Callable[[Mapping[str, Any], Tokens, Any], Any] | None = None
    grid_from_shapes: Callable[[Mapping[str, tuple[int, ...]], bool], Grid | None] | None = None
    width_multiple: int = 1
