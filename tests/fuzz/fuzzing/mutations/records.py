"""TFRecord files: lengths, checksums that are right, and examples of protobuf."""

from __future__ import annotations

import random
import struct

import google_crc32c

from fuzzing.mutations import raw


def framed(record: bytes) -> bytes:
    """A record with its length and checksums."""
    length = struct.pack("<Q", len(record))
    return length + _masked(length) + record + _masked(record)


def records_of(content: bytes) -> list[bytes]:
    """The records of a file, whatever their checksums are."""
    records, at = [], 0
    while at + 16 <= len(content):
        size = int.from_bytes(content[at : at + 8], "little")
        records.append(content[at + 12 : at + 12 + size])
        at += 16 + size
    return records


def mutated(rng: random.Random, content: bytes, picture) -> bytes:
    """The file after a change; `picture` changes an encoded image."""
    records, action = records_of(content), rng.randrange(7)
    if action == 0 or not records:
        return raw.mutated(rng, content)
    if action == 1:  # a length, with its checksum
        length = struct.pack("<Q", rng.choice(raw.NUMBERS))
        return content + length + _masked(length) + rng.randbytes(rng.choice((0, 4, 100)))
    at = rng.randrange(len(records))
    if action == 2:
        records[at] = raw.mutated(rng, records[at])
    elif action == 3:
        records[at:at] = [records[at]] * rng.choice((1, 2, 200))
    elif action == 4:
        records[at] = b""
    else:
        records[at] = _example(rng, records[at], picture)
    return b"".join(map(framed, records))


def _example(rng: random.Random, record: bytes, picture) -> bytes:
    """Another value of a feature: a class, a name, the picture, or another type."""
    import tensorflow as tf

    try:
        example = tf.train.Example.FromString(record)
        features = example.features.feature
        name = rng.choice(sorted(features))
    except Exception:  # an earlier mutation damaged it
        return raw.mutated(rng, record)
    feature, action = features[name], rng.randrange(5)
    if action == 0:
        del features[name]
    elif action == 1:
        feature.int64_list.value[:] = [
            rng.choice((0, 1, -1, 2**31, 2**63 - 1, -(2**63))) for _ in range(rng.choice((0, 1, 9)))
        ]
    elif action == 2:
        text = rng.choice((b"", b"a\nb", b"\xff\xfe", b"\0", b"x" * 100_000, b"\x1b[2J"))
        feature.bytes_list.value[:] = [text] * rng.choice((0, 1, 2))
    elif action == 3:
        feature.float_list.value[:] = [float("nan")]
    elif feature.bytes_list.value:
        feature.bytes_list.value[0] = picture(rng, feature.bytes_list.value[0])
    return example.SerializeToString()


def _masked(data: bytes) -> bytes:
    value = google_crc32c.value(data)
    return struct.pack("<I", ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF)
