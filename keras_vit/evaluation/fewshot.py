"""The few-shot probe: a linear classifier on frozen features, solved in closed form.

Source: Dosovitskiy et al. 2021, section 4.1; big_vision `evaluators/fewshot_lsr`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from keras_vit._errors import UsageError

_BIAS = 100.0  # the constant feature; a large one is hardly regularised
_EPSILON = 1e-5  # added to the standard deviations


def fewshot_accuracy(
    train_features: np.ndarray,
    train_targets: np.ndarray,
    test_features: np.ndarray,
    test_targets: np.ndarray,
    shots: int,
    l2: float = 2.0**10,
    seed: int = 0,
) -> float:
    """The accuracy of a least-squares classifier on a few images of each class.

    Features are standardised with the mean and the standard deviation (+ 1e-5) of the chosen
    images, and a constant 100 is appended. Targets are 1 for the class and -1 for the others; the
    weights are w = (X'X + l2 I)^-1 X'y, or the same in its kernel form where there are fewer images
    than features.

    Args:
        train_features: (n, channels).
        train_targets: classes from 0, integers (n,).
        test_features: (m, channels).
        test_targets: integers (m,).
        shots: number of training images of each class.
        l2: the regularisation.
        seed: `np.random.default_rng(seed)` permutes the images of each class, in the order of the
            classes, and the first `shots` are chosen.

    Returns:
        The fraction of test images whose highest score is their class.

    Raises:
        UsageError: a class has fewer training images than `shots`, or shapes do not fit.

    >>> import numpy as np
    >>> features = np.array([[0.0, 1], [0, 2], [3, 0], [4, 0]])
    >>> targets = np.array([0, 0, 1, 1])
    >>> fewshot_accuracy(features, targets, features, targets, shots=1)
    1.0
    """
    return fewshot_sweep(
        train_features, train_targets, test_features, test_targets, [shots], [l2], [seed]
    )[0, 0, 0].item()


def fewshot_sweep(
    train_features: np.ndarray,
    train_targets: np.ndarray,
    test_features: np.ndarray,
    test_targets: np.ndarray,
    shots: Sequence[int],
    l2: Sequence[float] = (2.0**10,),
    seeds: Sequence[int] = (0,),
) -> np.ndarray:
    """`fewshot_accuracy` for all combinations, (shots, l2, seeds), with one decomposition for each
    choice of images.

    Args:
        train_features, train_targets, test_features, test_targets: see `fewshot_accuracy`.
        shots, l2, seeds: the values of each.

    Raises:
        UsageError: see `fewshot_accuracy`.
    """
    train, test = np.asarray(train_features, float), np.asarray(test_features, float)
    train_targets, test_targets = np.asarray(train_targets), np.asarray(test_targets)
    _check(train, train_targets, test, test_targets, l2)
    found = np.empty((len(shots), len(l2), len(seeds)))
    for j, seed in enumerate(seeds):
        for i, count in enumerate(shots):
            chosen = choose_shots(train_targets, count, seed)
            scores = _scores(train[chosen], train_targets[chosen], test, l2)
            found[i, :, j] = [(each.argmax(-1) == test_targets).mean() for each in scores]
    return found


def choose_shots(targets: np.ndarray, shots: int, seed: int = 0) -> np.ndarray:
    """The indices of the first `shots` images of a permutation of each class, class by class.

    Raises:
        UsageError: a class has fewer images.
    """
    generator = np.random.default_rng(seed)
    chosen = []
    for target in range(int(targets.max()) + 1):
        members = np.flatnonzero(targets == target)
        if len(members) < shots:
            raise UsageError(
                f"shots must be at most the number of training images of each class. Received: "
                f"shots={shots}, and {len(members)} images of class {target}."
            )
        chosen.append(generator.permutation(members)[:shots])
    return np.concatenate(chosen)


def _scores(
    train: np.ndarray, targets: np.ndarray, test: np.ndarray, l2: Sequence[float]
) -> list[np.ndarray]:
    """The scores (m, classes) of the test images for each regularisation, in float64."""
    mean, deviation = train.mean(0), train.std(0) + _EPSILON
    x, z = (_with_bias((each - mean) / deviation) for each in (train, test))
    y = 2.0 * np.eye(int(targets.max()) + 1)[targets] - 1.0  # (n, classes)
    if len(x) < x.shape[1]:
        values, vectors = np.linalg.eigh(x @ x.T)
        left, right = z @ (x.T @ vectors), vectors.T @ y
    else:
        values, vectors = np.linalg.eigh(x.T @ x)
        left, right = z @ vectors, vectors.T @ (x.T @ y)
    return [left @ (right / (values + each)[:, None]) for each in l2]


def _with_bias(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x, np.full((len(x), 1), _BIAS)], axis=1)


def _check(
    train: np.ndarray,
    train_targets: np.ndarray,
    test: np.ndarray,
    test_targets: np.ndarray,
    l2: Sequence[float],
) -> None:
    for name, features, targets in (("train", train, train_targets), ("test", test, test_targets)):
        if features.ndim != 2 or targets.shape != features.shape[:1]:
            raise UsageError(
                f"{name}_features must be (n, channels), and {name}_targets (n,). "
                f"Received: {features.shape} and {targets.shape}."
            )
    if train.shape[1] != test.shape[1]:
        raise UsageError(
            "train_features and test_features must have the same number of channels. "
            f"Received: {train.shape[1]} and {test.shape[1]}."
        )
    if not all(each > 0 for each in l2):
        raise UsageError(f"l2 must be positive. Received: l2={', '.join(map(str, l2))}.")
