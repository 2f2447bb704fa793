"""What every format of masks finds in a folder of pictures: a `MaskListing`."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from keras_vit.data.decoding import printable, upright_size
from keras_vit.data.folders import SPLITS, Skipped
from keras_vit.data.picture_index import Known

_BACKGROUND = "background"
_BACKGROUNDS = (_BACKGROUND, "_background_")  # the latter is labelme's


@dataclasses.dataclass(frozen=True)
class MaskListing:
    """The pictures of a folder whose masks can be read.

    Attributes:
        labels: the names of the classes.
        pictures: the pictures.
        known: what is known of each of them, see `Index.examine`.
        classes: those that occur in each mask.
        mask: a function of the place of a picture that returns its mask, see `Masks`.
        splits: those of each picture, see `declared_splits`.
        skipped: what cannot be used, and why.
        about: the other files that were read.
        expected: what the format needs, for the error if there is nothing.
        note: see `Masks`.
    """

    labels: tuple[str, ...]
    pictures: Sequence[Path]
    known: Mapping[Path, Known]
    classes: Sequence[Iterable[int]]
    mask: Callable[[int], np.ndarray]
    splits: Sequence[Iterable[str]]
    skipped: list[Skipped]
    about: Sequence[Path]
    expected: str
    note: str = ""


def skipped_file(path: Path, file: Path, reason: str) -> Skipped:
    """A file below a folder as one that is skipped."""
    return Skipped(printable(file.relative_to(path).as_posix()), "", reason, is_unreadable=True)


def after_background(names: Iterable[str]) -> tuple[tuple[str, ...], dict[str, int]]:
    """The labels "background" and those of objects, and the class of each name of an object."""
    names = list(names)
    labels = dict.fromkeys([_BACKGROUND, *(name for name in names if name not in _BACKGROUNDS)])
    classes = {label: number for number, label in enumerate(labels)}
    return tuple(labels), {name: classes.get(name, 0) for name in names}


def size_fault(picture: Path, height: int, width: int) -> str:
    """Why a mask of this size is not that of a picture that can be read; "" if it is."""
    size = upright_size(picture)
    if size == (height, width):
        return ""
    if size[::-1] == (height, width):
        return "mask of the picture before it was turned upright (EXIF); turn it too"
    return "mask of another size than its picture"


def splits_of_folders(path: Path, picture: Path) -> list[str]:
    """The splits that the folders of a picture are named after: train, or train2017."""
    parts = picture.relative_to(path).parts[:-1]
    return named_splits({part.lower().rstrip("0123456789") for part in parts})


def named_splits(words: Iterable[str]) -> list[str]:
    """The splits that words name."""
    words = {*words}
    return [split for split, names in SPLITS.items() if words & {*names}]


def declared_splits(splits: Iterable[Iterable[str]]) -> dict[str, np.ndarray]:
    """The indices of each split of a source, from the splits of each picture; {} for none."""
    indices = collections.defaultdict(list)
    for i, names in enumerate(splits):
        for name in names:
            indices[name].append(i)
    found = {split: np.array(indices[split], np.int64) for split in SPLITS if indices[split]}
    return found if "train" in found and len(found) > 1 else {}
