"""TFRecord files: lengths, checksums that are right, and examples of protobuf."""

import random
import struct

import google_crc32c

from fuzzing.mutations import images, raw


def framed(record: bytes) -> bytes:
    """A record with its length and checksums."""
    length = struct.pack("<Q", len(record))
    return length + _masked(length) + record + _masked(record)


def mutated(rng: random.Random, content: bytes) -> bytes:
    """The file after a change."""
    records, start, action = [], 0, rng.randrange(7)
    while start + 16 <= len(content):  # whatever the checksums are
        size = int.from_bytes(content[start : start + 8], "little")
        records.append(content[start + 12 : start + 12 + size])
        start += 16 + size
    if action == 0 or not records:
        return raw.mutated(rng, content)
    if action == 1:  # a length, with its checksum
        length = struct.pack("<Q", rng.choice(raw.NUMBERS))
        return content + length + _masked(length) + rng.randbytes(rng.choice((0, 4, 100)))
    change = _example if action > 3 else raw.mutated
    return b"".join(map(framed, raw.in_parts(rng, records, change, [b""])))


def _example(rng: random.Random, record: bytes) -> bytes:
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
        numbers = (0, 1, -1, 2**31, 2**63 - 1, -(2**63))
        feature.int64_list.value[:] = rng.choices(numbers, k=rng.choice((0, 1, 9)))
    elif action == 2:
        text = rng.choice((b"", b"a\nb", b"\xff\xfe", b"\0", b"x" * 100_000, b"\x1b[2J"))
        feature.bytes_list.value[:] = [text] * rng.choice((0, 1, 2))
    elif action == 3:
        feature.float_list.value[:] = [float("nan")]
    elif feature.bytes_list.value:
        feature.bytes_list.value[0] = images.mutated(rng, feature.bytes_list.value[0])
    return example.SerializeToString()


def _masked(data: bytes) -> bytes:
    value = google_crc32c.value(data)
    return struct.pack("<I", ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF)
