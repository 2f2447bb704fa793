"""Recipes: every setting of a training run, as data with types, defaults and meanings."""

from __future__ import annotations

import dataclasses
import os
from typing import Literal

from keras_vit._checks import fraction, not_negative, positive_integer
from keras_vit._errors import UsageError


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How to train."""

    image_size: int | tuple[int, int] = 224
    """Images are resized to this: one number, or height and width, in pixels."""
    duration: str = "100 epochs"
    """How long to train: '100 epochs', '500 steps' or '1e6 examples'."""
    batch_size: int = 64
    """Images a step."""
    optimizer: Literal["adamw", "sgd"] = "adamw"
    """AdamW, or SGD with momentum."""
    learning_rate: float = 1e-3
    """Peak of the schedule: linear warmup, then a cosine to zero."""
    warmup: str = "5%"
    """How long the learning rate rises: steps, epochs, or % of the training."""
    weight_decay: float = 0.05
    """AdamW's decoupled decay, times the learning rate, on kernels only."""
    momentum: float = 0.9
    """SGD's momentum; AdamW's are 0.9 and 0.999."""
    clip_norm: float = 1.0
    """Gradients are scaled to at most this global norm; 0 for no clipping."""
    label_smoothing: float = 0.0
    """Fraction of each target spread over all classes."""
    class_weights: Literal["none", "balanced"] = "none"
    """balanced: errors on rare classes count for more, so that all classes count alike."""
    augment: Literal["none", "shift", "mild_crop_flip", "crop_flip"] = "crop_flip"
    """Random distortions: keras_vit/data/augmentation.py says what each does."""
    dropout: float | None = None
    """Rate after the positions, the attention and both MLP layers; None: the model's own."""
    drop_path: float = 0.0
    """Stochastic depth: the last block's rate, rising linearly from the first."""
    held_out: float = 0.2
    """Fraction of each class that is held out for evaluation."""
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    """Keras' dtype policy."""
    jit: bool = True
    """XLA's compilation of the training step."""
    seed: int = 0
    """Of the weights, the order and the distortions."""

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
    """What to train where no model is chosen."""
    data: str | None = None
    """The source that it is meant for; None for all."""
    weights: bool = False
    """Whether it is meant for training that starts from weights."""


# A row here is all that a new recipe needs. `default_recipe` takes the first row that fits.
PRESETS: dict[str, Preset] = {
    # Found by measuring: `make demo` prints what it reaches.
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
    # For a folder of a few thousand photographs and no pretrained weights: long, with much
    # distortion. Fine-tuning reaches far more wherever there are weights.
    "scratch": Preset(
        Recipe(augment="crop_flip", duration="100 epochs", learning_rate=1e-3, drop_path=0.1)
    ),
}
RECIPES: dict[str, Recipe] = {name: preset.recipe for name, preset in PRESETS.items()}


def default_recipe(data: str | os.PathLike, weights: str | os.PathLike | None = None) -> str:
    """The name of the recipe for these images and weights where none is chosen.

    Args:
        data: what `open_source` takes.
        weights: what training starts from; None for fresh weights.
    """
    return next(
        name
        for name, preset in PRESETS.items()
        if preset.data in (None, str(data)) and (weights is not None or not preset.weights)
    )
