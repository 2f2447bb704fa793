"""What a training calls while it runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from keras_vit.data import Split
from keras_vit.models.image_model import ImageModel
from keras_vit.training.plan import Plan
from keras_vit.training.progress import Progress


@dataclasses.dataclass(frozen=True)
class Hooks:
    """Functions that a training calls, to show its progress or to add something to its epochs.

    Attributes:
        callbacks: a function of the built model and the split that returns Keras callbacks. What
            they add to the logs of an epoch is written to metrics.jsonl.
        started: called with the plan before the first step.
        report: called with the progress after each step, also of evaluations.
        saving: called with the step before the state is saved after Ctrl-C or SIGTERM, which takes
            seconds for a large model; another Ctrl-C ends training without it.
        stuck: called in a thread with a message if training does not stop within seconds after
            Ctrl-C, because a step or an evaluation is long or is being compiled. Of an evaluation
            with TensorFlow the state has been saved.
    """

    callbacks: Callable[[ImageModel, Split], Sequence[Any]] = lambda model, split: ()
    started: Callable[[Plan], None] = lambda plan: None
    report: Callable[[Progress], None] = lambda progress: None
    saving: Callable[[int], None] = lambda step: None
    stuck: Callable[[str], None] | None = None


NO_HOOKS = Hooks()
