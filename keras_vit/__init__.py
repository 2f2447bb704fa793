"""Vision Transformers for Keras, from pre-training to the phone.

>>> import keras_vit
>>> model = keras_vit.ViT_B16(num_classes=5)
"""

from typing import Any as _Any

from keras_vit._command import importing as _importing

with _importing():
    from keras_vit import _keras as _keras  # first: it says in one line which backend is missing
    from keras_vit import models
    from keras_vit._errors import UsageError
    from keras_vit.data.preprocessing import preprocess
    from keras_vit.labels import decode_predictions
    from keras_vit.models import *  # noqa: F403
    from keras_vit.runs import load_run
    from keras_vit.specs import Preprocessing, ResNetSpec, ResNetStem, ViTSpec
    from keras_vit.weights import list_weights, load_weights, save_weights

__version__ = "0.1.0"

__all__ = [
    *models.__all__,
    "Preprocessing",
    "ResNetSpec",
    "ResNetStem",
    "UsageError",
    "ViTSpec",
    "decode_predictions",
    "export_tflite",  # noqa: F405 (see __getattr__)
    "list_weights",
    "load_run",
    "load_weights",
    "preprocess",
    "save_weights",
]


def __getattr__(name: str) -> _Any:
    # Export needs TensorFlow and LiteRT, which a model on another backend does not.
    if name in ("deploy", "export_tflite"):
        from importlib import import_module

        deploy = import_module("keras_vit.deploy")
        return deploy if name == "deploy" else deploy.export_tflite
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
