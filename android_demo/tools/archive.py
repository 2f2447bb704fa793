"""Writes APKs: archives whose stored files are aligned, so that phones can map them into memory."""

import struct
import zipfile
from dataclasses import dataclass
from pathlib import Path

# Pages of memory are 16 KB on new phones, and libraries are mapped straight out of the APK.
LIBRARY_ALIGNMENT = 16_384
STORED_ALIGNMENT = 4

# The extra field that zipalign and apksigner use: id, size, alignment, zeros.
_ALIGNMENT_FIELD = 0xD935
_LOCAL_HEADER_SIZE = 30
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Entry:
    """One file of an archive."""

    name: str
    content: bytes
    stored: bool


def alignment_of(name: str) -> int:
    """At multiples of how many bytes a stored file must begin."""
    return LIBRARY_ALIGNMENT if name.endswith(".so") else STORED_ALIGNMENT


def write_archive(path: Path, entries: list[Entry]) -> None:
    """Writes the entries in their order; the same entries give the same bytes."""
    part = path.with_suffix(".part")
    with zipfile.ZipFile(part, "w") as archive:
        for entry in entries:
            info = zipfile.ZipInfo(entry.name, _EPOCH)
            info.external_attr = 0o644 << 16
            info.compress_type = zipfile.ZIP_STORED if entry.stored else zipfile.ZIP_DEFLATED
            if entry.stored:
                info.extra = _padding(archive.fp.tell(), info.filename, alignment_of(entry.name))
            archive.writestr(info, entry.content, compresslevel=9)
    part.replace(path)


def data_offset(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> int:
    """Where an entry's content begins in the file."""
    archive.fp.seek(info.header_offset)
    header = archive.fp.read(_LOCAL_HEADER_SIZE)
    name_size, extra_size = struct.unpack("<HH", header[26:30])
    return info.header_offset + _LOCAL_HEADER_SIZE + name_size + extra_size


def _padding(header_offset: int, name: str, alignment: int) -> bytes:
    """An extra field that moves the content behind the header to a multiple of `alignment`."""
    field = struct.pack("<HHH", _ALIGNMENT_FIELD, 2, alignment)
    end = header_offset + _LOCAL_HEADER_SIZE + len(name.encode()) + len(field)
    zeros = -end % alignment
    return struct.pack("<HHH", _ALIGNMENT_FIELD, 2 + zeros, alignment) + bytes(zeros)
