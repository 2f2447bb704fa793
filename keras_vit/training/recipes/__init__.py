"""Recipes: settings of training runs with names. Nothing here imports Keras or NumPy."""

from __future__ import annotations

import os

from keras_vit._checks import choice
from keras_vit.recipe import TASKS, Preset, Recipe
from keras_vit.training.recipes.finetuning import FINETUNING
from keras_vit.training.recipes.from_scratch import AUGREG, EVERYDAY, PRETRAINING

__all__ = ["PRESETS", "RECIPES", "Preset", "Recipe", "default_recipe"]

# To add a recipe, add a row to one of these. `default_recipe` returns the first row that fits.
PRESETS: dict[str, Preset] = {**EVERYDAY, **FINETUNING, **PRETRAINING, **AUGREG}
RECIPES: dict[str, Recipe] = {name: preset.recipe for name, preset in PRESETS.items()}


def default_recipe(
    data: str | os.PathLike,
    weights: str | os.PathLike | None = None,
    task: str | None = None,
) -> str:
    """The name of the default recipe for these images and weights: the most specific that fits.

    Args:
        data: see `open_source`.
        weights: the initial weights; None for random ones.
        task: what is learned; None for that of a recipe for these images, or classification.

    Raises:
        UsageError: there is no such task.
    """
    if task is not None:
        choice("task", task, TASKS)
    fitting = {
        name: (preset.data is not None, bool(preset.weights))
        for name, preset in PRESETS.items()
        if preset.data in (None, str(data), str(data).partition(":")[0])
        and (weights is not None or not preset.weights)
        and (preset.recipe.task == (task or "classification") or (preset.data and task is None))
    }
    return max(fitting, key=fitting.get)  # the first of equals
