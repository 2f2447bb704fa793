"""Probes on frozen features besides the few-shot one: nearest neighbours, logistic regression."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from keras_vit._checks import positive_integer, positive_number
from keras_vit._errors import MissingPackageError, UsageError
from keras_vit.evaluation.probe_inputs import (
    check_shots,
    checked_list,
    checked_probe,
    checked_seed,
)

_VALUES = 1 << 24  # similarities in memory at a time


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
    try:
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import train_test_split
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
    except ImportError:
        raise MissingPackageError(
            "the linear probe needs scikit-learn: pip install 'keras_vit[train]'"
        ) from None

    def fitted(strength, features, targets):
        model = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=1000))
        return model.fit(features, targets)

    x, held_x, y, held_y = train_test_split(
        train_features, train_targets, test_size=0.1, random_state=seed, stratify=train_targets
    )
    best = max(c, key=lambda strength: fitted(strength, x, y).score(held_x, held_y))
    return float(fitted(best, train_features, train_targets).score(test_features, test_targets))


def _unit(features: np.ndarray) -> np.ndarray:
    features = np.asarray(features, np.float32)
    return features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
