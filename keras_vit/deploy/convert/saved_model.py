"""Writes a Keras model as a SavedModel, for TF Serving, TensorFlow.js and converters."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from keras_vit import _files
from keras_vit._checks import classifies
from keras_vit._errors import RefusedError, UsageError
from keras_vit._keras import backend
from keras_vit.deploy.graph.graph_options import GraphOptions
from keras_vit.deploy.resolve import input_shape
from keras_vit.specs import Preprocessing

# Float32 on both sides: only the order of summation differs.
_TOLERANCE = 1e-4


def export_saved_model(model: Any, folder: str | os.PathLike) -> float:
    """Writes a SavedModel with a dynamic batch size, after it was loaded and compared with Keras.

    Its only signature, "serving_default", maps "images", preprocessed (batch, height, width, 3), to
    "logits".

    Args:
        model: a `keras.Model` with one float32 image input, on the TensorFlow backend.
        folder: replaced as a whole.

    Returns:
        The largest difference from Keras on random images, as a fraction of the largest score.

    Raises:
        RefusedError: the difference is more than 1e-4; nothing is written.
        UsageError: the backend is not TensorFlow, or the input size is unknown.
    """
    classifies(model, getattr(model, "name", "the model"))
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
        actual = served(images=tf.constant(images))["logits"].numpy()
        difference = float(np.abs(actual - expected).max() / max(np.abs(expected).max(), 1e-6))
        if not difference <= _TOLERANCE:
            raise RefusedError(
                f"the SavedModel differs from Keras by {difference:.1e} of the largest score, more "
                f"than {_TOLERANCE:.0e}; {folder} is not written."
            )
    return difference


def write_saved_model(model: Any, folder: str | os.PathLike, batch: int | None) -> None:
    """Writes a SavedModel without comparing it, unlike `export_saved_model`.

    Raises:
        OSError: the disk is full or the folder cannot be written.
    """
    module = keras_module(model, GraphOptions(batch=batch))
    save_module(module, folder, module.serve.get_concrete_function())


def keras_module(
    model: Any,
    options: GraphOptions,
    preprocessing: Preprocessing | None = None,
    finish: Callable[[Any], Any] = lambda output: output,
) -> Any:
    """A `tf.Module` whose `serve(images)` runs a Keras model as it is, with this input and output.

    Args:
        model: the Keras model.
        options: the input, the name of the output, and the number of images.
        preprocessing: how uint8 images become the model's input.
        finish: makes the output of the file from that of the model, float32.
    """
    import tensorflow as tf

    from keras_vit.deploy.graph.inference import module_of, variables_of

    def scores(images):
        if options.input == "uint8":
            images = (tf.cast(images, tf.float32) - preprocessing.mean) / preprocessing.scale
        return finish(tf.cast(model(images, training=False), tf.float32))

    shape = input_shape(model)[1:]
    return module_of(scores, shape, options, variables_of(model), autograph=True)


def save_module(module: Any, folder: str | os.PathLike, signatures: Any) -> None:
    """`tf.saved_model.save` of a tf.Module.

    Raises:
        OSError: the disk is full or the folder cannot be written.
    """
    import tensorflow as tf

    try:
        tf.saved_model.save(module, str(folder), signatures)
    except tf.errors.OpError as error:  # for example if the disk is full
        # The message has graph nodes and temporary files, the system's reason, and the operator.
        reason = re.sub(r"\[Op:\w+\]", "", error.message.strip().splitlines()[0]).split(";")[-1]
        raise OSError(f"no SavedModel could be written: {reason.strip()}") from error
