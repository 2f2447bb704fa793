"""Convolutions with standardised weights (Qiao et al. 2019), for hybrids and BiT."""

from __future__ import annotations

from typing import Literal

from keras_vit._keras import keras, ops, register
from keras_vit.layers.base import EXACT, StaysFloat

# The settings of BiT's convolutions; the defaults are those of the official hybrids.
BIT_CONV = {"padding": "symmetric", "epsilon": 1e-10, "epsilon_outside": False}


@register
class StdConv(StaysFloat, keras.layers.Conv2D):
    """A Conv2D without bias whose kernel is standardised in each call.

    (batch, height, width, channels) to (batch, height', width', filters). The mean and population
    variance of each filter are taken over height, width and input channels, always in float32.

    Args:
        filters: output channels.
        kernel_size: one number, or (height, width).
        strides: one number, or (height, width).
        padding: "same" as in TensorFlow: with a stride of 2, even sizes are padded less at the top
            and left. "symmetric" pads (kernel_size - 1) // 2 zeros on each side, as BiT does. Both
            are the same if the stride is 1 and the kernel size is odd.
        epsilon: avoids division by zero.
        epsilon_outside: if True, the kernel is divided by sqrt(variance) + epsilon, as in the
            official hybrids (1e-5); if False, by sqrt(variance + epsilon), as in BiT (1e-10).
    """

    def __init__(
        self,
        filters: int,
        kernel_size: int | tuple[int, int],
        strides: int | tuple[int, int] = 1,
        padding: Literal["same", "symmetric"] = "same",
        epsilon: float = 1e-5,
        epsilon_outside: bool = True,
        **kwargs,
    ):
        conv = {"use_bias": False, "kernel_initializer": "lecun_normal", **kwargs}
        conv["padding"] = "valid" if padding == "symmetric" else padding
        super().__init__(filters, kernel_size, strides, **conv)
        self.symmetric = padding == "symmetric"
        self.epsilon = epsilon
        self.epsilon_outside = epsilon_outside

    def add_weight(self, *args, **kwargs):
        """Like Keras' method, but a policy never rounds the weight before it is standardised."""
        return super().add_weight(*args, **{**kwargs, **EXACT})

    def convolution_op(self, inputs, kernel):
        """Convolves `inputs` with the standardised `kernel` (height, width, channels, filters)."""
        kernel = ops.cast(self._standardise(kernel), inputs.dtype)
        if self.symmetric:
            inputs = ops.pad(inputs, [(0, 0), *((p, p) for p in self._margins()), (0, 0)])
        return super().convolution_op(inputs, kernel)

    def compute_output_shape(self, input_shape):
        """(batch, height', width', filters)."""
        if self.symmetric:
            sides = zip(input_shape[1:3], self._margins(), strict=True)
            padded = (None if side is None else side + 2 * p for side, p in sides)
            input_shape = (input_shape[0], *padded, input_shape[3])
        return tuple(super().compute_output_shape(input_shape))

    def get_config(self):
        """The arguments, with the padding as it was asked for."""
        config = super().get_config()
        return {
            **config,
            "padding": "symmetric" if self.symmetric else config["padding"],
            "epsilon": self.epsilon,
            "epsilon_outside": self.epsilon_outside,
        }

    def _standardise(self, kernel):
        kernel = ops.cast(kernel, "float32")
        centred = kernel - ops.mean(kernel, axis=(0, 1, 2), keepdims=True)
        variance = ops.mean(ops.square(centred), axis=(0, 1, 2), keepdims=True)
        if self.epsilon_outside:
            return centred / (ops.sqrt(variance) + self.epsilon)
        return centred / ops.sqrt(variance + self.epsilon)

    def _margins(self) -> list[int]:
        return [(size - 1) // 2 for size in self.kernel_size]
