"""The optimiser and the learning rate schedule of a recipe."""

from __future__ import annotations

from typing import Any

from keras_vit._errors import UsageError
from keras_vit._keras import keras
from keras_vit.training.recipes import Recipe


def optimizer(recipe: Recipe, model: Any, total_steps: int, warmup_steps: int) -> Any:
    """AdamW or SGD with momentum, with gradient clipping and the recipe's schedule.

    AdamW decays only kernels; the decay is multiplied by the learning rate (paper, appendix B.1).
    """
    common = {
        "learning_rate": schedule(recipe.learning_rate, total_steps, warmup_steps),
        "global_clipnorm": recipe.clip_norm or None,
    }
    if recipe.optimizer == "sgd":
        if recipe.weight_decay:
            raise UsageError(
                "weight_decay is for adamw; with optimizer='sgd' set it to 0. "
                f"Received: weight_decay={recipe.weight_decay}."
            )
        return keras.optimizers.SGD(momentum=recipe.momentum, **common)
    adamw = keras.optimizers.AdamW(weight_decay=recipe.weight_decay, **common)
    adamw.exclude_from_weight_decay(
        var_list=[v for v in model.trainable_variables if "kernel" not in v.name]
    )
    return adamw


def schedule(peak: float, total_steps: int, warmup_steps: int) -> Any:
    """Linear warmup from 0 to `peak` in `warmup_steps`, then cosine decay to 0 at `total_steps`."""
    if not 0 <= warmup_steps < total_steps:
        raise UsageError(
            f"warmup must be shorter than training, {total_steps} steps. "
            f"Received: {warmup_steps} steps."
        )
    decay_steps = total_steps - warmup_steps
    if not warmup_steps:
        return keras.optimizers.schedules.CosineDecay(peak, decay_steps)
    return keras.optimizers.schedules.CosineDecay(
        0.0, decay_steps, warmup_target=peak, warmup_steps=warmup_steps
    )
