"""The stages of a compression: pruning, clustering and quantisation-aware training.

Each fine-tunes a copy of a model whose Dense layers are wrapped, by
tensorflow-model-optimization or as a `QuantizedDense`. Both only support tf_keras.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from keras_vit._errors import MissingPackageError, UsageError
from keras_vit._keras import LEGACY, keras
from keras_vit.deploy.compression import rounding
from keras_vit.deploy.compression.dense_layers import unwrapped, wrap_dense
from keras_vit.deploy.precisions import precision_of
from keras_vit.models.image_model import ImageModel

if not LEGACY:
    raise UsageError(
        "compression works on tf_keras models: set TF_USE_LEGACY_KERAS=1 before Python starts, as "
        "the command compress does."
    )
try:
    import tensorflow_model_optimization as tfmot
except ImportError as error:
    raise MissingPackageError(
        "compression needs tensorflow-model-optimization: pip install 'keras_vit[compress]' "
        f"({error})"
    ) from None

_clusters = tfmot.clustering.keras
_sparsity = tfmot.sparsity.keras
Train = Callable[[keras.Model, list], None]
# For each layer, (smallest, largest) of the inputs and of the outputs of the file's product.
Ranges = dict[str, tuple[tuple[float, float], ...]]
# What wraps a Dense layer, and what returns the kernel that a wrapper computes with.
_Wrapping = tuple[Callable[[Any], Any], Callable[[Any], Any]]


def train_stage(
    stage: str, model: ImageModel, train: Train, wanted: Any, steps: int, keep_zeros: bool
) -> tuple[ImageModel, Ranges]:
    """Fine-tunes a model while a stage of a compression changes the kernels of its Dense layers.

    Args:
        stage: "prune": the smallest weights are set to zero. "cluster": every weight has the value
            of its kernel's nearest centroid. "qat": inputs, kernels and outputs are rounded as in
            the quantised file.
        model: the trained model.
        train: a function that trains a model with callbacks.
        wanted: the settings, a `Compression`.
        steps: number of training steps.
        keep_zeros: whether zero weights stay zero, when it clusters or rounds.

    Returns:
        A model with the kernels of the file, and the fixed ranges, if there are any.
    """
    wrapping = {"prune": _pruning, "cluster": _clustering, "qat": _rounding}[stage]
    wrap, kernel = wrapping(model, wanted, steps, keep_zeros)
    copy, wrappers = wrap_dense(model, wrap)
    train(copy, [PruningStep(list(wrappers.values()))] if stage == "prune" else [])
    ranges = {layer: each.ranges() for layer, each in wrappers.items()} if stage == "qat" else {}
    return unwrapped(model, copy, wrappers, kernel), ranges


def _pruning(model: ImageModel, wanted: Any, steps: int, keep_zeros: bool) -> _Wrapping:
    """The fraction of zeros grows over the first half of the steps; a pattern is there at once."""
    half = max(steps // 2, 1)
    pattern = tuple(map(int, wanted.pattern.split(":"))) if wanted.pattern else None
    if pattern:
        schedule = _sparsity.ConstantSparsity(pattern[0] / pattern[1], begin_step=0, frequency=1)
    else:
        schedule = _sparsity.PolynomialDecay(
            0.0, wanted.sparsity, begin_step=0, end_step=half, frequency=max(half // 20, 1)
        )

    def kernel(wrapper):
        ((weight, mask, _),) = wrapper.pruning_vars
        return np.asarray(weight) * np.asarray(mask)

    prune = _sparsity.prune_low_magnitude
    return functools.partial(prune, pruning_schedule=schedule, sparsity_m_by_n=pattern), kernel


def _clustering(model: ImageModel, wanted: Any, steps: int, keep_zeros: bool) -> _Wrapping:
    start = _clusters.CentroidInitialization.KMEANS_PLUS_PLUS

    def wrap(dense):
        return _clusters.cluster_weights(
            dense, wanted.clusters, start, preserve_sparsity=keep_zeros
        )

    def kernel(wrapper):
        wrapper.update_clustered_weights_associations()
        return wrapper.layer.kernel

    return wrap, kernel


def _rounding(model: ImageModel, wanted: Any, steps: int, keep_zeros: bool) -> _Wrapping:
    precision = wanted.quantize

    def wrap(dense):
        bits = rounding.kernel_bits(precision, dense.kernel.shape[0])
        # The converter multiplies the query's kernel by 1/sqrt(head_dim).
        factor = model.spec.head_dim**-0.5 if dense.name == "query" else 1.0
        return QuantizedDense(dense, bits, factor, keep_zeros, precision_of(precision).calibrated)

    return wrap, QuantizedDense.rounded_kernel


class PruningStep(_sparsity.UpdatePruningStep):
    """tfmot's callback with a list of wrappers, because tfmot does not find them inside blocks."""

    def __init__(self, wrappers: list):
        super().__init__()
        self.wrappers = wrappers

    def on_train_begin(self, logs=None):
        """Starts every wrapper's count of steps."""
        self.prunable_layers = self.wrappers
        for wrapper in self.wrappers:
            wrapper.pruning_step.assign(0)


