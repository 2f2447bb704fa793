"""A live model to one `.tflite` file that has been run and compared before it gets its name."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from keras_vit import _files
from keras_vit._errors import UsageError
from keras_vit.deploy.convert import precision_of, to_tflite
from keras_vit.deploy.parity import Verdict, compare
from keras_vit.deploy.runner import Runner
from keras_vit.deploy.saved_model import input_shape


def export_tflite(
    model: Any,
    path: str | os.PathLike,
    quantize: str | None = None,
    representative_data: Any = None,
    max_images: int = 100,
) -> Verdict:
    """Converts a model, runs the result with LiteRT against Keras, and only then names it `path`.

    Args:
        model: a `keras_vit` model, or any Keras model of one float32 image input.
        path: the `.tflite` file, replaced whole.
        quantize: None or "none", "float16", or "int8" (dynamic range).
        representative_data: inputs as the model takes them, preprocessed: an array
            (n, height, width, 3), or an iterable or tf.data.Dataset of such batches, with or
            without labels. Default: seeded noise, a weaker check than real images.
        max_images: how many of them are compared.

    Returns:
        The comparison: agreement, largest difference and so on.

    Raises:
        ParityError: the file differs by more than its precision explains; none is written.
        UsageError: an unknown `quantize`, a backend other than TensorFlow.
    """
    precision = precision_of(quantize)
    inputs = _inputs(model, representative_data, max_images)
    content = to_tflite(model, quantize)
    verdict = compare(precision, predict(model, inputs), Runner(content).predict(inputs))
    verdict.check()
    with _files.replacing(path) as temporary:
        temporary.write_bytes(content)
    return verdict


def predict(model: Any, inputs: np.ndarray, batch_size: int = 32) -> np.ndarray:
    """The Keras model's scores for preprocessed inputs, in batches."""
    batches = [inputs[i : i + batch_size] for i in range(0, len(inputs), batch_size)]
    return np.concatenate([np.asarray(model(batch, training=False)) for batch in batches])


def _inputs(model: Any, data: Any, max_images: int) -> np.ndarray:
    shape = input_shape(model)[1:]
    if data is None:
        noise = np.random.default_rng(0).uniform(-1, 1, (min(max_images, 16), *shape))
        return noise.astype(np.float32)
    batches, count = [], 0
    for item in [data] if isinstance(data, np.ndarray) else data:
        batch = np.asarray(item[0] if isinstance(item, (tuple, list)) else item)
        batch = batch[None] if batch.shape == shape else batch
        if batch.dtype.kind != "f" or batch.shape[1:] != shape:
            raise UsageError(
                f"representative_data must be preprocessed floats (n, *{shape}). "
                f"Received: {batch.dtype} {batch.shape}; keras_vit.preprocess makes them."
            )
        batches.append(batch.astype(np.float32))
        count += len(batch)
        if count >= max_images:
            break
    if not count:
        raise UsageError("representative_data holds no image.")
    return np.concatenate(batches)[:max_images]
