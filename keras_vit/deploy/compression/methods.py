"""The compression methods and their settings."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from keras_vit._checks import classifies, fraction, positive_integer
from keras_vit._errors import UsageError, did_you_mean
from keras_vit.deploy.precisions import PRECISIONS, precision_of

if TYPE_CHECKING:  # commands read the tables below before they import Keras
    from keras_vit.models.image_model import ImageModel

# name: the stages, each a separate fine-tuning; a later stage keeps the zeros of an earlier one.
# There is no "cluster+qat": with a scale for each output, one centroid becomes different integers,
# and four bits already mean sixteen clusters.
METHODS: dict[str, tuple[str, ...]] = {
    name: tuple(name.split("+"))
    for name in ("qat", "prune", "cluster", "prune+qat", "prune+cluster")
}
# The values of `quantize` that quantisation-aware training supports.
TRAINABLE = tuple(name for name, precision in PRECISIONS.items() if precision.trainable)
# More values than int8 can hold save nothing.
MOST_CLUSTERS = 256
PATTERNS = ("2:4",)


@dataclasses.dataclass(frozen=True)
class Compression:
    """A compression method with its settings.

    Attributes:
        method: a name in `METHODS`.
        quantize: the file's precision, a name in `PRECISIONS`, which quantisation-aware training
            simulates: "int4" and "dynamic" have weights of four and eight bits and a range for
            each token, "int8" has eight bits and fixed ranges.
        sparsity: the fraction of each Dense kernel's weights that pruning makes zero.
        pattern: "2:4": two zeros among any four inputs in a row instead; None for none.
        clusters: distinct values of each clustered kernel.

    Raises:
        UsageError: a field is out of range, or two of them contradict each other.
    """

    method: str
    quantize: str = "none"
    sparsity: float = 0.5
    pattern: str | None = None
    clusters: int = 16

    def __post_init__(self):
        if self.method not in METHODS:
            raise UsageError(
                f"unknown method {self.method!r}; {did_you_mean(self.method, METHODS)}"
            )
        if "qat" in self.stages and self.quantize not in TRAINABLE:
            raise UsageError(
                f"{self.method} trains for a file of one of {', '.join(TRAINABLE)}. "
                f"Received: quantize={self.quantize!r}."
            )
        precision_of(self.quantize)
        fraction("sparsity", self.sparsity)
        if self.pattern is not None and self.pattern not in PATTERNS:
            raise UsageError(
                f"pattern must be one of {', '.join(PATTERNS)}. Received: {self.pattern!r}."
            )
        if self.pattern is not None and self.sparsity != 0.5:
            raise UsageError(
                f"pattern={self.pattern!r} makes half of the weights zero. "
                f"Received: sparsity={self.sparsity}; leave one of them out."
            )
        positive_integer("clusters", self.clusters)
        fewest = 2 + ("prune" in self.stages)  # zero is one
        if not fewest <= self.clusters <= MOST_CLUSTERS:
            raise UsageError(
                f"clusters must be {fewest} to {MOST_CLUSTERS}. Received: clusters={self.clusters}."
            )

    @property
    def name(self) -> str:
        """The name of the bundle: "prune+qat-int4"."""
        return f"{self.method}-{precision_of(self.quantize).name}"

    @property
    def stages(self) -> tuple[str, ...]:
        """The fine-tunings, in order."""
        return METHODS[self.method]

    @property
    def rewrites(self) -> frozenset[str]:
        """The exporter's rewrites that leave the kernels as they were trained."""
        from keras_vit.deploy.graph.rewrites import REWRITES

        # After qat the inputs and outputs of every Dense layer, whose ranges were learnt, must be
        # those of training: values keep their bias.
        ranges = {"attention_biases", "scaled_stream"} if "qat" in self.stages else set()
        return frozenset(REWRITES) - {"centre"} - ranges


@dataclasses.dataclass(frozen=True)
class Compressed:
    """The result of `compress`.

    Attributes:
        model: a plain model with the compressed weights.
        wanted: the compression.
        ranges: for each layer, the ranges of its inputs and outputs that training found for a
            quantised file; () if each token has its own range.
    """

    model: ImageModel
    wanted: Compression
    ranges: dict[str, tuple[tuple[float, float], ...]]


def compress(
    model: ImageModel, wanted: Compression, train: Callable[..., None], steps: int
) -> Compressed:
    """Compresses a trained model by fine-tuning it, on tf_keras.

    Args:
        model: a ViT or a hybrid, whose Dense layers are compressed; a hybrid's convolutions and the
            classifiers of a distilled model are trained too, but not compressed.
        wanted: the method and its settings.
        train: a function that trains a model with a list of callbacks, such as `FineTuning`.
        steps: number of training steps that `train` takes.

    Raises:
        UsageError: Keras is not tf_keras, or the model is a BiT.
        ImportError: tensorflow-model-optimization is not installed.
    """
    check_compressible(model)
    from keras_vit.deploy.compression import stages
    from keras_vit.deploy.compression.dense_layers import fold_norms

    model, ranges = fold_norms(model), {}
    for i, stage in enumerate(wanted.stages):
        model, ranges = stages.train_stage(stage, model, train, wanted, steps, keep_zeros=i > 0)
    return Compressed(model, wanted, ranges)


def check_compressible(model: ImageModel) -> None:
    """Raises the errors of `compress` for models and installations that it does not support."""
    from keras_vit.specs import ResNetSpec

    classifies(model, model.name)
    if isinstance(model.spec, ResNetSpec):
        raise UsageError(
            "compression is for the Dense layers of Vision Transformers. Received: "
            f"{model.name}, whose convolutions are standardised whenever they are used."
        )
    importlib.import_module("keras_vit.deploy.compression.stages")
