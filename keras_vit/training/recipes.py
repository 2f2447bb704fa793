"""Recipes: the settings of a training run as data, with types, defaults and help texts."""

from __future__ import annotations

import dataclasses
import os
from typing import Literal

from keras_vit._checks import fraction, not_negative, positive_integer
from keras_vit._errors import UsageError


@dataclasses.dataclass(frozen=True)
class Recipe:
    """The settings of a training run. `keras-vit fit --help` prints the text below each field."""

    image_size: int | tuple[int, int] = 224
    """Input size in pixels: one number, or height and width."""
    duration: str = "100 epochs"
    """Length of the training: '100 epochs', '500 steps' or '1e6 examples'."""
    batch_size: int = 64
    """Number of images in a training step."""
    optimizer: Literal["adamw", "sgd"] = "adamw"
    """AdamW, or SGD with momentum."""
    learning_rate: float = 1e-3
    """Peak learning rate: it rises linearly during warmup, then falls along a cosine to zero."""
    warmup: str = "5%"
    """Length of the warmup: '100 steps', '1 epoch', or '5%' of the training."""
    weight_decay: float = 0.05
    """Weight decay of AdamW, for kernels only; it is multiplied by the learning rate."""
    momentum: float = 0.9
    """Momentum of SGD; AdamW always uses 0.9 and 0.999."""
    clip_norm: float = 1.0
    """Largest global norm of the gradients; 0 for no clipping."""
    label_smoothing: float = 0.0
    """Fraction of each target that is spread evenly over all classes."""
    class_weights: Literal["none", "balanced"] = "none"
    """'balanced' weights the loss so that rare and frequent classes count equally."""
    augment: Literal["none", "shift", "mild_crop_flip", "crop_flip"] = "crop_flip"
    """Random augmentation: shift moves, rotates and zooms a little and does not mirror,
    mild_crop_flip mirrors and keeps at least half of the area, crop_flip at least 5%."""
    dropout: float | None = None
    """Dropout rate after the positions, the attention and both MLP layers; default: that of the
    model."""
    drop_path: float = 0.0
    """Stochastic depth: the rate in the last block; it rises linearly from 0 in the first."""
    held_out: float = 0.2
    """Fraction of each class that is held out for evaluation."""
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    """Dtype policy of Keras."""
    jit: bool = True
    """XLA compilation of the training step."""
    seed: int = 0
    """Random seed of the initial weights, the order of the images and the augmentation."""

    def __post_init__(self):
        square = isinstance(self.image_size, int)
        for side in (self.image_size,) if square else self.image_size:
            positive_integer("image_size", side)
        positive_integer("batch_size", self.batch_size)
        for field in ("learning_rate", "weight_decay", "clip_norm", "seed"):
            not_negative(field, getattr(self, field))
        for field in ("label_smoothing", "drop_path", "held_out", "momentum"):
            fraction(field, getattr(self, field))
        if self.dropout is not None:
            fraction("dropout", self.dropout)
        if self.seed >= 2**32:
            raise UsageError(f"seed must be below 2**32. Received: seed={self.seed}.")


@dataclasses.dataclass(frozen=True)
class Preset:
    """A recipe with a name: a row of `PRESETS`."""

    recipe: Recipe
    """The settings."""
    model: str = "ViT_Ti16"
    """The model to train if none is chosen."""
    data: str | None = None
    """The source that it is for; None for all sources."""
    weights: bool = False
    """Whether it is for training that starts from weights."""


# To add a recipe, add a row here. `default_recipe` returns the first row that fits.
PRESETS: dict[str, Preset] = {
    # Tuned by experiments; `make demo` prints the accuracy.
    "digits": Preset(
        Recipe(
            image_size=32,
            duration="40 epochs",
            batch_size=128,
            learning_rate=3e-3,
            augment="shift",
        ),
        model="ViT_Pico4",
        data="digits",
    ),
    # Table 4 of the paper, for data sets of the size of Pets and Flowers: 500 steps of batch 512
    # at 384 pixels, SGD without decay. Learning rates to try: .001, .003, .01, .03.
    "finetune": Preset(
        Recipe(
            image_size=384,
            duration="500 steps",
            batch_size=512,
            optimizer="sgd",
            learning_rate=0.01,
            warmup="100 steps",
            weight_decay=0.0,
        ),
        weights=True,
    ),
    # For a folder of a few thousand photographs without pretrained weights: long training with
    # strong augmentation. If there are weights, fine-tuning reaches a much higher accuracy.
    "scratch": Preset(
        Recipe(augment="crop_flip", duration="100 epochs", learning_rate=1e-3, drop_path=0.1)
    ),
}
RECIPES: dict[str, Recipe] = {name: preset.recipe for name, preset in PRESETS.items()}


def default_recipe(data: str | os.PathLike, weights: str | os.PathLike | None = None) -> str:
    """The name of the default recipe for these images and weights: the most specific that fits.

    Args:
        data: see `open_source`.
        weights: the initial weights; None for random ones.
    """
    fitting = {
        name: (preset.data is not None, preset.weights)
        for name, preset in PRESETS.items()
        if preset.data in (None, str(data)) and (weights is not None or not preset.weights)
    }
    return max(fitting, key=fitting.get)  # the first of equals
