"""The one door to Keras.

`keras` and `ops` are Keras 3 on whatever backend KERAS_BACKEND says; or, where
TF_USE_LEGACY_KERAS=1 (TensorFlow's own switch), tf_keras with the few `ops` this library uses.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import tempfile
from collections.abc import Iterator

LEGACY: bool = os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keeps TensorFlow's greetings off standard error, unless the user set its log level.

    While it is being imported, TensorFlow ignores TF_CPP_MIN_LOG_LEVEL (its issue 100442) and
    writes to the descriptor itself. Should the import fail, what it wrote is shown.
    """
    if "TF_CPP_MIN_LOG_LEVEL" in os.environ:
        yield
        return
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    standard_error = os.dup(2)
    with tempfile.TemporaryFile() as held_back:
        os.dup2(held_back.fileno(), 2)
        try:
            yield
        except BaseException:
            held_back.seek(0)
            os.write(standard_error, held_back.read())
            raise
        finally:
            os.dup2(standard_error, 2)
            os.close(standard_error)


if LEGACY:
    if importlib.util.find_spec("tf_keras") is None:
        raise ImportError("TF_USE_LEGACY_KERAS=1 needs tf_keras: pip install 'keras_vit[tensorflow]'")
    with _quiet():
        import tf_keras as keras

        from keras_vit import _legacy_ops as ops
else:
    with _quiet():
        import keras
        from keras import ops

__all__ = ["LEGACY", "backend", "keras", "ops", "register"]

register = keras.saving.register_keras_serializable(package="keras_vit")


def backend() -> str:
    """The backend in use: "tensorflow" (always, under tf_keras), "jax" or "torch"."""
    return "tensorflow" if LEGACY else keras.backend.backend()
