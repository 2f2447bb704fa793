"""Models: classes and functions that build a `keras.Model` from a spec."""

from keras_vit.models import variants
from keras_vit.models.bit import BiT
from keras_vit.models.masked_models import MaskedAutoencoder, MaskedPatchPredictor
from keras_vit.models.pretrained import create_model, model_from_weights
from keras_vit.models.variants import *  # noqa: F403
from keras_vit.models.vit import ViT

__all__ = [
    *variants.__all__,
    "BiT",
    "MaskedAutoencoder",
    "MaskedPatchPredictor",
    "ViT",
    "create_model",
    "model_from_weights",
]
