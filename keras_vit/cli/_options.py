"""Options that several commands share, their help and checks, and what they open."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from keras_vit import _checks, data, deploy
from keras_vit._errors import UsageError, nearest, squeeze
from keras_vit._files import check_replaceable, check_writable
from keras_vit.cli._arguments import option
from keras_vit.cli._printing import print_skipped
from keras_vit.cli._program import spelled

_MOST_THREADS = 256
_MOST_NAMES = 8  # of runs in a message
_WEIGHT_FILES = (".npz", ".safetensors", ".h5", ".keras")


def check_run(run: Path | None, newest: bool = False) -> None:
    """Raises a `UsageError` if there is no such folder, before anything slow is imported.

    Args:
        run: the folder; None for no run.
        newest: None stands for the newest run under runs/, which must exist.
    """
    if run is None:
        if newest and not any(Path("runs").glob("[!.]*/spec.json")):
            raise UsageError(
                f"no run under {Path('runs').resolve()}; make one with: "
                f"{spelled('fit')} --data digits --out runs/digits"
            )
        return
    if not run.exists():
        raise UsageError(f"{run}: expected a run folder; there is no such folder.")
    if run.is_file():
        advice = f"; pass {run.parent}" if (run.parent / "spec.json").is_file() else ""
        raise UsageError(f"{run}: expected a run folder. Received: a file{advice}.")
    if not any(run.iterdir()):
        raise UsageError(f"{run}: expected a run folder. Received: an empty folder.")
    check_holds_no_runs(run)
    if not (run / "spec.json").is_file():
        kind = _bundle(run) or "a folder without spec.json"
        raise UsageError(f"{run}: expected a run folder. Received: {kind}.")


def check_holds_no_runs(folder: Path) -> None:
    """Raises a `UsageError` that names the runs inside, if `folder` is not a run but holds some."""
    if (folder / "spec.json").is_file():
        return
    files = [*folder.glob("[!.]*/spec.json"), *folder.glob("trials/[!.]*/spec.json")]  # of compare
    names = sorted(str(file.parent) for file in files)
    if names:
        more = " ..." if len(names) > _MOST_NAMES else ""
        names = names[:_MOST_NAMES]
        raise UsageError(f"{folder} holds runs; give one of them: {', '.join(names)}{more}.")


def check_data(name: str, data: str, task: str | None = None) -> None:
    """Raises a `UsageError` if there is neither a folder of pictures nor a source of this name.

    Args:
        name: what the message calls it.
        data: the folder or the source.
        task: what the pictures are for; None if it is not known yet.
    """
    if Path(data).is_dir():
        from keras_vit.data.folders import check_has_classes
        from keras_vit.data.mask_folders import has_mask_folders, has_masks_beside

        if task == "segmentation":
            return
        is_masked = has_mask_folders(Path(data))
        try:
            if not is_masked:
                check_has_classes(Path(data))
                return
        except UsageError:
            if not has_masks_beside(Path(data)):
                raise
        if task is not None:
            raise UsageError(
                f"{data}: expected a folder with one subfolder for each class. Received: pictures "
                "with masks; add --task segmentation."
            )
        return
    if Path(data).is_file():
        raise UsageError(f"{name} must be a folder or a source. Received: {data}, a file.")
    from keras_vit.data import check_source, source_folder

    if task == "segmentation" and source_folder(data) is not None:
        raise UsageError(f"{data}: expected a folder of pictures with masks; there is none.")
    check_source(data)


def check_model(name: str, model: str) -> None:
    """Raises a `UsageError` if there is no such model."""
    from keras_vit.variant_specs import find_variant

    find_variant(model)


def check_weights(weights: str | None, model: str | None, run_instead: str = "--run {}") -> None:
    """Raises a `UsageError` if `weights` is a run, or is missing and can be no published name.

    Args:
        weights: a file, a URL, a full published name, or with `model` a directory of those.
        model: the name of a model, if it is known.
        run_instead: what to use instead of a run; {} is its folder.
    """
    if weights is None:
        return
    if (Path(weights) / "spec.json").is_file():
        raise UsageError(f"{weights} is a run; use {run_instead.format(weights)}.")
    if bundle := _bundle(Path(weights)):
        raise UsageError(f"{weights}: expected weights. Received: {bundle}.")
    if "://" in weights or Path(weights).exists():
        return
    from keras_vit.weights.catalogue import PUBLISHED, named_weights

    if model is None:
        try:
            named_weights(weights)
        except UsageError:
            if Path(weights).suffix in _WEIGHT_FILES:
                raise UsageError(f"{weights}: there is no such file of weights.") from None
            if similar := nearest(weights, [entry.name for entry in PUBLISHED]):
                raise UsageError(
                    f"{weights}: there is no such file; did you mean {similar}?"
                ) from None
            raise UsageError(
                f"{weights}: there is no such file; published weights need --model, such as "
                "ViT_B16, or their full name, such as facebook/dinov2-small; other folders of the "
                "Hugging Face Hub are hf://OWNER/NAME."
            ) from None
        return
    is_published = weights.partition("/")[0] in {entry.directory for entry in PUBLISHED}
    if Path(weights).suffix in _WEIGHT_FILES or not is_published:
        raise UsageError(f"{weights}: there is no such file of weights.")


def holds_model(weights: str | None) -> bool:
    """Whether weights say which model they are for: a file, a URL or a full published name."""
    if weights is None or Path(weights).exists():
        return weights is not None
    from keras_vit.weights.catalogue import PUBLISHED

    return squeeze(weights) not in {squeeze(entry.directory) for entry in PUBLISHED}


def check_pictures(pictures: Sequence[Path]) -> None:
    """Raises a `UsageError` if none of some pictures exists; single ones are skipped later."""
    if pictures and not any(picture.exists() for picture in pictures):
        raise UsageError(f"{pictures[0]}: there is no such picture.")


def check_threads(name: str, threads: int) -> None:
    """Raises a `UsageError` for more threads than TFLite's interpreter can start."""
    _checks.positive_integer(name, threads)
    if threads > _MOST_THREADS:
        raise UsageError(f"{name} must be {_MOST_THREADS} at most. Received: {name}={threads}.")


