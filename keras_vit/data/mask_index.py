"""What is known of the masks of a folder, kept in the cache folder as in `picture_index.py`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from keras_vit._errors import UsageError
from keras_vit._json import Text
from keras_vit.data.decoding import decode_values
from keras_vit.data.picture_index import Fault, cache_file, read_cache, state_of, write_cache

_FORMAT = 1


class KnownMask(NamedTuple):
    """The size in bytes of a file and its time of change in nanoseconds; and of the mask in it why
    it cannot be read, or "", its height and width, the values that occur, and the numbers of pixels
    of 0 and of 255.
    """

    size: int
    changed: int
    fault: Fault
    height: int
    width: int
    values: list[int]
    zeros: int
    unlabelled: int


class _Content(Struct, tag_field="format", tag=_FORMAT):
    files: dict[Text, KnownMask] = {}


def examined(folder: Path, files: Iterable[Path]) -> dict[Path, KnownMask]:
    """What is known of each mask; those that are new or changed are read.

    Args:
        folder: the absolute path of the folder that they are in.
        files: the masks.
    """
    cache = cache_file("masks", os.fsencode(folder))
    kept = (read_cache(cache, _Content) or _Content()).files

    def known(file: Path) -> KnownMask:
        state, before = state_of(file), kept.get(file.relative_to(folder).as_posix())
        return before if before and state == before[:2] else KnownMask(*state, *_examined(file))

    files = list(files)
    with ThreadPoolExecutor() as pool:
        found = dict(zip(files, pool.map(known, files), strict=True))
    named = {file.relative_to(folder).as_posix(): each for file, each in found.items()}
    if named != kept:
        write_cache(cache, _Content(named))
    return found


def _examined(file: Path) -> tuple[str, int, int, list[int], int, int]:
    try:
        mask = decode_values(file)
    except (OSError, UsageError) as error:
        reason = str(error).removeprefix(f"{file}: ").removesuffix(".")
        return reason, 0, 0, [], 0, 0
    counts = np.bincount(mask.ravel(), minlength=256)
    return "", *mask.shape, np.flatnonzero(counts).tolist(), int(counts[0]), int(counts[255])
