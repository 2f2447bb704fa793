"""The two ends of a text tower: from ids to tokens, and from tokens to the one that is read."""

from __future__ import annotations

from typing import Any

from keras_vit._checks import positive_integer
from keras_vit._keras import keras, ops, register
from keras_vit.layers.base import ConfiguredLayer, StaysFloat


@register
class TokenEncoder(StaysFloat, ConfiguredLayer):
    """The vectors of ids with their positions: (batch, tokens) to (batch, tokens, hidden_dim).

    The weights are `tokens` (vocabulary, hidden_dim) and `positions` (length, hidden_dim), both
    initially N(0, 0.02).

    Args:
        vocabulary: the number of ids.
        hidden_dim: width of the vectors.
        length: the largest number of tokens.
    """

    def __init__(self, vocabulary: int, hidden_dim: int, length: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.vocabulary = positive_integer("vocabulary", vocabulary)
        self.hidden_dim = positive_integer("hidden_dim", hidden_dim)
        self.length = positive_integer("length", length)

    def build(self, input_shape):
        """Creates both tables."""
        for name, rows in (("tokens", self.vocabulary), ("positions", self.length)):
            initial = keras.initializers.RandomNormal(stddev=0.02)
            shape = (rows, self.hidden_dim)
            setattr(self, name, self.add_weight(shape=shape, initializer=initial, name=name))
        self.built = True

    def call(self, ids):
        """Embeds integers (batch, tokens)."""
        tokens, positions = (
            ops.cast(table, self.compute_dtype) for table in (self.tokens, self.positions)
        )
        return ops.take(tokens, ids, axis=0) + positions[: ids.shape[1]]

    def compute_output_shape(self, input_shape):
        """(batch, tokens, hidden_dim)."""
        return (*input_shape, self.hidden_dim)


@register
class TokenAt(StaysFloat, keras.layers.Layer):
    """One token of each text: (batch, tokens, width) and its place (batch,) to (batch, width)."""

    def call(self, inputs):
        """The tokens of the first of two inputs at the places, integers, in the second."""
        x, places = inputs
        chosen = ops.cast(ops.one_hot(places, x.shape[1]), x.dtype)
        return ops.einsum("bt,btd->bd", chosen, x)

    def compute_output_shape(self, input_shape):
        """(batch, width)."""
        return input_shape[0][0], input_shape[0][-1]
