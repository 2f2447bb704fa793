"""How long a training will take, from some of its steps."""

from __future__ import annotations

import math
import time
from typing import Any

from keras_vit._keras import keras
from keras_vit.training.plan import Plan

# Enough are timed: three that take two seconds, or one that takes ten.
MOST_TIMED = 100
_STEPS, _SECONDS, _LONG = 3, 2.0, 10.0
_FLOPS = 1e12  # take seconds on a CPU, of which the optimiser's own time is a small fraction
_FORWARD = 1 / 3  # of the time of a step, for as many images


def is_enough(steps: int, seconds: float) -> bool:
    """Whether so many timed steps tell how long the others will take."""
    return (steps >= _STEPS and seconds >= _SECONDS) or (steps >= 1 and seconds >= _LONG)


def parts_to_time(parts: int, flops: int) -> int:
    """How many parts of a batch are timed, if a step of so many has so many operations."""
    return min(parts, max(2, math.ceil(parts * _FLOPS / flops)))


def time_of(plan: Plan, learner: Any, batches: Any) -> float:
    """The seconds of a training, without the compilation of the first step.

    Args:
        plan: the plan of the training.
        learner: the model to train, which makes some steps.
        batches: at most so many.
    """
    steps = _Timed()
    learner.fit(
        batches, epochs=MOST_TIMED, steps_per_epoch=1, callbacks=[steps], verbose=0, shuffle=False
    )
    each = (steps.times[-1] - steps.times[0]) / max(len(steps.times) - 1, 1)
    evaluations = -(-plan.steps // plan.period)
    held_out = evaluations * plan.held_out / plan.batch_size * _FORWARD
    return each * (plan.steps - plan.first_step + held_out)


class _Timed(keras.callbacks.Callback):
    """Notes when each step ended, and ends the training when these are enough."""

    def __init__(self):
        super().__init__()
        self.times: list[float] = []

    def on_epoch_end(self, epoch, logs=None):
        """Notes the time."""
        self.times.append(time.monotonic())
        if is_enough(epoch, self.times[-1] - self.times[0]):
            self.model.stop_training = True
