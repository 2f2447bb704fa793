"""Group normalisation (Wu and He 2018), with float32 statistics in both flavours of Keras."""

from __future__ import annotations

from keras_vit._checks import positive_integer
from keras_vit._errors import UsageError
from keras_vit._keras import keras, ops, register
from keras_vit.layers.base import EXACT, ConfiguredLayer, StaysFloat


@register
class GroupNorm(StaysFloat, ConfiguredLayer):
    """Normalises each group of channels over all positions, then scales and shifts each channel.

    Input and output are (batch, height, width, channels) of known size. Statistics are float32
    under every policy; tf_keras' own layer computes them in half precision.

    Args:
        groups: number of groups; must divide the number of channels.
        epsilon: added to the population variance. 1e-6 in the official hybrids, 1e-5 in BiT.
        gamma_initializer: initialiser of the scale.
    """

    def __init__(self, groups: int = 32, epsilon: float = 1e-6, gamma_initializer="ones", **kwargs):
        super().__init__(**kwargs)
        self.groups = positive_integer("groups", groups)
        self.epsilon = epsilon
        self.gamma_initializer = keras.initializers.get(gamma_initializer)
        self.gamma = self.beta = None

    def build(self, input_shape):
        """Creates the scale `gamma` and the shift `beta`, each (channels,)."""
        channels = input_shape[-1]
        if channels % self.groups:
            raise UsageError(
                f"groups={self.groups} does not divide the channels. Received: {channels}."
            )
        self.gamma = self.add_weight(
            shape=(channels,), initializer=self.gamma_initializer, name="gamma", **EXACT
        )
        self.beta = self.add_weight(shape=(channels,), initializer="zeros", name="beta", **EXACT)
        self.built = True

    def call(self, x):
        """Normalises `x` (batch, height, width, channels)."""
        _, height, width, channels = x.shape
        # (batch, height, width, channels) to (batch, positions, groups, channels / groups)
        grouped = ops.reshape(
            ops.cast(x, "float32"), (-1, height * width, self.groups, channels // self.groups)
        )
        centred = grouped - ops.mean(grouped, axis=(1, 3), keepdims=True)
        variance = ops.mean(ops.square(centred), axis=(1, 3), keepdims=True)
        normal = centred * ops.rsqrt(variance + self.epsilon)
        gamma, beta = (ops.cast(weight, "float32") for weight in (self.gamma, self.beta))
        y = ops.reshape(normal, (-1, height, width, channels))  # (batch, height, width, channels)
        y = y * gamma + beta
        return ops.cast(y, x.dtype)

    def compute_output_shape(self, input_shape):
        """The shape of the input."""
        return tuple(input_shape)
