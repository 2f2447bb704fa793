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
from keras_vit.data.folders import Listing, Skipped
from keras_vit.data.picture_formats import PLAIN
from keras_vit.data.picture_index import Index, Known
from keras_vit.data.reading import changed, in_memory
from keras_vit.data.source import Encoded, Source

# The only class of pictures without classes, and the name of their source.
_NO_CLASS = "unlabelled"


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
    listings = [folders.list_pictures(f, index.check_format) for f in splits.values() or [path]]
    if splits:
        folders.check_same_classes(path, dict(zip(splits, listings, strict=True)))
    return _source(path, index, listings, splits, str(path), strict)


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
    index = Index(path)
    files, skipped = folders.list_below(path, path, _NO_CLASS, index.check_format)
    listing = Listing(path, [Path(_NO_CLASS)], [(0, file) for file in files], skipped)
    if not files:
        raise UsageError(f"{path}: expected pictures. Received: none.")
    return _source(path, index, [listing], {}, f"{_NO_CLASS}:{path}", strict)


def _source(
    path: Path,
    index: Index,
    listings: list[Listing],
    splits: Mapping[str, Path],
    locator: str,
    strict: bool,
) -> Source:
    """The source of listed pictures, without those that cannot be decoded."""
    known = index.examine(file for listing in listings for _, file in listing.files)
    listings = [_readable(listing, known) for listing in listings]
    skipped = [each for listing in listings for each in _placed(listing, path)]
    if splits:
        skipped = folders.beside(path, splits.values(), "outside the splits") + skipped
    unreadable = [file for file in skipped if file.is_unreadable]
    if strict and unreadable:
        raise UsageError(
            f"{path / unreadable[0].path}: {unreadable[0].reason} "
            f"({len(unreadable)} unreadable in all)."
        )
    for listing in listings:
        folders.check_classes(listing)
    targets, files = zip(*(each for listing in listings for each in listing.files), strict=True)
    image, states = encoded(files, known)
    bounds = np.cumsum([0, *(len(listing.files) for listing in listings)])
    return Source(
        name=path.name,
        labels=listings[0].labels,
        ids=tuple(file.relative_to(path).as_posix() for file in files),
        targets=np.array(targets, np.int64),
        image=image,
        skipped=tuple(skipped),
        skipped_before=index.are_skipped_again(skipped),
        locator=locator,
        splits={split: np.arange(*bounds[i : i + 2]) for i, split in enumerate(splits)},
        states=states,
    )


def encoded(files: Sequence[Path], known: Mapping[Path, Known]) -> tuple[Encoded, np.ndarray]:
    """The pictures in files, and the `states` of a source.

    Args:
        files: the files.
        known: what is known of each, see `Index.examine`.
    """
    # An array instead of what is known of a million files.
    states = np.array([known[file][:2] for file in files], np.int64).reshape(-1, 2)
    image = Encoded(
        decode=lambda i: decode_image(files[i]),
        contents=_reader(files),
        formats=np.array([PLAIN.index(known[file].plain) for file in files], np.uint8),
        fault=lambda message: changed(files, states),
    )
    return image, states


def _readable(listing: Listing, known: Mapping[Path, Known]) -> Listing:
    """The listing without the pictures that cannot be decoded, which are added to `skipped`."""
    files, skipped = [], [*listing.skipped]
    for target, file in listing.files:
        if fault := known[file].fault:
            place = file.relative_to(listing.folder).as_posix()
            label = listing.classes[target].name
            skipped.append(Skipped(place, label, fault, is_unreadable=True))
        else:
            files.append((target, file))
    return dataclasses.replace(listing, files=files, skipped=skipped)


def _placed(listing: Listing, path: Path) -> list[Skipped]:
    """The skipped files of a listing, with their paths relative to `path`."""
    if listing.folder == path:
        return listing.skipped
    prefix = listing.folder.name
    return [dataclasses.replace(each, path=f"{prefix}/{each.path}") for each in listing.skipped]


def _reader(files: Sequence[Path]) -> Callable[[Any], Any]:
    """A TensorFlow function from an index to the content of a file."""

    def contents(index):
        import tensorflow as tf

        names = in_memory([os.fsencode(file) for file in files])
        return tf.io.read_file(tf.gather(names, index))

    return contents
