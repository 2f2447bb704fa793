"""Callbacks of the training loop: they write metrics and weights, and stop at the last step."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path

from keras_vit._errors import RefusedError
from keras_vit._files import naming_a_full_disk
from keras_vit._keras import keras
from keras_vit.weights import save_weights


class RunWriter(keras.callbacks.Callback):
    """Updates the run folder after each epoch: a line in metrics.jsonl, and the weights."""

    def __init__(self, folder: Path):
        super().__init__()
        self.folder = folder
        self.started = time.monotonic()

    def on_epoch_end(self, epoch, logs=None):
        """Appends the epoch's metrics, then replaces the weights.

        Raises:
            RefusedError: the loss is not finite; the previous epoch's weights are kept.
        """
        if not math.isfinite((logs or {}).get("loss", 0.0)):
            raise RefusedError(
                f"training diverged in epoch {epoch + 1}: the loss is {logs['loss']}; lower the "
                "learning rate. The run keeps the weights of the previous epoch."
            )
        record = {"epoch": epoch + 1, "step": int(self.model.optimizer.iterations)}
        record["seconds"] = round(time.monotonic() - self.started, 3)
        record |= {name: float(value) for name, value in (logs or {}).items()}
        record["learning_rate"] = _learning_rate(self.model.optimizer)
        log = self.folder / "metrics.jsonl"
        with naming_a_full_disk(log), log.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(record) + "\n")
        self.save()

    def save(self) -> None:
        """Replaces the run's weights with the current weights of the model."""
        save_weights(self.model, self.folder / "weights.npz")


class AfterEachStep(keras.callbacks.Callback):
    """Calls a function after each training and evaluation step, such as a check for Ctrl-C."""

    def __init__(self, function: Callable[[], None]):
        super().__init__()
        self.function = function

    def on_train_batch_end(self, batch, logs=None):
        """Calls it."""
        self.function()

    def on_test_batch_end(self, batch, logs=None):
        """Calls it."""
        self.function()


class StopAfter(keras.callbacks.Callback):
    """Ends training after a number of steps, even in the middle of an epoch.

    With `steps_per_execution`, training ends after the execution that reaches this number.
    """

    def __init__(self, steps: int):
        super().__init__()
        self.steps = steps
        self.done = self.before = 0  # steps since the start, and before the current epoch

    def on_epoch_begin(self, epoch, logs=None):
        """Stores the number of steps in all previous epochs."""
        self.before = self.done

    def on_train_batch_end(self, batch, logs=None):
        """Counts the steps; `batch` is the index of the last batch of this epoch, from 0."""
        self.done = self.before + batch + 1
        if self.done >= self.steps:
            self.model.stop_training = True


def _learning_rate(optimizer) -> float:
    rate = optimizer.learning_rate
    if callable(rate):  # tf_keras returns the schedule
        rate = rate(optimizer.iterations)
    return float(rate)
