"""What a picture may cost at most, whoever made it. A small file may hold a huge picture.

`MOST_PIXELS` is one picture's limit, and that of all pictures that Pillow decodes at the same time.
TensorFlow's operations share no limit: training decodes as many pictures as there are cores.
Decoding takes up to 16 bytes of memory a pixel, 1.8 GB: WebP 16, progressive JPEG 12, others 8,
and 10 with TensorFlow's operations.

The parts of a file are counted before Pillow reads it: Pillow walks through them in Python and
keeps some of them, so a small file of many parts could take minutes and gigabytes. Newer versions
of Pillow have limits of their own.
"""

from __future__ import annotations

import contextlib
import io
import os
import struct
import threading
from collections.abc import Iterator
from typing import BinaryIO

from PIL.JpegImagePlugin import MARKER

from keras_vit._errors import UsageError

# Photographs of 108 megapixels, the most of cameras in wide use, are read.
MOST_PIXELS = 110_000_000
# The longest side of a JPEG or GIF. A thin picture grows when its short side is resized.
MOST_SIDE = 65_535
# Each scan of a JPEG is a pass over all its pixels, and may take no more than 10 bytes of the file.
# Progressive files have about 10.
MOST_SCANNED = 20 * MOST_PIXELS
SCAN = b"\xff\xda\0"  # the first bytes of a scan
# Compressed texts and colour profiles of a PNG: each may grow from 8 kB to 8 MB.
MOST_TEXTS = 16
TEXTS = (b"zTXt", b"iTXt", b"iCCP")
# What Pillow does in Python, microseconds for each: the chunks of a PNG, the segments, fill bytes
# and junk before a JPEG's first scan, the blocks and junk before a GIF's first image, the tags and
# strips of a TIFF, the pixels of a BMP stored as runs.
MOST_PARTS = 100_000
MOST_STRIPS = 4 * MOST_SIDE  # a row each, and each colour apart
MOST_RUN_PIXELS = 10_000_000
# Numbers of a tag of a TIFF or of EXIF; the longest lists are those of the strips.
MOST_TAG_NUMBERS = MOST_STRIPS
# Bytes of a GIF's comments, which Pillow before 13 joins one by one.
MOST_COMMENTED = 1 << 20

# The bytes of a value of each type of TIFF that Pillow knows; those of `_BYTES` stay bytes.
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8}
_BYTES = {1, 2, 7}
_SHARED = 1 << 16  # bytes of small values that tags of a TIFF may share
_MOST_READ = 16  # how often a file may be read for the tags of a damaged directory
_APP1, _EXIF = b"\xe1", b"Exif\0\0"  # of a JPEG
_APP2, _PICTURES = b"\xe2", b"MPF\0"  # of a JPEG with several pictures, as some cameras write
_COMMENT, _EXTENSION, _IMAGE = b"\xfe", b"!", b","  # of a GIF


class Room:
    """Lets threads decode at the same time as long as their pixels fit together.

    Args:
        pixels: the most pixels; a larger picture is decoded alone.
    """

    def __init__(self, pixels: int = MOST_PIXELS):
        self._pixels = self._free = pixels
        self._condition = threading.Condition()

    @contextlib.contextmanager
    def taken(self, pixels: int) -> Iterator[None]:
        """Waits until there is room for a picture, and keeps it taken."""
        pixels = min(pixels, self._pixels)
        with self._condition:
            self._condition.wait_for(lambda: self._free >= pixels)
            self._free -= pixels
        try:
            yield
        finally:
            with self._condition:
                self._free += pixels
                self._condition.notify_all()


def check_structure(file: BinaryIO, name: str) -> None:
    """Refuses a file of too many parts.

    Args:
        file: an opened picture file; its position changes.
        name: its format, see `picture_formats.true_format`.

    Raises:
        UsageError: it has more parts than these limits allow.
    """
    checks = {"JPEG": _check_jpeg, "PNG": _check_png, "GIF": _check_gif, "TIFF": check_tags}
    if name in checks:
        checks[name](file)


