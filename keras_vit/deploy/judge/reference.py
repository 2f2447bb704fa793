"""What the Keras model itself says, which files are compared with."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_vit._keras import backend
from keras_vit.data.preprocessing import normalise
from keras_vit.deploy.convert.converter import backbone, preprocessing_of


def expected_scores(model: Any, given: np.ndarray, output: str = "logits") -> np.ndarray:
    """What Keras says to a file's inputs (n, height, width, 3), of pixels too."""
    if given.dtype == np.uint8:
        given = normalise(given, preprocessing_of(model))
    if output == "features":
        ours, _ = backbone(model)
        return predict(ours.intermediates("pre_logits"), given, key="pre_logits")
    scores = predict(model, given)
    if output == "probabilities":
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
    return scores


def predict(
    model: Any, inputs: np.ndarray, batch_size: int = 32, key: str | None = None
) -> np.ndarray:
    """The Keras model's scores for preprocessed inputs, in batches; `key` of a dict of outputs.

    They are computed on the CPU in float32, also where there is a GPU: see `full_precision`.
    """
    batches = [inputs[i : i + batch_size] for i in range(0, len(inputs), batch_size)]
    with full_precision():
        outputs = (model(batch, training=False) for batch in batches)
        return np.concatenate([np.asarray(out if key is None else out[key]) for out in outputs])


@contextlib.contextmanager
def full_precision() -> Iterator[None]:
    """Within it Keras computes on the CPU, in whole float32.

    GPUs multiply float32 matrices in TF32 unless told otherwise, with 10 bits of mantissa: errors
    of 1e-3, which would be blamed on the file.
    """
    with contextlib.ExitStack() as entered:
        if backend() == "tensorflow":
            import tensorflow as tf

            entered.enter_context(tf.device("CPU:0"))
        elif backend() == "jax":
            import jax

            entered.enter_context(jax.default_device(jax.devices("cpu")[0]))
            entered.enter_context(jax.default_matmul_precision("highest"))
        yield
