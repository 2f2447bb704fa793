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
        key: the end of its official key; `weights/names.py` has the prefix.
        shape: a function of the tokens and the width that returns the shape. The width is
            hidden_dim, or the number of heads for weights in attention. The last axis must depend
            only on the width.
        resample: a function that returns the array for a new grid, given the array, the old and
            the new grid, the number of tokens before the patches, and the method.
        stddev: standard deviation of the initial values; 0 for zeros.
    """

    name: str
    key: str
    shape: Callable[[Tokens, int], tuple[int, ...]]
    resample: Callable[[np.ndarray, Grid, Grid, int, Method], np.ndarray]
    stddev: float = 0.0


@dataclasses.dataclass(frozen=True)
class PositionEmbedding:
    """A kind of position embedding: a table that is added to the tokens, or a bias in attention.

    The Keras layers and the inference graph both call `table` and `bias`: the layers with
    `keras.ops` as `ops`, the graph with NumPy.

    Attributes:
        weights: the weights of `table`; they belong to `PatchEncoder`.
        table: a function of weights by name, tokens, hidden_dim and ops that returns (1, patches,
            hidden_dim), or (1, tokens, hidden_dim) with `prefix_slots`. None if nothing is added to
            the tokens.
        prefix_slots: whether the table begins with a row for each token before the patches.
        needs_grid: whether `table` needs rows and columns, and not only their product.
        attention_weights: the weights of `bias`; they belong to each block's `MultiHeadAttention`.
        bias: a function of weights by name, tokens and ops that returns (1, heads, tokens, tokens),
            query by key, to be added to the attention logits. None if nothing is added. There is
            never a distillation token.
        grid_from_shapes: a function of the shapes of the weights in a file and of the number of
            tokens before the patches. It returns the grid of patches, or None if the shapes do not
            determine it.
        width_multiple: hidden_dim must be a multiple of this.
    """

    weights: tuple[PositionWeight, ...] = ()
    table: Callable[[Mapping[str, Any], Tokens, int, Any], Any] | None = None
    prefix_slots: bool = False
    needs_grid: bool = True
    attention_weights: tuple[PositionWeight, ...] = ()
    bias: Callable[[Mapping[str, Any], Tokens, Any], Any] | None = None
    grid_from_shapes: Callable[[Mapping[str, tuple[int, ...]], int], Grid | None] | None = None
    width_multiple: int = 1
