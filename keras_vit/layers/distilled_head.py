"""The two classifiers of a distilled model (DeiT, Touvron et al. 2021, section 4)."""

from __future__ import annotations

from keras_vit._checks import positive_integer
from keras_vit._errors import UsageError
from keras_vit._keras import keras, ops, register
from keras_vit.layers.base import ConfiguredLayer, StaysFloat


@register
class DistilledHead(StaysFloat, ConfiguredLayer):
    """A classifier of the class token and one of the distillation token, which start at zero.

    (batch, 2 * hidden_dim) to the mean of both logits (batch, units), with which DeiT's code
    predicts; or, with `both=True`, to the logits of each (batch, 2, units), the class token's
    first. The weights are `kernel` and `bias`, `distillation_kernel` and `distillation_bias`.

    Args:
        units: number of logits.
        bias_initializer: initialiser of both biases.
    """

    def __init__(self, units: int, bias_initializer="zeros", **kwargs):
        super().__init__(**kwargs)
        self.units = positive_integer("units", units)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.kernel = self.bias = None
        self.distillation_kernel = self.distillation_bias = None

    def build(self, input_shape):
        """Creates the kernels (hidden_dim, units) and the biases (units,)."""
        width, odd = divmod(input_shape[-1], 2)
        if odd:
            raise UsageError(
                "a DistilledHead needs two halves, of the class token and of the distillation "
                f"token. Received: {input_shape[-1]} channels."
            )
        self.kernel, self.bias = self._classifier("", width)
        self.distillation_kernel, self.distillation_bias = self._classifier("distillation_", width)
        self.built = True

    def call(self, x, both=False):
        """The mean of the logits of `x` (batch, 2 * hidden_dim), or `both`."""
        width = x.shape[-1] // 2
        logits = self._classified(x[:, :width], self.kernel, self.bias)
        distilled = self._classified(x[:, width:], self.distillation_kernel, self.distillation_bias)
        if both:
            return ops.stack([logits, distilled], axis=1)  # (batch, 2, units)
        return (logits + distilled) / 2

    def _classifier(self, prefix: str, width: int):
        shape, bias = (width, self.units), self.bias_initializer
        kernel = self.add_weight(shape=shape, initializer="zeros", name=f"{prefix}kernel")
        return kernel, self.add_weight(shape=shape[1:], initializer=bias, name=f"{prefix}bias")

    def _classified(self, *values):
        x, kernel, bias = (ops.cast(value, self.compute_dtype) for value in values)
        return ops.matmul(x, kernel) + bias  # (batch, units)
