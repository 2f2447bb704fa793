"""What a picture may cost at most, whoever made it. A small file may hold a huge picture.

`MOST_PIXELS` is one picture's limit, and that of all pictures that Pillow decodes at the same time.
TensorFlow's operations share no limit: a training decodes as many pictures as there are cores.
Decoding takes up to 16 bytes of memory a pixel, 1.8 GB: WebP 16, progressive JPEG 12, others 8,
and 10 with TensorFlow's operations.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

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
