"""`.tflite` files: fields of any object of the flatbuffer, and offsets in it."""

import random
import struct
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from fuzzing.mutations import raw, text

_OFFSETS = (0, 1, 2, 3, 4, 8, 64, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFF0)


def mutated(rng: random.Random, content: bytes) -> bytes:
    """The file after a change."""
    action = rng.random()
    if action < 0.15:
        return raw.mutated(rng, content)
    if action < 0.5:  # a length, an offset or a number anywhere
        at = 4 * rng.randrange(max(len(content) // 4, 1))
        value = rng.choice((*_OFFSETS, rng.randrange(len(content) + 4)))
        return content[:at] + struct.pack("<I", value) + content[at + 4 :]
    try:
        model = schema.ModelT.InitFromPackedBuf(content, 0)
        holder, name = rng.choice(_places(model))
        setattr(holder, name, _changed(rng, vars(holder)[name]))
        return _packed(model)
    except Exception:  # a value that cannot be written, or a damaged file
        return raw.mutated(rng, content)


def without_weights(content: bytes) -> bytes:
    """A file of a few thousand bytes, so that mutations meet the graph and not the weights."""
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    for buffer in model.buffers:
        if buffer.data is not None:
            buffer.data = buffer.data[:16]
    return _packed(model)


def _packed(model: Any) -> bytes:
    """The file of a tree of the schema's objects."""
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _places(found: Any) -> list[tuple[Any, str]]:
    """Each field of the objects below, as its object and its name."""
    places = []
    for name, value in vars(found).items():
        places.append((found, name))
        for each in value if isinstance(value, list) else [value]:
            if hasattr(each, "__dict__"):
                places += _places(each)
    return places


def _changed(rng: random.Random, value: Any) -> Any:
    if isinstance(value, (list, np.ndarray)):
        value = list(value)
        one = value[:1] if value else [rng.choice(_OFFSETS[:5])]
        number = [rng.choice((-(2**31), -1, 0, 1, 2**31 - 1, 65_536))]
        return rng.choice(([], one * rng.choice((1, 2, 1000, 70_000)), value[::-1], number, None))
    if isinstance(value, (bytes, str)):
        return rng.choice((b"", b"\xff\xfe", b"a\nb", b"x" * 100_000, b"/" * 60_000, b"\x1b[2J"))
    if isinstance(value, bool) or value is None:
        return rng.choice((True, False, None))
    if isinstance(value, int):
        return rng.choice((value + 1, value - 1, -1, 0, 127, 2**31 - 1, -(2**31)))
    if isinstance(value, float):
        return float(rng.choice([n for n in text.NUMBERS if abs(n) < 1e300]))
    return None
