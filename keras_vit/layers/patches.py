"""From images to sequences of flattened patches (paper, section 3.1)."""

from __future__ import annotations

from keras_vit._checks import positive_integer
from keras_vit._errors import UsageError
from keras_vit._keras import keras, ops, register
from keras_vit.layers.base import ConfiguredLayer, StaysFloat


@register
class Patches(StaysFloat, ConfiguredLayer):
    """Square patches: (batch, height, width, channels) to (batch, n, p*p*channels).

    Patches are in raster order, and so are the pixels of a patch, channels last. A convolution
    kernel (p, p, channels, hidden_dim) can therefore be reshaped to the projection's Dense kernel.

    Pixels at the bottom and at the right that do not fill a patch are cut off, as in a "valid"
    convolution.

    Args:
        patch_size: p, in pixels. Height and width must be known and not smaller.
    """

    def __init__(self, patch_size: int, **kwargs):
        super().__init__(**kwargs)
        self.patch_size = positive_integer("patch_size", patch_size)

    def build(self, input_shape):
        """Fixes the number of channels: images with another one are refused."""
        self.input_spec = keras.layers.InputSpec(axes={-1: input_shape[-1]})
        super().build(input_shape)

    def call(self, images):
        """Cuts `images` (batch, height, width, channels) into patches."""
        rows, columns = self._grid(images.shape)
        p, channels = self.patch_size, images.shape[-1]
        if (rows * p, columns * p) != tuple(images.shape)[1:3]:
            images = images[:, : rows * p, : columns * p]
        if p == 1:
            return ops.reshape(images, (-1, rows * columns, channels))  # (batch, n, channels)
        # (batch, rows * p, columns * p, channels) to (batch, rows, p, columns, p, channels)
        x = ops.reshape(images, (-1, rows, p, columns, p, channels))
        x = ops.transpose(x, (0, 1, 3, 2, 4, 5))  # (batch, rows, columns, p, p, channels)
        return ops.reshape(x, (-1, rows * columns, p * p * channels))  # (batch, n, p*p*channels)

    def compute_output_shape(self, input_shape):
        """(batch, n, p*p*channels)."""
        rows, columns = self._grid(input_shape)
        return input_shape[0], rows * columns, self.patch_size**2 * input_shape[-1]

    def _grid(self, shape) -> tuple[int, int]:
        if len(shape) != 4 or None in tuple(shape)[1:]:
            raise UsageError(
                "Patches needs images (batch, height, width, channels) of known size. "
                f"Received: shape={tuple(shape)}."
            )
        height, width = shape[1], shape[2]
        if min(height, width) < self.patch_size:
            raise UsageError(
                f"the image is smaller than patch_size={self.patch_size}. "
                f"Received: {height} x {width} pixels."
            )
        return height // self.patch_size, width // self.patch_size
