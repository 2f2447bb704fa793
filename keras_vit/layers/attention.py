"""Multi-head attention with the projections `query`, `key`, `value` and `out`."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any

import numpy as np

from keras_vit._checks import choice, positive_integer
from keras_vit._errors import UsageError
from keras_vit._keras import keras, ops, register
from keras_vit.encoder.block import ATTENTION_OPTIONS, SELF_ATTENTION_ROWS, self_attention
from keras_vit.encoder.patch_grids import Tokens, as_grid
from keras_vit.encoder.positions import POSITION_EMBEDDINGS, rotation_factors
from keras_vit.encoder.weight_rows import present
from keras_vit.layers.base import (
    ConfiguredLayer,
    add_position_weights,
    build_rows,
    position_weights,
)
from keras_vit.layers.keras_ops import KerasOps


@register
class MultiHeadAttention(ConfiguredLayer):
    """Scaled dot-product attention of queries over keys and values (paper, appendix A).

    The projections `query`, `key`, `value` and `out` are Dense layers (hidden_dim, hidden_dim)
    with biases unless it is said otherwise. Their kernels, reshaped to (hidden_dim, heads,
    head_dim), are the kernels of the official `MultiHeadDotProductAttention`. Initialisers: Xavier
    uniform on the two-dimensional shape for kernels, zero for biases.

    The backend's fused attention is used unless the attention scores are returned or dropped out.

    With position_embedding="relative", each head learns a bias for each offset between two patches
    and adds it to its logits. The weight is `relative_position_bias` (offsets, heads), initially
    zero. The official code does not have this weight.

    Args:
        num_heads: number of heads; must divide the input's width.
        dropout: rate on the attention scores (0 in every published configuration).
        position_embedding: a name in `POSITION_EMBEDDINGS`. Kinds that are added to the tokens,
            such as "learned", have no effect here.
        grid: rows and columns of patches; needed by kinds that act inside attention.
        class_token: whether a class token precedes the patches; used by these kinds too.
        rotation, qk_norm, query_bias, key_bias, value_bias: as in `ViTSpec`. A rotation needs the
            patches' grid.
        causal: whether each token attends only to itself and to those before it.
        layer_norm_eps: added to the variance where queries and keys are normalised.
    """

    options = MappingProxyType({**ATTENTION_OPTIONS, "causal": False, "layer_norm_eps": 1e-6})

    def __init__(
        self,
        num_heads: int,
        dropout: float = 0.0,
        position_embedding: str = "none",
        grid: tuple[int, int] | None = None,
        class_token: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = positive_integer("num_heads", num_heads)
        self.dropout = dropout
        self.position_embedding = choice(
            "position_embedding", position_embedding, POSITION_EMBEDDINGS
        )
        self.grid = as_grid(grid)
        self.class_token = class_token
        self._positions = POSITION_EMBEDDINGS[position_embedding]
        if self._positions.bias and grid is None:
            raise UsageError(f"position_embedding={position_embedding!r} needs the patches' grid.")
        if self.causal and self._positions.bias:
            raise UsageError(
                f"causal attention has no position_embedding={position_embedding!r}; choose 'none'."
            )
        if self.rotation != "none" and grid is None:
            raise UsageError(f"rotation={self.rotation!r} needs the patches' grid.")
        self.drop_weights = keras.layers.Dropout(dropout, dtype=self.dtype_policy)
        self.query = self.key = self.value = self.out = None

    def build(self, input_shape):
        """Creates the projections and position weights for inputs (batch, tokens, hidden_dim)."""
        width = input_shape[-1]
        if width % self.num_heads:
            raise ValueError(f"num_heads={self.num_heads} does not divide the width {width}.")
        sizes = {"D": width, "H": self.num_heads, "d": width // self.num_heads}
        # The norms' input: (batch, tokens, heads, head_dim)
        build_rows(self, present(SELF_ATTENTION_ROWS, self), rank=4, **sizes)
        if self._positions.bias is not None:
            tokens = Tokens(self.grid, int(self.class_token))
            weights = self._positions.attention_weights
            add_position_weights(self, weights, tokens, self.num_heads)
        self.built = True

    def call(self, queries, keys=None, training=None, return_attention_scores=False):
        """Attends from `queries` to `keys`; without `keys`, this is self-attention.

        Args:
            queries: (batch, q, hidden_dim).
            keys: (batch, k, hidden_dim), the input of both `key` and `value`.
            training: whether dropout is on.
            return_attention_scores: also return the attention scores, after the softmax.

        Returns:
            (batch, q, hidden_dim); with `return_attention_scores` a tuple of that and the
            attention scores (batch, heads, q, k).
        """
        taps = {} if return_attention_scores else None
        own = KerasOps(self, training, taps)
        result = self_attention(own, queries, queries if keys is None else keys)
        return (result, taps["attention"]) if return_attention_scores else result

    def position_bias(self, count: int, dtype: str):
        """What positions add to the logits of `count` tokens, (1, heads, count, count), or None.

        If attention is causal, the second axis has one entry for all heads.
        """
        if self.causal:
            later = np.triu(np.ones((1, 1, count, count), bool), 1)
            return ops.cast(np.where(later, -np.inf, 0), dtype)
        if self._positions.bias is None:
            return None
        weights = position_weights(self, self._positions.attention_weights, dtype)
        return ops.cast(self._positions.bias(weights, self._tokens(count), ops), dtype)

    def rotation_factors(self, count: int, head_dim: int) -> tuple[Any, Any]:
        """The two factors by which `count` tokens turn; see `encoder/positions.py`."""
        return rotation_factors(self.rotation, self._tokens(count), head_dim)

    def _tokens(self, count: int) -> Tokens:
        return Tokens(self.grid, count - math.prod(self.grid))
