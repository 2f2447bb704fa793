"""The few-shot probe during a training, as a Keras callback."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_vit._checks import positive_integer, positive_number
from keras_vit._keras import keras
from keras_vit.data import Source, Split
from keras_vit.evaluation.features import body_features, body_of, check_can_probe
from keras_vit.evaluation.fewshot import accuracies_of_choice, choose_shots
from keras_vit.evaluation.probe_inputs import check_shots, checked_list


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
        self._body, self._preprocessing = body_of(model), model.preprocessing
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
        found = body_features(self._body, self._preprocessing, self._source, indices)
        found = found.astype(np.float64)
        accuracies: dict[int, list[float]] = {}
        for (shots, _), chosen in self._choices.items():
            x = found[np.searchsorted(self._train, chosen)]
            targets, test_targets = (self._source.targets[each] for each in (chosen, self._test))
            accuracies.setdefault(shots, []).extend(
                accuracies_of_choice(x, targets, found[count:], test_targets, [self._l2])
            )
        if logs is not None:
            logs |= {f"fewshot_{shots}": statistics.mean(of) for shots, of in accuracies.items()}
