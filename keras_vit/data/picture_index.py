"""What is known of pictures, kept in the cache folder because checking them reads every file.

It is used as long as the size and the time of change of a file are the same. A change of the checks
is a new format of the file in the cache folder, so that all pictures are checked again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct

from keras_vit import _files, _json
from keras_vit._checks import ONE_LINE
from keras_vit._errors import UsageError
from keras_vit._json import Text
from keras_vit._quiet import quiet
from keras_vit.data.decoding import check_format, examine_image
from keras_vit.weights.cache import cache_folder

FORMAT = 2
_MOST_BYTES = 2 << 30  # of tens of millions of pictures
Fault = Annotated[str, Meta(pattern=ONE_LINE)]  # why a picture cannot be decoded, or ""
Plain = Literal["", "JPEG", "PNG"]  # its format if it is in `picture_formats.PLAIN`, else ""


class Known(NamedTuple):
    """What is known of a file that may be a picture: its size in bytes, its time of change in
    nanoseconds, and what `decoding.examine_image` says of it.
    """

    size: int
    changed: int
    fault: Fault
    plain: Plain


class _Content(Struct, tag_field="format", tag=FORMAT):
    folder: Text
    files: dict[Text, Known] = {}
    skipped: list[Text] = []


class Index:
    """The index of a folder, read from the cache folder; empty if there is none.

    Args:
        folder: the absolute path of the folder.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        self._path = cache_file("pictures", os.fsencode(folder))
        kept = read_cache(self._path, _Content)
        self._content = kept or _Content(os.fspath(folder))

    def check_format(self, file: Path) -> str:
        """Like `decoding.check_format`; files that are known are not opened."""
        known = self._content.files.get(self._name(file))
        return "" if known and state_of(file) == known[:2] else check_format(file)

    def examine(self, files: Iterable[Path]) -> dict[Path, Known]:
        """What is known of each of the files; those that are new or changed are read.

        Only these files are kept in the index.
        """
        files = list(files)
        # libtiff writes errors to standard error without the name of the file.
        with quiet(), ThreadPoolExecutor() as pool:
            found = dict(zip(files, pool.map(self._examined, files), strict=True))
        self._keep("files", {self._name(file): known for file, known in found.items()})
        return found

    def are_skipped_again(self, skipped: Iterable[object]) -> bool:
        """Whether the same files were skipped the last time; those of this time are kept."""
        return not self._keep("skipped", [*map(str, skipped)])

    def _examined(self, file: Path) -> Known:
        state, known = state_of(file), self._content.files.get(self._name(file))
        return known if known and state == known[:2] else Known(*state, *examine_image(file))

    def _name(self, file: Path) -> str:
        return file.relative_to(self._folder).as_posix()

    def _keep(self, field: str, value: Any) -> bool:
        """Writes the index with a field's new value, and returns whether it is another one."""
        is_another = value != getattr(self._content, field)
        if is_another:
            setattr(self._content, field, value)
            write_cache(self._path, self._content)
        return is_another


def state_of(file: Path) -> tuple[int, int]:
    """The size of a file and its time of change in nanoseconds."""
    status = file.stat()
    return status.st_size, status.st_mtime_ns


def cache_file(kind: str, what: bytes) -> Path:
    """The file in a subfolder of the cache folder that is about something."""
    return cache_folder() / kind / f"{hashlib.sha256(what).hexdigest()[:32]}.json"


def read_cache(path: Path, kind: type[Struct]) -> Any:
    """A file of the cache folder as a Struct; None if absent, damaged or of another version.

    The bytes are decoded into the Struct at once, because an index may have millions of examples.
    """
    damaged = (msgspec.MsgspecError, RecursionError)
    with contextlib.suppress(UsageError, OSError, *damaged):
        content = _files.read_bounded(path, _MOST_BYTES)
        return msgspec.json.decode(content, type=_json.bounded_type(kind))
    return None


def write_cache(path: Path, content: Struct) -> None:
    """Writes a file of the cache folder. Without it the next run only takes longer."""
    with contextlib.suppress(OSError, UsageError, UnicodeEncodeError):
        path.parent.mkdir(parents=True, exist_ok=True)
        _files.write_text(path, msgspec.json.encode(content).decode())
