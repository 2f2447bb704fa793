"""The settings of a training run as data, with types, defaults, checks and help texts."""

from __future__ import annotations

import dataclasses
import functools
import typing
from typing import Literal

from msgspec import Struct

from keras_vit._checks import (
    PICTURE_CHANNELS,
    Interpolation,
    choice,
    fraction,
    inner_fraction,
    integer,
    not_negative,
    number,
    positive_integer,
)
from keras_vit._errors import UsageError
from keras_vit._json import Text
from keras_vit.data.augmentation import AUGMENTATIONS

# Settings that are chosen for the machine where they are None. A run keeps what was chosen.
CHOSEN_HERE = ("accumulate", "jit")
# The losses that need no classes: what is predicted of a masked patch (None: by a decoder), and the
# fraction of masked patches.
SELF_SUPERVISED: dict[str, tuple[Literal["colour", "colours", "pixels"] | None, float]] = {
    "masked_colour": ("colour", 0.5),
    "masked_colours": ("colours", 0.5),
    "masked_pixels": ("pixels", 0.5),
    "mae": (None, 0.75),
}
# Settings that have no meaning without classes.
_SUPERVISED = (
    "label_smoothing", "class_weights", "mixup", "cutmix", "erase", "freeze", "lora", "layer_decay",
    "distillation", "head_bias", "representation",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Recipe:
    """The settings of a training run. `keras-vit fit --help` prints the text below each field."""

    image_size: int | tuple[int, int] = 224
    """Input size in pixels: one number, or height and width."""
    interpolation: Interpolation | None = None
    """How images are resized: nearest, bilinear or bicubic, as in Pillow, or mediapipe: as
    MediaPipe's ImageClassifier does, from the whole image and without antialiasing. Default: as
    for the weights, otherwise bilinear."""
    in_channels: int | None = None
    """Channels of the model's input: 3, or 1 for grey pictures, to which colours are converted.
    Default: as for the weights, otherwise 3."""
    duration: str = "100 epochs"
    """Length of the training: '100 epochs', '500 steps' or '1e6 examples'; '10 epochs, at least
    100 steps' is the longer of the two."""
    batch_size: int = 64
    """Number of images in a training step."""
    accumulate: int | None = None
    """Parts of a batch that are computed in turn, to save memory; the step stays the same. Default:
    as few as fit into the memory that is free."""
    optimizer: Literal["adamw", "sgd", "lion", "lamb", "muon"] = "adamw"
    """The optimiser of Keras; sgd has momentum."""
    learning_rate: float = 1e-3
    """Peak learning rate: it rises linearly from zero during warmup."""
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    """How the learning rate falls after the warmup."""
    end_learning_rate: float = 0.0
    """The learning rate of the last step."""
    warmup: str = "5%"
    """Length of the warmup: '100 steps', '1 epoch', or '5%' of the training."""
    weight_decay: float | None = None
    """Weight decay, for kernels only; it is multiplied by the learning rate. Default: 0.05, none
    for sgd."""
    momentum: float = 0.9
    """Momentum of SGD."""
    beta_2: float = 0.999
    """Decay of AdamW's mean of squared gradients; that of the gradients is 0.9."""
    layer_decay: float = 1.0
    """Layer-wise learning rates: each block learns this many times as fast as the next one."""
    clip_norm: float = 1.0
    """Largest global norm of the gradients; 0 for no clipping."""
    ema: float = 0.0
    """Momentum of an average of the weights, such as 0.9999, which is evaluated and saved beside
    the weights themselves; 0 for none."""
    loss: Literal[
        "softmax", "sigmoid", "masked_colour", "masked_colours", "masked_pixels", "mae"
    ] = "softmax"
    """softmax for one class in each image, sigmoid for any number of classes. Without classes:
    masked_colour predicts the mean colour of masked patches, masked_colours that of 4 x 4 cells in
    each, masked_pixels their pixels, mae the pixels of hidden patches by a decoder."""
    masked: float | None = None
    """Fraction of masked patches in training without classes; default: 0.5, 0.75 for mae."""
    decoder_dim: int = 512
    """Width of mae's decoder."""
    decoder_depth: int = 8
    """Number of blocks of mae's decoder."""
    decoder_heads: int = 16
    """Attention heads in each block of mae's decoder."""
    label_smoothing: float = 0.0
    """Fraction of each target that is spread evenly over all classes."""
    class_weights: Literal["none", "balanced"] = "none"
    """'balanced' weights the loss so that rare and frequent classes count equally."""
    augment: str = dataclasses.field(
        default="crop_flip",
        metadata={
            "choices": tuple(AUGMENTATIONS),
            "help": "Random augmentation. "
            + "; ".join(f"{name}: {row.help}" for name, row in AUGMENTATIONS.items())
            + ".",
        },
    )
    mixup: float = 0.0
    """Alpha of mixup, which blends each image and its target with another one; 0 for none."""
    cutmix: float = 0.0
    """Alpha of CutMix, which replaces a box of each image by that of another one; 0 for none. If
    both are on, each batch has one of them."""
    erase: float = 0.0
    """Probability of random erasing: a box of the image becomes noise."""
    dropout: float | None = None
    """Dropout rate after the positions, the attention and both MLP layers; default: that of the
    model."""
    drop_path: float = 0.0
    """Stochastic depth: the rate in the last block; it rises linearly from 0 in the first."""
    position_embedding: str | None = None
    """The position embedding: learned, learned2d, sincos2d, relative or none; default: that of the
    model."""
    overrides: str = ""
    """Hyperparameters of the model that differ from its usual ones: 'depth=8,pooling=gap'."""
    representation: bool = False
    """A tanh layer before the head, as wide as the model, for pre-training."""
    head_bias: float = 0.0
    """Initial bias of a new head: -10 for the sigmoid loss over many classes."""
    held_out: float = 0.2
    """Fraction of each class that is held out for evaluation."""
    sampling: Literal["all", "balanced"] = "all"
    """'balanced' draws every class equally often, rare images more often than others."""
    freeze: Literal["none", "body"] = "none"
    """'body' trains the head only (a linear probe)."""
    lora: int = 0
    """Rank of the low-rank factors that are trained instead of the kernels of the blocks, with the
    head; 0 trains the kernels themselves."""
    distillation: Literal["none", "soft", "hard"] = "none"
    """What the model also learns from a teacher: its probabilities, or its most probable class."""
    distillation_token: bool = False
    """A second token and classifier, which learn from the teacher; predictions are the mean of both
    classifiers."""
    distillation_weight: float | None = None
    """Fraction of the loss that is the teacher's; default: 0.1 for soft, 0.5 for hard."""
    temperature: float = 3.0
    """Temperature of the probabilities in soft distillation."""
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    """Dtype policy of Keras."""
    remat: bool = False
    """Compute activations inside the blocks again in the backward pass: less memory, more time."""
    steps_per_execution: int = 1
    """Steps in one call of the compiled program; more save time where steps are short. Training is
    lengthened to a multiple of it."""
    jit: bool | None = None
    """XLA compilation of the training step. Default: on GPUs, with JAX, and for trainings of ViTs
    that are long enough to gain from it."""
    seed: int = 0
    """Random seed of the initial weights, the order of the images and the augmentation."""

    def __post_init__(self):
        for field, names in _choices().items():
            choice(field, getattr(self, field), names)
        if self.interpolation is not None:
            choice("interpolation", self.interpolation, typing.get_args(Interpolation))
        square = isinstance(self.image_size, int)
        for side in (self.image_size,) if square else self.image_size:
            positive_integer("image_size", side)
        if self.in_channels not in (None, *PICTURE_CHANNELS):
            raise UsageError(
                "in_channels must be 3 or 1, because images are pictures. "
                f"Received: in_channels={self.in_channels!r}."
            )
        positive_integer("batch_size", self.batch_size)
        if self.accumulate is not None:
            positive_integer("accumulate", self.accumulate)
        choice("augment", self.augment, tuple(AUGMENTATIONS))
        positive_integer("steps_per_execution", self.steps_per_execution)
        numbers = (
            "learning_rate", "end_learning_rate", "clip_norm", "mixup", "cutmix", "seed",
        )  # fmt: skip
        for field in numbers:
            not_negative(field, getattr(self, field))
        number("head_bias", self.head_bias)
        if integer(self.lora) is None or self.lora < 0:
            raise UsageError(
                f"lora must be an integer of at least 0. Received: lora={self.lora!r}."
            )
        if self.weight_decay is not None:
            not_negative("weight_decay", self.weight_decay)
        for field in (
            "label_smoothing",
            "drop_path",
            "momentum",
            "beta_2",
            "ema",
            "erase",
        ):
            fraction(field, getattr(self, field))
        inner_fraction("held_out", self.held_out)
        if self.optimizer == "sgd" and self.weight_decay:
            raise UsageError(
                "optimizer='sgd' has no weight decay. "
                f"Received: weight_decay={self.weight_decay}; leave it out."
            )
        for field in ("decoder_dim", "decoder_depth", "decoder_heads"):
            positive_integer(field, getattr(self, field))
        if self.loss in SELF_SUPERVISED:
            self._check_self_supervised()
        for field in ("dropout", "distillation_weight"):
            if getattr(self, field) is not None:
                fraction(field, getattr(self, field))
        if self.masked is not None:
            inner_fraction("masked", self.masked)
        if self.class_weights == self.sampling == "balanced":
            raise UsageError(
                "class_weights='balanced' and sampling='balanced' both make up for rare classes; "
                "choose one of them."
            )
        if self.class_weights != "none" and self.loss != "softmax":
            raise UsageError(f"class_weights are for loss='softmax'. Received: loss={self.loss!r}.")
        if self.label_smoothing and self.loss != "softmax":
            raise UsageError(
                f"label_smoothing is for loss='softmax'. Received: loss={self.loss!r}."
            )
        if self.lora and self.freeze != "none":
            raise UsageError("lora freezes all but the head itself; leave freeze out.")
        if not number("temperature", self.temperature) > 0:
            raise UsageError(
                f"temperature must be positive. Received: temperature={self.temperature}."
            )
        if self.distillation != "none" and self.loss != "softmax":
            raise UsageError(f"distillation needs loss='softmax'. Received: loss={self.loss!r}.")
        if not 0 < number("layer_decay", self.layer_decay) <= 1:
            raise UsageError(
                f"layer_decay must lie in (0, 1]. Received: layer_decay={self.layer_decay}."
            )
        if self.seed >= 2**32:
            raise UsageError(f"seed must be below 2**32. Received: seed={self.seed}.")

    @property
    def masked_fraction(self) -> float:
        """The fraction of masked patches; its loss is one of `SELF_SUPERVISED`."""
        return SELF_SUPERVISED[self.loss][1] if self.masked is None else self.masked

    def _check_self_supervised(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in _SUPERVISED and value != field.default:
                raise UsageError(
                    f"{field.name} is for training with classes, not for loss={self.loss!r}. "
                    f"Received: {field.name}={value!r}; leave it out."
                )

    @property
    def may_weight_classes(self) -> bool:
        """Whether `class_weights="balanced"` can be added to these settings."""
        return self.loss == "softmax" and "balanced" not in (self.class_weights, self.sampling)


class Teacher(Struct):
    """What recipe.json says of the teacher."""

    name: str
    sha256: str


class RunRecipe(Struct):
    """recipe.json of a run folder; an older run lacks settings that came later."""

    data: Text
    recipe: Recipe
    model: str | None = None
    weights: Text | None = None
    teacher: Teacher | None = None
    checkpoint_every: str | None = None
    keep_checkpoints: int | None = None
    preset: str | None = None
    versions: dict[str, str] = {}


@functools.cache
def _choices() -> dict[str, tuple[str, ...]]:
    """The fields that take one of a few names, with the names."""
    kinds = typing.get_type_hints(Recipe)
    return {
        field: typing.get_args(kind)
        for field, kind in kinds.items()
        if typing.get_origin(kind) is Literal
    }
