"""Arrays: those of NumPy, the archives that hold them, and safetensors."""

import io
import json
import math
import random
import re
import struct
import warnings
import zipfile

import numpy as np

from fuzzing.kind import Mutation
from fuzzing.mutations import raw, text

_TYPES = (
    "'|V0'", "'|S0'", "'<U0'", "[]", "'|O'", "'<f8'", "'>f4'", "'<f2'", "'<i8'", "'|b1'", "'<c16'",
    "'<M8[ns]'", "'|V2'", "'<f16'", "'|S1000000000'", "'<f4', (0,)", "[('a', '<f4')]", "'('", "5",
    "[('a', '|V0')]", "('<f4', (100000, 100000))",
)  # fmt: skip
_SIDES = (0, -1, 1, 2, 3, 2**31, 2**63, 2**64, 10**30, 100_000)


def npy(rng: random.Random, content: bytes) -> bytes:
    """The content after a change of its header or its data."""
    action = rng.randrange(6)
    if action == 0 or not content.startswith(b"\x93NUMPY"):
        return raw.mutated(rng, content)
    length = int.from_bytes(content[8:10], "little")
    if action == 1:  # numbers that are no usual weights
        values = np.array([np.nan, np.inf, -np.inf, 3e38, 1e-45, 0, 255], "<f4")
        at = 10 + length + 4 * rng.randrange(max((len(content) - 10 - length) // 4, 1))
        return content[:at] + rng.choice(values).tobytes() + content[at + 4 :]
    if action == 2:  # the length of the header, or the version of the format
        at = rng.choice((6, 8))
        return content[:at] + raw.number(rng) + content[at + 2 :]
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


# The offsets of the fields after each signature.
_FIELDS = {
    b"PK\x01\x02": (4, 6, 8, 10, 16, 20, 24, 28, 30, 32, 34, 42),
    b"PK\x03\x04": (4, 6, 8, 14, 18, 22, 26, 28),
    b"PK\x05\x06": (4, 6, 8, 10, 12, 16, 20),
}
_NAMES = ("../../evil.npy", "/etc/passwd.npy", "\x1b[2J.npy", ".npy", "a", "x" * 60_000 + ".npy")


def npz(rng: random.Random, content: bytes, member: Mutation = npy) -> bytes:
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
        comment = text.json_value(rng, comment)[: 2**16 - 1]
    elif members:
        members = _member_changed(rng, members, member)
    return _archive(rng, members, comment)


def _member_changed(rng: random.Random, members: list, member: Mutation) -> list:
    at, action = rng.randrange(len(members)), rng.random()
    name, data = members[at]
    if action < 0.6:
        changed = [(name, member(rng, data))]
    elif action < 0.8:
        changed = [(_renamed(rng, name), data), *rng.choice(([], [members[at]]))]
    elif action < 0.95:
        changed = [members[at]] * rng.choice((0, 0, 2))
    elif action < 0.99:  # zeros, of which a small file can hold many
        sides = rng.choice(((1000, 1000), (4000, 1000), (32, 1000, 1000)))
        changed = [(name, of(np.zeros(sides, np.float32)))]
    else:
        changed = [(f"{i}.npy", b"") for i in range(rng.choice((2_000, 20_000)))]
    return members[:at] + changed + members[at + 1 :]


def _archive(rng: random.Random, members: list, comment: bytes) -> bytes:
    large = sum(len(data) for _, data in members) > 1 << 20
    method = zipfile.ZIP_DEFLATED if large or rng.random() < 0.3 else zipfile.ZIP_STORED
    stream = io.BytesIO()
    with (
        warnings.catch_warnings(),
        zipfile.ZipFile(stream, "w", method, compresslevel=1) as archive,
    ):
        warnings.simplefilter("ignore")  # of two members with one name
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data, method)
        archive.comment = comment
    return stream.getvalue()


def _field(rng: random.Random, content: bytes) -> bytes:
    """A number of a header, while the rest of the archive is as it was."""
    places = list(re.finditer(rb"PK(\x01\x02|\x03\x04|\x05\x06)", content))
    if not places:
        return raw.mutated(rng, content)
    place = rng.choice(places)
    at = place.start() + rng.choice(_FIELDS[place[0]])
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


_SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "U8": 1, "BOOL": 1, "F8_E4M3": 1}
_MOST_DATA = 1 << 20


def safetensors(rng: random.Random, content: bytes) -> bytes:
    """The content after a change of its header or its data."""
    size = int.from_bytes(content[:8], "little")
    header, data = content[8 : 8 + size], content[8 + size :]
    action = rng.randrange(8)
    if action == 0:
        return raw.mutated(rng, content)
    if action == 1:
        return struct.pack("<Q", rng.choice(raw.NUMBERS)) + content[8:]
    if action == 2:
        data = raw.mutated(rng, data)
    elif action <= 4:
        header = text.json_value(rng, header)
    else:
        header, data = _retyped(rng, header, data)
    return struct.pack("<Q", len(header)) + header + data


def _retyped(rng: random.Random, written: bytes, data: bytes) -> tuple[bytes, bytes]:
    """Another type, shape, name or metadata, with offsets and data that fit it."""
    try:
        header = json.loads(written)
        about = {"__metadata__": header.pop("__metadata__")} if "__metadata__" in header else {}
        parts = {name: data[slice(*entry["data_offsets"])] for name, entry in header.items()}
        key, action = rng.choice(list(header)), rng.randrange(5)
        if action == 0:
            header[key]["dtype"] = rng.choice(list(_SIZES))
        elif action == 1:
            rng.shuffle(header[key]["shape"])
        elif action == 2:
            header[key]["shape"].insert(0, rng.choice((0, 1, 2, 1000)))
        elif action == 3:
            name = rng.choice(("../x", "", "a\n", key.upper(), f"model.{key}", "x" * 10_000))
            header[name], parts[name] = header.pop(key), parts.pop(key)
        else:
            about = {"__metadata__": {"keras_vit": json.dumps(text.anything(rng))}}
        begin = 0
        for name, part in parts.items():
            size = math.prod(header[name]["shape"]) * _SIZES[header[name]["dtype"]]
            size = min(max(size, 0), _MOST_DATA)  # beyond it the header only claims
            parts[name] = (part * (size // max(len(part), 1) + 1))[:size]
            header[name]["data_offsets"] = [begin, begin + size]
            begin += size
        return json.dumps(about | header).encode(), b"".join(parts.values())
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return raw.mutated(rng, written), data  # an earlier mutation damaged it
