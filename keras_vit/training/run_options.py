"""How a training is saved, and what it calls while it runs."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from keras_vit.data import Split
from keras_vit.models.image_model import ImageModel
from keras_vit.training.callbacks import Progress
from keras_vit.training.plan import Plan


@dataclasses.dataclass(frozen=True)
class Saving:
    """The run folder of a training, and what is written into it.

    Attributes:
        folder: the run folder.
        resume: go on after the newest checkpoint of the run in the folder, or begin again if it was
            killed before it had saved anything. The recipe and the model must be those of the run;
            only the duration may change. The images must be the same: their names and classes are
            checked, their pixels are not.
        overwrite: replace an existing run in the folder.
        checkpoint_every: how often the whole state is saved: "5 minutes", "1 epoch", "500 steps";
            None for as often as before in a resumed run, and otherwise every five minutes. After
            Ctrl-C and SIGTERM it is saved too, as soon as the step ends; see `Hooks.stuck`.
        keep: the number of checkpoints to keep, the newest; None for two. If neither this nor
            `checkpoint_every` is given, they are removed when the training has ended.
        tensorboard: also write TensorBoard's event files to tensorboard/ in the folder.
        preset: the name of the recipe, which the run keeps; None if it has none.
    """

    folder: str | os.PathLike
    resume: bool = False
    overwrite: bool = False
    checkpoint_every: str | None = None
    keep: int | None = None
    tensorboard: bool = False
    preset: str | None = None

    @property
    def path(self) -> Path:
        """The run folder."""
        return Path(self.folder)


def saving_of(out: str | os.PathLike | Saving) -> Saving:
    """`out`, or how a training is saved in the folder `out` by default."""
    return out if isinstance(out, Saving) else Saving(out)


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
