"""The one door to Keras.

`keras` and `ops` are Keras 3 on whatever backend KERAS_BACKEND says; or, where
TF_USE_LEGACY_KERAS=1 (TensorFlow's own switch), tf_keras with the few `ops` this library uses.
"""

from __future__ import annotations

import importlib.util
import os

from keras_vit._quiet import quiet

LEGACY: bool = os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true")

if LEGACY:
    if importlib.util.find_spec("tf_keras") is None:
        raise ImportError(
            "TF_USE_LEGACY_KERAS=1 needs tf_keras: pip install 'keras_vit[tensorflow]'"
        )
    with quiet():
        import tf_keras as keras

        from keras_vit import _legacy_ops as ops
else:
    with quiet():
        import keras
        from keras import ops

__all__ = ["LEGACY", "backend", "keras", "ops", "register"]

register = keras.saving.register_keras_serializable(package="keras_vit")


def backend() -> str:
    """The backend in use: "tensorflow" (always, under tf_keras), "jax" or "torch"."""
    return "tensorflow" if LEGACY else keras.backend.backend()
