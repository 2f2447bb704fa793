"""What a graph is made from: a model's weights, its input, its output and its rewrites."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, get_args

from keras_vit._checks import choice, flag, positive_integer
from keras_vit._errors import UsageError, did_you_mean
from keras_vit.deploy.graph.rewrites import REWRITES
from keras_vit.specs import Preprocessing, Spec

Input = Literal["float32", "uint8"]
Output = Literal["logits", "probabilities", "features", "feature_map", "scores", "class_map"]
_MOST_STRIDE = 64


@dataclasses.dataclass(frozen=True)
class GraphOptions:
    """The input, the output and the rewrites of a graph.

    Attributes:
        input: "float32", preprocessed as for Keras; "uint8", RGB or grey pixels of the
            right size.
        output: "logits"; "probabilities", their softmax, or of one logit its sigmoid; "features",
            the input of the head; "feature_map" (rows, columns, features), what is pooled to them.
            Of a segmenter "scores" (rows, columns, classes), or "class_map", the class with the
            highest one, uint8 (rows, columns).
        batch: a fixed number of images; None for any.
        rewrites: names in `REWRITES`.
        normalize: whether features are divided by their L2 norm.
        output_stride: pixels of the image for a row or column of a segmenter's output; None for 1
            of a class map, and of scores for 4, or fewer if the head has finer cells.

    Raises:
        UsageError: other outputs are to be normalised, or to have a stride; an unknown input,
            output or rewrite.
    """

    input: Input = "float32"
    output: Output = "logits"
    batch: int | None = 1
    rewrites: frozenset[str] = frozenset(REWRITES)
    normalize: bool = False
    output_stride: int | None = None

    def __post_init__(self):
        object.__setattr__(self, "rewrites", frozenset(self.rewrites))
        for name in sorted(self.rewrites - REWRITES.keys()):
            raise UsageError(f"unknown rewrite {name!r}; {did_you_mean(name, REWRITES)}")
        for field, choices in (("input", Input), ("output", Output)):
            choice(field, getattr(self, field), get_args(choices))
        if flag("normalize", self.normalize) and self.output != "features":
            raise UsageError(f"normalize is for output='features'. Received: {self.output!r}.")
        if self.output_stride is not None:
            positive_integer("output_stride", self.output_stride, _MOST_STRIDE)
            if not self.is_mask:
                raise UsageError(
                    "output_stride is for output='scores' or 'class_map'. Received: "
                    f"{self.output!r}."
                )

    @property
    def scores_classes(self) -> bool:
        """Whether the output has scores of classes, or classes."""
        return scores_classes(self.output)

    @property
    def is_mask(self) -> bool:
        """Whether the output has scores or a class for each part of the image."""
        return is_mask(self.output)

    @property
    def reads_patches(self) -> bool:
        """Whether the output is made of all patches, without a pooling."""
        return self.is_map or self.is_mask

    @property
    def is_map(self) -> bool:
        """Whether the output is a feature map."""
        return self.output == "feature_map"


def scores_classes(output: str) -> bool:
    """Whether an output has scores of classes, or classes; others are features."""
    return output in ("logits", "probabilities", "scores", "class_map")


def is_mask(output: str) -> bool:
    """Whether an output has scores or a class for each part of the image."""
    return output in ("scores", "class_map")


_BODY: tuple[Output, ...] = ("features", "feature_map")
# By the task of the model, the usual one first.
OUTPUTS: dict[str, tuple[Output, ...]] = {
    "classification": ("logits", "probabilities", *_BODY),
    "segmentation": ("scores", "class_map", "feature_map"),
}


def outputs_of(model: Any) -> tuple[Output, ...]:
    """The outputs that a Keras model can have in a file, the usual one first.

    Raises:
        UsageError: models for its task are not exported.
    """
    if getattr(model, "num_classes", None) == 0:
        return _BODY
    task = getattr(model, "task", "classification")
    if task not in OUTPUTS:
        raise UsageError(
            f"files are made of models for {' or '.join(OUTPUTS)}. Received: {model.name}, a "
            f"model for {task}."
        )
    return OUTPUTS[task]


# One image as Keras reads it, and its logits.
DEFAULTS = GraphOptions()


@dataclasses.dataclass(frozen=True)
class InferenceGraph:
    """What a graph is built from.

    Attributes:
        spec: spec of a ViT, a hybrid or a BiT.
        weights: the model's, by keras_vit's names, or functions that give them; `prepare` turns
            them into those of the graph.
        image_size: height and width in pixels.
        preprocessing: mean and scale of the pixels, for `options.input == "uint8"`.
        options: the graph's input, output and rewrites.
        tail: a Keras model from the features to the output, which replaces keras_vit's head.
        for_npus: without SPACE_TO_DEPTH, which the NPUs of MediaTek and Intel do not have.
    """

    spec: Spec
    weights: Any
    image_size: tuple[int, int]
    preprocessing: Preprocessing
    options: GraphOptions = DEFAULTS
    tail: Any = None
    for_npus: bool = False
