"""Imports tensorflow-model-optimization, which only supports tf_keras."""

from __future__ import annotations

from keras_vit._errors import MissingPackageError, UsageError
from keras_vit._keras import LEGACY

if not LEGACY:
    raise UsageError(
        "compression works on tf_keras models: set TF_USE_LEGACY_KERAS=1 before Python starts, as "
        "the command compress does."
    )
try:
    import tensorflow_model_optimization as tfmot
except ImportError as error:
    raise MissingPackageError(
        "compression needs tensorflow-model-optimization: pip install 'keras_vit[compress]' "
        f"({error})"
    ) from None

__all__ = ["tfmot"]
