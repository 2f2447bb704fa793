"""Options that several commands share, with their help and their checks."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from keras_vit import _checks
from keras_vit._errors import UsageError
from keras_vit.cli._fields import option
from keras_vit.cli._program import spelled


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """A run and its pictures."""

    run: Path | None = None
    """The run folder; default: the newest under runs/."""
    data: str | None = None
    """Where the run's pictures are now, if they were moved."""


@dataclasses.dataclass(frozen=True)
class ModelOptions(RunOptions):
    """A model with pictures: a run, or weights."""

    data: str | None = None
    """Pictures to measure ranges and to compare on: 'digits', or a folder with one subfolder for
    each class. Default: the pictures of the run; for --weights none, and random images are
    compared."""
    weights: str | None = None
    """Instead of a run: a file of weights in any layout, a URL, or, with --model, a published name
    such as augreg."""
    model: str | None = None
    """The model that --weights are for, a name of keras_vit.list_models(); default: what the file
    holds."""
    image_size: int | tuple[int, int] | None = option(None, check=_checks.positive_integer)
    """One number, or height and width, in pixels; positions are resampled. Default: the model's."""
    out: Path | None = None
    """The folder to write; default: export/ in the run folder."""

    def __post_init__(self):
        if self.weights is None and self.model is not None:
            raise UsageError("--model says what --weights are for; a run knows its model.")
        if self.weights is not None and self.run is not None:
            raise UsageError("expected --run or --weights. Received: both.")
        if self.weights is not None and self.out is None:
            raise UsageError("--weights need --out, the folder to write.")

    def open(self):
        """The model and its images, as a `Subject`."""
        from keras_vit.deploy import subject

        size = self.image_size
        size = (size, size) if isinstance(size, int) else size
        if self.weights is None:
            return subject.of_run(self.run or newest_run(), self.data, size)
        return subject.of_weights(self.weights, self.model, self.data, size)


@dataclasses.dataclass(frozen=True)
class MeasuringOptions:
    """Numbers of images and threads for measurements."""

    images: int = option(500, check=_checks.positive_integer)
    """Compare on at most this many images; of a run these are held-out images."""
    calibrate: int = option(32, check=_checks.positive_integer)
    """Measure ranges on at most this many other images; of a run these are training images."""
    threads: tuple[int, ...] = option((1, 2), check=_checks.positive_integer)
    """Threads of the interpreter when latency is measured; one number or several."""


def newest_run() -> Path:
    """The newest run under runs/.

    Raises:
        UsageError: there is none.
    """
    from keras_vit import runs

    if not (found := runs.list_runs()):
        raise UsageError(
            f"no run under {Path('runs').resolve()}; make one with: "
            f"{spelled('fit')} --data digits --out runs/digits"
        )
    return found[-1]
