"""Folders of pictures as a source, with one subfolder for each class."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_vit._errors import UsageError
from keras_vit.data import folders
from keras_vit.data.decoding import decode_image
from keras_vit.data.folders import Skipped
from keras_vit.data.formats import PLAIN
from keras_vit.data.index import Entry, Index
from keras_vit.data.readers import Encoded
from keras_vit.data.reading import changed
from keras_vit.data.source import Source

# The only class of pictures without classes, and the name of their source.
_NO_CLASS = "unlabelled"


@dataclasses.dataclass(frozen=True)
class _Part:
    """The pictures of one folder with class folders: the whole source, or a split of it."""

    folder: Path
    classes: list[Path]
    files: list[tuple[int, Path]]
    skipped: list[Skipped]

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(folder.name for folder in self.classes)


def image_folder(path: str | os.PathLike, strict: bool = False) -> Source:
    """Opens a folder with one subfolder for each class, with pictures of any size and mode.

    Classes are the subfolders in alphabetical order; they may contain subfolders too. JPEG, PNG,
    WebP, GIF, BMP and TIFF files are read; the format is detected from the content. Every picture
    is decoded once to find the corrupt ones, and again only after it has changed; `skipped` has all
    skipped files.

    A folder with subfolders `train`, and `val` (or `valid`, `validation`), `test` or both, each
    with the class folders, declares its splits.

    Args:
        path: the folder.
        strict: raise an error for unreadable pictures instead of skipping them.

    Raises:
        UsageError: there is no such folder, it does not contain the class folders, the splits have
            different classes, a class has no readable picture or an invalid name, or, if strict, a
            picture cannot be read.
    """
    path = Path(path).resolve()
    index, splits = Index(path), folders.declared_splits(path)
    parts = [_listed(folder, index) for folder in splits.values() or [path]]
    if splits:
        labels = {split: part.labels for split, part in zip(splits, parts, strict=True)}
        folders.check_same_classes(path, labels)
    return _source(path, index, parts, splits, str(path), strict)


def pictures_below(path: str | os.PathLike, strict: bool = False) -> Source:
    """Opens a folder of pictures without classes: all that are in it and below it.

    They are for training without classes. All have the class "unlabelled".

    Args:
        path, strict: see `image_folder`.

    Raises:
        UsageError: there is no such folder, or it has no readable picture.
    """
    path = Path(path).resolve()
    if not path.is_dir():
        raise UsageError(f"{path}: expected a folder of pictures; there is no such folder.")
    index, only = Index(path), Path(_NO_CLASS)
    files, skipped = folders.list_below(path, path, _NO_CLASS, index.check_format)
    part = _Part(path, [only], [(0, file) for file in files], skipped)
    if not files:
        raise UsageError(f"{path}: expected pictures. Received: none.")
    return _source(path, index, [part], {}, f"{_NO_CLASS}:{path}", strict)


def _source(
    path: Path,
    index: Index,
    parts: list[_Part],
    splits: Mapping[str, Path],
    locator: str,
    strict: bool,
) -> Source:
    """The source of listed pictures, without those that cannot be decoded."""
    known = index.examine(file for part in parts for _, file in part.files)
    parts = [_readable(part, known) for part in parts]
    skipped = [*_unused(path, splits), *(each for part in parts for each in _placed(part, path))]
    if strict:
        _check_strictly(path, skipped)
    for part in parts:
        filled = {target for target, _ in part.files}
        folders.check_classes(part.folder, part.classes, filled, part.skipped)
    files = [file for part in parts for _, file in part.files]
    # An array instead of what is known of a million files.
    states = np.array([known[file][:2] for file in files], np.int64).reshape(-1, 2)
    bounds = np.cumsum([0, *(len(part.files) for part in parts)])
    return Source(
        name=path.name,
        labels=parts[0].labels,
        ids=tuple(file.relative_to(path).as_posix() for file in files),
        targets=np.array([target for part in parts for target, _ in part.files], np.int64),
        image=Encoded(
            decode=lambda i: decode_image(files[i]),
            contents=_reader(files),
            formats=np.array([PLAIN.index(known[file].plain) for file in files], np.uint8),
            fault=lambda message: changed(files, states),
        ),
        skipped=tuple(skipped),
        skipped_before=index.are_skipped_again(skipped),
        locator=locator,
        splits={split: np.arange(*bounds[i : i + 2]) for i, split in enumerate(splits)},
        states=states,
    )


def _listed(folder: Path, index: Index) -> _Part:
    classes = folders.class_folders(folder)
    return _Part(folder, classes, *folders.list_pictures(folder, classes, index.check_format))


def _readable(part: _Part, known: Mapping[Path, Entry]) -> _Part:
    """The part without the pictures that cannot be decoded, which are added to `skipped`."""
    files = [(target, file) for target, file in part.files if not known[file].fault]
    broken = [
        Skipped(
            file.relative_to(part.folder).as_posix(),
            part.classes[target].name,
            known[file].fault,
            is_unreadable=True,
        )
        for target, file in part.files
        if known[file].fault
    ]
    return dataclasses.replace(part, files=files, skipped=[*part.skipped, *broken])


def _placed(part: _Part, path: Path) -> list[Skipped]:
    """The skipped files of a part, with their paths relative to `path`."""
    if part.folder == path:
        return part.skipped
    prefix = part.folder.name
    return [dataclasses.replace(each, path=f"{prefix}/{each.path}") for each in part.skipped]


def _unused(path: Path, splits: Mapping[str, Path]) -> list[Skipped]:
    """What lies beside the folders of declared splits."""
    if not splits:
        return []
    others = sorted(set(path.iterdir()) - set(splits.values()))
    reason = "outside the splits"
    return [
        Skipped(folders.printable(other.name), "", reason, is_unreadable=False)
        for other in others
        if not folders.is_hidden(other.name)
    ]


def _check_strictly(path: Path, skipped: Sequence[Skipped]) -> None:
    unreadable = [file for file in skipped if file.is_unreadable]
    if unreadable:
        first = unreadable[0]
        raise UsageError(
            f"{path / first.path}: {first.reason} ({len(unreadable)} unreadable in all)."
        )


def _reader(files: Sequence[Path]) -> Callable[[Any], Any]:
    """A TensorFlow function from an index to the content of a file."""

    def contents(index):
        import tensorflow as tf

        with tf.init_scope(), tf.device("CPU:0"):  # outside the graph, which must not hold a copy
            names = tf.constant([os.fsencode(file) for file in files])
        return tf.io.read_file(tf.gather(names, index))

    return contents
