"""Reads untrusted files of named arrays, `.npz` and `.safetensors`, one array at a time.

Opening a file reads only names, types and shapes. Nothing is unpickled, names are never used as
paths, and no array may be larger than its file. Files are read and not mapped into memory, because
a mapped file that another process truncates kills this one (SIGBUS). Therefore the header of a
`.safetensors` file is read here, by the rules of the safetensors library, which maps files.

Source: https://github.com/huggingface/safetensors (README, "Format").
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import math
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO, NamedTuple

import ml_dtypes
import msgspec
import numpy as np

from keras_vit import _files, _json
from keras_vit._errors import UsageError
from keras_vit._quiet import ignore_warning

# The errors that zipfile and numpy raise for damaged or malicious files.
ERRORS = (
    ArithmeticError, EOFError, LookupError, MemoryError, OSError, RuntimeError, SyntaxError,
    TypeError, ValueError, struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_SAFETENSORS_FLOATS = {
    "F64": np.dtype("<f8"), "F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": _BFLOAT16,
}  # fmt: skip
_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "I16": 16, "U16": 16, "I32": 32, "U32": 32, "I64": 64, "U64": 64,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F16": 16,
    "BF16": 16, "F32": 32, "F64": 64, "C64": 64,
}  # fmt: skip
# Weights hardly compress, so a file that unpacks to many times its size is refused as a zip bomb.
# The allowance is for small files of zeros.
_MOST_UNPACKING, _UNPACKING_ALLOWANCE = 8, 16 << 20
# numpy's two methods and how many bytes they can make of one.
_LARGEST_RATIO = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: 1032}
_PICKLE = (
    "{} is a pickle (from PyTorch?), which could run code and is never read; save the weights as "
    "safetensors."
)
# What else may be passed as weights, by the first bytes of the file.
_OTHER_FILES = {
    b"\x80": _PICKLE,
    b"\x89HDF": "{} is an HDF5 file of Keras; load it with Keras' model.load_weights.",
    b"": "{} is not a complete .npz or .safetensors file; copy or download it again.",
}
# The directory of an archive has at least 46 bytes for each member. An array's own header has at
# most 10,000 bytes (numpy's limit).
_MOST_ARRAY_HEADER = 10_240
# A header of a .safetensors of this size has more than 50,000 arrays.
_MOST_INDEX = 8 << 20
_MOST_AXES = 8
_MOST_JSON = 4 << 20

# `save_weights` stores properties that keys and shapes do not show as JSON: in a safetensors file
# as metadata under this name, in a .npz as the comment of the archive.
METADATA = "keras_vit"


class _Header(NamedTuple):
    """What a file says of an array before it is read."""

    dtype: str  # its type, for messages
    shape: tuple[int, ...]
    float_type: np.dtype | None  # None if it does not contain floats
    begin: int = 0  # where its values begin in a .safetensors file


@dataclasses.dataclass(frozen=True)
class Tensors:
    """An open file of named arrays.

    Attributes:
        path: the file.
        kind: "npz" or "safetensors".
        metadata: the metadata that `save_weights` stored, or {}.
        config, preprocessor: the content of config.json and preprocessor_config.json in the folder
            of a safetensors file, or {}. transformers 5 has a processor_config.json instead of the
            latter for models of images and texts.
    """

    path: Path
    kind: str
    metadata: dict[str, Any]
    config: dict[str, Any]
    preprocessor: dict[str, Any]
    _headers: dict[str, _Header]
    _read: Callable[..., np.ndarray]

    @functools.cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every array by key, in the file's order."""
        return {key: header.shape for key, header in self._headers.items()}

    def check_floats(self, keys: Iterable[str]) -> None:
        """Checks that arrays contain floats of 16, 32 or 64 bits or bfloat16; reads nothing.

        Raises:
            UsageError: an array has another type.
        """
        for key in keys:
            if self._headers[key].float_type is None:
                received = display(self._headers[key].dtype)
                raise UsageError(
                    f"{self.path}: {display(key)} must contain floats. Received: {received}."
                )

    def read(self, key: str, rows: np.ndarray | None = None) -> np.ndarray:
        """The array as float32; with `rows` only these entries of its first axis.

        Raises:
            UsageError: the array is damaged or does not contain floats.
        """
        self.check_floats([key])
        if rows is not None and not 0 <= rows.min() <= rows.max() < self.shapes[key][0]:
            raise IndexError(f"{key} has {self.shapes[key][0]} rows")
        with _damage(self.path, key):
            array = self._read(key, rows)
        with np.errstate(over="ignore"):  # overflow gives infinity, which is refused later
            return np.asarray(array, np.float32)


