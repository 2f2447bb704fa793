"""The pre-norm transformer encoder block (paper, equations 2 and 3)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from keras_vit._keras import keras, register
from keras_vit.encoder.block import (
    ATTENTION_OPTIONS,
    BLOCK_OPTIONS,
    MLP_OPTIONS,
    attention_branch,
    block_rows,
    transformer_block,
)
from keras_vit.layers.attention import MultiHeadAttention
from keras_vit.layers.base import ConfiguredLayer, build_rows, layer_norm, named_build
from keras_vit.layers.keras_ops import KerasOps
from keras_vit.layers.mlp import MLP
from keras_vit.layers.stochastic_depth import StochasticDepth

# Keras' name for the state of a random generator.
_STATE = "seed_generator_state"


@register
class TransformerBlock(ConfiguredLayer):
    """(batch, tokens, hidden_dim) to the same shape:

        y = x + attention(norm_attention(x))    (equation 2)
        z = y + mlp(norm_mlp(y))                (equation 3)

    `encoder/block.py` computes them, with dropout, stochastic depth and LayerScale.

    Args:
        num_heads: attention heads.
        mlp_dim: width of the MLP's hidden layer.
        activation: as in `ViTSpec`.
        layer_norm_eps: added to the variance in both LayerNorms.
        dropout: rate on both branches.
        attention_dropout: rate on the attention scores.
        drop_path: probability that a branch is dropped for an example.
        position_embedding, grid, class_token: as in `MultiHeadAttention`.
        layer_scale, mlp_kind, rotation, qk_norm, query_bias, key_bias, value_bias: as in
            `ViTSpec`.
        causal: as in `MultiHeadAttention`.
    """

    options = MappingProxyType({**BLOCK_OPTIONS, "causal": False})

    def __init__(
        self,
        num_heads: int,
        mlp_dim: int,
        activation: str = "tanh",
        layer_norm_eps: float = 1e-6,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        drop_path: float = 0.0,
        position_embedding: str = "none",
        grid: tuple[int, int] | None = None,
        class_token: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.layer_norm_eps = layer_norm_eps
        self.dropout = dropout
        self.drop_path = drop_path
        self.remat = False
        self.norm_attention = layer_norm("norm_attention", layer_norm_eps, policy)
        self.attention = MultiHeadAttention(
            num_heads,
            attention_dropout,
            position_embedding,
            grid,
            class_token,
            dtype=policy,
            name="attention",
            **self.chosen((*ATTENTION_OPTIONS, "causal", "layer_norm_eps")),
        )
        self.drop_attention = keras.layers.Dropout(dropout, dtype=policy)
        self.skip_attention = StochasticDepth(drop_path, dtype=policy)
        self.norm_mlp = layer_norm("norm_mlp", layer_norm_eps, policy)
        self.mlp = MLP(
            mlp_dim,
            activation,
            dropout,
            dtype=policy,
            name="mlp",
            **self.chosen((*MLP_OPTIONS, "layer_norm_eps")),
        )
        self.skip_mlp = StochasticDepth(drop_path, dtype=policy)

    def build(self, input_shape):
        """Builds both norms, the attention and the MLP, and creates the block's own weights."""
        for layer in (self.norm_attention, self.attention, self.norm_mlp, self.mlp):
            named_build(layer, input_shape, self.trainable)
        own = [row for row in block_rows(self) if "/" not in row.path]
        build_rows(self, own, D=input_shape[-1])
        self.built = True

    def call(self, x, training=None):
        """Encodes `x` (batch, tokens, hidden_dim)."""
        encode = functools.partial(transformer_block, KerasOps(self, training))
        return _rematerialised(self, encode, x) if self.remat and training else encode(x)

    def compute_output_shape(self, input_shape):
        """The shape of the input."""
        return tuple(input_shape)

    def get_config(self):
        """The arguments, of which the attention and the MLP keep some."""
        return {
            **super().get_config(),
            **self.attention.chosen(("num_heads", "position_embedding", "grid", "class_token")),
            "attention_dropout": self.attention.dropout,
            **self.mlp.chosen(("mlp_dim", "activation")),
        }


@register
class AttentionScores(ConfiguredLayer):
    """From the input of a block to its attention scores (batch, heads, tokens, tokens).

    It uses the block's weights and adds no others.

    Args:
        block: the block.
    """

    def __init__(self, block: TransformerBlock, **kwargs):
        super().__init__(**kwargs)
        self.block = block

    def build(self, input_shape):
        """Builds the block if it is not built yet."""
        named_build(self.block, input_shape)
        self.built = True

    def call(self, x):
        """The attention scores for `x` (batch, tokens, hidden_dim)."""
        taps = {}
        attention_branch(KerasOps(self.block, training=False, taps=taps), x)
        return taps["attention"]

    def compute_output_shape(self, input_shape):
        """(batch, heads, tokens, tokens)."""
        batch, tokens, _ = input_shape
        return batch, self.block.attention.num_heads, tokens, tokens


def _rematerialised(layer: keras.layers.Layer, function: Callable[[Any], Any], x: Any) -> Any:
    """`function(x)`, whose inner activations are not kept for the backward pass (Chen et al. 2016).

    Random draws are the same both times: the states of the layer's random generators are passed
    in and out, whereas a call inside `keras.remat` alone would advance them twice, and dropout
    would then drop other values in the backward pass.

    Args:
        layer: a built layer of Keras 3 that owns all variables that `function` uses.
        function: computes a tensor from a tensor.
        x: the tensor.
    """
    trained = layer.trainable_variables
    frozen, states = [], []
    for variable in layer.non_trainable_variables:
        (states if variable.path.endswith(_STATE) else frozen).append(variable)
    # Copies, because in TensorFlow `value` is the variable, which is assigned below.
    before = [variable.value * 1 for variable in states]

    def pure(x, *values):
        mapping = zip([*trained, *frozen, *states], [*values, *before], strict=True)
        with keras.StatelessScope(state_mapping=mapping) as scope:
            y = function(x)
        return y, *(scope.get_current_value(variable) for variable in states)

    y, *after = keras.remat(pure)(x, *(variable.value for variable in [*trained, *frozen]))
    for variable, value in zip(states, after, strict=True):
        variable.assign(value)
    return y
