"""Pictures: chunks of PNG with the right checksums, segments of JPEG with the right lengths.

The fields of other formats are met by changes of bytes.
"""

import functools
import random
import struct
import zlib

from fuzzing.mutations import raw

_PNG = b"\x89PNG\r\n\x1a\n"
_LARGEST = 4 << 20  # of a picture whose parts are multiplied
_SIDES = (0, 1, 2, 255, 3000, 8000, 13_300, 65_535, 2**31 - 1)
# EXIF: the rotation alone, and 4,000 tags that each claim nearly all of the block.
_TURNED = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0" + bytes(4)
_OVERLAPPING = (
    b"II*\0\x08\0\0\0" + struct.pack("<H", 4_000) + struct.pack("<HHII", 999, 7, 59_999, 8) * 4_000
).ljust(60_000, b"\0")
_MARKERS = (0xC0, 0xC2, 0xC4, 0xD8, 0xD9, 0xDA, 0xDB, 0xDD, 0xE0, 0xE1, 0xED, 0xEE, 0xFE, 0xFF, 0)
_SEGMENTS = (
    *(bytes([marker, *range(size)]) for marker in _MARKERS for size in (0, 9)),
    *(b"\xe1" + _TURNED, b"\xe1" + _TURNED + b"\xff" * 60_000, b"\xeeAdobe\0d"),
    *(b"\xe1Exif\0\0" + _OVERLAPPING, b"\xe2MPF\0" + _OVERLAPPING),
)
_CHUNKS = (
    *(name + bytes(size) for name in (b"tEXt", b"acTL", b"tRNS", b"gAMA") for size in (0, 3, 256)),
    *(name + b"a\0\0" + zlib.compress(bytes(10_000_000)) for name in (b"iCCP", b"zTXt")),
    *(b"PLTE" + bytes(768), b"eXIf" + _TURNED[6:], b"eXIf" + _OVERLAPPING),
)


def mutated(rng: random.Random, content: bytes) -> bytes:
    """The picture after a change."""
    if len(content) < _LARGEST and rng.random() < 0.7:
        if content.startswith(_PNG):
            return _png(rng, content)
        if content.startswith(b"\xff\xd8"):
            return _jpeg(rng, content)
    return raw.mutated(rng, content)


def _png(rng: random.Random, content: bytes) -> bytes:
    if rng.random() < 0.04:
        return _bomb(rng.choice((3000, 6000, 10_400)), rng.choice((0, 2, 6)))
    chunks, at = [], len(_PNG)
    while at + 12 <= len(content):
        size = int.from_bytes(content[at : at + 4], "big")
        chunks.append(content[at + 4 : at + 8 + size])
        at += 12 + size
    return _PNG + b"".join(map(_chunk, raw.in_parts(rng, chunks, _other_chunk, _CHUNKS)))


def _chunk(part: bytes) -> bytes:
    return struct.pack(">I", len(part) - 4) + part + struct.pack(">I", zlib.crc32(part))


def _other_chunk(rng: random.Random, part: bytes) -> bytes:
    name, content = part[:4], part[4:]
    if name == b"IHDR" and rng.random() < 0.5:
        return name + struct.pack(">II", rng.choice(_SIDES), rng.choice(_SIDES)) + content[8:]
    if name == b"IDAT":
        pixels = zlib.decompressobj().decompress(content, 1 << 20)
        return name + zlib.compress(raw.mutated(rng, pixels), 1)
    return name + raw.mutated(rng, content)


@functools.cache
def _bomb(side: int, colours: int) -> bytes:
    """A PNG of zeros with many more pixels than bytes."""
    header = struct.pack(">IIBBBBB", side, side, 8, colours, 0, 0, 0)
    data = zlib.compress(bytes(side * ({0: 1, 2: 3, 6: 4}[colours] * side + 1)))
    return _PNG + b"".join(map(_chunk, [b"IHDR" + header, b"IDAT" + data, b"IEND"]))


def _jpeg(rng: random.Random, content: bytes) -> bytes:
    segments, at = [], 2  # those before the scan
    while content[at : at + 1] == b"\xff" and content[at + 1 : at + 2] not in (b"\xda", b""):
        size = max(int.from_bytes(content[at + 2 : at + 4], "big"), 2)
        segments.append(content[at + 1 : at + 2] + content[at + 4 : at + 2 + size])
        at += 2 + size
    parts = [
        b"\xff" + part[:1] + struct.pack(">H", (len(part) + 1) % 2**16) + part[1:]
        for part in raw.in_parts(rng, segments, _other_segment, _SEGMENTS)
    ]
    fill = b"\xff" * rng.choice((*[0] * 20, 1, 1000, 4_000_000))
    return b"\xff\xd8" + fill + b"".join(parts) + content[at:]


def _other_segment(rng: random.Random, part: bytes) -> bytes:
    if part.startswith((b"\xc0", b"\xc2")) and rng.random() < 0.5:
        return part[:2] + struct.pack(">HH", *(rng.choice(_SIDES[:-1]) for _ in "hw")) + part[6:]
    return part[:1] + raw.mutated(rng, part[1:])