def check_positive(name: str, value: float) -> None:
    """Raises a `UsageError` if a number is not positive, or infinite."""
    if not 0 < value < float("inf"):
        raise UsageError(f"{name} must be positive. Received: {value}.")


def check_part(name: str, value: float) -> None:
    """Raises a `UsageError` for a number that is no part of a whole, which may be all of it."""
    if not 0 < value <= 1:
        raise UsageError(f"{name} must lie in (0, 1]. Received: {value}.")


def check_folder(out: Path | None, holds: str = "") -> None:
    """Raises a `UsageError` if a folder to write is a file, or cannot be written.

    Args:
        out: the folder; None for the usual one, which the library checks.
        holds: what alone it may hold, see `check_replaceable`; "" for anything.
    """
    if out is not None and holds:
        check_replaceable(out, holds)
    elif out is not None:
        if out.is_file():
            raise UsageError(f"{out} is a file; choose another folder.")
        check_writable(out)


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """A run and its pictures."""

    run: Path | None = None
    """The run folder; default: the newest under runs/."""
    data: str | None = option(None, check=check_data)
    """Where the run's pictures are now, if they were moved."""

    def __post_init__(self):
        check_run(self.run, newest=True)


@dataclasses.dataclass(frozen=True)
class WeightsOptions(RunOptions):
    """A run and its pictures, or weights."""

    weights: str | None = None
    """Instead of a run: a file or a folder of weights in any layout, its URL (hf://OWNER/NAME on
    the Hugging Face Hub), a full published name such as facebook/dinov2-small, or, with --model,
    one such as augreg."""
    model: str | None = option(None, check=check_model)
    """The model that --weights are for, such as ViT_B16; --model all lists every name. Default:
    the model that the file holds."""

    def __post_init__(self):
        if self.weights is None and self.model is not None:
            raise UsageError("--model is only used with --weights; a run already has its model.")
        if self.weights is not None and self.run is not None:
            raise UsageError("expected --run or --weights. Received: both.")
        check_weights(self.weights, self.model)
        check_run(self.run, newest=self.weights is None)


