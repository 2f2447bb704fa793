"""Learned tokens that ask: EoMT's queries."""

from __future__ import annotations

from typing import Any

from keras_vit._checks import positive_integer
from keras_vit._keras import keras, ops, register
from keras_vit.layers.base import ConfiguredLayer, StaysFloat


@register
class QueryTokens(StaysFloat, ConfiguredLayer):
    """Puts learned tokens without positions before all others.

    (batch, tokens, hidden_dim) to (batch, count + tokens, hidden_dim). The weight is `tokens`
    (1, count, hidden_dim), initially N(0, 1) as in EoMT (Kerssies et al. 2025, arXiv 2503.19108).

    Args:
        count: the number of queries.
    """

    def __init__(self, count: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.count = positive_integer("count", count)

    def build(self, input_shape):
        """Creates the queries."""
        initial = keras.initializers.RandomNormal(stddev=1.0)
        shape = (1, self.count, input_shape[-1])
        self.tokens = self.add_weight(shape=shape, initializer=initial, name="tokens")
        self.built = True

    def call(self, x):
        """The queries, then the tokens x, for each image."""
        queries = ops.cast(self.tokens, x.dtype)
        queries = ops.broadcast_to(queries, (ops.shape(x)[0], *queries.shape[1:]))
        return ops.concatenate([queries, x], axis=1)

    def compute_output_shape(self, input_shape):
        """(batch, count + tokens, hidden_dim)."""
        batch, tokens, width = input_shape
        return batch, self.count + tokens, width
