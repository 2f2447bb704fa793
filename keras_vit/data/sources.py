"""The sources of labelled images, by name.

To add a source (a data set, a database ...): write a function that returns a `Source`, and add a
row to `SOURCES`. Users pass its name there as `data`, and after a colon what it should open.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from keras_vit import _files
from keras_vit._errors import UsageError, naming_install, nearest
from keras_vit.data import folders
from keras_vit.data.cifar import check_cifar10, cifar10
from keras_vit.data.picture_folders import image_folder, pictures_below
from keras_vit.data.records import tfrecords
from keras_vit.data.scenes import scenes
from keras_vit.data.source import InMemory, Source
from keras_vit.data.task_folders import FOLDERS, PREPARED
from keras_vit.data.tfds import (
    check_imagenet_v2,
    check_prepared,
    imagenet,
    imagenet_v2,
    tfds,
    tfds_masks,
)
from keras_vit.data.vtab import check_vtab, vtab


@dataclasses.dataclass(frozen=True)
class Opener:
    """How a source is opened.

    Attributes:
        open: returns the `Source`; it receives what comes after the colon, if anything does.
        argument: whether something comes after the colon. A source that needs it opens many data
            sets, and files are named after these.
        help: what comes after the colon, for messages.
        strict: whether `open` also takes `strict`, see `open_source`.
        check: raises a `UsageError` if the data is absent, and reads no images; None if there is
            no faster way than to open it. It receives what `open` does.
    """

    open: Callable[..., Source]
    argument: Literal["none", "optional", "needed"] = "none"
    help: str = "FOLDER"
    check: Callable[..., None] | None = None
    strict: bool = False


def open_source(data: str | os.PathLike, strict: bool = False) -> Source:
    """Opens a source by name, or a folder with one subfolder for each class.

    Args:
        data: a name in `SOURCES`, for some with a colon and what to open, such as
            "cifar10:FOLDER"; or the folder.
        strict: for folders, of any kind: raise an error for unreadable pictures instead of skipping
            them.
    """
    check_source(data)
    name, what = _parts(data)
    if name is None:
        return image_folder(data, strict)
    row = SOURCES[name]
    return row.open(*([what] if what else []), **({"strict": strict} if row.strict else {}))


def check_source(data: str | os.PathLike) -> None:
    """Raises a `UsageError` if `data` is neither a folder nor a source with what it needs."""
    name, what = _parts(data)
    if name is None:
        if Path(data).exists():
            return
        near = nearest(os.fspath(data), SOURCES)
        advice = f"did you mean {near}?" if near else f"the sources are {', '.join(SOURCES)}."
        raise UsageError(
            f"{data}: expected a folder with one subfolder for each class, or a source; there is "
            f"no such folder, {advice}"
        )
    row = SOURCES[name]
    if row.argument == "none" and what:
        raise UsageError(f"nothing may follow the name {name}. Received: {data!r}; use {name!r}.")
    if row.argument == "needed" and not what:
        raise UsageError(f"{name} needs what to open. Received: {data!r}; use '{name}:{row.help}'.")


def check_present(data: str | os.PathLike) -> None:
    """Raises a `UsageError` that says how to get the data if it is not on the disk.

    Images are not read, where a source can tell without.
    """
    check_source(data)
    name, what = _parts(data)
    check = SOURCES[name].check if name else None
    if check is not None:
        check(*([what] if what else []))


def source_folder(data: str | os.PathLike) -> Path | None:
    """The folder of pictures, which need not exist, that `data` names; None for other sources."""
    name, what = _parts(data)
    if name is not None and name not in FOLDERS.values():
        return None
    return Path(what if name else data)


def for_task(data: str | os.PathLike, task: str) -> str | os.PathLike:
    """`data`, or for a folder of pictures or a data set of TFDS the source for a task."""
    name, what = _parts(data)
    if name == "tfds" and what and task in PREPARED:
        return f"{PREPARED[task]}:{what}"
    is_folder = name is None
    return f"{FOLDERS[task]}:{os.fspath(data)}" if is_folder and task in FOLDERS else data


def path_of(source: Source, index: int) -> str:
    """The file of an image of a folder of pictures; of other sources its id."""
    folder = source_folder(source.locator)
    return source.ids[index] if folder is None else str(folder / source.ids[index])


def check_out(path: str | os.PathLike, data: str | os.PathLike, overwrite: bool = False) -> None:
    """Checks that a run on `data` may be written to `path`; nothing is written.

    Raises:
        UsageError: the folder is not empty, lies inside the data or a run, or cannot be written.
    """
    path = Path(path)
    folder = source_folder(data)
    if folder is not None and folder.resolve() in [path.resolve(), *path.resolve().parents]:
        raise UsageError(f"out={path} lies inside the data, {data}; choose another folder.")
    if path.is_file():
        raise UsageError(f"{path} is a file; choose another folder.")
    around = next(
        (each for each in path.absolute().parents if (each / "spec.json").is_file()), None
    )
    if around is not None:
        raise UsageError(f"out={path} lies inside the run {around}; choose another folder.")
    _files.check_writable(path)
    if path.is_dir() and any(path.iterdir()):
        if not (path / "spec.json").is_file():
            raise UsageError(f"{path} is not empty and is not a run; choose another folder.")
        if not overwrite:
            raise UsageError(f"{path} is a run; choose another folder or pass overwrite=True.")


def source_name(data: str | os.PathLike) -> str:
    """A name for files: that of the source, or of the folder or data set that it opens."""
    name, what = _parts(data)
    if name is None:
        return Path(data).resolve().name
    return Path(what.partition(":")[0]).name if SOURCES[name].argument == "needed" else name


def _parts(data: str | os.PathLike) -> tuple[str | None, str]:
    """The name in `SOURCES` and what comes after its colon; None for a folder of pictures."""
    name, colon, what = os.fspath(data).partition(":")
    if name not in SOURCES or (colon and not what):
        return None, ""
    return name, what


def digits() -> Source:
    """scikit-learn's handwritten digits: 1,797 images of 8 x 8 pixels, ten classes, no download.

    Source: UCI "Optical Recognition of Handwritten Digits", test set. The 17 grey levels are scaled
    to 0 to 255.
    """
    with naming_install("the digits need scikit-learn"):
        from sklearn.datasets import load_digits
    data = load_digits()
    grey = np.rint(data.images * (255 / 16)).astype(np.uint8)  # (n, 8, 8)
    images = np.repeat(grey[..., None], 3, axis=-1)  # (n, 8, 8, 3)
    return Source(
        name="digits",
        labels=tuple(str(name) for name in data.target_names),
        ids=tuple(f"digits/{i:04d}" for i in range(len(images))),
        targets=data.target.astype(np.int64),
        image=InMemory(images),
    )


def _masks(path: str, strict: bool = False) -> Source:
    from keras_vit.data.mask_folders import mask_folder  # and with it what reads each format

    return mask_folder(path, strict)


SOURCES: dict[str, Opener] = {
    "digits": Opener(digits),
    "cifar10": Opener(cifar10, "optional", check=check_cifar10),
    "scenes": Opener(scenes),
    "unlabelled": Opener(pictures_below, "needed", strict=True),
    "masks": Opener(_masks, "needed", strict=True),
    "tfds": Opener(tfds, "needed", "NAME", check_prepared),
    "tfds-masks": Opener(tfds_masks, "needed", "NAME", check_prepared),
    "vtab": Opener(vtab, "needed", "TASK", check_vtab),
    "imagenet2012": Opener(
        partial(imagenet, "imagenet2012", "label"), check=partial(check_prepared, "imagenet2012")
    ),
    "imagenet2012_real": Opener(
        partial(imagenet, "imagenet2012_real", "real_label"),
        check=partial(check_prepared, "imagenet2012_real"),
    ),
    "imagenet_v2": Opener(imagenet_v2, "optional", "VARIANT", check_imagenet_v2),
    "tfrecords": Opener(tfrecords, "needed"),
}


def skipped_summary(source: Source) -> list[str]:
    """A few lines that list the skipped files of a source by reason and class."""
    return folders.summary(source.skipped, len(source))
