"""Reads untrusted files of named arrays, `.npz` and `.safetensors`, one array at a time.

Opening a file reads only names, types and shapes. Nothing is unpickled, names are never used as
paths, and no array may be larger than its file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from keras_vit._errors import UsageError

# The errors that zipfile and numpy raise for damaged or malicious .npz files.
_NPZ_ERRORS = (
    ArithmeticError, EOFError, LookupError, MemoryError, NotImplementedError, OSError, RuntimeError,
    SyntaxError, TypeError, ValueError, struct.error, tokenize.TokenError, zipfile.BadZipFile,
    zlib.error,
)  # fmt: skip
_SAFETENSORS_FLOATS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
# Weights hardly compress, so a file that unpacks to many times its size is refused as a zip bomb.
# The allowance is for heads of zeros (64 MiB for ImageNet-21k).
_MOST_UNPACKING, _UNPACKING_ALLOWANCE = 8, 128 << 20
_PICKLE = (
    "{} is a pickle (from PyTorch?), which could run code and is never read; save the weights as "
    "safetensors."
)
_MOST_ENTRIES = 100_000
_MOST_HEADER = 8 << 20
_MOST_JSON = 4 << 20

# `save_weights` stores properties that keys and shapes do not show as JSON: in a safetensors file
# as metadata under this name, in a .npz as the comment of the archive.
METADATA = "keras_vit"


@dataclasses.dataclass(frozen=True)
class Tensors:
    """An open file of named arrays.

    Attributes:
        path: the file.
        kind: "npz" or "safetensors".
        shapes: the shape of every array by key, in the file's order.
        metadata: the metadata that `save_weights` stored, or {}.
        config, preprocessor: the content of config.json and preprocessor_config.json in the folder
            of a safetensors file, or {}.
    """

    path: Path
    kind: str
    shapes: dict[str, tuple[int, ...]]
    metadata: dict[str, Any]
    config: dict[str, Any]
    preprocessor: dict[str, Any]
    _read: Callable[[str], np.ndarray]

    def read(self, key: str) -> np.ndarray:
        """The array as float32. It may also be bfloat16, which numpy stores as two untyped bytes.

        Raises:
            UsageError: the array is damaged or does not contain floats.
        """
        array = self._read(key)
        if array.dtype == np.dtype("V2"):
            array = array.view(ml_dtypes.bfloat16)
        if array.dtype.kind != "f" and array.dtype != ml_dtypes.bfloat16:
            raise UsageError(
                f"{self.path}: {display(key)} must contain floats. Received: {array.dtype}."
            )
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
        with _open_npz(path) as tensors:
            yield tensors
    elif start[8:] == b"{":
        with _open_safetensors(path) as tensors:
            yield tensors
    elif start.startswith(b"\x80"):
        raise UsageError(_PICKLE.format(path))
    elif start.startswith(b"\x89HDF"):
        raise UsageError(
            f"{path} is an HDF5 file of Keras; load it with Keras' model.load_weights."
        )
    else:
        raise UsageError(
            f"{path} is not a complete .npz or .safetensors file; copy or download it again."
        )


def display(key: str) -> str:
    """A key of a file that is safe to print: no control characters, at most 200 characters."""
    shown = key if key.isprintable() else ascii(key)[1:-1]
    return shown if len(shown) <= 200 else f"{shown[:200]}..."


@contextlib.contextmanager
def _open_npz(path: Path) -> Iterator[Tensors]:
    try:
        archive = zipfile.ZipFile(path)
    except _NPZ_ERRORS:
        raise UsageError(
            f"{path} is not a complete .npz file; copy or download it again."
        ) from None
    with archive:
        members = _members(archive, path)
        shapes = {key: _npz_shape(archive, info, path) for key, info in members.items()}

        def read(key: str) -> np.ndarray:
            with _damage(path, key, _NPZ_ERRORS), archive.open(members[key]) as stream:
                # Never a pickle: a checkpoint from a stranger must not run code.
                array = np.lib.format.read_array(stream, allow_pickle=False)
                if stream.read(1):  # also makes zipfile compare the checksum
                    raise ValueError("bytes after the end of the array")
                return array

        _check_not_empty(shapes, path)
        yield Tensors(path, "npz", shapes, _metadata(archive.comment), {}, {}, read)


def _members(archive: zipfile.ZipFile, path: Path) -> dict[str, zipfile.ZipInfo]:
    infos = archive.infolist()
    if len(infos) > _MOST_ENTRIES:
        raise UsageError(f"{path} has {len(infos)} entries, too many for a file of weights.")
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
        members[key] = info
    size = path.stat().st_size
    unpacked = sum(info.file_size for info in infos)
    if unpacked > _MOST_UNPACKING * size + _UNPACKING_ALLOWANCE:
        raise UsageError(f"{path} of {size:,} bytes claims to unpack to {unpacked:,}; refused.")
    return members


def _npz_shape(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> tuple[int, ...]:
    # Only the header, so that a wrong file is refused before its arrays take memory.
    with _damage(path, info.filename.removesuffix(".npy"), _NPZ_ERRORS):
        with archive.open(info) as stream:
            version = np.lib.format.read_magic(stream)
            read_header = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }.get(version)
            if read_header is None:
                raise ValueError(f"version {version} of numpy's format is not known")
            shape, _, dtype = read_header(stream)
            begin = stream.tell()
        if dtype.hasobject:
            raise ValueError("a pickled object, which could run code")
        if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != info.file_size - begin:
            raise ValueError(
                f"its header claims {shape} of {dtype}, but it has {info.file_size - begin:,} bytes"
            )
    return shape


def _check_not_empty(shapes: dict[str, tuple[int, ...]], path: Path) -> None:
    # An array without bytes could claim any size in its other dimensions.
    for key, shape in shapes.items():
        if 0 in shape:
            raise UsageError(f"{path}: {display(key)} is empty. Received: shape={shape}.")


def _metadata(text: str | bytes) -> dict[str, Any]:
    # Comments and metadata of other programs are ignored.
    if len(text) > _MOST_JSON:
        return {}
    try:
        metadata = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    is_known = isinstance(metadata, dict) and metadata.get("format") == 1 and "spec" in metadata
    return metadata if is_known else {}


@contextlib.contextmanager
def _open_safetensors(path: Path) -> Iterator[Tensors]:
    import safetensors

    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
    if length > _MOST_HEADER:
        raise UsageError(
            f"{path} is not a complete .safetensors file: its header claims {length:,} bytes."
        )
    errors = (safetensors.SafetensorError, OSError, ValueError, MemoryError)
    try:
        file = safetensors.safe_open(path, framework="numpy")
    except errors as error:
        raise UsageError(f"{path} is not a complete .safetensors file: {error}.") from None
    with file:
        slices = {key: file.get_slice(key) for key in file.keys()}  # noqa: SIM118 (no mapping)
        shapes = {key: tuple(part.get_shape()) for key, part in slices.items()}

        def read(key: str) -> np.ndarray:
            kind = slices[key].get_dtype()
            if kind not in _SAFETENSORS_FLOATS:
                raise UsageError(f"{path}: {display(key)} must contain floats. Received: {kind}.")
            with _damage(path, key, errors):
                return file.get_tensor(key)

        _check_not_empty(shapes, path)
        metadata = _metadata((file.metadata() or {}).get(METADATA, ""))
        sidecars = (_sidecar(path, name) for name in ("config.json", "preprocessor_config.json"))
        yield Tensors(path, "safetensors", shapes, metadata, *sidecars, read)


def _sidecar(path: Path, name: str) -> dict[str, Any]:
    # For model.safetensors it is config.json; for other.safetensors, other.config.json.
    for file in (path.with_name(f"{path.stem}.{name}"), path.with_name(name)):
        if file.is_file() and file.stat().st_size <= _MOST_JSON:
            try:
                content = json.loads(file.read_text(encoding="utf-8"))
            except (ValueError, RecursionError) as error:
                raise UsageError(f"{file} is not valid JSON: {error}.") from None
            if not isinstance(content, dict):
                raise UsageError(f"{file}: expected a JSON object.")
            return content
    return {}


@contextlib.contextmanager
def _damage(path: Path, key: str, errors: tuple[type[BaseException], ...]) -> Iterator[None]:
    try:
        with warnings.catch_warnings():  # numpy warns of headers from Python 2
            warnings.simplefilter("ignore")
            yield
    except UsageError:
        raise
    except errors as error:
        reason = " ".join((str(error) or type(error).__name__).split())
        raise UsageError(f"{path}: {display(key)} cannot be read: {display(reason)}.") from None
