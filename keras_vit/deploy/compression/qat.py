"""Quantisation-aware training: trains a model with the rounding of the exported file."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from keras_vit._keras import keras
from keras_vit.deploy.compression._tfmot import tfmot
from keras_vit.deploy.compression.dense import wrap_dense
from keras_vit.deploy.compression.grids import (
    KernelGrid,
    kernel_grid,
    round_kernel,
    round_to_range,
    round_tokens,
)
from keras_vit.deploy.precisions import precision_of
from keras_vit.models.image_model import ImageModel

_quantization = tfmot.quantization.keras
# For each layer, (smallest, largest) of the inputs and of the outputs of the file's product.
Ranges = dict[str, tuple[tuple[float, float], ...]]


def train_quantised(
    model: ImageModel,
    train: Callable[[keras.Model, list], None],
    precision: str,
    keep_zeros: bool = False,
) -> tuple[ImageModel, Ranges]:
    """Fine-tunes a model with the rounding of a quantised file.

    Args:
        model: the trained model.
        train: a function that trains a model with callbacks.
        precision: "int4": kernels of four bits in blocks, a range for each token. "dynamic":
            kernels of eight bits, a range for each token. "int8": kernels of eight bits, one range
            for the inputs and one for the outputs of each layer.
        keep_zeros: whether zero weights stay zero.

    Returns:
        A model with the kernels of the file, and the fixed ranges, if there are any.
    """

    def quantised(dense):
        grid = kernel_grid(precision, dense.kernel.shape[0])
        # The converter multiplies the query's kernel by 1/sqrt(head_dim).
        factor = model.spec.head_dim**-0.5 if dense.name == "query" else 1.0
        kernel = KernelQuantizer(grid, factor, keep_zeros)
        if precision_of(precision).calibrated:
            return QuantizedDense(dense, DenseConfig(kernel, FixedRange(), FixedRange(factor)))
        return QuantizedDense(dense, DenseConfig(kernel, RangePerToken()))

    wrapped = wrap_dense(model, quantised)
    train(wrapped.model, [])
    ranges = {layer: wrapper.ranges() for layer, wrapper in wrapped.wrappers.items()}
    return wrapped.unwrapped(lambda wrapper: wrapper.rounded_kernel()), ranges


class KernelQuantizer(_quantization.quantizers.Quantizer):
    """Rounds a kernel to its grid."""

    def __init__(self, grid: KernelGrid, factor: float, keep_zeros: bool):
        self.grid = grid
        self.factor = factor
        self.keep_zeros = keep_zeros

    def build(self, tensor_shape, name, layer):
        """Remembers which weights are zero, if zeros are kept."""
        if not self.keep_zeros:
            return {}
        kept = tf.cast(layer.layer.kernel != 0, tf.float32)
        initial = keras.initializers.Constant(kept.numpy())
        return {"kept": layer.add_weight("kept", tensor_shape, None, initial, trainable=False)}

    def __call__(self, inputs, training, weights, **kwargs):
        """The kernel that the file will have."""
        return round_kernel(inputs * weights.get("kept", 1.0), self.grid, self.factor)

    def get_config(self):
        """The arguments that make this quantizer again."""
        return {"grid": self.grid, "factor": self.factor, "keep_zeros": self.keep_zeros}


class RangePerToken(_quantization.quantizers.Quantizer):
    """Rounds each token to eight bits over its own range, as a dynamic file does."""

    def build(self, tensor_shape, name, layer):
        """There are no variables."""
        return {}

    def __call__(self, inputs, training, weights, **kwargs):
        """`inputs` (..., channels), rounded as the file does."""
        return round_tokens(inputs)

    def get_config(self):
        """No arguments."""
        return {}


class FixedRange(_quantization.quantizers.Quantizer):
    """Rounds to eight bits over the whole range seen in training, as a calibrated file does.

    Args:
        factor: a factor of these numbers in the file.
    """

    def __init__(self, factor: float = 1.0):
        self.factor = factor

    def build(self, tensor_shape, name, layer):
        """Variables for the smallest and the largest value so far."""
        return {
            end: layer.add_weight(f"{name}_{end}", (), None, "zeros", trainable=False)
            for end in ("low", "high")
        }

    def __call__(self, inputs, training, weights, **kwargs):
        """`inputs`, rounded as the file does; in training the range grows to include them."""
        low, high = weights["low"], weights["high"]
        if training:
            low.assign(tf.minimum(low, tf.reduce_min(inputs)))
            high.assign(tf.maximum(high, tf.reduce_max(inputs)))
        return round_to_range(inputs, low, high)

    def get_config(self):
        """The arguments that make this quantizer again."""
        return {"factor": self.factor}


class DenseConfig(_quantization.QuantizeConfig):
    """The quantizers of a Dense layer: of its kernel, inputs and, for fixed ranges, outputs."""

    def __init__(self, kernel, inputs, outputs=None):
        self.kernel = kernel
        self.inputs = inputs
        self.outputs = outputs

    def get_weights_and_quantizers(self, layer):
        """The kernel; the bias has 32 bits in the file."""
        return [(layer.kernel, self.kernel)]

    def set_quantize_weights(self, layer, quantize_weights):
        """The layer computes with the rounded kernel."""
        (layer.kernel,) = quantize_weights

    def get_activations_and_quantizers(self, layer):
        """An empty list: the layer has no activation."""
        return []

    def set_quantize_activations(self, layer, quantize_activations):
        """Does nothing: the layer has no activation."""
        return

    def get_output_quantizers(self, layer):
        """The quantizer of the output, if the file rounds it."""
        return [self.outputs] if self.outputs else []

    def get_config(self):
        """The arguments that make this config again."""
        return {"kernel": self.kernel, "inputs": self.inputs, "outputs": self.outputs}


class QuantizedDense(_quantization.QuantizeWrapperV2):
    """A Dense layer with its quantizers; unlike tfmot's wrapper, it also rounds the inputs."""

    def build(self, input_shape):
        """Builds the layer and the variables of the quantizer of its inputs."""
        super().build(input_shape)
        self.input_vars = self.quantize_config.inputs.build(input_shape, "inputs", self)

    def call(self, inputs, training=None, **kwargs):
        """The layer's output for rounded `inputs`."""
        inputs = self.quantize_config.inputs(inputs, training, self.input_vars)
        return super().call(inputs, training=training, **kwargs)

    def rounded_kernel(self) -> np.ndarray:
        """The kernel that the layer computes with."""
        ((kernel, quantizer, variables),) = self._weight_vars
        return np.asarray(quantizer(kernel, False, variables))

    def ranges(self) -> tuple[tuple[float, float], ...]:
        """The file's ranges of inputs and outputs; () if each token has its own range."""
        config = self.quantize_config
        if config.outputs is None:
            return ()
        pairs = ((config.inputs, self.input_vars), (config.outputs, self._output_quantizer_vars))
        return tuple(
            tuple(float(variables[end]) * quantizer.factor for end in ("low", "high"))
            for quantizer, variables in pairs
        )
