"""What is known of the pictures of a folder, kept because checking them reads every file.

The index of a folder is a JSON file in the cache folder. What it says of a file is used as long as
the file's size and time of change are the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from keras_vit import _files
from keras_vit._errors import UsageError
from keras_vit._quiet import quiet
from keras_vit.data.decoding import check_format, examine_image
from keras_vit.weights.cache import cache_folder

# A change of the checks is a new format, so that all files are checked again.
FORMAT = 2
_MOST_BYTES = 2 << 30  # of tens of millions of pictures


class Entry(NamedTuple):
    """What is known of a file that may be a picture.

    Attributes:
        size, changed: its size in bytes, and its time of change in nanoseconds.
        fault: why it cannot be decoded, or "".
        plain: its format if it is in `formats.PLAIN`, else "".
    """

    size: int
    changed: int
    fault: str
    plain: str


class Index:
    """The index of a folder, read from the cache folder; empty if there is none.

    Args:
        folder: the absolute path of the folder.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]
        self._path = cache_folder() / "pictures" / f"{name}.json"
        self._skipped: list[str] = []
        self._known = self._read()

    def check_format(self, file: Path) -> str:
        """Like `decoding.check_format`; files that are known are not opened."""
        entry = self._known.get(self._name(file))
        return "" if entry and _state(file) == entry[:2] else check_format(file)

    def examine(self, files: Iterable[Path]) -> dict[Path, Entry]:
        """What is known of each of the files; those that are new or changed are read.

        Only these files are kept in the index.
        """
        files = list(files)
        # libtiff writes errors to standard error without the name of the file.
        with quiet(), ThreadPoolExecutor() as pool:
            entries = list(pool.map(self._entry, files))
        found = dict(zip(files, entries, strict=True))
        known = {self._name(file): entry for file, entry in found.items()}
        if known != self._known:
            self._known = known
            self._write()
        return found

    def are_skipped_again(self, skipped: Iterable[object]) -> bool:
        """Whether the same files were skipped the last time; those of this time are kept."""
        before, self._skipped = self._skipped, [*map(str, skipped)]
        if self._skipped != before:
            self._write()
        return self._skipped == before

    def _entry(self, file: Path) -> Entry:
        state, entry = _state(file), self._known.get(self._name(file))
        return entry if entry and state == entry[:2] else Entry(*state, *examine_image(file))

    def _name(self, file: Path) -> str:
        return file.relative_to(self._folder).as_posix()

    def _read(self) -> dict[str, Entry]:
        try:
            content = _files.read_json(self._path, format=FORMAT, most_bytes=_MOST_BYTES)
            self._skipped = content.get("skipped", [])
            entries = {name: Entry(*values) for name, values in content["files"].items()}
            for entry in entries.values():
                (entry.fault + entry.plain).encode()  # half a surrogate pair cannot be printed
            return entries
        except (UsageError, OSError, LookupError, TypeError, AttributeError, ValueError):
            return {}  # absent, damaged or of another version

    def _write(self) -> None:
        content = {
            "format": FORMAT,
            "folder": os.fspath(self._folder),
            "files": self._known,
            "skipped": self._skipped,
        }
        # Without the index the next run only takes longer.
        with contextlib.suppress(OSError, UsageError, UnicodeEncodeError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            _files.write_text(self._path, json.dumps(content))


def _state(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_size, status.st_mtime_ns
