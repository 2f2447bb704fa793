"""Training: recipes as data, and the loop that follows them."""

from keras_vit.training.classes import balanced_weights, imbalance_warning
from keras_vit.training.fit import check_settings, train
from keras_vit.training.recipes import PRESETS, RECIPES, Preset, Recipe, default_recipe

__all__ = [
    "PRESETS",
    "RECIPES",
    "Preset",
    "Recipe",
    "balanced_weights",
    "check_settings",
    "default_recipe",
    "imbalance_warning",
    "train",
]
