"""Where a training is saved, and how often."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path


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
