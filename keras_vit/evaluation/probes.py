"""Probes on frozen features: nearest neighbours, logistic regression, and the checks of all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from keras_vit._checks import integer, positive_integer, positive_number
from keras_vit._errors import UsageError, naming_install, shown

_VALUES = 1 << 24  # similarities in memory at a time
_MOST_SEEDS = 2**32  # scikit-learn's


def knn_accuracy(
    train_features: np.ndarray,
    train_targets: np.ndarray,
    test_features: np.ndarray,
    test_targets: np.ndarray,
    neighbours: int = 20,
    temperature: float = 0.07,
) -> float:
    """The accuracy of a vote of the nearest training images by cosine similarity.

    Each of the nearest images votes for its class with the weight exp(similarity / temperature)
    (Wu et al. 2018, arXiv 1805.01978; DINO, Caron et al. 2021, appendix F).

    Args:
        train_features: (n, channels).
        train_targets: classes from 0, integers (n,).
        test_features: (m, channels).
        test_targets: integers (m,).
        neighbours: the number of nearest images.
        temperature: how fast a vote falls with the similarity.

    Raises:
        UsageError: there are fewer training images than neighbours, the temperature is not
            positive, or see `fewshot_accuracy`.
    """
    train, train_targets, test, test_targets = checked_probe(
        train_features, train_targets, test_features, test_targets
    )
    neighbours = positive_integer("neighbours", neighbours)
    if neighbours > len(train):
        raise UsageError(
            f"neighbours must be from 1 to the number of training images, {len(train)}. "
            f"Received: neighbours={neighbours}."
        )
    temperature = positive_number("temperature", temperature)
    train, classes = _unit(train), int(train_targets.max()) + 1
    rows = max(_VALUES // len(train), 1)
    right = 0
    for start in range(0, len(test), rows):
        similarity = _unit(test[start : start + rows]) @ train.T  # (rows, n)
        nearest = np.argpartition(similarity, -neighbours, axis=1)[:, -neighbours:]
        found = np.take_along_axis(similarity, nearest, 1)  # (rows, neighbours)
        votes = np.exp((found - found.max(1, keepdims=True)) / temperature)
        scores = np.zeros((len(found), classes))
        np.add.at(scores, (np.arange(len(found))[:, None], train_targets[nearest]), votes)
        right += (scores.argmax(-1) == test_targets[start : start + rows]).sum()
    return float(right / len(test))


def linear_probe_accuracy(
    train_features: np.ndarray,
    train_targets: np.ndarray,
    test_features: np.ndarray,
    test_targets: np.ndarray,
    c: Sequence[float] = (1e-3, 1e-2, 1e-1, 1.0),
    seed: int = 0,
) -> float:
    """The accuracy of multinomial logistic regression on all training images.

    It is scikit-learn's `LogisticRegression` on standardised features. Each of `c` is tried on a
    tenth of the training images; the best one is fitted to all of them.

    Args:
        train_features, train_targets, test_features, test_targets: see `knn_accuracy`.
        c: the inverses of the regularisation to try.
        seed: which tenth is held out.

    Raises:
        UsageError: a class has only one training image, or see `fewshot_accuracy`.
        MissingPackageError: scikit-learn is not installed.
    """
    train_features, train_targets, test_features, test_targets = checked_probe(
        train_features, train_targets, test_features, test_targets
    )
    check_shots(train_targets, 2)
    c, seed = [positive_number("c", each) for each in checked_list("c", c)], checked_seed(seed)
    with naming_install("the linear probe needs scikit-learn"):
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import train_test_split
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

    def fitted(strength, features, targets):
        model = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=1000))
        return model.fit(features, targets)

    x, held_x, y, held_y = train_test_split(
        train_features, train_targets, test_size=0.1, random_state=seed, stratify=train_targets
    )
    best = max(c, key=lambda strength: fitted(strength, x, y).score(held_x, held_y))
    return float(fitted(best, train_features, train_targets).score(test_features, test_targets))


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


def _unit(features: np.ndarray) -> np.ndarray:
    features = np.asarray(features, np.float32)
    return features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
