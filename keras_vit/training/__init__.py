"""Training: recipes as data, and the loop that follows them."""

from keras_vit.training.classes import balanced_weights, imbalance_warning
from keras_vit.training.fit import check_settings, train
from keras_vit.training.recipes import RECIPES, Recipe

__all__ = [
    "RECIPES",
    "Recipe",
    "balanced_weights",
    "check_settings",
    "imbalance_warning",
    "train",
]
