"""Weights in and out of built models. Nothing here builds one."""

from keras_vit.weights.names import WeightName, parameter_count, weight_names
from keras_vit.weights.npz import load_weights, save_weights

__all__ = ["WeightName", "load_weights", "parameter_count", "save_weights", "weight_names"]
