"""Vision Transformers for Keras, from pre-training to the phone."""

from keras_vit import models
from keras_vit.models import *  # noqa: F403
from keras_vit.specs import Preprocessing, ViTSpec
from keras_vit.weights import load_weights, save_weights

__version__ = "0.1.0"
