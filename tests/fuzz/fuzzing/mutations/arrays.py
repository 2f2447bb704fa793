"""Arrays: those of NumPy, the archives that hold them, and safetensors."""

import ast
import io
import json
import math
import random
import re
import struct
import warnings
import zipfile

import numpy as np

from fuzzing.mutations import raw, text

_TYPES = (
    "|V0", "|S0", "<U0", [], "|O", "<f8", ">f4", "<f2", "<i8", "|b1", "<c16", "<M8[ns]", "|V2",
    "<f16", "|S1000000000", ("<f4", (0,)), [("a", "<f4")], "(", 5, [("a", "|V0")],
    ("<f4", (100_000, 100_000)),
)  # fmt: skip
_UNUSUAL = np.array([np.nan, np.inf, -np.inf, 3e38, 1e-45, 0, 255], "<f4")  # for weights


def npy(rng: random.Random, content: bytes) -> bytes:
    """The content after a change of its header or its data."""
    begin = 10 + int.from_bytes(content[8:10], "little")
    action = rng.randrange(6)
    if action == 0 or not content.startswith(b"\x93NUMPY"):
        return raw.mutated(rng, content)
    if content[begin:].startswith(b"{") and action < 5:  # JSON as bytes
        return of(np.frombuffer(text.json_value(rng, content[begin:]), np.uint8))
    if action == 1:
        at = begin + 4 * rng.randrange(max((len(content) - begin) // 4, 1))
        return content[:at] + rng.choice(_UNUSUAL).tobytes() + content[at + 4 :]
    if action == 2:  # the length of the header, or the version of the format
        at = rng.choice((6, 8))
        return content[:at] + raw.number(rng) + content[at + 2 :]
    header = ast.literal_eval(content[10:begin].decode("latin-1"))
    if action == 3:
        header["descr"] = rng.choice(_TYPES)
    else:
        shape = text.changed(rng, list(header["shape"]))
        header["shape"] = tuple(shape) if isinstance(shape, list) else shape
    written = repr(header).encode("latin-1")
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(written) % 2**16) + written + content[begin:]


def of(array: np.ndarray) -> bytes:
    """An array in NumPy's format."""
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


_SIGNATURES = rb"PK(\x01\x02|\x03\x04|\x05\x06)"  # of the headers in an archive
_NAMES = (
    "../../evil.npy", "/etc/passwd.npy", "\x1b[2J.npy", ".npy", "a", "x" * 60_000 + ".npy",
    "config.json", "archive/data.pkl",
)  # fmt: skip
_OTHER_NUMBERS = ("0", "1", "2", "99", "9999", str(10**6), str(10**30))


def npz(rng: random.Random, content: bytes) -> bytes:
    """The archive after a change."""
    headers = [match.start() for match in re.finditer(_SIGNATURES, content)]
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [(info.filename, archive.read(info)) for info in archive.infolist()]
            comment = archive.comment
    except Exception:  # no archive, or an earlier mutation damaged it
        headers = members = []
    action = rng.random()
    if action < 0.1 or not headers:
        return raw.mutated(rng, content)
    if action < 0.25:  # a number of a header, while the rest of the archive is as it was
        at = rng.choice(headers) + rng.randrange(4, 46, 2)
        value = raw.number(rng)
        return content[:at] + value + content[at + len(value) :]
    if comment and rng.random() < 0.35:
        comment = text.json_value(rng, comment)[: 2**16 - 1]
    elif members:
        at = rng.randrange(len(members))
        members[at : at + 1] = _instead(rng, *members[at])
    return archived(members, comment, is_small=rng.random() < 0.3)


def archived(members: list[tuple[str, bytes]], comment: bytes = b"", is_small: bool = False):
    """An archive of these names and contents."""
    large = sum(len(data) for _, data in members) > 1 << 20
    method = zipfile.ZIP_DEFLATED if large or is_small else zipfile.ZIP_STORED
    stream = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w", compresslevel=1) as archive:
        warnings.simplefilter("ignore")  # of two members with one name
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data, method)
        archive.comment = comment
    return stream.getvalue()


def _instead(rng: random.Random, name: str, data: bytes) -> list[tuple[str, bytes]]:
    """What an archive has in the place of a member."""
    action = rng.random()
    if action < 0.6:
        return [(name, npy(rng, data))]
    if action < 0.8:
        numbered = re.sub(r"\d+", rng.choice(_OTHER_NUMBERS), name, count=1)
        other = rng.choice((numbered, text.alike(rng, name), rng.choice(_NAMES)))
        return [(other, data), *rng.choice(([], [(name, data)]))]
    if action < 0.95:
        return [(name, data)] * rng.choice((0, 0, 2))
    if action < 0.99:  # zeros, of which a small file can hold many
        sides = rng.choice(((1000, 1000), (4000, 1000), (32, 1000, 1000)))
        return [(name, of(np.zeros(sides, np.float32)))]
    return [(f"{i}.npy", b"") for i in range(rng.choice((2_000, 20_000)))]


_SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "U8": 1, "BOOL": 1, "F8_E4M3": 1}
_MOST_DATA = 1 << 20


def safetensors(rng: random.Random, content: bytes) -> bytes:
    """The content after a change of its header or its data."""
    size = int.from_bytes(content[:8], "little")
    written, data = content[8 : 8 + size], content[8 + size :]
    action = rng.randrange(8)
    if action == 0:
        return raw.mutated(rng, content)
    if action == 1:
        return struct.pack("<Q", rng.choice(raw.NUMBERS)) + content[8:]
    if action == 2:
        data = raw.mutated(rng, data)
    elif action == 3:
        written = text.json_value(rng, written)
    else:
        written, data = _fitting(rng, written, data)
    return struct.pack("<Q", len(written)) + written + data


def _fitting(rng: random.Random, written: bytes, data: bytes) -> tuple[bytes, bytes]:
    """Another type, shape, name or metadata, with offsets and data that fit it."""
    header = json.loads(written)
    about = {"__metadata__": header.pop("__metadata__", {})}
    key, action = rng.choice(list(header)), rng.randrange(5)
    if action == 0:
        header[key]["dtype"] = rng.choice(list(_SIZES))
    elif action == 1:
        header[key]["shape"] = text.changed(rng, header[key]["shape"])
    elif action == 2:
        name = rng.choice(("../x", "", "a\n", key.upper(), f"model.{key}", "x" * 10_000))
        header[name] = header.pop(key)
    else:
        about = text.changed(rng, about)
    end = 0
    for entry in header.values():
        size = math.prod(entry["shape"]) * _SIZES[entry["dtype"]]
        begin, end = end, end + min(max(size, 0), _MOST_DATA)  # beyond it it only claims
        entry["data_offsets"] = [begin, end]
    return json.dumps(about | header).encode(), (data * (end // len(data) + 1))[:end]
