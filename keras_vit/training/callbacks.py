"""Callbacks of the training loop: they count steps, evaluate, report, write metrics and weights."""

from __future__ import annotations

import dataclasses
import json
import math
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from keras_vit._errors import RefusedError
from keras_vit._files import naming_a_full_disk
from keras_vit._keras import backend, keras, ops
from keras_vit.data import Split
from keras_vit.models.image_model import ImageModel
from keras_vit.runs import AVERAGE
from keras_vit.training.plan import Plan
from keras_vit.weights import save_weights

Clock = Callable[[], float]  # returns seconds
_MINUTE = 60.0  # between two lines in metrics.jsonl within an epoch


class Steps(keras.callbacks.Callback):
    """Counts the training steps and ends training after the last one, even within an epoch.

    With `steps_per_execution`, training ends after the execution that reaches this number. A loss
    that is not finite ends it with a `RefusedError`.

    Args:
        done: number of steps that were made before.
        total: number of steps after which training ends.

    Attributes:
        before: number of steps in all previous epochs.
    """

    def __init__(self, done: int, total: int):
        super().__init__()
        self.done, self.total = done, total
        self.before = done

    def on_epoch_begin(self, epoch, logs=None):
        """Stores the number of steps in all previous epochs."""
        self.before = self.done

    def on_train_batch_end(self, batch, logs=None):
        """Counts the steps; `batch` is the index of the last batch of this epoch, from 0."""
        self.done = self.before + batch + 1
        if not math.isfinite((logs or {}).get("loss", 0.0)):
            raise RefusedError(_diverged(self.done, f"the loss is {logs['loss']}"))
        if self.done >= self.total:
            self.model.stop_training = True


class Evaluation(keras.callbacks.Callback):
    """Evaluates after each epoch, also with the average of the weights if there is one.

    The results are added to the epoch's metrics as "val_loss" and "ema_val_loss", for example.

    Args:
        evaluate: returns the metrics of the current weights on the held-out images.

    Attributes:
        is_steady: whether it evaluates the weights of the last step, so that nothing changes them.
    """

    def __init__(self, evaluate: Callable[[], dict[str, float]]):
        super().__init__()
        self._evaluate = evaluate
        self.is_steady = False

    def on_epoch_end(self, epoch, logs=None):
        """Adds the metrics to `logs`."""
        sync(self.model)
        self.is_steady = True
        self._add(logs, "val_")
        self.is_steady = False
        if averages(self.model.optimizer):
            with averaged(self.model):
                self._add(logs, "ema_val_")

    def _add(self, logs: dict[str, float], prefix: str) -> None:
        logs |= {f"{prefix}{name}": value for name, value in self._evaluate().items()}


