"""Files that are complete or absent: written to a temporary name, synced, then renamed.

Files of strangers are read up to a size, and their zip archives up to a length of the directory.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import glob
import io
import json
import os
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_vit import _json
from keras_vit._errors import DiskFullError, UsageError, shown

# The end of the name of a temporary folder, which is there as long as a write lasts.
UNFINISHED = ".unfinished"
_MOST_TEXT = 256 << 20
# The largest model of the field has 1,000 arrays, whose entries take 100 kB.
_MOST_DIRECTORY = 1 << 20
# Folders of which a part or all is replaced, with the files by which they are recognised.
_RECOGNISED_BY = {
    "bundle": ("model.json",),
    "export": ("*/model.json", "table.json"),  # the table alone if every file was refused
    "gallery": ("gallery.json",),
    "inspection": ("inspection.json",),
    "masks": ("masks.html",),
    "SavedModel": ("saved_model.pb",),
    "site": ("bundles.json",),
}


@contextlib.contextmanager
def replacing(path: str | os.PathLike) -> Iterator[Path]:
    """Yields a temporary path to write to; on a clean exit that file replaces `path`.

    After an error it is deleted. A process that is killed leaves either the complete old file or
    the complete new one. Its temporary files are deleted when `path` is next written. Links are
    followed, and permissions and owners of an old file are kept.

    Raises:
        UsageError: `path` is a device or a pipe, or a link that leads nowhere.
    """
    target, name = followed(path), Path(path).name  # some writers read the suffix of the name
    if target.exists() and not (target.is_file() or target.is_dir()):
        raise UsageError(f"{path} is not an ordinary file; choose another path.")
    with naming_a_full_disk(Path(path)), _temporary_folder(target) as folder:
        temporary = folder / name
        yield temporary
        _finish(temporary, target if target.is_file() else _new_file(folder))
        temporary.replace(target)
        sync(target.parent)


@contextlib.contextmanager
def replacing_folder(path: str | os.PathLike) -> Iterator[Path]:
    """Yields an empty folder that replaces `path` on a clean exit; after an error it is deleted.

    Linux can swap two folders in one step, so a process that is killed leaves either the old
    folder or the new one. On other systems there is a moment with neither. Temporary files of a
    killed process are deleted when `path` is next written. Links are followed, and permissions and
    owners are kept: those of an old folder, and of each of its files that the new one has too.

    Raises:
        UsageError: `path` is a file, a device or a pipe, or a link that leads nowhere.
    """
    target = followed(path)
    if target.exists() and not target.is_dir():
        raise UsageError(f"{path} is not a folder; choose another path.")
    with naming_a_full_disk(Path(path)), _temporary_folder(target) as folder:
        temporary = folder / Path(path).name
        temporary.mkdir()
        yield temporary
        for file in [*temporary.rglob("*"), temporary]:
            _finish(file, target / file.relative_to(temporary))
        try:
            temporary.rename(target)
        except OSError:
            if not target.exists():
                raise
            if not _exchange(temporary, target):
                target.rename(folder / f"{target.name}.old")
                temporary.rename(target)
        sync(target.parent)


def followed(path: str | os.PathLike) -> Path:
    """The path that a link leads to, which need not exist; any other path is returned as it is.

    Raises:
        UsageError: the link leads to itself or to a folder that does not exist. The folder is not
            created: it may be on a disk that is not mounted.
    """
    path = Path(path)
    if not path.is_symlink():
        return path
    target = Path(os.path.realpath(path))
    if target.is_symlink() or not target.parent.is_dir():
        raise UsageError(
            f"{path} is a link to {os.readlink(path)}, which does not exist; remove the link or "
            "create the folder that it leads to."
        )
    return target


def check_writable(path: str | os.PathLike) -> None:
    """Checks that `path` can be written with `replacing` or `replacing_folder`.

    A temporary folder is made and removed: permission bits do not show that a disk is read-only.

    Raises:
        UsageError: a part of the path is a file, its folder cannot be written to, or it is a link
            that leads nowhere.
    """
    above = followed(path).resolve().parents
    existing = next(folder for folder in above if folder.exists())
    if not existing.is_dir():
        raise UsageError(f"{existing} is a file; choose another folder.")
    try:
        with _temporary_folder(existing / "check_writable"):  # also removes those of killed checks
            pass
    except OSError:
        raise UsageError(f"{existing} cannot be written to; choose another folder.") from None


def check_replaceable(path: str | os.PathLike, kind: str) -> None:
    """Checks that the folder `path` can be written, and that no other files would be lost.

    Args:
        path: the folder, which need not exist.
        kind: what it may hold: a name in `_RECOGNISED_BY`.

    Raises:
        UsageError: it is a file, cannot be written, or holds something else.
    """
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; choose another folder.")
    check_writable(folder)
    files = folder.iterdir() if folder.is_dir() else ()
    is_used = not all(file.name.endswith(UNFINISHED) for file in files)
    if is_used and not any(any(folder.glob(pattern)) for pattern in _RECOGNISED_BY[kind]):
        raise UsageError(f"{folder} is not empty and holds no {kind}; choose another folder.")


def write_text(path: str | os.PathLike, text: str) -> None:
    """Writes UTF-8 text, atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | os.PathLike, value: Any) -> None:
    """Writes indented JSON, atomically. NaN and infinity are refused: they are not JSON."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def read_json(
    path: str | os.PathLike,
    *,
    format: int,
    schema: Any = None,
    most_bytes: int = _json.MOST_BYTES,
    fix: str = "",
) -> Any:
    """Reads a JSON object. Its "format" must be `format`.

    Args:
        path: the file.
        format: the version of its meaning.
        schema: what it must be, see `_json`; None for any object.
        most_bytes: the size of the largest file that is read.
        fix: what the user can do if it does not fit the schema; default: write it again.

    Raises:
        UsageError: the file is absent or too large, is not JSON, has another format, or does not
            fit the schema.
    """
    content = read_bounded(path, most_bytes)
    place = str(path)
    value = _json.parse(content, place)
    actual = value.get("format") if isinstance(value, dict) else None
    if actual != format or isinstance(actual, bool):
        newer = isinstance(actual, int) and actual > format
        advice = "upgrade keras_vit to read it" if newer else "write it again"
        raise UsageError(f"{place}: expected format {format}. Received: {shown(actual)}; {advice}.")
    if schema is not None:
        _json.check(value, place, schema, fix)
    return value


def read_record(
    path: str | os.PathLike, kind: type, *, format: int, most_bytes: int = _json.MOST_BYTES
) -> Any:
    """Reads a JSON object as a Struct.

    Raises:
        UsageError: see `read_json`.
    """
    return _json.check(read_json(path, format=format, most_bytes=most_bytes), str(path), kind)


def read_bounded(path: str | os.PathLike, most_bytes: int) -> bytes:
    """The content of a file of at most `most_bytes` bytes.

    Raises:
        UsageError: the file is absent, no regular file, or larger.
    """
    path = Path(path)
    if not path.exists():
        raise UsageError(f"{path} does not exist.")
    if not path.is_file():  # opening a pipe would wait for a writer
        raise UsageError(f"{path} is not a regular file; copy its content to one.")
    size = path.stat().st_size
    if size > most_bytes:
        raise UsageError(f"{path}: expected at most {most_bytes:,} bytes. Received: {size:,}.")
    with path.open("rb") as stream:
        return stream.read(size)


def read_lines(
    path: str | os.PathLike, errors: str = "strict", most: int | None = None
) -> tuple[str, ...]:
    """The lines of a text file in UTF-8, such as names of classes; () if it is empty.

    Only line breaks of Unix and Windows end a line, not all at which `str.splitlines` breaks. The
    byte order mark with which some editors begin a file is skipped.

    Args:
        path: the file.
        errors: what becomes of bytes that are not UTF-8, see `bytes.decode`.
        most: the largest number of lines; None for any.

    Raises:
        UsageError: the file is absent, too large or not UTF-8, or has too many lines.
    """
    try:
        text = str(read_bounded(path, _MOST_TEXT), "utf-8-sig", errors)
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not text in UTF-8: {error}; save it as UTF-8.") from None
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if most is not None and text.count("\n") > most:
        raise UsageError(
            f"{path}: expected at most {most:,} lines. Received: {text.count(chr(10)):,}."
        )
    return tuple(text.removesuffix("\n").split("\n")) if text else ()


class LongDirectoryError(ValueError):
    """The directory of an archive is too long."""


class ShortReads(io.BufferedReader):
    """A file that refuses long reads. zipfile takes the whole directory of an archive in one."""

    def __init__(self, path: Path):
        super().__init__(io.FileIO(path))

    def read(self, size: int = -1) -> bytes:
        if size > _MOST_DIRECTORY:
            raise LongDirectoryError(
                f"the directory of its archive has {size:,} bytes. "
                f"At most {_MOST_DIRECTORY:,} are read"
            )
        return super().read(size)


def members_overlap(archive: zipfile.ZipFile) -> bool:
    """Whether the members of an archive have more bytes than its file."""
    size = os.fstat(archive.fp.fileno()).st_size
    return sum(info.compress_size for info in archive.infolist()) > size


def check_stored(path: Path) -> None:
    """Raises a `ValueError` unless the members of an archive take no more memory than its file.

    Also raises zipfile's own errors for a damaged archive.
    """
    with ShortReads(path) as file, zipfile.ZipFile(file) as archive:
        if any(info.compress_type != zipfile.ZIP_STORED for info in archive.infolist()):
            raise ValueError("compressed, so it would need more memory than its size")
        if any(info.file_size != info.compress_size for info in archive.infolist()):
            raise ValueError("a member claims another size than it has")
        if members_overlap(archive):
            raise ValueError("its members overlap")


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
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.????????{UNFINISHED}"):
        if not leftover.is_dir():  # a pipe would be waited for
            continue
        with _lock(leftover, wait=False) as locked:
            if locked:
                shutil.rmtree(leftover, ignore_errors=True)
    with contextlib.ExitStack() as stack:
        while True:
            folder = Path(tempfile.mkdtemp(UNFINISHED, f".{path.name}.", path.parent))
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
    with _lock(lock, wait=False, create=True) as is_mine:
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
def _lock(path: Path, wait: bool, create: bool = False) -> Iterator[bool | None]:
    """Locks a file or folder; yields False if another process has the lock, None without locks."""
    with contextlib.ExitStack() as stack:
        try:
            import fcntl

            # Links are not followed, and pipes are not waited for.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | (os.O_CREAT if create else 0)
            descriptor = os.open(path, flags, 0o666)
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


def _finish(file: Path, like: Path) -> None:
    """Gives a new file or folder the permissions and owners of an old one, and syncs it."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        # Links in a new folder stay as they are.
        if like.exists() and not file.is_symlink() and file.is_dir() == like.is_dir():
            _copy_permissions(like.stat(), file)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _copy_permissions(old: os.stat_result, file: Path) -> None:
    mode, new = stat.S_IMODE(old.st_mode), file.stat()
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        for owner in (old.st_uid, -1):  # only root may give files to other users
            with contextlib.suppress(OSError):
                os.chown(file, owner, old.st_gid)
                break
        else:
            # What the old group was allowed, another group is allowed only if all others are.
            mode = mode & ~stat.S_IRWXG | (mode & stat.S_IRWXO) << 3
    file.chmod(mode)


def _new_file(folder: Path) -> Path:
    """An empty file with the permissions that the system gives to new files.

    To read the process' mask it would have to be changed for a moment, also for other threads.
    """
    file = folder / ".new"
    os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o666))
    return file
