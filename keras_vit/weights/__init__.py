"""Reads weights into built models, and writes them. Nothing here builds a model."""

from keras_vit.parts.positions import resample_positions
from keras_vit.weights.catalogue import PublishedWeights, find_weights, list_weights
from keras_vit.weights.checkpoint import Checkpoint, open_checkpoint
from keras_vit.weights.download import fetch
from keras_vit.weights.loading import Loaded, load_weights
from keras_vit.weights.names import WeightName, parameter_count, weight_names
from keras_vit.weights.resampling import fold_channels, resample_patches
from keras_vit.weights.saving import save_weights

__all__ = [
    "Checkpoint",
    "Loaded",
    "PublishedWeights",
    "WeightName",
    "fetch",
    "find_weights",
    "fold_channels",
    "list_weights",
    "load_weights",
    "open_checkpoint",
    "parameter_count",
    "resample_patches",
    "resample_positions",
    "save_weights",
    "weight_names",
]
