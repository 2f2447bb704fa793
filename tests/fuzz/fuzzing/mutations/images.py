"""Pictures: chunks of PNG, segments of JPEG, blocks of GIF and tags, with the right lengths."""

import functools
import random
import struct
import zlib

from fuzzing.mutations import raw

_PNG = b"\x89PNG\r\n\x1a\n"
_LARGEST = 4 << 20  # of a picture whose parts are multiplied
_SIDES = (0, 1, 2, 255, 3000, 8000, 13_300, 65_535, 2**31 - 1)
_CHUNKS = (b"tEXt", b"iCCP", b"zTXt", b"eXIf", b"acTL", b"tRNS", b"PLTE", b"gAMA")
_MARKERS = (0xC0, 0xC2, 0xC4, 0xD8, 0xD9, 0xDA, 0xDB, 0xDD, 0xE0, 0xE1, 0xED, 0xEE, 0xFE, 0xFF, 0)
_STRIP_OFFSETS, _STRIP_SIZES, _LONG = 273, 279, 4  # tags and a type of TIFF


def mutated(rng: random.Random, content: bytes) -> bytes:
    """The picture after a change."""
    form = next((start for start in _FORMS if content.startswith(start)), b"")
    chance = 0.8 if form in _OF_PARTS else 0.4
    if not form or len(content) > _LARGEST or rng.random() > chance:
        return raw.mutated(rng, content)
    return _FORMS[form](rng, content)


def _sides_at(at: int, form: str, rng: random.Random, content: bytes) -> bytes:
    """Another width or height; those of many formats are at the same place in all files."""
    side = struct.pack(form, rng.choice(_SIDES) % 256 ** struct.calcsize(form))
    at += rng.choice((0, len(side)))
    return content[:at] + side + content[at + len(side) :]


def _gif(rng: random.Random, content: bytes) -> bytes:
    """Another side; or blocks, comments or junk before the first image."""
    if rng.random() < 0.5:
        return _sides_at(6, "<H", rng, content)
    at = 13 + (3 << (content[10] & 7) + 1 if content[10] & 128 else 0)
    part = rng.choice((b"\x21\xfe\x01a\0", b"\x21\xff\x01a\0", b"\0", b"\x21\xf9\x04" + bytes(5)))
    long = b"\x21\xfe" + (b"\xff" + b"a" * 255) * rng.choice((1, 4_000, 15_000)) + b"\0"
    added = rng.choice((long, part * rng.choice((1, 1_000, 90_000, 800_000))))
    return content[:at] + added + content[at:]


def _png(rng: random.Random, content: bytes) -> bytes:
    chunks, at = [], len(_PNG)
    while at + 12 <= len(content):
        size = int.from_bytes(content[at : at + 4], "big")
        chunks.append(content[at + 4 : at + 8 + size])
        at += 12 + size
    action = rng.randrange(24)
    if action == 0:
        return bomb(rng.choice((3000, 6000, 11_000, 13_300)), rng.choice((0, 2, 3, 6)))
    if action < 9 and chunks:
        header = bytearray(chunks[0].ljust(17, b"\0")[:17])
        if action < 5:
            header[rng.randrange(12, 17)] = rng.choice((0, 1, 2, 3, 4, 6, 8, 16, 255))
        else:
            header[4:12] = struct.pack(">II", rng.choice(_SIDES), rng.choice(_SIDES))
        chunks[0] = bytes(header)
    else:
        name = rng.choice(_CHUNKS)
        chunks = raw.in_parts(rng, chunks, _other_data, [name + _filling(rng, name), b"tEXt"])
    return _PNG + b"".join(map(_chunk, chunks))


def _chunk(part: bytes) -> bytes:
    return struct.pack(">I", len(part) - 4) + part + struct.pack(">I", zlib.crc32(part))


def _other_data(rng: random.Random, part: bytes) -> bytes:
    if not part.startswith(b"IDAT"):
        return part[:4] + raw.mutated(rng, part[4:])
    pixels = zlib.decompressobj().decompress(part[4:], 1 << 20)
    return b"IDAT" + zlib.compress(raw.mutated(rng, pixels), 1)


def _filling(rng: random.Random, name: bytes) -> bytes:
    if name == b"eXIf":
        return _overlapping(rng)[6:]
    if name in (b"iCCP", b"zTXt"):  # compressed: many zeros in a small chunk
        return b"a\0\0" + _zeros(rng.choice((100, 10_000_000)))
    return rng.randbytes(rng.choice((0, 1, 3, 256, 768)))


@functools.lru_cache(16)
def bomb(side: int, colours: int) -> bytes:
    """A PNG of zeros with many more pixels than bytes."""
    samples = {0: 1, 2: 3, 3: 1, 6: 4}[colours]
    header = struct.pack(">IIBBBBB", side, side, 8, colours, 0, 0, 0)
    palette = [b"PLTE" + bytes(3)] if colours == 3 else []
    data = b"IDAT" + _zeros(side * (samples * side + 1))
    return _PNG + b"".join(map(_chunk, [b"IHDR" + header, *palette, data, b"IEND"]))


