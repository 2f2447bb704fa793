"""The public names of `keras_vit`, except those of keras_vit.deploy."""

from keras_vit import _keras as _keras  # first, because its error names a missing backend
from keras_vit import models
from keras_vit._errors import UsageError
from keras_vit.data.preprocessing import preprocess
from keras_vit.decoded_masks import decode_masks
from keras_vit.decoded_segments import decode_segments
from keras_vit.labels import decode_predictions
from keras_vit.models import *  # noqa: F403
from keras_vit.runs import load_run
from keras_vit.specs import Preprocessing, ResNetSpec, ResNetStem, ViTSpec
from keras_vit.weights import list_weights, load_weights, save_weights
from keras_vit.zero_shot.classifier import zero_shot_model

__all__ = [
    *models.__all__,
    "Preprocessing",
    "ResNetSpec",
    "ResNetStem",
    "UsageError",
    "ViTSpec",
    "decode_masks",
    "decode_predictions",
    "decode_segments",
    "list_weights",
    "load_run",
    "load_weights",
    "preprocess",
    "save_weights",
    "zero_shot_model",
]
