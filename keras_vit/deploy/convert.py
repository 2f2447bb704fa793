"""A Keras model to the bytes of a `.tflite` file."""

from __future__ import annotations

import tempfile
from typing import Any

from keras_vit._errors import UsageError
from keras_vit._keras import backend
from keras_vit.deploy.saved_model import input_shape, write_saved_model

# What `quantize` may be, and the precision that the file then has.
PRECISIONS = {"none": "float32", "float16": "float16", "int8": "int8"}


def precision_of(quantize: str | None) -> str:
    """The precision that `quantize` gives: "float32", "float16" or "int8".

    Raises:
        UsageError: an unknown `quantize`.
    """
    found = PRECISIONS.get(quantize or "none")
    if found is None:
        raise UsageError(
            f"quantize must be one of {', '.join(PRECISIONS)}. Received: {quantize!r}."
        )
    return found


def to_tflite(model: Any, quantize: str | None = None) -> bytes:
    """Converts a model of one image input to a flatbuffer of static batch 1.

    Only TFLite's own operators are allowed, so that a model that would need TensorFlow's (Flex)
    fails here and not on the phone.

    Args:
        model: a `keras.Model` on the TensorFlow backend; its input's size must be known.
        quantize: None or "none": float32. "float16": weights in half precision. "int8": dynamic
            range, weights in int8 per channel, activations quantised on the fly.

    Raises:
        UsageError: the backend is not TensorFlow, the model computes in mixed precision, or the
            input's size is unknown.
    """
    precision = precision_of(quantize)
    input_shape(model)
    if backend() != "tensorflow":
        raise UsageError(
            "TFLite export needs Keras on TensorFlow. "
            f"Received: KERAS_BACKEND={backend()}; save the weights, then export with "
            "KERAS_BACKEND=tensorflow."
        )
    mixed = {layer.compute_dtype for layer in model.layers if layer.weights} - {"float32"}
    if mixed:
        raise UsageError(
            f"export needs a float32 model. Received: layers that compute in {', '.join(mixed)}; "
            "build it again without the mixed precision policy and load its weights."
        )
    import tensorflow as tf

    with tempfile.TemporaryDirectory() as folder:
        write_saved_model(model, folder, batch=1)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
        if precision != "float32":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if precision == "float16":
            converter.target_spec.supported_types = [tf.float16]
        return converter.convert()
