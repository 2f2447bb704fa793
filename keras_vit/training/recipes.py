"""Recipes: every setting of a training run, as data with types, defaults and meanings."""

from __future__ import annotations

import dataclasses
from typing import Literal

from keras_vit._checks import not_negative, positive_integer, share
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
    """Share of each target spread over all classes."""
    class_weights: Literal["none", "balanced"] = "none"
    """balanced: errors on rare classes count for more, so that all classes count alike."""
    augment: Literal["none", "shift", "mild_crop_flip", "crop_flip"] = "crop_flip"
    """Random distortions: keras_vit/data/augmentation.py says what each does."""
    dropout: float | None = None
    """Rate after the positions, the attention and both MLP layers; None: the model's own."""
    drop_path: float = 0.0
    """Stochastic depth: the last block's rate, rising linearly from the first."""
    held_out: float = 0.2
    """Share of each class that is held out for evaluation."""
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    """Keras' dtype policy."""
    jit: bool = True
    """XLA compiles the training step; --no-jit turns that off."""
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
            share(field, getattr(self, field))
        if self.dropout is not None:
            share("dropout", self.dropout)
        if self.seed >= 2**32:
            raise UsageError(f"seed must be below 2**32. Received: seed={self.seed}.")


# Found by measuring: `make demo` prints what it reaches.
DIGITS = Recipe(
    image_size=32,
    duration="40 epochs",
    batch_size=128,
    learning_rate=3e-3,
    augment="shift",
)

# For a folder of a few thousand photographs and no pretrained weights: long, with much
# distortion. Fine-tuning reaches far more wherever there are weights.
SCRATCH = Recipe(augment="crop_flip", duration="100 epochs", learning_rate=1e-3, drop_path=0.1)

# Table 4 of the paper, for data sets of the size of Pets and Flowers: 500 steps of batch 512 at
# 384 pixels, SGD without decay. Learning rates to try: .001, .003, .01, .03.
FINETUNE = Recipe(
    image_size=384,
    duration="500 steps",
    batch_size=512,
    optimizer="sgd",
    learning_rate=0.01,
    warmup="100 steps",
    weight_decay=0.0,
)

RECIPES: dict[str, Recipe] = {"digits": DIGITS, "scratch": SCRATCH, "finetune": FINETUNE}
# The model that a command trains where none is given.
MODELS: dict[str, str] = dict.fromkeys(RECIPES, "ViT_Ti16") | {"digits": "ViT_Pico4"}
