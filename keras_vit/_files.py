"""Files that are complete or absent: written to a temporary name, synced, then renamed."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import glob
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from keras_vit._errors import DiskFullError, UsageError

_UNFINISHED = ".unfinished"


@contextlib.contextmanager
def replacing(path: str | os.PathLike) -> Iterator[Path]:
    """Yields a temporary path to write to; on a clean exit that file replaces `path`.

    After an error it is deleted. A process killed at any moment leaves the old file or the new one,
    and each is complete. Its temporary files are deleted when `path` is next written.
    """
    path = Path(path)
    with naming_a_full_disk(path), _temporary_folder(path) as folder:
        temporary = folder / path.name
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)


@contextlib.contextmanager
def replacing_folder(path: str | os.PathLike) -> Iterator[Path]:
    """Yields an empty folder that replaces `path` on a clean exit; after an error it is deleted.

    Where the system can swap two folders in one step (Linux), a process killed at any moment
    leaves the old folder or the new one; elsewhere there is an instant with neither. Its temporary
    files are deleted when `path` is next written.
    """
    path = Path(path)
    with naming_a_full_disk(path), _temporary_folder(path) as folder:
        temporary = folder / path.name
        temporary.mkdir()
        yield temporary
        for file in [*temporary.rglob("*"), temporary]:
            sync(file)
        if not path.exists():
            temporary.rename(path)
        elif not _exchange(temporary, path):
            path.rename(folder / f"{path.name}.old")
            temporary.rename(path)
        sync(path.parent)


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


@contextlib.contextmanager
def naming_a_full_disk(path: str | os.PathLike) -> Iterator[None]:
    """Turns any error of a full disk into one line that names `path`.

    Raises:
        DiskFullError: the disk or the user's quota is full, or the file larger than is allowed.
    """
    try:
        yield
    except Exception as error:
        reason = full_disk(error)
        if reason is None:
            raise
        raise DiskFullError(
            f"{path} could not be written: {reason}; make room or write to another disk."
        ) from None


def full_disk(error: BaseException | None) -> str | None:
    """The system's message if a full disk caused the error ("No space left on device"), else None.

    A full quota and a file larger than allowed count too.
    """
    # Zip archives raise errors of their own while they are closed on a full disk, and TensorFlow,
    # HDF5 and safetensors give the system's error as text.
    while error is not None:
        for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            reason = os.strerror(number)
            if getattr(error, "errno", None) == number or reason in str(error):
                return reason
        error = error.__cause__ or error.__context__
    return None


def sync(path: Path) -> None:
    """Waits until a file, or a folder's list of names, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _temporary_folder(path: Path) -> Iterator[Path]:
    """Yields an empty hidden folder beside `path`, removed at the end.

    The writer holds a lock on it, which the system releases when the process ends. So a folder
    without a lock was left by a killed process; such folders of the same path are removed first.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f".{glob.escape(path.name)}.????????{_UNFINISHED}"):
        with _lock(left, wait=False) as locked:
            if locked:
                shutil.rmtree(left, ignore_errors=True)
    with contextlib.ExitStack() as held:
        while True:
            folder = Path(tempfile.mkdtemp(_UNFINISHED, f".{path.name}.", path.parent))
            held.callback(shutil.rmtree, folder, ignore_errors=True)
            held.enter_context(_lock(folder, wait=True))
            if folder.exists():  # otherwise another writer removed it before it was locked
                break
        yield folder


@contextlib.contextmanager
def _lock(folder: Path, wait: bool) -> Iterator[bool]:
    """Locks a folder; yields False if another process holds the lock or the system has none."""
    with contextlib.ExitStack() as opened:
        try:
            import fcntl

            descriptor = os.open(folder, os.O_RDONLY)
            opened.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            locked = True
        except (ImportError, OSError):
            locked = False
        yield locked


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
