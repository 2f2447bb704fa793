"""Files that are whole or absent: written to a temporary name, synced, then renamed."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from keras_vit._errors import UsageError


@contextlib.contextmanager
def replacing(path: str | os.PathLike) -> Iterator[Path]:
    """Yields a temporary path beside `path`; on a clean exit it takes `path`'s name, else it goes.

    A process killed at any moment leaves the old file or the new one, never a half of either.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(
        prefix=f".{path.name}.", suffix=path.suffix, dir=path.parent
    )
    os.close(handle)
    temporary = Path(temporary)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        _sync(temporary)
        temporary.replace(path)
        _sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def replacing_folder(path: str | os.PathLike) -> Iterator[Path]:
    """Yields an empty temporary folder beside `path` that takes its place on a clean exit.

    Where the system can swap two folders in one step (Linux), a process killed at any moment
    leaves the old folder or the new one; elsewhere there is an instant with neither.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield temporary
        temporary.chmod(0o777 & ~_umask())
        for file in [*temporary.rglob("*"), temporary]:
            _sync(file)
        if not path.exists():
            temporary.rename(path)
        elif not _exchange(temporary, path):
            retired = temporary.with_suffix(".old")
            path.rename(retired)
            temporary.rename(path)
            shutil.rmtree(retired)
        _sync(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_text(path: str | os.PathLike, text: str) -> None:
    """Writes UTF-8 text, atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | os.PathLike, value: Any) -> None:
    """Writes indented JSON, atomically. NaN and infinity are refused: they are not JSON."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def read_json(path: str | os.PathLike, *, format: int, fields: Iterable[str] = ()) -> Any:
    """Reads a JSON object whose "format" must be that number and which must have `fields`.

    Raises:
        UsageError: the file is absent, not JSON, of another format or without a field.
    """
    path = Path(path)
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist.") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UsageError(f"{path} is not valid JSON: {error}.") from None
    found = value.get("format") if isinstance(value, dict) else None
    if found != format:
        newer = isinstance(found, int) and found > format
        remedy = "upgrade keras_vit to read it" if newer else "write it anew"
        raise UsageError(f"{path}: expected format {format}. Received: {found!r}; {remedy}.")
    missing = [field for field in fields if field not in value]
    if missing:
        raise UsageError(f"{path} lacks {', '.join(missing)}; write it anew.")
    return value


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _exchange(first: Path, second: Path) -> bool:
    """Swaps two paths in one step; False where the system or the file system cannot."""
    here, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE of renameat2(2)
    try:
        renameat2 = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    return renameat2(here, os.fsencode(first), here, os.fsencode(second), swap) == 0


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