@dataclasses.dataclass(frozen=True)
class ModelOptions(WeightsOptions):
    """A model with pictures: a run, or weights."""

    data: str | None = option(None, check=check_data)
    """Pictures to compare the results on, and to measure ranges: a folder with one subfolder for
    each class, or a source such as 'digits'. Default: the pictures of the run; with --weights there
    are none, and random images are compared."""
    image_size: int | tuple[int, int] | None = option(None, check=_checks.positive_integer)
    """One number, or height and width, in pixels; positions are resampled. Default: the model's."""
    out: Path | None = None
    """The folder to write; default: export/ in the run folder."""

    def __post_init__(self):
        if self.weights is not None and self.run is None and self.out is None:
            raise UsageError("--weights need --out, the folder to write.")
        check_folder(self.out)
        super().__post_init__()

    def open(self):
        """The model and its images, as a `TrainedModel`."""
        size = self.image_size
        size = (size, size) if isinstance(size, int) else size
        if self.weights is None:
            return deploy.of_run(self.run, self.data, size)
        return deploy.of_weights(self.weights, self.model, self.data, size)


@dataclasses.dataclass(frozen=True)
class MeasuringOptions:
    """Numbers of images and threads for measurements."""

    images: int = option(500, check=_checks.positive_integer)
    """Compare on at most this many images; of a run these are held-out images."""
    calibrate: int = option(32, check=_checks.positive_integer)
    """Measure ranges on at most this many other images; of a run these are training images."""
    threads: tuple[int, ...] = option((1, 2), check=check_threads)
    """Threads of the interpreter when latency is measured; one number or several."""


def open_run(folder: Path | None, stream: TextIO | None = None) -> Any:
    """The run in a folder, or else the newest one under runs/; prints which one it is."""
    from keras_vit import runs

    run = runs.open_run(folder or runs.newest_run())
    print(f"{'run' if folder else 'newest run'} {run}", file=stream)
    return run


def open_images(locator: str, strict: bool = False, before: str = "") -> Any:
    """The `data.Source` of a locator; prints, after some words, that it is read."""

    print(f"{before}reading {locator}")
    source = data.open_source(locator, strict)
    print_skipped(source)
    return source


def model_of_weights(
    weights: str, name: str | None, image_size: int | tuple[int, int] | None = None
) -> Any:
    """The model of a file, a URL or published weights, for pictures.

    Args:
        weights: a file in any layout, a URL, a full published name, or with `name` a directory of
            those.
        name: the model's name; None if the file says what it holds.
        image_size: the size to resample it to; None for its own.

    Raises:
        UsageError: see `create_model`; or its inputs are not made from pictures.
    """
    import keras_vit

    if name is not None:
        model = keras_vit.create_model(name, image_size=image_size, weights=weights)
    else:
        model = keras_vit.model_from_weights(weights, image_size=image_size)
    _checks.reads_pictures(model)
    return model


def has_trained_head(model: Any) -> bool:
    """Whether the model has a head that is not all zeros, so that its answers mean something."""
    import numpy as np

    return bool(model.num_classes) and np.asarray(model.get_layer("head").kernel).any()


def seen_warning(weights: str, source: Any, indices: Any) -> str:
    """That weights in a run folder were trained on some of the images; "" otherwise.

    Args:
        weights: the file.
        source: the images.
        indices: which of them are judged.
    """
    import numpy as np

    from keras_vit import runs

    folder, seen = Path(weights).parent, 0
    with contextlib.suppress(UsageError):  # no run, or its images have changed
        run = runs.open_run(folder)
        if run.recipe["data"] == source.locator:
            seen = int(np.isin(indices, run.split(source).train).sum())
    if not seen:
        return ""
    return (
        f"these weights were trained on {seen:,} of the {len(indices):,} images; "
        f"--run {folder} takes the others."
    )


def _bundle(folder: Path) -> str:
    """What a folder is if it is a bundle, with its run if that is near; otherwise ""."""
    if not (folder / "model.tflite").is_file():
        return ""
    run = folder.resolve().parent.parent
    of_run = f", which the run {run} has" if (run / "spec.json").is_file() else ""
    return f"an exported bundle; a run is needed, or its weights{of_run}"
