"""Bytes of any file: flipped, deleted, repeated, truncated, spliced, replaced by numbers."""

import random
import struct
from collections.abc import Sequence

from fuzzing.kind import Mutation

NUMBERS = (
    0, 1, 2, 3, 7, 8, 47, 49, 127, 128, 255, 256, 4096, 2**15, 2**16 - 1, 2**16, 2**24, 2**31 - 1,
    2**31, 2**32 - 1, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1,
)  # fmt: skip
_LENGTHS = (1, 2, 4, 8, 16, 64, 256, 4096)
_COUNTS = (2, 3, 100, 10_000, 300_000)  # of a part that is repeated
_MOST = 4 << 20  # bytes of it then
_FORMATS = ("<B", "<H", ">H", "<I", ">I", "<Q", ">Q")


def mutated(rng: random.Random, content: bytes) -> bytes:
    """The content after a change at a random place."""
    at = rng.randrange(len(content) + 1)
    end = min(at + rng.choice(_LENGTHS), len(content))
    piece = content[at:end]
    action = rng.randrange(9)
    if action == 0 and piece:
        piece = bytes([piece[0] ^ 1 << rng.randrange(8)]) + piece[1:]
    elif action == 1:
        piece = rng.randbytes(len(piece))
    elif action == 2:
        piece = b""
    elif action == 3:
        piece *= rng.choice((2, 3, 100))
    elif action == 4:
        piece = bytes([rng.choice((0, 10, 34, 92, 123, 127, 255))]) * len(piece)
    elif action == 5:  # splice: another place of the same file
        other = rng.randrange(len(content) + 1)
        piece = content[other : other + rng.choice(_LENGTHS)]
    elif action == 6:
        return content[:at] + number(rng) + content[at + 4 :]
    elif action == 7 and rng.random() < 0.3:
        return content[:at]
    elif action == 8:
        return content + rng.choice((b"\0", b"\n", content[:64], bytes(4096)))
    return content[:at] + piece + content[end:]


def in_parts(rng: random.Random, parts: list[bytes], change: Mutation, added: Sequence[bytes]):
    """The parts of a file after one was removed, repeated, changed or added, or all were mixed."""
    at, action, count = rng.randrange(len(parts)), rng.randrange(7), rng.choice(_COUNTS)
    part, new = parts[at], []
    if action == 0:
        return rng.sample(parts, len(parts))
    if action == 1:
        new = [part] * min(count, _MOST // (len(part) + 1))
    elif action == 2:
        other = rng.choice(added)
        new = [part] + [other] * min(rng.choice((1, 1, 1, count)), _MOST // (len(other) + 1))
    elif action > 3:
        new = [change(rng, part)]
    return [*parts[:at], *new, *parts[at + 1 :]]


def number(rng: random.Random) -> bytes:
    """A number that readers often do not expect, in a width and order of bytes."""
    form = rng.choice(_FORMATS)
    return struct.pack(form, rng.choice(NUMBERS) % 256 ** struct.calcsize(form))
