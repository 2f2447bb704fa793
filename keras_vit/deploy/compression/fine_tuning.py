"""A short, seeded training of a model that has been trained already."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from keras_vit._errors import RefusedError
from keras_vit._keras import keras
from keras_vit.data import Source, training_batches
from keras_vit.specs import Preprocessing

_REPORTS = 10


@dataclasses.dataclass(frozen=True)
class FineTuning:
    """What a model is fine-tuned on, and how.

    Attributes:
        source: the images.
        indices: which of them train.
        preprocessing: how they become inputs.
        steps: batches in all.
        batch_size: images a step.
        learning_rate: Adam's at the start; a cosine takes it to zero.
        augment: a name in `AUGMENTATIONS`.
        label_smoothing: fraction of each target spread over all classes.
        seed: of the order, the distortions and dropout.
        jit: whether XLA compiles the step, which then gives the same digits on every run; but for
            dropout, to which tf_keras gives no seed there.
        report: is called now and then with the step, and with the loss and the accuracy since
            the last call.
    """

    source: Source
    indices: np.ndarray
    preprocessing: Preprocessing
    steps: int
    batch_size: int
    learning_rate: float
    augment: str = "none"
    label_smoothing: float = 0.0
    seed: int = 0
    jit: bool = True
    report: Callable[[int, float, float], None] = lambda step, loss, accuracy: None

    def __call__(self, model: keras.Model, callbacks: list[Any]) -> None:
        """Trains `model`.

        Raises:
            RefusedError: the loss is no longer a number.
        """
        keras.utils.set_random_seed(self.seed)
        schedule = keras.optimizers.schedules.CosineDecay(self.learning_rate, self.steps)
        model.compile(
            optimizer=keras.optimizers.Adam(schedule, global_clipnorm=1.0),
            loss=keras.losses.CategoricalCrossentropy(
                from_logits=True, label_smoothing=self.label_smoothing
            ),
            metrics=["accuracy"],
            jit_compile=self.jit,
        )
        progress = _Progress(self.report, self.steps)
        model.fit(self._batches(), callbacks=[*callbacks, progress], verbose=0, shuffle=False)

    def _batches(self) -> Any:
        import tensorflow as tf

        batches = training_batches(
            self.source,
            self.indices,
            self.preprocessing,
            self.batch_size,
            self.steps,
            self.augment,
            self.seed,
        )
        classes = len(self.source.labels)
        return batches.map(lambda images, targets: (images, tf.one_hot(targets, classes)))


class _Progress(keras.callbacks.Callback):
    def __init__(self, report: Callable[[int, float, float], None], steps: int):
        super().__init__()
        self.report = report
        self.every = -(-steps // _REPORTS)
        self.steps = steps

    def on_train_batch_end(self, batch, logs=None):
        step = batch + 1
        if not math.isfinite(logs["loss"]):
            raise RefusedError(
                f"the fine-tuning diverged at step {step}: the loss is {logs['loss']}; "
                "lower learning_rate."
            )
        if step % self.every == 0 or step == self.steps:
            self.report(step, logs["loss"], logs["accuracy"])
            self.model.reset_metrics()