@contextlib.contextmanager
def open_tensors(path: str | os.PathLike) -> Iterator[Tensors]:
    """Opens a `.npz` or `.safetensors` file, or a folder that contains a model.safetensors.

    The kind is detected from the content, not from the name.

    Raises:
        UsageError: the file is absent, of another kind, truncated, or contradicts its header.
    """
    path = Path(path)
    if path.is_dir():
        path = path / "model.safetensors"
    if not path.is_file():
        raise UsageError(
            f"{path}: expected a .npz or .safetensors file of weights; there is no such file."
        )
    with path.open("rb") as stream:
        start = stream.read(9)
    if start.startswith(b"PK"):
        opened = _open_npz(path)
    elif start[8:] == b"{":
        opened = _open_safetensors(path)
    else:
        message = next(text for mark, text in _OTHER_FILES.items() if start.startswith(mark))
        raise UsageError(message.format(path))
    with opened as tensors:
        for key, shape in tensors.shapes.items():
            # An array without bytes could claim any size in its other dimensions.
            if 0 in shape:
                raise UsageError(
                    f"{path}: {display(key)} is empty. Received: {display(str(shape))}."
                )
        yield tensors


def display(key: str) -> str:
    """A key of a file that is safe to print: no control characters, at most 200 characters."""
    shown = key if key.isprintable() else ascii(key)[1:-1]
    return shown if len(shown) <= 200 else f"{shown[:200]}..."


@contextlib.contextmanager
def _open_npz(path: Path) -> Iterator[Tensors]:
    with _files.ShortReads(path) as file:
        try:
            archive = zipfile.ZipFile(file)
        except _files.LongDirectoryError as error:
            raise UsageError(f"{path} is not a file of weights: {error}.") from None
        except ERRORS:
            raise UsageError(
                f"{path} is not a complete .npz file; copy or download it again."
            ) from None
        members = _members(archive, path)
        headers = {key: _npz_header(archive, info, path) for key, info in members.items()}

        def read(key: str, rows: np.ndarray | None) -> np.ndarray:
            with archive.open(members[key]) as stream:  # which compares the checksum at the end
                array = np.lib.format.read_array(stream, allow_pickle=False)
            array = array.view(headers[key].float_type)
            return array if rows is None else array[rows]

        yield Tensors(path, "npz", _metadata(archive.comment), {}, {}, headers, read)


def _members(archive: zipfile.ZipFile, path: Path) -> dict[str, zipfile.ZipInfo]:
    infos = archive.infolist()
    names = set(archive.namelist())
    if any(name.endswith("data.pkl") for name in names):
        raise UsageError(_PICKLE.format(path))
    if {"config.json", "metadata.json"} <= names:
        raise UsageError(f"{path} is a complete Keras model; open it with keras.models.load_model.")
    members = {}
    for info in infos:
        key = info.filename.removesuffix(".npy")
        if key in members:
            raise UsageError(f"{path} has two arrays with the name {display(key)}.")
        if key == info.filename:
            raise UsageError(f"{path}: {display(key)} is not a numpy array: no .npy entry.")
        if info.file_size > info.compress_size * _LARGEST_RATIO.get(info.compress_type, 0):
            raise UsageError(
                f"{path}: {display(key)} claims to unpack {info.compress_size:,} bytes to "
                f"{info.file_size:,}; refused."
            )
        members[key] = info
    if _files.members_overlap(archive):
        raise UsageError(f"{path} is not a complete .npz file: its arrays overlap; refused.")
    size = os.fstat(archive.fp.fileno()).st_size
    unpacked = sum(info.file_size for info in infos)
    if unpacked > _MOST_UNPACKING * size + _UNPACKING_ALLOWANCE:
        raise UsageError(f"{path} of {size:,} bytes claims to unpack to {unpacked:,}; refused.")
    return members


