"""The few-shot probe: a linear classifier on frozen features, solved in closed form.

It judges a model's features once, or as a callback during a training.

Source: Dosovitskiy et al. 2021, section 4.1; big_vision `evaluators/fewshot_lsr`.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_vit._checks import positive_integer, positive_number
from keras_vit._keras import keras
from keras_vit.data import Source, Split
from keras_vit.evaluation.features import body_of, check_can_probe, features_of
from keras_vit.evaluation.probes import check_shots, checked_list, checked_probe, checked_seed

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
    train, train_targets, test, test_targets = checked_probe(
        train_features, train_targets, test_features, test_targets
    )
    l2 = [positive_number("l2", each) for each in checked_list("l2", l2)]
    shots, seeds = checked_list("shots", shots), checked_list("seeds", seeds)
    test = test.astype(np.float64)
    found = np.empty((len(shots), len(l2), len(seeds)))
    for (i, count), (j, seed) in itertools.product(enumerate(shots), enumerate(seeds)):
        chosen = choose_shots(train_targets, count, seed)
        x, y = train[chosen].astype(np.float64), train_targets[chosen]
        found[i, :, j] = _accuracies(x, y, test, test_targets, l2)
    return found


def choose_shots(targets: np.ndarray, shots: int, seed: int = 0) -> np.ndarray:
    """The indices of the first `shots` images of a permutation of each class, class by class.

    Raises:
        UsageError: a class has fewer images, or `shots` or `seed` is no such number.
    """
    shots = check_shots(targets, shots)
    generator = np.random.default_rng(checked_seed(seed))
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
        for count in checked_list("shots", shots):
            check_shots(source.targets[split.train], count, source.labels)
        most = positive_integer("most", most)
        self._probed, self._body = model, body_of(model)
        self._source, self._shots, self._l2 = source, tuple(shots), positive_number("l2", l2)
        targets = source.targets[split.train]
        self._choices = {
            (count, seed): split.train[choose_shots(targets, count, seed)]
            for count in self._shots
            for seed in range(positive_integer("seeds", seeds))
        }
        self._train = np.unique(np.concatenate(list(self._choices.values())))
        test = np.random.default_rng(0).permutation(split.held_out)[:most]
        self._test = np.sort(test)

    def on_epoch_end(self, epoch, logs=None):
        """Adds the accuracies to `logs`."""
        indices, count = np.concatenate([self._train, self._test]), len(self._train)
        found = features_of(self._probed, self._source, indices, body=self._body)
        found = found.astype(np.float64)
        accuracies: dict[int, list[float]] = {}
        for (shots, _), chosen in self._choices.items():
            x = found[np.searchsorted(self._train, chosen)]
            targets, test_targets = (self._source.targets[each] for each in (chosen, self._test))
            accuracies.setdefault(shots, []).extend(
                _accuracies(x, targets, found[count:], test_targets, [self._l2])
            )
        if logs is not None:
            logs |= {f"fewshot_{shots}": statistics.mean(of) for shots, of in accuracies.items()}


def _accuracies(
    x: np.ndarray,
    targets: np.ndarray,
    test: np.ndarray,
    test_targets: np.ndarray,
    l2: Sequence[float],
) -> list[float]:
    """The accuracy for each regularisation, of chosen training images `x` (n, channels)."""
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
        scores = test @ scaled + (_BIAS * w[-1] - mean @ scaled)  # (m, classes)
        found.append(float((scores.argmax(-1) == test_targets).mean()))
    return found
