"""Checks of what probes receive: features and classes of images, and their settings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from keras_vit._checks import integer, positive_integer
from keras_vit._errors import UsageError, shown

_MOST_SEEDS = 2**32  # scikit-learn's


def checked_probe(
    train_features: Any, train_targets: Any, test_features: Any, test_targets: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The four as arrays.

    Raises:
        UsageError: shapes do not fit, there are no images, features are not finite, classes are not
            integers from 0, or the training images have one class only.
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
    if len(np.unique(train_classes)) < 2:
        raise UsageError(
            "train_targets must have two classes or more. "
            f"Received: only class {int(train_classes[0])}."
        )
    return train, train_classes, test, test_classes


def checked_list(field: str, values: Any) -> list[Any]:
    """The values of a setting of which several are tried."""
    if not isinstance(values, Iterable) or isinstance(values, (str, bytes)):
        raise UsageError(
            f"{field} must be a list of numbers. Received: {field}={shown(values)}; "
            f"for one value: [{shown(values)}]."
        )
    return list(values)


def checked_seed(value: Any) -> int:
    """A seed, an integer from 0."""
    result = integer(value)
    if result is None or not 0 <= result < _MOST_SEEDS:
        raise UsageError(
            f"seed must be an integer of at least 0 and below 2**32. Received: seed={shown(value)}."
        )
    return result


def check_shots(targets: np.ndarray, shots: int, labels: tuple[str, ...] | None = None) -> int:
    """`shots` as an int; raises a `UsageError` unless every class has so many training images.

    Args:
        targets: the classes of the training images, (n,).
        shots: the number of images of each class.
        labels: the classes' names, for the message.
    """
    shots = positive_integer("shots", shots)
    counts = np.bincount(targets, minlength=0 if labels is None else len(labels))
    fewest = int(counts.argmin())
    if counts[fewest] < shots:
        name = f"class {fewest}" if labels is None else repr(labels[fewest])
        raise UsageError(
            "shots must be at most the number of training images of each class. Received: "
            f"shots={shots}, and {counts[fewest]} images of {name}."
        )
    return shots
