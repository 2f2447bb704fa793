"""Probes on frozen features: the few-shot probe, nearest neighbours, logistic regression.

The few-shot probe is a linear classifier, solved in closed form: Dosovitskiy et al. 2021, section
4.1; big_vision `evaluators/fewshot_lsr`. It judges features once, or as a callback in training.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from keras_vit._checks import integer, positive_integer, positive_number
from keras_vit._errors import UsageError, naming_install, shown
from keras_vit._keras import keras
from keras_vit.data import Source, Split
from keras_vit.evaluation.features import check_can_probe
from keras_vit.frozen_features import body_of, features_of
from keras_vit.neighbours import TEMPERATURE, nearest, shares, unit

_Labelled = tuple[np.ndarray, np.ndarray]  # features (n, channels) and classes (n,)
_BIAS = 100.0  # the constant feature; a large one is hardly regularised
_EPSILON = 1e-5  # added to the standard deviations
_MOST_SEEDS = 2**32  # scikit-learn's


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
        UsageError: a class has fewer training images than `shots`, there is only one class, shapes
            do not fit, features are not finite, classes are not integers from 0, or `l2` or `seed`
            is no such number.

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
    """`fewshot_accuracy` for all combinations: (shots, l2, seeds).

    There is one decomposition for each choice of images.

    Args:
        train_features, train_targets, test_features, test_targets: see `fewshot_accuracy`.
        shots, l2, seeds: the values of each.

    Raises:
        UsageError: see `fewshot_accuracy`.
    """
    four = (train_features, train_targets, test_features, test_targets)
    train, train_targets, test, test_targets = _checked_probe(*four)
    l2 = [positive_number("l2", each) for each in _checked_list("l2", l2)]
    shots, seeds = _checked_list("shots", shots), _checked_list("seeds", seeds)
    seen = (test.astype(np.float64), test_targets)
    found = np.empty((len(shots), len(l2), len(seeds)))
    for (i, count), (j, seed) in itertools.product(enumerate(shots), enumerate(seeds)):
        chosen = choose_shots(train_targets, count, seed)
        few = (train[chosen].astype(np.float64), train_targets[chosen])
        found[i, :, j] = _accuracies(few, seen, l2)
    return found


def choose_shots(targets: np.ndarray, shots: int, seed: int = 0) -> np.ndarray:
    """The indices of the first `shots` images of a permutation of each class, class by class.

    Raises:
        UsageError: a class has fewer images, or `shots` or `seed` is no such number.
    """
    shots = check_shots(targets, shots)
    generator = np.random.default_rng(_checked_seed(seed))
    classes = range(int(targets.max()) + 1)
    members = (np.flatnonzero(targets == target) for target in classes)
    return np.concatenate([generator.permutation(each)[:shots] for each in members])


class FewShotProbe(keras.callbacks.Callback):
    """Adds the few-shot accuracy of a model's features to the metrics of each epoch.

    The metrics are called "fewshot_1" for one image of each class, "fewshot_5" and so on, each the
    mean over the seeds. Only the features of the images that are needed are computed.

    >>> from keras_vit import data, evaluation
    >>> source = data.open_source("flower_photos")
    >>> probe = evaluation.FewShotProbe(model, source, data.split_source(source), shots=[1])
    >>> model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    >>> history = model.fit(inputs, classes, callbacks=[probe], verbose=0)
    >>> list(history.history)
    ['loss', 'fewshot_1']

    Args:
        model: the keras_vit model, which the trained model contains.
        source: the images, each with one class.
        split: which of them the classifier learns from, and which it is judged on.
        shots: numbers of images of each class.
        seeds: number of random choices of them.
        most: the largest number of images that it is judged on, chosen at random.
        l2: the regularisation, see `fewshot_accuracy`.

    Raises:
        UsageError: a class has fewer images than one of `shots`, or see `check_can_probe`.
    """

    def __init__(
        self,
        model: Any,
        source: Source,
        split: Split,
        shots: Sequence[int] = (5, 10),
        seeds: int = 3,
        most: int = 2000,
        l2: float = 2.0**10,
    ):
        super().__init__()
        check_can_probe(source)
        targets = source.targets[split.train]
        for count in _checked_list("shots", shots):
            check_shots(targets, count, source.labels)
        most = positive_integer("most", most)
        self._probed, self._body = model, body_of(model)
        self._source, self._l2 = source, positive_number("l2", l2)
        self._choices = {
            (count, seed): split.train[choose_shots(targets, count, seed)]
            for count in shots
            for seed in range(positive_integer("seeds", seeds))
        }
        self._train = np.unique(np.concatenate(list(self._choices.values())))
        self._test = np.sort(np.random.default_rng(0).permutation(split.held_out)[:most])

    def on_epoch_end(self, epoch, logs=None):
        """Adds the accuracies to `logs`."""
        indices, count = np.concatenate([self._train, self._test]), len(self._train)
        found = features_of(self._probed, self._source, indices, body=self._body).astype(np.float64)
        test = (found[count:], self._source.targets[self._test])
        accuracies: dict[int, list[float]] = {}
        for (shots, _), chosen in self._choices.items():
            train = (found[np.searchsorted(self._train, chosen)], self._source.targets[chosen])
            accuracies.setdefault(shots, []).extend(_accuracies(train, test, [self._l2]))
        if logs is not None:
            logs |= {f"fewshot_{shots}": statistics.mean(of) for shots, of in accuracies.items()}


def knn_accuracy(
    train_features: np.ndarray,
    train_targets: np.ndarray,
    test_features: np.ndarray,
    test_targets: np.ndarray,
    neighbours: int = 20,
    temperature: float = TEMPERATURE,
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
    four = (train_features, train_targets, test_features, test_targets)
    train, train_targets, test, test_targets = _checked_probe(*four)
    neighbours = positive_integer("neighbours", neighbours)
    if neighbours > len(train):
        raise UsageError(
            f"neighbours must be from 1 to the number of training images, {len(train)}. "
            f"Received: neighbours={neighbours}."
        )
    temperature = positive_number("temperature", temperature)
    train, test = (unit(each.astype(np.float32)) for each in (train, test))
    cosines, near = nearest(test, train, neighbours)
    found = shares(cosines, train_targets[near], int(train_targets.max()) + 1, temperature)
    return float((found.argmax(-1) == test_targets).mean())


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
    four = (train_features, train_targets, test_features, test_targets)
    train_features, train_targets, test_features, test_targets = _checked_probe(*four)
    check_shots(train_targets, 2)
    c, seed = [positive_number("c", each) for each in _checked_list("c", c)], _checked_seed(seed)
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


def _checked_probe(*four: Any) -> list[np.ndarray]:
    """Features and targets of training and test images as arrays.

    Raises:
        UsageError: shapes do not fit, there are no images, features are not finite, classes are not
            integers from 0, or the training images have one class only.
    """
    arrays = train, train_classes, test, test_classes = [np.asarray(each) for each in four]
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
    return arrays


def _checked_list(field: str, values: Any) -> list[Any]:
    """The values of a setting of which several are tried."""
    if not isinstance(values, Iterable) or isinstance(values, (str, bytes)):
        raise UsageError(
            f"{field} must be a list of numbers. Received: {field}={shown(values)}; "
            f"for one value: [{shown(values)}]."
        )
    return list(values)


def _checked_seed(value: Any) -> int:
    """A seed, an integer from 0."""
    result = integer(value)
    if result is None or not 0 <= result < _MOST_SEEDS:
        raise UsageError(
            f"seed must be an integer of at least 0 and below 2**32. Received: seed={shown(value)}."
        )
    return result


def check_shots(targets: np.ndarray, shots: int, labels: tuple[str, ...] | None = None) -> int:
    """`shots` as an int; raises a `UsageError` unless every class has as many training images.

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


def _accuracies(train: _Labelled, test: _Labelled, l2: Sequence[float]) -> list[float]:
    """The accuracy for each regularisation, of a choice of training images."""
    (x, targets), (seen, test_targets) = train, test
    mean, deviation = x.mean(0), x.std(0) + _EPSILON
    x = np.hstack([(x - mean) / deviation, np.full((len(x), 1), _BIAS)])
    y = 2.0 * np.eye(int(targets.max()) + 1)[targets] - 1.0  # (n, classes)
    is_kernel = len(x) < x.shape[1]
    values, vectors = np.linalg.eigh(x @ x.T if is_kernel else x.T @ x)
    right = vectors.T @ (y if is_kernel else x.T @ y)
    found = []
    for each in l2:
        w = vectors @ (right / (values + each)[:, None])
        w = x.T @ w if is_kernel else w  # (channels + 1, classes)
        # The test images are not standardised, but the weights are scaled for them.
        scaled = w[:-1] / deviation[:, None]
        scores = seen @ scaled + (_BIAS * w[-1] - mean @ scaled)  # (m, classes)
        found.append(float((scores.argmax(-1) == test_targets).mean()))
    return found
