"""The settings of training as data: types, defaults, checks, help texts; a row of `PRESETS`."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct

from keras_vit import _checks
from keras_vit._checks import PICTURE_CHANNELS, Interpolation
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


# What can be learned with classes. The sources of pictures for it are in `data/sources.py`, its
# heads in `encoder/dense_heads.py`.
TASKS = ("classification", "segmentation")


def _task(field: str, value: Any) -> None:
    _checks.choice(field, value, TASKS)


def _whole(field: str, value: Any) -> None:
    if _checks.integer(value) is None or value < 0:
        raise UsageError(f"{field} must be an integer of at least 0. Received: {field}={value!r}.")


def _seed(field: str, value: Any) -> None:
    _whole(field, value)
    if value >= 2**32:
        raise UsageError(f"{field} must be below 2**32. Received: {field}={value}.")


def _channels(field: str, value: Any) -> None:
    if value not in PICTURE_CHANNELS:
        raise UsageError(
            f"{field} must be 3 or 1, because images are pictures. Received: {field}={value!r}."
        )


# What a setting may be for only: "classes", training with them; "classification", the task; "vit",
# Vision Transformers; "keras 3", a flavour of Keras. Where it is not, it must have its default.
Only = Literal["classes", "classification", "vit", "keras 3"]
_IMAGES: tuple[Only, ...] = ("classes", "classification")


def _setting(
    default: Any,
    check: Callable[[str, Any], Any] | None = None,
    only: tuple[Only, ...] = (),
    **described: Any,
) -> Any:
    """A field with a check of its name and its value, unless it is None by default."""
    return dataclasses.field(default=default, metadata={"check": check, "only": only, **described})


@dataclasses.dataclass(frozen=True)
class Recipe:
    """The settings of a training run. `keras-vit fit --help` prints the text below each field."""

    task: str = _setting("classification", _task, ("classes",))
    """What is learned: classification, the class of an image; segmentation, that of each pixel."""
    image_size: int | tuple[int, int] = _setting(224, _checks.positive_integer)
    """Input size in pixels: one number, or height and width."""
    interpolation: Interpolation | None = None
    """How images are resized: nearest, bilinear or bicubic, as in Pillow, or mediapipe: as
    MediaPipe's ImageClassifier does, from the whole image and without antialiasing. Default: as
    for the weights, otherwise bilinear."""
    crop: float | None = _setting(None, _checks.part)
    """The part of the short side that evaluation sees, in the centre and in the input's
    proportions: 1 for the largest square. Default: as for the weights, otherwise the whole image,
    stretched."""
    in_channels: int | None = _setting(None, _channels)
    """Channels of the model's input: 3, or 1 for grey pictures, to which colours are converted.
    Default: as for the weights, otherwise 3."""
    duration: str = "100 epochs"
    """Length of the run: '100 epochs', '500 steps' or '1e6 examples'; '10 epochs, at least
    100 steps' is the longer of the two."""
    batch_size: int = _setting(64, _checks.positive_integer)
    """Number of images in a training step."""
    accumulate: int | None = _setting(None, _checks.positive_integer)
    """Parts of a batch that are computed in turn, to save memory; the step stays the same. Default:
    as few as fit into the memory that is free."""
    optimizer: Literal["adamw", "sgd", "lion", "lamb", "muon"] = "adamw"
    """The optimiser of Keras; sgd has momentum."""
    learning_rate: float = _setting(1e-3, _checks.not_negative)
    """Peak learning rate: it rises linearly from zero during warmup."""
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    """How the learning rate falls after the warmup."""
    end_learning_rate: float = _setting(0.0, _checks.not_negative)
    """The learning rate of the last step."""
    warmup: str = "5%"
    """Length of the warmup: '100 steps', '1 epoch', or '5%' of the run."""
    weight_decay: float | None = _setting(None, _checks.not_negative)
    """Weight decay, for kernels only; it is multiplied by the learning rate. Default: 0.05, none
    for sgd."""
    momentum: float = _setting(0.9, _checks.fraction)
    """Momentum of SGD."""
    beta_2: float = _setting(0.999, _checks.fraction)
    """Decay of AdamW's mean of squared gradients; that of the gradients is 0.9."""
    layer_decay: float = _setting(1.0, _checks.part, ("classes", "vit", "keras 3"))
    """Layer-wise learning rates: each block learns this many times as fast as the next one."""
    clip_norm: float = _setting(1.0, _checks.not_negative)
    """Largest global norm of the gradients; 0 for no clipping."""
    ema: float = _setting(0.0, _checks.fraction)
    """Momentum of an average of the weights, such as 0.9999, which is evaluated and saved beside
    the weights themselves; 0 for none."""
    loss: Literal[
        "softmax", "sigmoid", "masked_colour", "masked_colours", "masked_pixels", "mae"
    ] = "softmax"
    """softmax for one class in each image, sigmoid for any number of classes. Without classes:
    masked_colour predicts the mean colour of masked patches, masked_colours that of 4 x 4 cells in
    each, masked_pixels their pixels, mae the pixels of hidden patches by a decoder."""
    masked: float | None = _setting(None, _checks.inner_fraction)
    """Fraction of masked patches in training without classes; default: 0.5, 0.75 for mae."""
    decoder_dim: int = _setting(512, _checks.positive_integer)
    """Width of mae's decoder."""
    decoder_depth: int = _setting(8, _checks.positive_integer)
    """Number of blocks of mae's decoder."""
    decoder_heads: int = _setting(16, _checks.positive_integer)
    """Attention heads in each block of mae's decoder."""
    label_smoothing: float = _setting(0.0, _checks.fraction, _IMAGES)
    """Fraction of each target that is spread evenly over all classes."""
    class_weights: Literal["none", "balanced"] = _setting("none", only=_IMAGES)
    """'balanced' weights the loss so that rare and frequent classes count equally."""
    augment: str = _setting(
        "crop_flip",
        choices=tuple(AUGMENTATIONS),
        help="Random augmentation. "
        + "; ".join(f"{name}: {row.help}" for name, row in AUGMENTATIONS.items())
        + ".",
    )
    mixup: float = _setting(0.0, _checks.not_negative, _IMAGES)
    """Alpha of mixup, which blends each image and its target with another one; 0 for none."""
    cutmix: float = _setting(0.0, _checks.not_negative, _IMAGES)
    """Alpha of CutMix, which replaces a box of each image by that of another one; 0 for none. If
    both are on, each batch has one of them."""
    erase: float = _setting(0.0, _checks.fraction, _IMAGES)
    """Probability of random erasing: a box of the image becomes noise."""
    dropout: float | None = _setting(None, _checks.fraction, ("vit",))
    """Dropout rate after the positions, the attention and both MLP layers; default: that of the
    model's name, 0 for the model that weights hold."""
    drop_path: float = _setting(0.0, _checks.fraction, ("vit",))
    """Stochastic depth: the rate in the last block; it rises linearly from 0 in the first."""
    position_embedding: str | None = _setting(None, only=("vit",))
    """The position embedding: learned, learned2d, sincos2d, relative or none; default: that of the
    model."""
    overrides: str = _setting("", only=("vit",))
    """Hyperparameters of the model that differ from its usual ones: 'depth=8,pooling=gap'."""
    head_cells: int | None = _setting(None, _checks.positive_integer, ("classes", "vit"))
    """Of segmentation: how finely the head divides a patch, into this many cells along a side; the
    scores of cells are resized to the pixels. Default: as the segmenter in the weights, otherwise
    1."""
    representation: bool = _setting(False, only=(*_IMAGES, "vit"))
    """A tanh layer before the head, as wide as the model, for pre-training."""
    head_bias: float = _setting(0.0, _checks.number, _IMAGES)
    """Initial bias of a new head: -10 for the sigmoid loss over many classes."""
    held_out: float = _setting(0.2, _checks.inner_fraction)
    """Fraction of each class that is held out for evaluation."""
    sampling: Literal["all", "balanced"] = "all"
    """'balanced' draws every class equally often, rare images more often than others."""
    freeze: Literal["none", "body"] = _setting("none", only=("classes",))
    """'body' trains the head only (a linear probe)."""
    lora: int = _setting(0, _whole, ("classes", "vit", "keras 3"))
    """Rank of the low-rank factors that are trained instead of the kernels of the blocks, with the
    head; 0 trains the kernels themselves."""
    distillation: Literal["none", "soft", "hard"] = _setting("none", only=_IMAGES)
    """What the model also learns from a teacher: its probabilities, or its most probable class."""
    distillation_token: bool = _setting(False, only=("classification", "vit"))
    """A second token and classifier, which learn from the teacher; predictions are the mean of both
    classifiers."""
    distillation_weight: float | None = _setting(None, _checks.fraction)
    """Fraction of the loss that is the teacher's; default: 0.1 for soft, 0.5 for hard."""
    temperature: float = _setting(3.0, _checks.positive_number)
    """Temperature of the probabilities in soft distillation."""
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    """Dtype policy of Keras."""
    remat: bool = _setting(False, only=("vit", "keras 3"))
    """Compute activations inside the blocks again in the backward pass: less memory, more time."""
    steps_per_execution: int = _setting(1, _checks.positive_integer)
    """Steps in one call of the compiled program; more save time where steps are short. Training is
    lengthened to a multiple of it."""
    jit: bool | None = None
    """XLA compilation of the training step. Default: on GPUs, with JAX, and for runs of ViTs
    that are long enough to gain from it."""
    seed: int = _setting(0, _seed)
    """Random seed of the initial weights, the order of the images and the augmentation."""

    def __post_init__(self):
        for field in dataclasses.fields(self):
            _check(field, getattr(self, field.name))
        if self.loss in SELF_SUPERVISED and (field := self.set_of("classes")):
            raise UsageError(
                f"{field} is for training with classes, not for loss={self.loss!r}. "
                f"Received: {field}={getattr(self, field)!r}; leave it out."
            )
        if self.task != "classification":
            self._check_dense()
        elif self.head_cells is not None:
            raise UsageError(
                f"head_cells is for task='segmentation'. Received: head_cells={self.head_cells}."
            )
        if self.optimizer == "sgd" and self.weight_decay:
            raise UsageError(
                "optimizer='sgd' has no weight decay. "
                f"Received: weight_decay={self.weight_decay}; leave it out."
            )
        if self.class_weights == self.sampling == "balanced":
            raise UsageError(
                "class_weights='balanced' and sampling='balanced' both make up for rare classes; "
                "choose one of them."
            )
        for is_on, what in (
            (self.class_weights != "none", "class_weights are for"),
            (self.label_smoothing, "label_smoothing is for"),
            (self.distillation != "none", "distillation needs"),
        ):
            if is_on and self.loss != "softmax":
                raise UsageError(f"{what} loss='softmax'. Received: loss={self.loss!r}.")
        if self.lora and self.freeze != "none":
            raise UsageError(
                "lora freezes all but the head itself; leave freeze out, or take the recipe lora."
            )

    def _check_dense(self) -> None:
        if self.loss != "softmax":
            raise UsageError(f"task={self.task!r} needs loss='softmax'. Received: {self.loss!r}.")
        if field := self.set_of("classification"):
            raise UsageError(
                f"{field} is for task='classification'. Received: {field}="
                f"{getattr(self, field)!r} and task={self.task!r}; leave it out."
            )
        if AUGMENTATIONS[self.augment].moves:
            still = [name for name, row in AUGMENTATIONS.items() if not row.moves]
            raise UsageError(
                f"augment={self.augment!r} moves pixels in ways that masks do not follow. For "
                f"task={self.task!r} choose one of {', '.join(still)}."
            )

    def set_of(self, kind: Only) -> str:
        """The first setting that is only for a kind of training and is not off; "" if none is."""
        return next((name for name, off in only(kind).items() if getattr(self, name) != off), "")

    @property
    def masked_fraction(self) -> float:
        """The fraction of masked patches; its loss is one of `SELF_SUPERVISED`."""
        return SELF_SUPERVISED[self.loss][1] if self.masked is None else self.masked

    @property
    def may_weight_classes(self) -> bool:
        """Whether `class_weights="balanced"` can be added to these settings."""
        is_of_one = self.task == "classification" and self.loss == "softmax"
        return is_of_one and "balanced" not in (self.class_weights, self.sampling)


