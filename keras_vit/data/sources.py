"""Labelled images from any origin, with one interface: from an index to a uint8 RGB image.

To add a source (a data set of TensorFlow Datasets, a database ...): write a function without
arguments that returns a `Source`, and add a row to `SOURCES`. Users pass its name there as `data`.
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
        name: its name in reports: "digits", or the last part of a folder's path.
        labels: the class names, in the order of the logits.
        ids: a stable name for each example.
        targets: the class of each example, int64 (n,).
        image: a function of an index that returns the image, uint8 (height, width, 3); it is
            called from many threads.
        skipped: the skipped files, each with the reason; see `skipped_summary`.
        locator: the argument of `open_source` that opens it again: a name in `SOURCES`, or a
            folder's absolute path. Default: the name.
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
        """The number of images in each class, in the order of `labels`."""
        counts = np.bincount(self.targets, minlength=len(self.labels))
        return dict(zip(self.labels, counts.tolist(), strict=True))


def open_source(data: str | os.PathLike, strict: bool = False) -> Source:
    """Opens a source by name, or a folder with one subfolder for each class.

    Args:
        data: a name in `SOURCES`, or the folder.
        strict: for folders: raise an error for unreadable pictures instead of skipping them.
    """
    folder = source_folder(data)
    return SOURCES[str(data)]() if folder is None else image_folder(folder, strict)


def source_folder(data: str | os.PathLike) -> Path | None:
    """`data` as a folder, which need not exist; None for a name in `SOURCES`."""
    return None if str(data) in SOURCES else Path(data)


def digits() -> Source:
    """scikit-learn's handwritten digits: 1,797 images of 8 x 8 pixels, ten classes, no download.

    Source: UCI "Optical Recognition of Handwritten Digits", test set. The 17 grey levels are scaled
    to 0 to 255.
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
    """Opens a folder with one subfolder for each class, with pictures of any size and mode.

    Classes are the subfolders in alphabetical order; they may contain subfolders too. JPEG, PNG,
    WebP, GIF, BMP and TIFF files are read; the format is detected from the content. Every picture
    is decoded once to find the corrupt ones; `skipped` has all skipped files.

    Args:
        path: the folder.
        strict: raise an error for unreadable pictures instead of skipping them.

    Raises:
        UsageError: there is no such folder, it does not contain the class folders, a class has no
            readable picture or an invalid name, or, if strict, a picture cannot be read.
    """
    path = Path(path).resolve()
    classes = folders.class_folders(path)
    files, skipped = folders.list_pictures(path, classes)
    # libtiff writes errors to standard error without the name of the file.
    with quiet(), ThreadPoolExecutor() as pool:
        faults = list(pool.map(check_image, [file for _, file in files]))
    readable = [entry for entry, fault in zip(files, faults, strict=True) if not fault]
    for (target, file), fault in zip(files, faults, strict=True):
        if fault:
            place = file.relative_to(path).as_posix()
            skipped.append(Skipped(place, classes[target].name, fault, is_unreadable=True))
    unreadable = [file for file in skipped if file.is_unreadable]
    if strict and unreadable:
        first = unreadable[0]
        raise UsageError(
            f"{path / first.path}: {first.reason} ({len(unreadable)} unreadable in all)."
        )
    folders.check_classes(path, classes, {target for target, _ in readable}, skipped)
    return Source(
        name=path.name,
        labels=tuple(folder.name for folder in classes),
        ids=tuple(file.relative_to(path).as_posix() for _, file in readable),
        targets=np.array([target for target, _ in readable], np.int64),
        image=lambda i: decode_image(readable[i][1]),
        skipped=tuple(skipped),
        locator=str(path),
    )


def skipped_summary(source: Source) -> list[str]:
    """A few lines that list the skipped files of a source by reason and class."""
    return folders.summary(source.skipped, len(source))
