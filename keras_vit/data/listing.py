"""Finds and reads pictures without labels, in files and folders."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from keras_vit._errors import UsageError
from keras_vit.data.decoding import decode_image, printable
from keras_vit.data.formats import EXTENSIONS


def find_pictures(paths: Iterable[str | os.PathLike]) -> list[Path]:
    """The files in `paths`, and all files with a picture's extension in the folders in `paths`.

    Folders are searched recursively; hidden files and folders in them are ignored.

    Raises:
        UsageError: a folder contains no picture.
    """
    return [file for path in paths for file in _files_of(Path(path))]


def read_picture(path: Path) -> np.ndarray:
    """A picture file as uint8 RGB (height, width, 3).

    Raises:
        UsageError: the file is absent or cannot be decoded; the message is one line with its name.
    """
    if not path.is_file():
        raise UsageError(f"{printable(path)}: there is no such file.")
    try:
        return decode_image(path)
    except OSError as error:
        raise UsageError(
            f"{printable(path)} cannot be opened: {error.strerror or error}."
        ) from None


def _files_of(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    pictures = sorted(
        file
        for file in path.rglob("*")
        if file.suffix.lower() in EXTENSIONS
        and not any(part.startswith(".") for part in file.relative_to(path).parts)
        and file.is_file()
    )
    if not pictures:
        raise UsageError(f"{printable(path)} contains no pictures ({', '.join(EXTENSIONS)}).")
    return pictures