@dataclasses.dataclass(frozen=True)
class Preset:
    """A recipe with a name: a row of `PRESETS`."""

    recipe: Recipe
    """The settings."""
    model: str = "ViT_Ti16"
    """The model to train if none is chosen."""
    data: str | None = None
    """The source that it is for; None for all sources."""
    weights: str = ""
    """The published weights that it starts from; empty if it starts from random ones."""
    title: str = ""
    """What it is for, in a few words."""
    source: str = "chosen here"
    """Where the settings come from: paper, section or table, arXiv number."""
    expected: str = ""
    """The score to expect, with its model."""
    evidence: Literal["published", "measured here", "measured here: not yet"] = (
        "measured here: not yet"
    )
    """Whether the score is the source's, or was reached with this library."""
    cost: str = ""
    """What a run costs."""
    family: str = ""
    """The group in which it is listed."""
    learning_rates: tuple[float, ...] = ()
    """The learning rates that the source tries; `keras-vit sweep` tries them too."""
    development: float = 0.1
    """The fraction of the training images on which the source compares learning rates."""

    def options(self, name: str) -> str:
        """The options of the command `fit` that train it; FOLDER and RUN are the user's own.

        Args:
            name: its name in `PRESETS`.
        """
        given = {
            "--recipe": name,
            "--data": "" if self.data else "FOLDER",
            "--weights": self.weights,
            "--teacher": "" if self.recipe.distillation == "none" else "RUN",
        }
        return " ".join(f"{option} {value}" for option, value in given.items() if value)


