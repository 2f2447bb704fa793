"""Adds the weights of position embeddings to layers, and reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras_vit._keras import keras, ops
from keras_vit.parts.grids import Tokens
from keras_vit.parts.positions.position_embedding import PositionWeight


def add_position_weights(
    layer: keras.layers.Layer, weights: Sequence[PositionWeight], tokens: Tokens, width: int
) -> None:
    """Adds weights to a layer that is being built, as attributes under their names."""
    for weight in weights:
        initial = (
            keras.initializers.RandomNormal(stddev=weight.stddev) if weight.stddev else "zeros"
        )
        shape = weight.shape(tokens, width)
        variable = layer.add_weight(shape=shape, initializer=initial, name=weight.name)
        setattr(layer, weight.name, variable)


def position_weights(
    layer: keras.layers.Layer, weights: Sequence[PositionWeight], dtype: str
) -> dict[str, Any]:
    """The weights that `add_position_weights` has added, by name, as tensors of `dtype`."""
    return {weight.name: ops.cast(getattr(layer, weight.name), dtype) for weight in weights}
