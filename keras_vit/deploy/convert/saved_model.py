"""A Keras model to a SavedModel, which TF Serving and TensorFlow.js run, and converters read."""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np

from keras_vit import _files
from keras_vit._errors import RefusedError, UsageError
from keras_vit._keras import LEGACY, backend

# Float32 on both sides: only the order of summation differs.
_TOLERANCE = 1e-4


def export_saved_model(model: Any, folder: str | os.PathLike) -> float:
    """Writes a SavedModel of any batch size, reads it again and compares it before it has a name.

    Its one signature, "serving_default", takes "images" (batch, height, width, 3), preprocessed,
    and gives "logits".

    Args:
        model: a `keras.Model` of one float32 image input, on the TensorFlow backend.
        folder: replaced whole.

    Returns:
        The largest difference from Keras on random images, as a share of the largest score.

    Raises:
        RefusedError: that is more than 1e-4; nothing is written.
        UsageError: the backend is not TensorFlow, or the input's size is unknown.
    """
    shape = input_shape(model)
    if backend() != "tensorflow":
        raise UsageError(
            "a SavedModel needs Keras on TensorFlow. "
            f"Received: KERAS_BACKEND={backend()}; save the weights, then export with "
            "KERAS_BACKEND=tensorflow."
        )
    import tensorflow as tf

    images = np.random.default_rng(0).uniform(-1, 1, (2, *shape[1:])).astype(np.float32)
    expected = np.asarray(model(images, training=False))
    with _files.replacing_folder(folder) as temporary:
        write_saved_model(model, temporary, batch=None)
        served = tf.saved_model.load(str(temporary)).signatures["serving_default"]
        found = served(images=tf.constant(images))["logits"].numpy()
        difference = float(np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-6))
        if not difference <= _TOLERANCE:
            raise RefusedError(
                f"the SavedModel differs from Keras by {difference:.1e} of the largest score, more "
                f"than {_TOLERANCE:.0e}; {folder} is not written."
            )
    return difference


def write_saved_model(model: Any, folder: str | os.PathLike, batch: int | None) -> None:
    """Writes a SavedModel without looking at it again: `export_saved_model` does.

    Raises:
        OSError: the disk is full or the folder cannot be written.
    """
    import tensorflow as tf

    shape = (batch, *input_shape(model)[1:])

    @tf.function(input_signature=[tf.TensorSpec(shape, tf.float32, name="images")])
    def serve(images):
        return {"logits": tf.cast(model(images, training=False), tf.float32)}

    module = tf.Module()
    module.serve = serve
    # Listed one by one: a Keras 3 model alone is saved without its variables, and so is a
    # concrete function; either converts, silently, to a file without weights.
    module.weights = [v if LEGACY else v.value for v in model.variables]
    save_module(module, folder, serve.get_concrete_function())


def save_module(module: Any, folder: str | os.PathLike, signatures: Any) -> None:
    """`tf.saved_model.save` of a tf.Module.

    Raises:
        OSError: the disk is full or the folder cannot be written.
    """
    import tensorflow as tf

    try:
        tf.saved_model.save(module, str(folder), signatures)
    except tf.errors.OpError as error:  # TensorFlow's word for a full disk
        # Names of graph nodes and temporary files, then the system's reason, then the operator.
        reason = re.sub(r"\[Op:\w+\]", "", error.message.strip().splitlines()[0]).split(";")[-1]
        raise OSError(f"no SavedModel could be written: {reason.strip()}") from error


def input_shape(model: Any) -> tuple[int, int, int, int]:
    """(1, height, width, channels) of the model's one input."""
    # A subclass of keras.Model with a `call` of its own has neither list.
    inputs, outputs = (getattr(model, side, None) or [] for side in ("inputs", "outputs"))
    shape = tuple(inputs[0].shape)[1:] if len(inputs) == 1 else ()
    if len(shape) != 3 or None in shape or len(outputs) != 1:
        given = " and ".join(str([tuple(x.shape) for x in side]) for side in (inputs, outputs))
        raise UsageError(
            "expected a model of one image input (height, width, channels) of known size and one "
            f"output, Sequential or functional. Received: {given}."
        )
    return (1, *shape)
