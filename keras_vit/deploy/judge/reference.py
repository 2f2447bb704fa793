"""The scores of the Keras model itself, which files are compared with."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_vit._keras import backend
from keras_vit.data.preprocessing import normalise
from keras_vit.deploy.judge.parity import check_reference
from keras_vit.deploy.resolve import Resolved, resolve


@dataclasses.dataclass(frozen=True)
class Reference:
    """Images and Keras' scores of them.

    Attributes:
        inputs: images as a file takes them (n, height, width, 3).
        expected: Keras' scores (n, ..., classes).
        targets: the true classes (n,), where they are known.
        images_from: where the images come from, in words.
    """

    inputs: np.ndarray
    expected: np.ndarray
    targets: np.ndarray | None = None
    images_from: str = "images"


def reference_of(
    resolved: Resolved,
    options: Any,
    inputs: np.ndarray,
    targets: np.ndarray | None,
    images_from: str,
) -> Reference:
    """Asks a Keras model for its scores.

    Args:
        resolved: the model.
        options: a `GraphOptions`: what the files take and give.
        inputs, targets, images_from: see `Reference`.

    Raises:
        ParityError: the scores prove nothing.
    """
    expected = expected_scores(resolved, inputs, options.output)
    check_reference(expected)
    return Reference(inputs, expected, targets, images_from)


def expected_scores(model: Any, inputs: np.ndarray, output: str = "logits") -> np.ndarray:
    """The Keras model's scores for the inputs of a file (n, height, width, 3).

    Args:
        model: a Keras model, or what `resolve` says of it.
        inputs: preprocessed float32 images, or uint8 pixels.
        output: what the file gives; see `GraphOptions`.
    """
    from keras_vit.deploy.graph.inference import GraphOptions

    if not isinstance(model, Resolved):
        model = resolve(model, GraphOptions(str(inputs.dtype), output))
    if inputs.dtype == np.uint8:
        inputs = normalise(inputs, model.preprocessing)
    scores = predict(model.keras, inputs)
    if output == "probabilities":
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
    return scores


def predict(model: Any, inputs: np.ndarray, batch_size: int = 32) -> np.ndarray:
    """The Keras model's scores for preprocessed inputs, in batches.

    They are computed on the CPU in float32, also where there is a GPU: see `full_precision`.
    """
    batches = [inputs[i : i + batch_size] for i in range(0, len(inputs), batch_size)]
    with full_precision():
        return np.concatenate([np.asarray(model(batch, training=False)) for batch in batches])


@contextlib.contextmanager
def full_precision() -> Iterator[None]:
    """Within it Keras computes on the CPU, in whole float32.

    By default GPUs multiply float32 matrices in TF32, with 10 bits of mantissa. Such errors of 1e-3
    would be blamed on the file.
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
