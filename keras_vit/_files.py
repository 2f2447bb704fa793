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

    After an error it is deleted. A process that is killed leaves either the complete old file or
    the complete new one. Its temporary files are deleted when `path` is next written.
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

    Linux can swap two folders in one step, so a process that is killed leaves either the old
    folder or the new one. On other systems there is a moment with neither. Temporary files of a
    killed process are deleted when `path` is next written.
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


def check_writable(path: str | os.PathLike) -> None:
    """Checks that `path` can be written with `replacing` or `replacing_folder`.

    A temporary folder is made and removed: permission bits do not show that a disk is read-only.

    Raises:
        UsageError: a part of the path is a file, or its folder cannot be written to.
    """
    above = Path(path).resolve().parents
    existing = next(folder for folder in above if folder.exists())
    if not existing.is_dir():
        raise UsageError(f"{existing} is a file; choose another folder.")
    try:
        Path(tempfile.mkdtemp(_UNFINISHED, ".check_writable.", existing)).rmdir()
    except OSError:
        raise UsageError(f"{existing} cannot be written to; choose another folder.") from None


def write_text(path: str | os.PathLike, text: str) -> None:
    """Writes UTF-8 text, atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | os.PathLike, value: Any) -> None:
    """Writes indented JSON, atomically. NaN and infinity are refused: they are not JSON."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def read_json(path: str | os.PathLike, *, format: int, fields: Iterable[str] = ()) -> Any:
    """Reads a JSON object. Its "format" must be `format`, and it must have `fields`.

    Raises:
        UsageError: the file is absent, not JSON, has another format or lacks a field.
    """
    path = Path(path)
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist.") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UsageError(f"{path} is not valid JSON: {error}.") from None
    actual = value.get("format") if isinstance(value, dict) else None
    if actual != format:
        newer = isinstance(actual, int) and actual > format
        advice = "upgrade keras_vit to read it" if newer else "write it again"
        raise UsageError(f"{path}: expected format {format}. Received: {actual!r}; {advice}.")
    missing = [field for field in fields if field not in value]
    if missing:
        raise UsageError(f"{path} lacks {', '.join(missing)}; write it again.")
    return value


def read_lines(path: str | os.PathLike, errors: str = "strict") -> tuple[str, ...]:
    """The lines of a text file in UTF-8, such as names of classes; () if it is empty.

    Only line breaks of Unix and Windows end a line, not all at which `str.splitlines` breaks.
    """
    text = Path(path).read_text(encoding="utf-8", errors=errors).removesuffix("\n")
    return tuple(text.split("\n")) if text else ()


@contextlib.contextmanager
def naming_a_full_disk(path: str | os.PathLike) -> Iterator[None]:
    """Turns every error that a full disk causes into one line that names `path`.

    Raises:
        DiskFullError: the disk or the user's quota is full, or the file is larger than allowed.
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

    A full quota and a file larger than allowed count as a full disk too.
    """
    # zipfile raises other errors when it closes an archive on a full disk. TensorFlow, HDF5 and
    # safetensors give the system's error only as text.
    while error is not None:
        for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            reason = os.strerror(number)
            if getattr(error, "errno", None) == number or reason in str(error):
                return reason
        error = error.__cause__ or error.__context__
    return None


def sync(path: Path) -> None:
    """Waits until a file, or the list of names in a folder, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _temporary_folder(path: Path) -> Iterator[Path]:
    """Yields an empty hidden folder next to `path`; it is removed at the end.

    The writer locks the folder, and the system releases the lock when the process ends. A folder
    without a lock was therefore left by a killed process. Such folders for the same path are
    removed first.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.????????{_UNFINISHED}"):
        with _lock(leftover, wait=False) as locked:
            if locked:
                shutil.rmtree(leftover, ignore_errors=True)
    with contextlib.ExitStack() as stack:
        while True:
            folder = Path(tempfile.mkdtemp(_UNFINISHED, f".{path.name}.", path.parent))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            stack.enter_context(_lock(folder, wait=True))
            if folder.exists():  # otherwise another writer removed it before it was locked
                break
        yield folder


@contextlib.contextmanager
def locked(path: str | os.PathLike) -> Iterator[None]:
    """A context in which no other process may enter it for the same path.

    The lock is a hidden file next to `path`; the system releases it when the process ends. File
    systems without locks have none.

    Raises:
        UsageError: another process has the lock.
    """
    lock = _lock_of(path)
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    with _lock(lock, wait=False) as is_mine:
        if is_mine is False:
            raise _is_written(path)
        yield


def check_unlocked(path: str | os.PathLike) -> None:
    """Raises the error of `locked` now if another process has the lock; nothing is locked."""
    if is_locked(path):
        raise _is_written(path)


def is_locked(path: str | os.PathLike) -> bool:
    """Whether a process is in the context of `locked` for this path."""
    with _lock(_lock_of(path), wait=False) as is_mine:
        return is_mine is False


def _is_written(path: str | os.PathLike) -> UsageError:
    return UsageError(f"another process is writing {path}; choose another folder.")


def _lock_of(path: str | os.PathLike) -> Path:
    target = Path(path).resolve()  # of a link, too
    return target.parent / f".{target.name}.lock"


@contextlib.contextmanager
def _lock(folder: Path, wait: bool) -> Iterator[bool | None]:
    """Locks a folder; yields False if another process has the lock, None if there are no locks."""
    with contextlib.ExitStack() as stack:
        try:
            import fcntl

            descriptor = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            locked = True
        except BlockingIOError:
            locked = False
        except (ImportError, OSError):
            locked = None
        yield locked


def _exchange(first: Path, second: Path) -> bool:
    """Swaps two paths in one step; False if the system or the file system cannot do this."""
    at_fdcwd, rename_exchange = -100, 2  # constants of renameat2(2)
    try:
        renameat2 = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    paths = (at_fdcwd, os.fsencode(first), at_fdcwd, os.fsencode(second))
    return renameat2(*paths, rename_exchange) == 0


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
