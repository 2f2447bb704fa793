"""Arrays in NumPy's format: the header's type, shape and length, and the values."""

from __future__ import annotations

import io
import random
import re
import struct

import numpy as np

from fuzzing.mutations import raw

_TYPES = (
    "'|V0'", "'|S0'", "'<U0'", "[]", "'|O'", "'<f8'", "'>f4'", "'<f2'", "'<i8'", "'|b1'", "'<c16'",
    "'<M8[ns]'", "'|V2'", "'<f16'", "'|S1000000000'", "'<f4', (0,)", "[('a', '<f4')]", "'('", "5",
    "[('a', '|V0')]", "('<f4', (100000, 100000))",
)  # fmt: skip
_SIDES = (0, -1, 1, 2, 3, 2**31, 2**63, 2**64, 10**30, 100_000)
_HEADER = re.compile(rb"\{.*\}")


def mutated(rng: random.Random, content: bytes) -> bytes:
    """The content after a change of its header or its data."""
    action = rng.randrange(6)
    if action == 0 or not content.startswith(b"\x93NUMPY"):
        return raw.mutated(rng, content)
    if action == 1:
        return _values(rng, content)
    if action == 2:  # the length of the header, or the version of the format
        at = rng.choice((6, 8))
        return content[:at] + raw.number(rng) + content[at + 2 :]
    length = int.from_bytes(content[8:10], "little")
    header, data = content[10 : 10 + length], content[10 + length :]
    if action == 3:
        header = re.sub(rb"'descr': .*?, 'f", f"'descr': {rng.choice(_TYPES)}, 'f".encode(), header)
    else:
        header = re.sub(rb"\([\d, ]*\)", _shape(rng, header).encode(), header)
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(header) % 2**16) + header + data


def of(array: np.ndarray) -> bytes:
    """An array in NumPy's format."""
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def _shape(rng: random.Random, header: bytes) -> str:
    sides = [int(side) for side in re.findall(rb"\d+", header.partition(b"(")[2])]
    action = rng.randrange(6)
    if action == 0 and sides:
        sides[rng.randrange(len(sides))] = rng.choice(_SIDES)
    elif action == 1:
        rng.shuffle(sides)
    elif action == 2:
        sides.insert(rng.randrange(len(sides) + 1), rng.choice(_SIDES))
    elif action == 3:
        sides = sides[:-1]
    elif action == 4:
        sides = [rng.choice((0, 1))] * rng.choice((33, 65, 10_000, 20_000))
    else:
        return rng.choice(("(True,)", "(1.5,)", "('a',)", "5", "((1,),)", "(None,)", "(1e9,)"))
    return f"({', '.join(map(str, sides))}{',' * (len(sides) == 1)})"


def _values(rng: random.Random, content: bytes) -> bytes:
    """Numbers that are no usual weights."""
    values = np.array([np.nan, np.inf, -np.inf, 3e38, 1e-45, 0, 255], "<f4")
    at = 10 + int.from_bytes(content[8:10], "little")
    at += 4 * rng.randrange(max((len(content) - at) // 4, 1))
    return content[:at] + values[rng.randrange(len(values))].tobytes() + content[at + 4 :]
