"""The scores of the Keras model, which exported files are compared with."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_vit._keras import backend
from keras_vit.data.preprocessing import normalise
from keras_vit.deploy.judge.parity import check_reference
from keras_vit.deploy.resolve import Resolved


@dataclasses.dataclass(frozen=True)
class Reference:
    """Images and the scores that Keras gives them.

    Attributes:
        inputs: inputs of a file (n, height, width, 3).
        expected: Keras' scores (n, ..., classes).
        targets: the true classes (n,); None if unknown.
        images_from: a description of the images.
    """

    inputs: np.ndarray
    expected: np.ndarray
    targets: np.ndarray | None = None
    images_from: str = "images"


def reference_of(
    resolved: Resolved, inputs: np.ndarray, targets: np.ndarray | None, images_from: str
) -> Reference:
    """Computes the reference scores of a Keras model.

    Args:
        resolved: the model.
        inputs, targets, images_from: see `Reference`.

    Raises:
        ParityError: a comparison with these scores would prove nothing.
    """
    expected = expected_scores(resolved, inputs)
    check_reference(expected)
    return Reference(inputs, expected, targets, images_from)


def expected_scores(resolved: Resolved, inputs: np.ndarray) -> np.ndarray:
    """The Keras model's scores for the inputs of a file (n, height, width, 3).

    Args:
        resolved: the model, with the output of the file.
        inputs: preprocessed float32 images, or uint8 pixels.

    Raises:
        UsageError: float images were not preprocessed as the model needs.
    """
    resolved.check_images(inputs, "inputs")
    if inputs.dtype == np.uint8:
        inputs = normalise(inputs, resolved.preprocessing)
    return predict(resolved.keras, inputs)


def predict(model: Any, inputs: np.ndarray, batch_size: int = 32) -> np.ndarray:
    """The Keras model's scores for preprocessed inputs, in batches.

    They are computed on the CPU in float32, even if there is a GPU: see `full_precision`.
    """
    batches = [inputs[i : i + batch_size] for i in range(0, len(inputs), batch_size)]
    with full_precision():
        return np.concatenate([np.asarray(model(batch, training=False)) for batch in batches])


@contextlib.contextmanager
def full_precision() -> Iterator[None]:
    """A context in which Keras computes on the CPU, in full float32.

    By default GPUs multiply float32 matrices in TF32, with a mantissa of 10 bits. Its errors, about
    1e-3, would be attributed to the file.
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
