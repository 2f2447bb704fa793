"""The progress of a training, for a terminal or any other display."""

from __future__ import annotations

import dataclasses
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

from keras_vit._keras import keras
from keras_vit.training.callbacks import Steps
from keras_vit.training.plan import Plan


@dataclasses.dataclass(frozen=True)
class Progress:
    """The state of a training after a step.

    Attributes:
        step: number of steps that were made.
        plan: the plan of the training.
        images_per_second: speed since the first step, which is slower because it is compiled; None
            until it is known.
        seconds_left: an estimate, with evaluations after the second one; None until it is known.
        memory: the largest resident memory of this process so far, in bytes.
        metrics: after an evaluation, the metrics of the epoch; None otherwise.
        evaluated: during an evaluation, the fraction of it that is done; None otherwise.
    """

    step: int
    plan: Plan
    images_per_second: float | None
    seconds_left: float | None
    memory: int
    metrics: dict[str, float] | None = None
    evaluated: float | None = None


class Reporter(keras.callbacks.Callback):
    """Calls `report` with a `Progress` after each step, also of evaluations, and each epoch."""

    def __init__(self, plan: Plan, steps: Steps, report: Callable[[Progress], None]):
        super().__init__()
        self._plan, self._steps, self._report = plan, steps, report
        self._first: int | None = None
        self._stepping = 0.0  # seconds in all steps after the first one
        self._evaluations: list[float] = []  # seconds of each; the first one is compiled
        self._last = 0.0

    def on_train_batch_begin(self, batch, logs=None):
        """Notes the time."""
        self._last = time.monotonic()

    def on_train_batch_end(self, batch, logs=None):
        """Reports a step."""
        now = time.monotonic()
        if self._first is None:
            self._first = self._steps.done
        else:
            self._stepping += now - self._last
        self._last = now
        self._report(self._progress())

    def on_test_batch_end(self, batch, logs=None):
        """Reports a step of an evaluation."""
        self._report(self._progress(evaluated=(batch + 1) / self.params["steps"]))

    def on_epoch_end(self, epoch, logs=None):
        """Reports the metrics of an epoch."""
        self._evaluations.append(time.monotonic() - self._last)
        metrics = {name: float(value) for name, value in (logs or {}).items()}
        self._report(self._progress(metrics))

    def _progress(
        self, metrics: dict[str, float] | None = None, evaluated: float | None = None
    ) -> Progress:
        plan, done = self._plan, self._steps.done
        made = done - (self._first or 0)
        speed = left = None
        if self._first is not None and made:
            seconds = max(self._stepping, 1e-9) / made
            speed, left = plan.batch_size / seconds, seconds * (plan.steps - done)
            if done < plan.steps and len(self._evaluations) > 1:
                to_come = -(-plan.steps // plan.period) - done // plan.period
                left += min(self._evaluations[1:]) * to_come
        return Progress(done, plan, speed, left, _peak_memory(), metrics, evaluated)


def _peak_memory() -> int:
    peak: Any = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak  # macOS counts bytes, Linux kilobytes