_ROW = "model data image_size duration batch_size learning_rate warmup weight_decay augment"


def preset(row: tuple[Any, ...], **fields: Any) -> Preset:
    """A `Preset`.

    >>> row = preset(("ViT_B16", None, 224, "10 epochs", 32, 5e-5), lora=8, title="LoRA")
    >>> row.model, row.recipe.batch_size, row.recipe.lora
    ('ViT_B16', 32, 8)

    Args:
        row: what all sources state, in the order of `_ROW`; it may end early.
        fields: further settings of a `Recipe`, and fields of the `Preset`; they replace the row's.
    """
    values = dict(zip(_ROW.split(), row, strict=False)) | fields
    settings = {name: values.pop(name) for name in list(values) if hasattr(Recipe, name)}
    return Preset(Recipe(**settings), **values)


class RunTeacher(Struct):
    """What recipe.json says of the teacher."""

    name: str
    sha256: str


class RunRecipe(Struct):
    """recipe.json of a run folder; an older run lacks settings that came later."""

    data: Text
    recipe: Recipe
    model: str | None = None
    weights: Text | None = None
    teacher: RunTeacher | None = None
    checkpoint_every: str | None = None
    keep_checkpoints: int | None = None
    preset: str | None = None
    versions: dict[str, str] = {}


def only(kind: Only) -> dict[str, Any]:
    """The settings that are only for a kind of training, with the values that turn them off."""
    fields = dataclasses.fields(Recipe)
    return {each.name: each.default for each in fields if kind in each.metadata.get("only", ())}


def _check(field: dataclasses.Field, value: Any) -> None:
    if value is None and field.default is None:
        return
    names = field.metadata.get("choices") or _choices().get(field.name)
    if names:
        _checks.choice(field.name, value, names)
    if check := field.metadata.get("check"):
        for each in value if isinstance(value, tuple) else (value,):
            check(field.name, each)


@functools.cache
def _choices() -> dict[str, tuple[str, ...]]:
    """The fields that take one of a few names, with the names."""
    found = {}
    for field, kind in typing.get_type_hints(Recipe).items():
        kinds = [kind, *typing.get_args(kind)]  # of `Interpolation | None`, the first is a Literal
        found[field] = next(
            (typing.get_args(each) for each in kinds if typing.get_origin(each) is Literal), ()
        )
    return found
