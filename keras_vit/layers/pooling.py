"""Pooling layers: from tokens to the input of the head. `encoder/poolings.py` describes them."""

from __future__ import annotations

from keras_vit._keras import keras, register
from keras_vit.encoder.poolings import POOLINGS
from keras_vit.layers.attention import MultiHeadAttention
from keras_vit.layers.base import ConfiguredLayer, StaysFloat, build_rows, layer_norm, named_build
from keras_vit.layers.keras_ops import KerasOps
from keras_vit.layers.mlp import MLP


class PoolingLayer(StaysFloat, keras.layers.Layer):
    """(batch, tokens, hidden_dim) to (batch, width * hidden_dim), with the pooling named `kind`."""

    kind: str

    def build(self, input_shape):
        """Creates the weights, except those of sublayers that there are already."""
        kind = POOLINGS[self.kind]
        own = [r for r in kind.rows if getattr(self, r.path.split("/")[0], None) is None]
        build_rows(self, own, D=input_shape[-1])
        self.built = True

    def call(self, x):
        """Pools `x` (batch, tokens, hidden_dim)."""
        return POOLINGS[self.kind].call(KerasOps(self), x)

    def compute_output_shape(self, input_shape):
        """(batch, width * hidden_dim)."""
        return input_shape[0], POOLINGS[self.kind].width * input_shape[2]


@register
class TokenPooling(PoolingLayer):
    """The class token: (batch, tokens, hidden_dim) to (batch, hidden_dim)."""

    kind = "token"


@register
class DistilledPooling(PoolingLayer):
    """Class and distillation token: (batch, tokens, hidden_dim) to (batch, 2 * hidden_dim)."""

    kind = "distilled"


@register
class AveragePooling(PoolingLayer, ConfiguredLayer):
    """The mean of all patches: (batch, tokens, hidden_dim) to (batch, hidden_dim).

    Args:
        prefix_tokens: number of tokens before the patches.
    """

    kind = "gap"

    def __init__(self, prefix_tokens: int = 0, **kwargs):
        super().__init__(**kwargs)
        self.prefix_tokens = prefix_tokens


@register
class TokenMeanPooling(AveragePooling):
    """The class token and the mean of all patches: (batch, tokens, D) to (batch, 2 * D)."""

    kind = "token_mean"


@register
class MAPPooling(PoolingLayer, ConfiguredLayer):
    """Multihead attention pooling (Lee et al. 2019; big_vision `MAPHead`).

    A learned probe attends to all tokens; then x + mlp(norm(x)). (batch, tokens, hidden_dim) to
    (batch, hidden_dim). The probe is Xavier uniform.

    Args:
        num_heads: attention heads.
        mlp_dim: width of the MLP's hidden layer.
        activation: as in `ViTSpec`.
        layer_norm_eps: added to the variance in the LayerNorm.
    """

    kind = "map"

    def __init__(
        self,
        num_heads: int,
        mlp_dim: int,
        activation: str = "tanh",
        layer_norm_eps: float = 1e-6,
        **kwargs,
    ):
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.layer_norm_eps = layer_norm_eps
        self.attention = MultiHeadAttention(num_heads, dtype=policy, name="attention")
        self.norm = layer_norm("norm", layer_norm_eps, policy)
        self.mlp = MLP(mlp_dim, activation, dtype=policy, name="mlp")
        self.probe = None

    def build(self, input_shape):
        """Creates the probe and builds the attention, the norm and the MLP."""
        super().build(input_shape)
        for layer in (self.attention, self.norm, self.mlp):
            named_build(layer, (None, 1, input_shape[-1]), self.trainable)

    def get_config(self):
        """The arguments, of which the attention and the MLP keep some."""
        return {
            **super().get_config(),
            **self.attention.chosen(["num_heads"]),
            **self.mlp.chosen(["mlp_dim", "activation"]),
        }


# The layer of each pooling: a function of a `ViTSpec` and of the layer's name.
POOLING_LAYERS = {
    "token": lambda spec, name: TokenPooling(name=name),
    "distilled": lambda spec, name: DistilledPooling(name=name),
    "distilled_token": lambda spec, name: TokenPooling(name=name),
    "gap": lambda spec, name: AveragePooling(spec.prefix_tokens, name=name),
    "token_gap": lambda spec, name: AveragePooling(spec.prefix_tokens, name=name),
    "token_mean": lambda spec, name: TokenMeanPooling(spec.prefix_tokens, name=name),
    "map": lambda spec, name: MAPPooling(
        spec.num_heads, spec.mlp_dim, spec.activation, spec.layer_norm_eps, name=name
    ),
}
