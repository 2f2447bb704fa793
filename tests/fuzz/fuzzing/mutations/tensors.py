"""safetensors: the header's length, types, shapes, offsets, names and metadata."""

from __future__ import annotations

import json
import math
import random
import struct

from fuzzing.mutations import json_text, raw

_TYPES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "U8": 1, "BOOL": 1, "F8_E4M3": 1}

_MOST_DATA = 1 << 20


def mutated(rng: random.Random, content: bytes) -> bytes:
    """The content after a change of its header or its data."""
    size = int.from_bytes(content[:8], "little")
    text, data = content[8 : 8 + size], content[8 + size :]
    action = rng.randrange(8)
    if action == 0:
        return raw.mutated(rng, content)
    if action == 1:
        return struct.pack("<Q", rng.choice(raw.NUMBERS)) + content[8:]
    if action == 2:
        data = raw.mutated(rng, data)
    elif action <= 4:
        text = json_text.mutated(rng, text)
    else:
        text, data = _retyped(rng, text, data)
    return struct.pack("<Q", len(text)) + text + data


def _retyped(rng: random.Random, text: bytes, data: bytes) -> tuple[bytes, bytes]:
    """Another type, shape, name or metadata, with offsets and data that fit it."""
    try:
        header = json.loads(text)
        key = rng.choice([name for name in header if name != "__metadata__"])
        parts = {
            name: data[slice(*entry["data_offsets"])]
            for name, entry in header.items()
            if name != "__metadata__"
        }
        entry, action = header[key], rng.randrange(5)
        if action == 0:
            entry["dtype"] = rng.choice(list(_TYPES))
        elif action == 1:
            rng.shuffle(entry["shape"])
        elif action == 2:
            entry["shape"].insert(0, rng.choice((0, 1, 2, 1000)))
        elif action == 3:
            name = rng.choice(("../x", "", "a\n", key.upper(), f"model.{key}", "x" * 10_000))
            header[name], parts[name] = header.pop(key), parts.pop(key)
        else:
            header["__metadata__"] = {"keras_vit": json.dumps(json_text.anything(rng))}
        begin = 0
        for name, part in parts.items():
            size = math.prod(header[name]["shape"]) * _TYPES[header[name]["dtype"]]
            size = min(max(size, 0), _MOST_DATA)  # beyond it the header only claims
            parts[name] = (part * (size // max(len(part), 1) + 1))[:size]
            header[name]["data_offsets"] = [begin, begin + size]
            begin += size
        return json.dumps(header).encode(), b"".join(parts.values())
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return raw.mutated(rng, text), data  # an earlier mutation damaged it
