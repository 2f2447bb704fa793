"""Files that are whole or absent: written to a temporary name, synced, then renamed."""

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
    """Yields a path to write to; on a clean exit that file takes `path`'s place, else it goes.

    A process killed at any moment leaves the old file or the new one, never a half of either. What
    else it leaves goes when `path` is next written.
    """
    path = Path(path)
    with naming_a_full_disk(path), _room_beside(path) as room:
        temporary = room / path.name
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)


@contextlib.contextmanager
def replacing_folder(path: str | os.PathLike) -> Iterator[Path]:
    """Yields an empty folder that takes `path`'s place on a clean exit, else it goes.

    Where the system can swap two folders in one step (Linux), a process killed at any moment
    leaves the old folder or the new one; elsewhere there is an instant with neither. What else it
    leaves goes when `path` is next written.
    """
    path = Path(path)
    with naming_a_full_disk(path), _room_beside(path) as room:
        temporary = room / path.name
        temporary.mkdir()
        yield temporary
        for file in [*temporary.rglob("*"), temporary]:
            sync(file)
        if not path.exists():
            temporary.rename(path)
        elif not _exchange(temporary, path):
            path.rename(room / f"{path.name}.old")
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
    """Makes one line with `path` in it of whatever a full disk raises in the body.

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
    """The system's words where an error comes of a full disk, "No space left on device"; else None.

    The user's quota and the largest allowed file count too.
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
def _room_beside(path: Path) -> Iterator[Path]:
    """Yields an empty hidden folder beside `path`, removed at the end.

    Its writer holds a lock on it, which ends with the process, however that ends. So a folder
    without a lock is a killed writer's: those of the same path are removed first.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f".{glob.escape(path.name)}.????????{_UNFINISHED}"):
        with _lock(left, wait=False) as locked:
            if locked:
                shutil.rmtree(left, ignore_errors=True)
    with contextlib.ExitStack() as held:
        while True:
            room = Path(tempfile.mkdtemp(_UNFINISHED, f".{path.name}.", path.parent))
            held.callback(shutil.rmtree, room, ignore_errors=True)
            held.enter_context(_lock(room, wait=True))
            if room.exists():  # else another writer took it for a dead one's before it was locked
                break
        yield room


@contextlib.contextmanager
def _lock(folder: Path, wait: bool) -> Iterator[bool]:
    """Locks a folder and yields whether it did: another process may have, or there are no locks."""
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
