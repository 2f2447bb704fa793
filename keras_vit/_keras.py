"""The only module that imports Keras.

`keras` and `ops` are those of Keras 3, on the backend that KERAS_BACKEND names. With
TF_USE_LEGACY_KERAS=1, TensorFlow's own switch, they are tf_keras and the few `ops` in use here.
"""

from __future__ import annotations

import functools
import os
import threading
from types import SimpleNamespace

from keras_vit._errors import MissingPackageError, UsageError, is_installed

LEGACY: bool = os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true")

_EXTRAS = {"tensorflow": "'keras_vit[tensorflow]'", "jax": "'keras_vit[jax]'"}


def _no_backend(name: str) -> str:
    """One line that says what to do if Keras' backend is not installed."""
    others = [other for other in _EXTRAS if other != name]
    ready = [other for other in others if is_installed(other)]
    if ready:
        other = f"set KERAS_BACKEND={ready[0]}, which is installed"
    else:
        other = f"pip install {_EXTRAS[others[-1]]} and set KERAS_BACKEND={others[-1]}"
    install = f"pip install {_EXTRAS.get(name, name)}"
    return f"Keras is set to the backend {name}, which is not installed: {install}; or {other}."


def _tensorflow_ops() -> SimpleNamespace:
    """The functions of `keras.ops` that this library uses, for tf_keras."""
    import tensorflow as tf

    same = (
        "abs argsort broadcast_to cast convert_to_tensor cos einsum equal exp floor matmul maximum "
        "minimum pad reshape shape sqrt square stack transpose where zeros one_hot argmax"
    )

    return SimpleNamespace(
        **{name: getattr(tf, name) for name in same.split()},
        arange=tf.range,
        concatenate=tf.concat,
        log1p=tf.math.log1p,
        log_softmax=tf.nn.log_softmax,
        mean=tf.reduce_mean,
        relu=tf.nn.relu,
        rsqrt=tf.math.rsqrt,
        softmax=tf.nn.softmax,
        # Depends only on the shape, as `keras.random.normal` with a seed.
        stateless_normal=functools.partial(tf.random.stateless_normal, seed=(0, 0)),
        sum=tf.reduce_sum,
        take=lambda x, indices, axis=None: tf.gather(x, indices, axis=axis),
    )


if LEGACY and not is_installed("tf_keras"):
    raise MissingPackageError(
        "TF_USE_LEGACY_KERAS=1 needs tf_keras: pip install 'keras_vit[tensorflow]'"
    )

try:
    if LEGACY:
        import tf_keras as keras

        ops = _tensorflow_ops()
    else:
        import keras
        from keras import ops
except ModuleNotFoundError as error:
    if error.name not in ("tensorflow", "jax", "torch", "openvino"):
        raise
    raise MissingPackageError(_no_backend(error.name)) from None
except ValueError as error:
    if "Unable to import backend" not in str(error):
        raise
    raise UsageError(
        "KERAS_BACKEND (or the backend in ~/.keras/keras.json) must be tensorflow, jax or torch. "
        f"Received: {str(error).rpartition(':')[2].strip()}."
    ) from None

__all__ = ["LEGACY", "backend", "building", "keras", "keras_flavour", "ops", "register"]

# Held while a model is built. Two things belong to the whole process: the base classes, which Keras
# changes when the first model of a class is built, and the dtype policy of tf_keras.
building = threading.RLock()

register = keras.saving.register_keras_serializable(package="keras_vit")


def keras_flavour() -> str:
    """The package in use: "keras", which is Keras 3, or "tf_keras"."""
    return "tf_keras" if LEGACY else "keras"


def backend() -> str:
    """The backend in use: "tensorflow" (always with tf_keras), "jax" or "torch"."""
    return "tensorflow" if LEGACY else keras.backend.backend()
