"""Checks of what probes receive: features and classes of training and test images."""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_vit._checks import positive_integer
from keras_vit._errors import UsageError


def checked_probe(
    train_features: Any, train_targets: Any, test_features: Any, test_targets: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The four as arrays.

    Raises:
        UsageError: shapes do not fit, there are no images, features are not finite, or classes are
            not integers from 0.
    """
    train, test = np.asarray(train_features), np.asarray(test_features)
    train_classes, test_classes = np.asarray(train_targets), np.asarray(test_targets)
    for name, features, targets in (("train", train, train_classes), ("test", test, test_classes)):
        if features.ndim != 2 or targets.shape != features.shape[:1] or not len(features):
            raise UsageError(
                f"{name}_features must be (n, channels), and {name}_targets (n,), of one image or "
                f"more. Received: {features.shape} and {targets.shape}."
            )
        if features.dtype.kind not in "fiu" or not np.isfinite(features).all():
            raise UsageError(f"{name}_features must be finite numbers. Received: others.")
        if targets.dtype.kind not in "iu" or targets.min() < 0:
            raise UsageError(
                f"{name}_targets must be classes, integers from 0. "
                f"Received: {targets.dtype}, {targets.ravel()[:4].tolist()} ..."
            )
    if train.shape[1] != test.shape[1]:
        raise UsageError(
            "train_features and test_features must have the same number of channels. "
            f"Received: {train.shape[1]} and {test.shape[1]}."
        )
    return train, train_classes, test, test_classes


def check_shots(targets: np.ndarray, shots: int, labels: tuple[str, ...] | None = None) -> None:
    """Raises a `UsageError` unless every class has `shots` training images.

    Args:
        targets: the classes of the training images, (n,).
        shots: the number of images of each class.
        labels: the classes' names, for the message.
    """
    positive_integer("shots", shots)
    counts = np.bincount(targets, minlength=0 if labels is None else len(labels))
    fewest = int(counts.argmin())
    if counts[fewest] < shots:
        name = f"class {fewest}" if labels is None else repr(labels[fewest])
        raise UsageError(
            "shots must be at most the number of training images of each class. Received: "
            f"shots={shots}, and {counts[fewest]} images of {name}."
        )