class QuantizedDense(keras.layers.Wrapper):
    """A Dense layer that computes with the numbers of a quantised file.

    Args:
        dense: the layer; it has no activation.
        bits: the number of bits of its kernel.
        factor: a factor of its kernel and its outputs in the file.
        keep_zeros: whether zero weights stay zero.
        fixed: whether inputs and outputs are rounded over the whole range seen in training, as a
            calibrated file does; otherwise each token of the inputs is rounded over its own.
    """

    def __init__(self, dense, bits: int, factor: float, keep_zeros: bool, fixed: bool):
        super().__init__(dense, name=f"quant_{dense.name}")
        self.bits, self.factor, self.keep_zeros, self.fixed = bits, factor, keep_zeros, fixed

    def build(self, input_shape):
        """Remembers which weights are zero, if zeros are kept; adds the ends of fixed ranges."""
        super().build(input_shape)
        self.kept = 1.0
        if self.keep_zeros:
            kept = keras.initializers.Constant((self.layer.kernel.numpy() != 0).astype(np.float32))
            shape = self.layer.kernel.shape
            self.kept = self.add_weight("kept", shape, None, kept, trainable=False)
        self.ends = {
            side: [
                self.add_weight(f"{side}_{end}", (), None, "zeros", trainable=False)
                for end in ("low", "high")
            ]
            for side in (("inputs", "outputs") if self.fixed else ())
        }

    def call(self, inputs, training=None):
        """The layer's output; the bias has 32 bits in the file."""
        x = (
            self._rounded("inputs", inputs, training)
            if self.fixed
            else rounding.round_tokens(inputs)
        )
        x = tf.nn.bias_add(tf.tensordot(x, self.rounded_kernel(), 1), self.layer.bias)
        return self._rounded("outputs", x, training) if self.fixed else x

    def rounded_kernel(self) -> tf.Tensor:
        """The kernel that the file will have."""
        return rounding.round_kernel(self.layer.kernel * self.kept, self.bits, self.factor)

    def ranges(self) -> tuple[tuple[float, float], ...]:
        """The file's ranges of inputs and outputs; () if each token has its own range."""
        factors = {"inputs": 1.0, "outputs": self.factor}
        return tuple(
            tuple(float(end) * factors[side] for end in ends) for side, ends in self.ends.items()
        )

    def _rounded(self, side: str, x: tf.Tensor, training: bool | None) -> tf.Tensor:
        """`x` as the file rounds it; in training the range grows to include it."""
        low, high = self.ends[side]
        if training:
            low.assign(tf.minimum(low, tf.reduce_min(x)))
            high.assign(tf.maximum(high, tf.reduce_max(x)))
        return rounding.round_to_range(x, low, high)
