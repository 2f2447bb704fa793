"""Bounds the work and the memory that a zip archive of a stranger takes, before it is read."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

# The largest model of the field has 1,000 arrays, whose entries take 100 kB.
_MOST_DIRECTORY = 1 << 20


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
