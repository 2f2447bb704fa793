"""Archives: members with right checksums, fields of the headers, names, comments and bombs."""

from __future__ import annotations

import io
import random
import re
import struct
import warnings
import zipfile
from collections.abc import Callable

import numpy as np

from fuzzing.mutations import json_text, npy, raw

Mutation = Callable[[random.Random, bytes], bytes]
# The offsets of the fields after each signature.
_FIELDS = {
    b"PK\x01\x02": (4, 6, 8, 10, 16, 20, 24, 28, 30, 32, 34, 42),
    b"PK\x03\x04": (4, 6, 8, 14, 18, 22, 26, 28),
    b"PK\x05\x06": (4, 6, 8, 10, 12, 16, 20),
}
_NAMES = ("../../evil.npy", "/etc/passwd.npy", "\x1b[2J.npy", ".npy", "a", "x" * 60_000 + ".npy")


def mutated(rng: random.Random, content: bytes, member: Mutation = npy.mutated) -> bytes:
    """The archive after a change; `member` changes the content of a file in it."""
    if rng.random() < 0.1:
        return raw.mutated(rng, content)
    if rng.random() < 0.15:
        return _field(rng, content)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [(info.filename, archive.read(info)) for info in archive.infolist()]
            comment = archive.comment
    except Exception:  # an earlier mutation damaged it
        return raw.mutated(rng, content)
    if comment and rng.random() < 0.35:
        comment = json_text.mutated(rng, comment)[: 2**16 - 1]
    elif members:
        members = _changed(rng, members, member)
    return _written(rng, members, comment)


def _changed(rng: random.Random, members: list, member: Mutation) -> list:
    at, action = rng.randrange(len(members)), rng.random()
    name, data = members[at]
    if action < 0.6:
        return [*members[:at], (name, member(rng, data)), *members[at + 1 :]]
    if action < 0.7:
        return [*members[:at], (_renamed(rng, name), data), *members[at + 1 :]]
    if action < 0.8:
        return [*members, (_renamed(rng, name), data)]
    if action < 0.9:
        return members[:at] + members[at + 1 :]
    if action < 0.95:
        return [*members, members[at]]
    if action < 0.99:  # zeros, of which a small file can hold many
        sides = rng.choice(((1000, 1000), (4000, 1000), (32, 1000, 1000)))
        return [*members[:at], (name, npy.of(np.zeros(sides, np.float32))), *members[at + 1 :]]
    return members + [(f"{i}.npy", b"") for i in range(rng.choice((2_000, 20_000)))]


def _written(rng: random.Random, members: list, comment: bytes) -> bytes:
    large = sum(len(data) for _, data in members) > 1 << 20
    method = zipfile.ZIP_DEFLATED if large or rng.random() < 0.3 else zipfile.ZIP_STORED
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method, compresslevel=1) as archive:
        for name, data in members:
            with warnings.catch_warnings():  # of two members with one name
                warnings.simplefilter("ignore")
                archive.writestr(zipfile.ZipInfo(name), data, method)
        archive.comment = comment
    return stream.getvalue()


def _field(rng: random.Random, content: bytes) -> bytes:
    """A number of a header, while the rest of the archive is as it was."""
    places = [
        (match.start(), _FIELDS[match[0]])
        for match in re.finditer(rb"PK(\x01\x02|\x03\x04|\x05\x06)", content)
    ]
    if not places:
        return raw.mutated(rng, content)
    start, offsets = rng.choice(places)
    at = start + rng.choice(offsets)
    form = rng.choice(("<H", "<I"))
    value = struct.pack(form, rng.choice(raw.NUMBERS) % 256 ** struct.calcsize(form))
    return content[:at] + value + content[at + len(value) :]


def _renamed(rng: random.Random, name: str) -> str:
    numbers = list(re.finditer(r"\d+", name))
    action = rng.randrange(4)
    if action == 0 and numbers:
        match = rng.choice(numbers)
        other = rng.choice((0, 1, 2, 99, 9999, 10**6, 10**30))
        return f"{name[: match.start()]}{other}{name[match.end() :]}"
    if action == 1:
        return f"params/{name}"
    if action == 2:
        at = rng.randrange(len(name))
        return name[:at] + name[at].swapcase() + name[at + 1 :]
    return rng.choice(_NAMES)