@dataclasses.dataclass(frozen=True)
class Progress:
    """The state of a run after a step.

    Attributes:
        step: number of steps that were made.
        plan: the plan of the run.
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


@dataclasses.dataclass(frozen=True)
class Hooks:
    """Functions that are called in training, to show its progress or add to its epochs.

    Attributes:
        callbacks: a function of the built model and the split that returns Keras callbacks. What
            they add to the logs of an epoch is written to metrics.jsonl.
        started: called with the plan before the first step.
        features: called while the features of the images are computed, with the number of images
            that are done, and of all; see `Plan.keeps_features`.
        report: called with the progress after each step, also of evaluations.
        saving: called with the step before the state is saved after Ctrl-C or SIGTERM, which takes
            seconds for a large model; another Ctrl-C ends training without it.
        stuck: called in a thread with a message if training does not stop within seconds after
            Ctrl-C, because a step or an evaluation is long or is being compiled. Of an evaluation
            with TensorFlow the state has been saved.
    """

    callbacks: Callable[[ImageModel, Split], Sequence[Any]] = lambda model, split: ()
    started: Callable[[Plan], None] = lambda plan: None
    features: Callable[[int, int], None] = lambda done, count: None
    report: Callable[[Progress], None] = lambda progress: None
    saving: Callable[[int], None] = lambda step: None
    stuck: Callable[[str], None] | None = None


NO_HOOKS = Hooks()


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
        self._report(self._progress(metrics=metrics))

    def _progress(self, **also: Any) -> Progress:
        plan, done = self._plan, self._steps.done
        made = done - (self._first or 0)
        speed = left = None
        if self._first is not None and made:
            seconds = max(self._stepping, 1e-9) / made
            speed, left = plan.batch_size / seconds, seconds * (plan.steps - done)
            if done < plan.steps and len(self._evaluations) > 1:
                to_come = -(-plan.steps // plan.period) - done // plan.period
                left += min(self._evaluations[1:]) * to_come
        return Progress(done, plan, speed, left, _peak_memory(), **also)


class RunWriter(keras.callbacks.Callback):
    """Updates the run folder: the weights after each epoch, and metrics.jsonl.

    It has a line for each epoch, and one a minute within longer epochs, which has `within_epoch`
    instead of `epoch`. Epochs end with an evaluation, and are counted from 1, also after a run is
    resumed. `steps` is the number of steps whose mean loss a line has: after a run is resumed
    within an epoch, only those since then.

    Args:
        folder: the run folder.
        model: the model in the learner, whose weights are written.
        steps: the count of steps.
        clock: returns the time of the run up to now.
        batch_size: images in a step.
        epochs: number of epochs before the run was resumed.
    """

    def __init__(
        self, folder: Path, model: Any, steps: Steps, clock: Clock, batch_size: int, epochs: int = 0
    ):
        super().__init__()
        self.folder, self._trained, self._steps = folder, model, steps
        self._clock, self._batch_size, self._epochs = clock, batch_size, epochs
        self._written = steps.done, clock()  # when there was a line

    def on_train_batch_end(self, batch, logs=None):
        """Appends the metrics of the epoch so far, once a minute."""
        step, seconds = self._written
        past = self._clock() - seconds
        if past >= _MINUTE:
            images = self._batch_size * (self._steps.done - step)
            speed = {"images_per_second": round(images / past, 3)}
            self._append({"within_epoch": self._epochs + 1}, {**(logs or {}), **speed})

    def on_epoch_end(self, epoch, logs=None):
        """Replaces the weights, then appends the epoch's metrics.

        Raises:
            RefusedError: a metric or a weight is not finite; the previous weights are kept.
        """
        for name, value in (logs or {}).items():
            if not math.isfinite(value):
                raise RefusedError(_diverged(self._steps.done, f"the {name} is {value}"))
        self.save()
        self._epochs += 1
        self._append({"epoch": self._epochs}, logs or {})

    def save(self) -> None:
        """Replaces the run's weights with the current ones, and the average if there is one.

        Raises:
            RefusedError: a weight is not finite; the previous weights are kept.
        """
        sync(self.model)
        check_finite(map(value_of, self.model.trainable_variables), self._steps.done)
        save_weights(self._trained, self.folder / "weights.npz")
        if averages(self.model.optimizer):
            with averaged(self.model):
                save_weights(self._trained, self.folder / AVERAGE)

    def _append(self, record: dict[str, Any], metrics: dict[str, float]) -> None:
        done, seconds = self._written = self._steps.done, self._clock()
        record |= {"step": done, "steps": done - self._steps.before, "seconds": round(seconds, 3)}
        record |= {name: float(value) for name, value in metrics.items()}
        sync(self.model)
        record["learning_rate"] = _learning_rate(self.model.optimizer)
        log = self.folder / "metrics.jsonl"
        with naming_a_full_disk(log), log.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(record) + "\n")


def check_finite(weights: Iterable[np.ndarray], step: int) -> None:
    """Raises a `RefusedError` if a weight after `step` steps is NaN or infinite."""
    if not all(np.isfinite(weight).all() for weight in weights):
        raise RefusedError(_diverged(step, "not all weights are finite"))


def averages(optimizer: Any) -> list[Any]:
    """The moving averages of the trainable variables that the optimiser keeps; [] for none."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    return list(inner._model_variables_moving_average) if inner.use_ema else []


@contextmanager
def averaged(learner: Any) -> Iterator[None]:
    """A context in which the trainable variables have the values of their averages."""
    variables = learner.trainable_variables
    before = [_copy(variable) for variable in variables]
    for variable, average in zip(variables, averages(learner.optimizer), strict=True):
        variable.assign(_copy(average))
    try:
        yield
    finally:
        for variable, value in zip(variables, before, strict=True):
            variable.assign(value)


def value_of(variable: Any) -> np.ndarray:
    """A copy of a variable's value, also of one that several replicas have."""
    return np.array(ops.convert_to_tensor(variable))  # NumPy alone cannot read mirrored scalars


def sync(learner: Any) -> None:
    """Makes the variables hold the current values, which JAX keeps elsewhere within an epoch."""
    if hasattr(learner, "jax_state_sync"):
        learner.jax_state_sync()


def _diverged(step: int, reason: str) -> str:
    return f"training diverged before step {step}: {reason}; lower the learning rate."


def _copy(variable: Any) -> Any:
    """A copy of a variable's value that one of several processes can assign alone."""
    if backend() != "jax":
        return value_of(variable)
    import jax.numpy

    # All processes would compare an array of NumPy with their own before they assign it.
    return jax.numpy.copy(variable.value)


def _learning_rate(optimizer) -> float:
    rate = optimizer.learning_rate
    if callable(rate):  # tf_keras returns the schedule
        rate = rate(optimizer.iterations)
    return float(ops.convert_to_tensor(rate))


def _peak_memory() -> int:
    peak: Any = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak  # macOS counts bytes, Linux kilobytes
