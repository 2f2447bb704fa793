"""Pooling layers: from tokens to the input of the head. `parts/poolings` has the table of them."""

from __future__ import annotations

from keras_vit._keras import keras, ops, register
from keras_vit.layers.attention import MultiHeadAttention
from keras_vit.layers.mlp import MLP
from keras_vit.layers.named_build import named_build
from keras_vit.layers.stays_float import StaysFloat


@register
class TokenPooling(StaysFloat, keras.layers.Layer):
    """The class token: (batch, tokens, hidden_dim) to (batch, hidden_dim)."""

    def call(self, x):
        """The first token of `x` (batch, tokens, hidden_dim)."""
        return x[:, 0]

    def compute_output_shape(self, input_shape):
        """(batch, hidden_dim)."""
        return input_shape[0], input_shape[2]


@register
class DistilledPooling(StaysFloat, keras.layers.Layer):
    """Class and distillation token: (batch, tokens, hidden_dim) to (batch, 2 * hidden_dim)."""

    def call(self, x):
        """The first token of `x` (batch, tokens, hidden_dim), then the second."""
        return ops.concatenate([x[:, 0], x[:, 1]], axis=-1)

    def compute_output_shape(self, input_shape):
        """(batch, 2 * hidden_dim)."""
        return input_shape[0], 2 * input_shape[2]


@register
class AveragePooling(StaysFloat, keras.layers.Layer):
    """The mean of all tokens: (batch, tokens, hidden_dim) to (batch, hidden_dim)."""

    def call(self, x):
        """The mean over the tokens of `x` (batch, tokens, hidden_dim)."""
        return ops.mean(x, axis=1)

    def compute_output_shape(self, input_shape):
        """(batch, hidden_dim)."""
        return input_shape[0], input_shape[2]


@register
class MAPPooling(keras.layers.Layer):
    """Multihead attention pooling (Lee et al. 2019; big_vision `MAPHead`).

    A learned probe attends to all tokens; then x + mlp(norm(x)). (batch, tokens, hidden_dim) to
    (batch, hidden_dim). The probe is Xavier uniform.

    Args:
        num_heads: attention heads.
        mlp_dim: width of the MLP's hidden layer.
        gelu: "tanh" or "erf".
        layer_norm_eps: added to the variance in the LayerNorm.
    """

    def __init__(
        self,
        num_heads: int,
        mlp_dim: int,
        gelu: str = "tanh",
        layer_norm_eps: float = 1e-6,
        **kwargs,
    ):
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.layer_norm_eps = layer_norm_eps
        self.attention = MultiHeadAttention(num_heads, dtype=policy, name="attention")
        self.norm = keras.layers.LayerNormalization(
            epsilon=layer_norm_eps, dtype=policy, name="norm"
        )
        self.mlp = MLP(mlp_dim, gelu, dtype=policy, name="mlp")
        self.probe = None

    def build(self, input_shape):
        """Creates the probe and builds the attention, the norm and the MLP."""
        width = input_shape[-1]
        self.probe = self.add_weight(
            shape=(1, 1, width), initializer="glorot_uniform", name="probe"
        )
        for layer in (self.attention, self.norm, self.mlp):
            if not layer.built:
                named_build(layer, (None, 1, width), self.trainable)
        self.built = True

    def call(self, x):
        """Pools `x` (batch, tokens, hidden_dim)."""
        probe = ops.broadcast_to(ops.cast(self.probe, x.dtype), (ops.shape(x)[0], 1, x.shape[-1]))
        y = self.attention(probe, x)  # (batch, 1, hidden_dim)
        return (y + self.mlp(self.norm(y)))[:, 0]

    def compute_output_shape(self, input_shape):
        """(batch, hidden_dim)."""
        return input_shape[0], input_shape[2]

    def get_config(self):
        """The arguments that build this layer again."""
        return {
            **super().get_config(),
            "num_heads": self.attention.num_heads,
            "mlp_dim": self.mlp.mlp_dim,
            "gelu": self.mlp.gelu,
            "layer_norm_eps": self.layer_norm_eps,
        }