def check_tags(file: BinaryIO, name: str = "TIFF") -> None:
    """Refuses a TIFF, or an EXIF block, whose first directory claims more than the file has.

    Args:
        file: opened, or its content; its position changes.
        name: for the error.

    Raises:
        UsageError: the values of the tags overlap, or one has too many numbers.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    head = file.read(16)
    order = ">" if head[:2] == b"MM" else "<"
    is_big = b"\x2b" in head[2:4]
    entry, count, place = ("HHQQ", "Q", slice(8, 16)) if is_big else ("HHLL", "H", slice(4, 8))
    entry, count = (struct.Struct(order + each) for each in (entry, count))
    file.seek(int.from_bytes(head[place], "little" if order == "<" else "big"))
    found = file.read(count.size)
    entries = min(count.unpack(found)[0], MOST_PARTS + 1) if len(found) == count.size else 0
    _check_count(name, entries)
    tags = file.read(entries * entry.size)
    kept = read = 0
    for _, kind, values, start in entry.iter_unpack(tags[: len(tags) // entry.size * entry.size]):
        length, left = values * _SIZES.get(kind, 0), max(size - start, 0)
        read += min(length, left)
        if length > left:  # it ends after the file; Pillow ignores it
            continue
        kept += length
        if kind not in _BYTES and values > MOST_TAG_NUMBERS:
            raise UsageError(f"{name} with a tag of {values:,} numbers, save it again")
    if kept > size + _SHARED or read > _MOST_READ * size + _SHARED:
        raise UsageError(f"{name} whose tags overlap, save it again")


def check_exif(block: bytes, name: str) -> None:
    """`check_tags` for the EXIF block of a picture of another format."""
    while block.startswith(_EXIF):  # as Pillow does
        block = block.removeprefix(_EXIF)
    check_tags(io.BytesIO(block), f"{name} with an EXIF block")


def _check_count(name: str, parts: int) -> None:
    if parts > MOST_PARTS:
        raise UsageError(f"{name} of more than {MOST_PARTS:,} segments or chunks, save it again")


def _check_jpeg(file: BinaryIO) -> None:
    """Counts how often Pillow goes on until the first scan, and checks what it reads as tags."""
    steps, last, exif = 0, b"", []
    file.seek(2)
    while steps <= MOST_PARTS and (byte := file.read(1)):
        steps += 1
        if last != b"\xff" or byte in b"\0\xff":  # junk, or a fill byte
            last = byte
            continue
        if byte == b"\xda" or 0xFF00 + byte[0] not in MARKER:
            break
        if MARKER[0xFF00 + byte[0]][2]:  # it is read, so it has a length
            length = max(int.from_bytes(file.read(2), "big") - 2, 0)
            content = file.read(length) if byte in (_APP1, _APP2) else b""
            exif += [content] if content.startswith(_EXIF) else []
            if content.startswith(_PICTURES):
                check_tags(io.BytesIO(content[len(_PICTURES) :]), "JPEG of several pictures")
            file.seek(length - len(content), os.SEEK_CUR)
        last = b""
    _check_count("JPEG", steps)
    if exif:  # Pillow joins all of them
        check_exif(b"".join(each.removeprefix(_EXIF) for each in exif), "JPEG")


def _check_png(file: BinaryIO) -> None:
    count = texts = 0
    file.seek(8)
    while count <= MOST_PARTS and len(header := file.read(8)) == 8:
        count += 1
        texts += header[4:] in TEXTS
        file.seek(int.from_bytes(header[:4], "big") + 4, os.SEEK_CUR)  # what follows, and its sum
    _check_count("PNG", count)
    if texts > MOST_TEXTS:
        raise UsageError(f"PNG of more than {MOST_TEXTS} compressed texts, save it without")


def _check_gif(file: BinaryIO) -> None:
    """Checks the blocks before the first image, and the junk between them."""
    file.seek(10)
    flags = (file.read(1) or b"\0")[0]
    file.seek(13 + (3 << (flags & 7) + 1 if flags & 128 else 0))  # after the colours
    count = commented = 0
    while count <= MOST_PARTS and (byte := file.read(1)) not in (b"", _IMAGE):
        count += 1
        if byte != _EXTENSION:
            continue
        kind = file.read(1)
        while count <= MOST_PARTS and (length := file.read(1)) not in (b"", b"\0"):
            count += 1
            commented += length[0] if kind == _COMMENT else 0
            file.seek(length[0], os.SEEK_CUR)
    _check_count("GIF", count)
    if commented > MOST_COMMENTED:
        raise UsageError(f"GIF with comments of {commented:,} bytes, save it without")
