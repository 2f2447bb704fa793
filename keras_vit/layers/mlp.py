"""The two-layer perceptron of a transformer block."""

from __future__ import annotations

from types import MappingProxyType
from typing import get_args

from keras_vit._checks import choice, positive_integer
from keras_vit._keras import keras, register
from keras_vit.encoder.block import MLP_OPTIONS, MLPS, mlp
from keras_vit.encoder.ops import Activation
from keras_vit.layers.base import ConfiguredLayer, build_rows
from keras_vit.layers.keras_ops import KerasOps


@register
class MLP(ConfiguredLayer):
    """Dense, activation, dropout, Dense, dropout: (..., hidden_dim) to the same shape.

    The layers are the official `MlpBlock`'s Dense_0 and Dense_1: kernels Xavier uniform, biases
    N(0, 1e-6). Other kinds have further layers.

    Args:
        mlp_dim: width of the hidden layer.
        activation: as in `ViTSpec`.
        dropout: rate after each Dense.
        mlp_kind: as in `ViTSpec`.
        layer_norm_eps: added to the variance where the hidden layer is normalised.
    """

    options = MappingProxyType({**MLP_OPTIONS, "layer_norm_eps": 1e-6})

    def __init__(self, mlp_dim: int, activation: str = "tanh", dropout: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.mlp_dim = positive_integer("mlp_dim", mlp_dim)
        self.activation = choice("activation", activation, get_args(Activation))
        self.dropout = dropout
        self.drop_hidden = keras.layers.Dropout(dropout, dtype=self.dtype_policy)
        self.drop_output = keras.layers.Dropout(dropout, dtype=self.dtype_policy)

    def build(self, input_shape):
        """Creates the Dense layers, and the norm of kinds that have one."""
        sizes = {"D": input_shape[-1], "M": self.mlp_dim}
        build_rows(self, MLPS[self.mlp_kind].rows, rank=len(input_shape), **sizes)
        self.built = True

    def call(self, x, training=None):
        """Transforms `x` (..., hidden_dim), each position separately."""
        return mlp(KerasOps(self, training), x)

    def compute_output_shape(self, input_shape):
        """The shape of the input."""
        return tuple(input_shape)
