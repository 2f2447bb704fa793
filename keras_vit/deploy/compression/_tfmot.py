"""The one door to tensorflow-model-optimization, which knows tf_keras alone."""

from __future__ import annotations

from keras_vit._errors import UsageError
from keras_vit._keras import LEGACY
from keras_vit._quiet import quiet

if not LEGACY:
    raise UsageError(
        "compression works on tf_keras models: set TF_USE_LEGACY_KERAS=1 before Python starts; "
        "the command does so itself."
    )
try:
    with quiet():
        import tensorflow_model_optimization as tfmot
except ImportError as error:
    raise ImportError(
        "compression needs tensorflow-model-optimization: pip install 'keras_vit[compress]' "
        f"({error})"
    ) from None

__all__ = ["tfmot"]