@functools.lru_cache(16)
def _zeros(count: int) -> bytes:
    """Compressed zeros, which are never in memory together."""
    deflate = zlib.compressobj(9)
    parts = [deflate.compress(bytes(min(1 << 20, count - at))) for at in range(0, count, 1 << 20)]
    return b"".join([*parts, deflate.flush()])


def _jpeg(rng: random.Random, content: bytes) -> bytes:
    segments, at = [], 2  # those before the scan
    while content[at : at + 1] == b"\xff" and content[at + 1 : at + 2] not in (b"\xda", b""):
        size = max(int.from_bytes(content[at + 2 : at + 4], "big"), 2)
        segments.append(content[at + 1 : at + 2] + content[at + 4 : at + 2 + size])
        at += 2 + size
    scan, action = content[at:], rng.randrange(8)
    if action == 0:
        scan = raw.mutated(rng, scan)
    elif action == 1:
        return content[:2] + b"\xff" * rng.choice((1, 3, 1000, 400_000, 4_000_000)) + content[2:]
    elif action == 2:
        sides = struct.pack(">HH", rng.choice(_SIDES) % 2**16, rng.choice(_SIDES) % 2**16)
        frames = (b"\xc0", b"\xc2")
        segments = [x[:2] + sides + x[6:] if x.startswith(frames) else x for x in segments]
    else:
        added = [bytes([rng.choice(_MARKERS)]) + _payload(rng)]
        segments = raw.in_parts(rng, segments or added, raw.mutated, added)
    sizes = [struct.pack(">H", (len(part) + 1) % 2**16) for part in segments]
    parts = [b"\xff" + x[:1] + size + x[1:] for x, size in zip(segments, sizes, strict=True)]
    return b"\xff\xd8" + b"".join(parts) + scan


def _payload(rng: random.Random) -> bytes:
    exif = b"Exif\0\0" + rng.choice((b"II*\0\x08\0\0\0", b"MM\0*\0\0\0\x08"))
    orientation = rng.choice((b"\x01\0\x12\x01\x03\0\x01\0\0\0", b"\0\x01\x01\x12\0\x03\0\0\0\x01"))
    exif += orientation + raw.number(rng).ljust(4, b"\0") + bytes(4)
    long, noise = exif + b"\xff" * 60_000, rng.randbytes(100)
    return rng.choice((b"", b"", exif, long, _overlapping(rng), noise, b"Adobe\0d"))


def _overlapping(rng: random.Random) -> bytes:
    """A block of many tags, each of which claims nearly all of the block."""
    count, size = rng.choice((1, 100, 4_000)), rng.choice((100, 60_000))
    kind, start = rng.choice((2, 5, 7)), rng.choice((0, 8, size // 2))
    tags = [struct.pack("<HHII", rng.randrange(2**16), kind, size - 1, start)] * count
    block = b"II*\0\x08\0\0\0" + struct.pack("<H", count) + b"".join(tags)
    prefix = rng.choice((b"Exif\0\0", b"Exif\0\0" * 3, b"MPF\0"))
    return prefix + block.ljust(size, b"\0")[:65_000]


def _tiff(rng: random.Random, content: bytes) -> bytes:
    """Changes an entry of the first directory, or paints the same strip again and again."""
    at = int.from_bytes(content[4:8], "little")
    end = at + 2 + 12 * int.from_bytes(content[at : at + 2], "little")
    entries = [list(entry) for entry in struct.iter_unpack("<HHII", content[at + 2 : end])]
    if rng.random() < 0.3:
        count, added = rng.choice((2, 100, 2000, 50_000)), b""
        for entry in entries:
            if entry[0] in (_STRIP_OFFSETS, _STRIP_SIZES):
                value = struct.pack("<I", entry[3] % 2 ** (8 * min(entry[1], 4)))
                entry[1:] = _LONG, count, len(content) + len(added)
                added += value * count
        content += added
    else:
        entry = rng.choice(entries)
        entry[rng.randrange(4)] = rng.choice((0, 1, 2, 3, 4, 8, 16, 255, 65_535, *_SIDES)) % 2**16
        if rng.random() < 0.3:
            rng.shuffle(entries)
    return content[: at + 2] + b"".join(struct.pack("<HHII", *x) for x in entries) + content[end:]


_OF_PARTS = {_PNG: _png, b"\xff\xd8": _jpeg, b"II*\0": _tiff}
_FORMS = _OF_PARTS | {
    b"GIF8": _gif,
    b"BM": functools.partial(_sides_at, 18, "<I"),
    b"RIFF": functools.partial(_sides_at, 26, "<H"),
}
