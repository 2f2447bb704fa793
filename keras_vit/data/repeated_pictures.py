"""Finds pictures to evaluate on that are also among those to train on."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from keras_vit.data.sources import Source, source_folder

_END = 4096  # bytes at the end of a file, which tell most pictures of one size apart


def repeats_warning(source: Source) -> str | None:
    """A line on pictures of other splits that are also in train; None if there are none.

    Only folders that declare their splits are checked. Pictures are the same if the bytes of their
    files are.
    """
    folder = source_folder(source.locator)
    if folder is None or "train" not in source.splits:
        return None
    files = {
        split: [folder / source.ids[i] for i in indices] for split, indices in source.splits.items()
    }
    train = files.pop("train")
    repeated = {
        split: found for split, others in files.items() if (found := repeats(train, others))
    }
    if not repeated:
        return None
    counts = [
        f"{len(found):,} of {len(files[split]):,} pictures of {split}"
        for split, found in repeated.items()
    ]
    first = next(iter(repeated.values()))[0].relative_to(folder).as_posix()
    return (
        f"{' and '.join(counts)} are also in train, the first is {first}: what "
        "is measured on them is the accuracy on training images; remove them from one of the parts."
    )


def repeats(train: Iterable[Path], others: Iterable[Path]) -> list[Path]:
    """The files of `others` with the same bytes as a file of `train`.

    Few files are read as a whole: only those whose size and last bytes are those of a file in the
    other part.
    """
    train, others = list(train), list(others)
    for key in (os.path.getsize, _end, _sha256):
        of_train, of_others = _keys(key, train), _keys(key, others)
        common = {*of_train.values()} & {*of_others.values()}
        train = [file for file in train if of_train[file] in common]
        others = [file for file in others if of_others[file] in common]
    return others


def _keys(key: Callable[[Path], object], files: list[Path]) -> dict[Path, object]:
    with ThreadPoolExecutor() as pool:
        return dict(zip(files, pool.map(key, files), strict=True))


def _end(file: Path) -> tuple[int, bytes]:
    size = os.path.getsize(file)
    with file.open("rb") as stream:
        stream.seek(max(size - _END, 0))
        return size, hashlib.sha256(stream.read()).digest()


def _sha256(file: Path) -> bytes:
    return hashlib.sha256(file.read_bytes()).digest()