def _npz_header(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> _Header:
    # Only the header, so that a wrong file is refused before its arrays take memory.
    with _damage(path, info.filename.removesuffix(".npy")):
        with archive.open(info) as member:
            stream = io.BytesIO(member.read(_MOST_ARRAY_HEADER))
        version = np.lib.format.read_magic(stream)
        name = "read_array_header_{}_{}".format(*version)
        read_header = getattr(np.lib.format, name, None)
        if read_header is None:
            raise ValueError(f"version {version} of numpy's format is not known")
        shape, _, dtype = read_header(stream)
        size = info.file_size - stream.tell()
        # Never a pickle: a checkpoint from a stranger must not run code.
        if dtype.hasobject:
            raise ValueError("a pickled object, which could run code")
        if not dtype.itemsize:
            raise ValueError(f"its type {dtype} has no size")
        if len(shape) > _MOST_AXES:
            raise ValueError(f"it has {len(shape)} dimensions")
        if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != size:
            raise ValueError(f"its header claims {shape} of {dtype}, but it has {size:,} bytes")
    # numpy has no bfloat16, and stores it as two untyped bytes.
    is_bfloat16 = dtype == np.dtype("V2")
    is_float = dtype.kind == "f" and dtype.itemsize <= 8
    float_type = _BFLOAT16 if is_bfloat16 else dtype if is_float else None
    return _Header(str(dtype), shape, float_type)


def _metadata(text: str | bytes) -> dict[str, Any]:
    # Comments and metadata of other programs are ignored.
    if len(text) > _MOST_JSON:
        return {}
    try:
        metadata = _json.parse(text or "{}", "metadata")
    except UsageError:
        return {}
    is_known = isinstance(metadata, dict) and metadata.get("format") == 1 and "spec" in metadata
    return metadata if is_known else {}


@contextlib.contextmanager
def _open_safetensors(path: Path) -> Iterator[Tensors]:
    with io.FileIO(path) as file:
        try:
            headers, texts = _safetensors_headers(file, os.fstat(file.fileno()).st_size)
        except ERRORS as error:
            raise UsageError(f"{path} is not a complete .safetensors file: {error}.") from None

        def read(key: str, rows: np.ndarray | None) -> np.ndarray:
            _, shape, float_type, begin = headers[key]
            if rows is None:
                file.seek(begin)
                return np.fromfile(file, float_type, math.prod(shape)).reshape(shape)
            found = np.empty((len(rows), *shape[1:]), float_type)
            for row, place in zip(found, rows.tolist(), strict=True):
                file.seek(begin + place * row.nbytes)
                row[:] = np.fromfile(file, float_type, row.size).reshape(row.shape)
            return found

        metadata = _metadata(texts.get(METADATA, ""))
        config, preprocessor = _sidecar(path, "config.json"), _preprocessor(path)
        yield Tensors(path, "safetensors", metadata, config, preprocessor, headers, read)


_Size = Annotated[int, msgspec.Meta(ge=0)]


class _Stated(msgspec.Struct):
    """What the header of a `.safetensors` file says of an array."""

    dtype: str
    shape: Annotated[tuple[_Size, ...], msgspec.Meta(max_length=_MOST_AXES)]
    data_offsets: tuple[_Size, _Size]


def _safetensors_headers(file: BinaryIO, size: int) -> tuple[dict[str, _Header], dict[str, str]]:
    """The arrays in a file of `size` bytes, in their order in the file, and its metadata."""
    length = int.from_bytes(file.read(8), "little")
    if length > min(_MOST_INDEX, size - 8):
        raise ValueError(f"its header claims {length:,} bytes")
    try:
        stated = msgspec.json.decode(file.read(length), type=dict[str, msgspec.Raw])
        metadata = msgspec.json.decode(stated.pop("__metadata__", b"{}"), type=dict[str, str])
        arrays = {name: msgspec.json.decode(raw, type=_Stated) for name, raw in stated.items()}
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        raise ValueError("its header is damaged") from None
    # The arrays must cover every byte of the file exactly once.
    headers, position = {}, 8 + length
    for name, array in sorted(arrays.items(), key=lambda item: item[1].data_offsets):
        begin, end = (8 + length + offset for offset in array.data_offsets)
        bits = math.prod(array.shape) * _BITS.get(array.dtype, 0)
        if array.dtype not in _BITS or begin != position or bits != 8 * (end - begin):
            raise ValueError("its header contradicts itself")
        float_type = _SAFETENSORS_FLOATS.get(array.dtype)
        headers[name] = _Header(array.dtype, array.shape, float_type, begin)
        position = end
    if position != size:
        raise ValueError(f"it has {size:,} bytes, and its header claims {position:,}")
    return headers, metadata


def _preprocessor(path: Path) -> dict[str, Any]:
    own = _sidecar(path, "preprocessor_config.json")
    both = {} if own else _sidecar(path, "processor_config.json").get("image_processor")
    return both if isinstance(both, dict) and not own else own


def _sidecar(path: Path, name: str) -> dict[str, Any]:
    # For model.safetensors it is config.json; for other.safetensors, other.config.json.
    for file in (path.with_name(f"{path.stem}.{name}"), path.with_name(name)):
        if file.is_file() and file.stat().st_size <= _MOST_JSON:
            content = _json.parse(_files.read_bounded(file, _MOST_JSON), str(file))
            if not isinstance(content, dict):
                raise UsageError(f"{file}: expected a JSON object.")
            return content
    return {}


@contextlib.contextmanager
def _damage(path: Path, key: str) -> Iterator[None]:
    try:
        ignore_warning(".*created on Python 2", "numpy|keras_vit")  # of a header
        yield
    except UsageError:
        raise
    except ERRORS as error:
        reason = " ".join((str(error) or type(error).__name__).split())
        raise UsageError(f"{path}: {display(key)} cannot be read: {display(reason)}.") from None
