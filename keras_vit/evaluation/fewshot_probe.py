"""The few-shot probe during a training, as a Keras callback."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_vit._keras import keras
from keras_vit.data import Source, Split
from keras_vit.evaluation.features import features_of
from keras_vit.evaluation.fewshot import choose_shots, fewshot_sweep


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
        UsageError: a class has fewer images than one of `shots`.
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
        self._features_of, self._source = model, source
        self._shots, self._seeds, self._l2 = tuple(shots), seeds, l2
        targets = source.targets[split.train]
        chosen = [choose_shots(targets, max(self._shots), seed) for seed in range(seeds)]
        self._chosen = np.unique(np.concatenate(chosen))
        self._train, self._targets = split.train, targets
        test = np.random.default_rng(0).permutation(split.held_out)[:most]
        self._test = np.sort(test)

    def on_epoch_end(self, epoch, logs=None):
        """Adds the accuracies to `logs`."""
        indices = np.concatenate([self._train[self._chosen], self._test])
        found = features_of(self._features_of, self._source, indices)
        # Images that no seed chooses keep zeros, so that the seeds choose as among all images.
        train = np.zeros((len(self._train), found.shape[1]), np.float32)
        train[self._chosen] = found[: len(self._chosen)]
        test = found[len(self._chosen) :], self._source.targets[self._test]
        accuracies = fewshot_sweep(
            train, self._targets, *test, self._shots, [self._l2], range(self._seeds)
        )
        if logs is not None:
            means = accuracies.mean((1, 2))  # (shots,)
            logs |= {
                f"fewshot_{k}": float(mean) for k, mean in zip(self._shots, means, strict=True)
            }
