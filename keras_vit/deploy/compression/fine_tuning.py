"""A short, seeded training of a model that is already trained."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from keras_vit import data, runs
from keras_vit._errors import RefusedError
from keras_vit._keras import keras
from keras_vit.data import Source
from keras_vit.data.reading import naming_unreadable
from keras_vit.deploy.trained_model import TrainedModel
from keras_vit.specs import Preprocessing

_REPORTS = 10
_SETTINGS = ("batch_size", "augment", "label_smoothing", "seed")  # that are those of the run


@dataclasses.dataclass(frozen=True)
class FineTuning:
    """The images and settings of a fine-tuning.

    Attributes:
        source: the images.
        indices: the images to train on.
        preprocessing: how images become inputs.
        steps: number of steps.
        batch_size: images per step.
        learning_rate: Adam's initial learning rate; a cosine schedule reduces it to zero.
        augment: a name in `AUGMENTATIONS`.
        label_smoothing: fraction of each target that is spread over all classes.
        seed: seed of the order of images, the augmentation and dropout.
        jit: whether XLA compiles the step. Results are then bit-equal on every run, except with
            dropout, which tf_keras does not seed there.
        report: called several times with the step, and the loss and the accuracy since the last
            call.
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
            RefusedError: the loss is no longer finite.
            UsageError: an image cannot be read any more.
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
        progress = keras.callbacks.LambdaCallback(
            on_train_batch_end=functools.partial(self._after_step, model)
        )
        with naming_unreadable(self.source):
            model.fit(self._batches(), callbacks=[*callbacks, progress], verbose=0, shuffle=False)

    def _after_step(self, model: keras.Model, batch: int, logs: dict[str, float]) -> None:
        step = batch + 1
        if not math.isfinite(logs["loss"]):
            raise RefusedError(
                f"the fine-tuning diverged at step {step}: the loss is {logs['loss']}; "
                "lower learning_rate."
            )
        if step % -(-self.steps // _REPORTS) == 0 or step == self.steps:
            self.report(step, logs["loss"], logs["accuracy"])
            model.reset_metrics()

    def _batches(self) -> Any:
        import tensorflow as tf

        from keras_vit.data.tf_preprocessing import normalise

        batches = data.training_batches(
            self.source,
            self.indices,
            self.preprocessing,
            self.batch_size,
            self.steps,
            self.augment,
            self.seed,
        )
        classes = len(self.source.labels)

        def prepared(images, targets):
            return normalise(images, self.preprocessing), tf.one_hot(targets, classes)

        return batches.map(prepared)


def fine_tuning_of(
    trained: TrainedModel,
    steps: int,
    learning_rate: float | None = None,
    report: Callable[[int, float, float], None] = lambda step, loss, accuracy: None,
) -> FineTuning:
    """A fine-tuning with the images and the settings of a run.

    Args:
        trained: the run, from `of_run`.
        steps, report: see `FineTuning`.
        learning_rate: None for a third of the run's, or 3e-5 if SGD trained it.
    """
    run = runs.open_run(trained.folder)
    if learning_rate is None:
        adam = run.setting("optimizer") == "adamw"
        learning_rate = run.setting("learning_rate") / 3 if adam else 3e-5
    return FineTuning(
        source=trained.source,
        indices=trained.training,
        preprocessing=trained.preprocessing,
        steps=steps,
        learning_rate=learning_rate,
        **{name: run.setting(name) for name in _SETTINGS},
        jit=run.setting("jit", True),
        report=report,
    )
