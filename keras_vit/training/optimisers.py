"""The optimiser and the learning rate schedule of a recipe."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

from keras_vit._errors import UsageError
from keras_vit._keras import LEGACY, keras, ops
from keras_vit.models.image_model import ImageModel
from keras_vit.recipe import Recipe

# name: Keras' class, and the fields of a recipe that only some optimisers have, as its arguments.
# Muon is for matrices between hidden layers; Keras' class updates everything else with Adam.
_CLASSES: dict[str, tuple[str, dict[str, str]]] = {
    "adamw": ("AdamW", {"weight_decay": "weight_decay", "beta_2": "beta_2"}),
    "sgd": ("SGD", {"momentum": "momentum"}),
    "lion": ("Lion", {"weight_decay": "weight_decay"}),
    "lamb": ("Lamb", {"weight_decay": "weight_decay"}),
    "muon": ("Muon", {"weight_decay": "weight_decay", "adam_weight_decay": "weight_decay"}),
}
# Layers at the input and the output, which Adam updates (Jordan et al. 2024, Muon).
_NOT_HIDDEN = [r"(^|/)patch_encoder/", r"(^|/)head/"]
_WEIGHT_DECAY = 0.05


def optimizer(
    recipe: Recipe,
    model: ImageModel,
    total_steps: int,
    warmup_steps: int,
    trained: Iterable[Any] | None = None,
) -> Any:
    """The optimiser of a recipe, with its clipping, its schedule and the average of the weights.

    Weight decay is for kernels only and is multiplied by the learning rate (paper, appendix B.1).

    Args:
        recipe: the settings.
        model: the model.
        total_steps, warmup_steps: the lengths of the schedule.
        trained: the variables that are trained; default: the model's.

    Raises:
        UsageError: see `check_optimizer`.
    """
    check_optimizer(recipe)
    name, fields = _CLASSES[recipe.optimizer]
    kind = getattr(keras.optimizers, name)
    arguments = {argument: getattr(recipe, field) for argument, field in fields.items()}
    if recipe.weight_decay is None:
        arguments |= {name: _WEIGHT_DECAY for name in arguments if "weight_decay" in name}
    if recipe.optimizer == "muon":
        arguments["exclude_layers"] = _NOT_HIDDEN
    arguments["learning_rate"] = Schedule(
        recipe.schedule, recipe.learning_rate, recipe.end_learning_rate, warmup_steps, total_steps
    )
    arguments["global_clipnorm"] = recipe.clip_norm or None
    if recipe.ema:
        arguments |= {"use_ema": True, "ema_momentum": recipe.ema}
    if recipe.layer_decay < 1:
        kind, arguments = _layerwise(kind, arguments, _rates(model, recipe.layer_decay))
    built = kind(**arguments)
    if getattr(built, "weight_decay", None):
        trained = model.trainable_variables if trained is None else trained
        others = [v for v in trained if "kernel" not in v.name]
        built.exclude_from_weight_decay(var_list=others)
    if recipe.precision == "mixed_float16":
        built = keras.mixed_precision.LossScaleOptimizer(built)
    # Keras calls this at the end of each fit, and would replace the weights by their average.
    built.finalize_variable_values = lambda variables: None
    return built


def check_optimizer(recipe: Recipe) -> None:
    """Raises a `UsageError` if this flavour of Keras does not have the optimiser."""
    name, _ = _CLASSES[recipe.optimizer]
    if not hasattr(keras.optimizers, name):
        raise UsageError(
            f"{'tf_keras' if LEGACY else 'keras'} {keras.__version__} has no {name}. "
            f"Received: optimizer={recipe.optimizer!r}; choose adamw, sgd or lion."
        )


class Schedule(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warmup from 0 to `peak`, then "cosine" or "linear" to `end`, or "constant".

    Args:
        kind: "cosine", "linear" or "constant".
        peak: the learning rate after the warmup.
        end: the learning rate at the last step; unused if constant.
        warmup_steps: number of steps of the warmup, less than `total_steps`.
        total_steps: number of steps of the run.
    """

    def __init__(self, kind: str, peak: float, end: float, warmup_steps: int, total_steps: int):
        self.kind, self.peak, self.end = kind, peak, end
        self.warmup_steps, self.total_steps = warmup_steps, total_steps

    def __call__(self, step):
        """The learning rate, float32, of a step that counts from 0."""
        step = ops.cast(step, "float32")
        done = (step - self.warmup_steps) / (self.total_steps - self.warmup_steps)
        done = ops.maximum(0.0, ops.minimum(1.0, done))
        left = {
            "cosine": lambda: (1.0 + ops.cos(math.pi * done)) / 2.0,
            "linear": lambda: 1.0 - done,
            "constant": lambda: 1.0 + 0.0 * done,
        }[self.kind]()
        end = self.peak if self.kind == "constant" else self.end
        rate = end + (self.peak - end) * left
        if not self.warmup_steps:
            return rate
        return ops.minimum(1.0, step / self.warmup_steps) * rate

    def get_config(self):
        """The constructor's arguments, with which Keras makes the same schedule again."""
        names = ("kind", "peak", "end", "warmup_steps", "total_steps")
        return {name: getattr(self, name) for name in names}


def _rates(model: ImageModel, decay: float) -> dict[int, float]:
    """The factor of the learning rate of each variable, by its id: 1 for the head.

    Each block learns `decay` times as fast as the next one, the embedding as the block before the
    first (Bao et al. 2021, BEiT, appendix G).
    """
    rates, place, last = {}, 0, model.spec.depth + 1
    for layer in model.layers:
        if block := re.fullmatch(r"encoderblock_(\d+)", layer.name):
            place = int(block[1]) + 1
        elif place:  # after the blocks
            place = last
        rates |= {id(variable): decay ** (last - place) for variable in layer.trainable_variables}
    return rates


def _layerwise(kind: type, arguments: dict, rates: dict[int, float]) -> tuple[type, dict]:
    """A subclass of an optimiser that multiplies the learning rate, and with it the decay."""
    base = keras.optimizers.Adam if kind is keras.optimizers.AdamW else kind
    weight_decay = arguments.pop("weight_decay", 0.0)
    if "adam_weight_decay" in arguments:  # Muon's defaults are not zero
        arguments |= {"weight_decay": 0.0, "adam_weight_decay": 0.0}

    class Layerwise(base):
        def update_step(self, gradient, variable, learning_rate):
            # On TensorFlow, `variable` is the tensor inside Keras' variable.
            known = self._trainable_variables[self._get_variable_index(variable)]
            rate = learning_rate * rates[id(known)]
            if weight_decay and "kernel" in known.name:
                variable.assign_sub(variable * (weight_decay * rate))
            super().update_step(gradient, variable, rate)

    return Layerwise, arguments
