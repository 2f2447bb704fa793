"""Images, and the scores of the Keras model for them, which exported files are compared with."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_vit._errors import RefusedError
from keras_vit._keras import backend
from keras_vit.data.preprocessing import normalise
from keras_vit.deploy.resolve import Resolved

# Scores that vary between images by less than this fraction of their scale do not depend on the
# images: the order of summation changes them as much.
SAME = 1e-5
# The square of a larger number is infinite in float32: about 1.8e19.
_LARGEST = float(np.finfo(np.float32).max) ** 0.5


class ParityError(RefusedError):
    """An exported file that differs from its model by more than its precision explains."""


@dataclasses.dataclass(frozen=True)
class Reference:
    """Images and the scores that Keras gives them.

    Attributes:
        inputs: inputs of a file (n, height, width, 3).
        expected: Keras' scores (n, ..., classes); None before they are computed.
        targets: the true classes (n,); None if unknown.
        images_from: a description of the images.
    """

    inputs: np.ndarray
    expected: np.ndarray | None = None
    targets: np.ndarray | None = None
    images_from: str = "images"


def reference_of(resolved: Resolved, images: Reference) -> Reference:
    """The images with the scores of a Keras model.

    Raises:
        ParityError: a comparison with these scores would prove nothing.
        UsageError: the images were not preprocessed as the model needs.
    """
    expected = expected_scores(resolved, images.inputs)
    check_reference(expected)
    return dataclasses.replace(images, expected=expected)


def expected_scores(resolved: Resolved, inputs: np.ndarray) -> np.ndarray:
    """The Keras model's scores for the inputs of a file (n, height, width, 3).

    Args:
        resolved: the model, with the output of the file.
        inputs: preprocessed float32 images, or uint8 pixels.

    Raises:
        UsageError: float images were not preprocessed as the model needs.
    """
    resolved.about.check_images(inputs, "inputs")
    if inputs.dtype == np.uint8:
        inputs = normalise(inputs, resolved.about.preprocessing)
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


def check_reference(scores: np.ndarray) -> None:
    """Refuses Keras' scores (n, ..., classes) if a comparison with them would prove nothing.

    Raises:
        ParityError: they are not finite or too large, or the same for all images; or one of the
            scores varies so much that a comparison would ignore the others.
    """
    scale, rows = scale_of(scores), rows_of(scores)
    check_scale(scale, len(rows))
    largest = float(np.abs(rows).max())
    if largest > _LARGEST:
        raise ParityError(
            f"Keras' scores may be at most {_LARGEST:.1e}, because squares of larger numbers are "
            f"infinite in float32. Received: {largest:.1e}; are weights damaged, or has the "
            "training diverged?"
        )
    if variation_of(rows) <= SAME * scale:
        raise ParityError(ALL_SAME)
    # One of the scores alone may determine their scale.
    variations = rows.std(axis=0)
    *_, second, first = (0.0, 0.0, *np.sort(variations))
    if 0 < second <= SAME * first:  # scores that are constant on purpose do not vary at all
        raise ParityError(
            f"score {variations.argmax()} of Keras varies {first / second:.1e} times as much as "
            "any other, so a comparison would ignore the others; are its weights damaged?"
        )


def rows_of(scores: np.ndarray) -> np.ndarray:
    """The score vectors of all images, or of all their tokens."""
    return scores.reshape(-1, scores.shape[-1]).astype(np.float64)  # (comparisons, classes)


def scale_of(scores: np.ndarray) -> float:
    """Half of the difference between the largest and the smallest score."""
    return float(scores.max() - scores.min()) / 2


def variation_of(rows: np.ndarray) -> float:
    """The standard deviation of scores over the images; for one image, over its scores."""
    return float(np.sqrt(rows.var(axis=0, ddof=1).mean())) if len(rows) > 1 else float(rows.std())


ALL_SAME = (
    "Keras' scores are the same for all images, so nothing can be compared (is the head still "
    "zero?); train the model first."
)
_ONE_SCORE = (
    "the only image has one score, or the same scores for all classes, so nothing can be compared; "
    "compare on two images or more."
)


def check_scale(scale: float, comparisons: int) -> None:
    """Raises a `ParityError` if Keras' scores are all the same, or not finite."""
    if not np.isfinite(scale):
        raise ParityError("Keras' own scores are not finite; the model has not been trained well.")
    if scale == 0:
        raise ParityError(ALL_SAME if comparisons > 1 else _ONE_SCORE)
