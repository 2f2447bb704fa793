"""The stages of a compression: pruning, clustering and quantisation-aware training.

Each fine-tunes a copy of a model whose Dense layers are wrapped, by
tensorflow-model-optimization or as a `QuantizedDense`. Both only support tf_keras.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from keras_vit._errors import MissingPackageError, UsageError
from keras_vit._keras import LEGACY, keras
from keras_vit.deploy.compression.dense import wrap_dense
from keras_vit.deploy.compression.rounding import (
    KernelGrid,
    kernel_grid,
    round_kernel,
    round_to_range,
    round_tokens,
)
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

_clustering = tfmot.clustering.keras
_sparsity = tfmot.sparsity.keras
Train = Callable[[keras.Model, list], None]
# For each layer, (smallest, largest) of the inputs and of the outputs of the file's product.
Ranges = dict[str, tuple[tuple[float, float], ...]]


def train_pruned(
    model: ImageModel,
    train: Train,
    steps: int,
    sparsity: float = 0.5,
    pattern: tuple[int, int] | None = None,
) -> ImageModel:
    """Fine-tunes a model while its smallest weights are set to zero.

    Args:
        model: the trained model.
        train: a function that trains a model with callbacks.
        steps: number of training steps; the fraction of zeros grows over the first half of them.
        sparsity: the final fraction of zeros in each Dense kernel.
        pattern: (2, 4) for two zeros among any four inputs in a row, from the first step, instead
            of `sparsity`.

    Returns:
        A model whose kernels have these zeros.
    """
    if pattern:
        schedule = _sparsity.ConstantSparsity(pattern[0] / pattern[1], begin_step=0, frequency=1)
    else:
        half = max(steps // 2, 1)
        schedule = _sparsity.PolynomialDecay(
            0.0, sparsity, begin_step=0, end_step=half, frequency=max(half // 20, 1)
        )

    def pruned(dense):
        return _sparsity.prune_low_magnitude(dense, schedule, sparsity_m_by_n=pattern)

    wrapped = wrap_dense(model, pruned)
    wrappers = list(wrapped.wrappers.values())
    train(wrapped.model, [PruningStep(wrappers)])
    return wrapped.unwrapped(_masked)


def train_clustered(
    model: ImageModel, train: Train, clusters: int = 16, keep_zeros: bool = False
) -> ImageModel:
    """Fine-tunes a model in which every weight has the value of its kernel's nearest centroid.

    Args:
        model: the trained model.
        train: a function that trains a model with callbacks.
        clusters: number of distinct values in each Dense kernel.
        keep_zeros: whether zero weights stay zero; zero is then one of the values.

    Returns:
        A model whose Dense kernels have this number of distinct values.
    """
    start = _clustering.CentroidInitialization.KMEANS_PLUS_PLUS

    def clustered(dense):
        return _clustering.cluster_weights(dense, clusters, start, preserve_sparsity=keep_zeros)

    wrapped = wrap_dense(model, clustered)
    train(wrapped.model, [])
    return wrapped.unwrapped(_clustered)


def _clustered(wrapper) -> np.ndarray:
    wrapper.update_clustered_weights_associations()
    return np.asarray(wrapper.layer.kernel)


def train_quantised(
    model: ImageModel, train: Train, precision: str, keep_zeros: bool = False
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
        return QuantizedDense(dense, grid, factor, keep_zeros, precision_of(precision).calibrated)

    wrapped = wrap_dense(model, quantised)
    train(wrapped.model, [])
    ranges = {layer: wrapper.ranges() for layer, wrapper in wrapped.wrappers.items()}
    return wrapped.unwrapped(lambda wrapper: np.asarray(wrapper.rounded_kernel())), ranges


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


def _masked(wrapper) -> np.ndarray:
    ((weight, mask, _),) = wrapper.pruning_vars
    return np.asarray(weight) * np.asarray(mask)


class QuantizedDense(keras.layers.Wrapper):
    """A Dense layer that computes with the numbers of a quantised file.

    Args:
        dense: the layer; it has no activation.
        grid: the grid of its kernel.
        factor: a factor of its kernel and its outputs in the file.
        keep_zeros: whether zero weights stay zero.
        fixed: whether inputs and outputs are rounded over the whole range seen in training, as a
            calibrated file does; otherwise each token of the inputs is rounded over its own.
    """

    def __init__(self, dense, grid: KernelGrid, factor: float, keep_zeros: bool, fixed: bool):
        super().__init__(dense, name=f"quant_{dense.name}")
        self.grid, self.factor, self.keep_zeros, self.fixed = grid, factor, keep_zeros, fixed

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
        x = self._rounded("inputs", inputs, training) if self.fixed else round_tokens(inputs)
        x = tf.nn.bias_add(tf.tensordot(x, self.rounded_kernel(), 1), self.layer.bias)
        return self._rounded("outputs", x, training) if self.fixed else x

    def rounded_kernel(self) -> tf.Tensor:
        """The kernel that the file will have."""
        return round_kernel(self.layer.kernel * self.kept, self.grid, self.factor)

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
        return round_to_range(x, low, high)
