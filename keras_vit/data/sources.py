"""Labelled images behind one interface: an index in, a uint8 RGB image out.

To add a source (a data set of TensorFlow Datasets, a database ...): write a function without
arguments that returns a `Source`, and give it a row in `SOURCES`. Its name there is what users pass
as `data`.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from keras_vit._errors import MissingPackageError, UsageError
from keras_vit._quiet import quiet
from keras_vit.data import folders
from keras_vit.data.decoding import check_image, decode_image
from keras_vit.data.folders import Skipped


@dataclasses.dataclass(frozen=True)
class Source:
    """Labelled images with random access.

    Attributes:
        name: what it is called in reports: "digits", or a folder's own name.
        labels: the classes' names, in the order of the logits.
        ids: a stable name for each example.
        targets: each example's class, int64 (n,).
        image: the image at an index, uint8 (height, width, 3); called from many threads.
        skipped: the files that were left out, each with the reason; see `skipped_summary`.
        locator: what `open_source` takes to open it again: a name in `SOURCES`, or a folder's
            absolute path. Default: the name.
    """

    name: str
    labels: tuple[str, ...]
    ids: tuple[str, ...]
    targets: np.ndarray
    image: Callable[[int], np.ndarray]
    skipped: tuple[Skipped, ...] = ()
    locator: str = ""

    def __post_init__(self):
        object.__setattr__(self, "locator", self.locator or self.name)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def counts(self) -> dict[str, int]:
        """How many images each class has, in the order of `labels`."""
        found = np.bincount(self.targets, minlength=len(self.labels))
        return dict(zip(self.labels, found.tolist(), strict=True))


def open_source(data: str | os.PathLike, strict: bool = False) -> Source:
    """The source that `data` means: a name in `SOURCES`, or a folder with one subfolder a class.

    Args:
        data: the name or the folder.
        strict: of a folder: raise for unreadable pictures instead of skipping them.
    """
    folder = source_folder(data)
    return SOURCES[str(data)]() if folder is None else image_folder(folder, strict)


def source_folder(data: str | os.PathLike) -> Path | None:
    """The folder that `data` means, whether it exists or not; None for a name in `SOURCES`."""
    return None if str(data) in SOURCES else Path(data)


def digits() -> Source:
    """scikit-learn's handwritten digits: 1,797 images of 8 x 8 pixels, ten classes, no network.

    Source: UCI "Optical Recognition of Handwritten Digits", test set. The 17 grey levels become
    0 to 255.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise MissingPackageError(
            "the digits need scikit-learn: pip install 'keras_vit[train]'"
        ) from None
    data = load_digits()
    grey = np.rint(data.images * (255 / 16)).astype(np.uint8)  # (n, 8, 8)
    images = np.repeat(grey[..., None], 3, axis=-1)  # (n, 8, 8, 3)
    return Source(
        name="digits",
        labels=tuple(str(name) for name in data.target_names),
        ids=tuple(f"digits/{i:04d}" for i in range(len(images))),
        targets=data.target.astype(np.int64),
        image=images.__getitem__,
    )


SOURCES: dict[str, Callable[[], Source]] = {"digits": digits}


def image_folder(path: str | os.PathLike, strict: bool = False) -> Source:
    """A folder with one subfolder a class, each with pictures of any size and mode.

    Classes are the subfolders in alphabetical order; pictures may lie in subfolders of these.
    JPEG, PNG, WebP, GIF, BMP and TIFF are read, recognised by their content. Every picture is
    decoded once to find the corrupt ones; `skipped` has all files that are left out.

    Args:
        path: the folder.
        strict: raise for unreadable pictures instead of skipping them.

    Raises:
        UsageError: there is no such folder, it is not the one that holds the class folders, a
            class has no readable picture or an odd name, or, if strict, a picture cannot be read.
    """
    path = Path(path).resolve()
    classes = folders.class_folders(path)
    files, skipped = folders.list_pictures(path, classes)
    # libtiff writes what is wrong with a file to standard error, without the file's name.
    with quiet(), ThreadPoolExecutor() as pool:
        faults = list(pool.map(check_image, [file for _, file in files]))
    good = [entry for entry, fault in zip(files, faults, strict=True) if not fault]
    for (target, file), fault in zip(files, faults, strict=True):
        if fault:
            place = file.relative_to(path).as_posix()
            skipped.append(Skipped(place, classes[target].name, fault, is_unreadable=True))
    lost = [file for file in skipped if file.is_unreadable]
    if strict and lost:
        raise UsageError(
            f"{path / lost[0].path}: {lost[0].reason} ({len(lost)} unreadable in all)."
        )
    folders.check_classes(path, classes, {target for target, _ in good}, skipped)
    return Source(
        name=path.name,
        labels=tuple(folder.name for folder in classes),
        ids=tuple(file.relative_to(path).as_posix() for _, file in good),
        targets=np.array([target for target, _ in good], np.int64),
        image=lambda i: decode_image(good[i][1]),
        skipped=tuple(skipped),
        locator=str(path),
    )


def skipped_summary(source: Source) -> list[str]:
    """The files that a source left out, by reason and class, in a few lines."""
    return folders.summary(source.skipped, len(source))
