"""Training: recipes as data, and the loop that follows them."""

from keras_vit.training.fit import train
from keras_vit.training.recipes import RECIPES, Recipe

__all__ = ["RECIPES", "Recipe", "train"]
