"""The header of a `.safetensors` file: the type, the shape and the place of each array.

The safetensors library maps files into memory, so that a file that is truncated while it is read
kills the process (SIGBUS). Here the header is checked by the same rules, and arrays are read.

Source: https://github.com/huggingface/safetensors (README, "Format").
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, BinaryIO, NamedTuple

import msgspec

# A header of this size has more than 50,000 arrays.
MOST_BYTES = 8 << 20
MOST_AXES = 8
_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "I16": 16, "U16": 16, "I32": 32, "U32": 32, "I64": 64, "U64": 64,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F16": 16,
    "BF16": 16, "F32": 32, "F64": 64, "C64": 64,
}  # fmt: skip


class Entry(NamedTuple):
    """An array: its type ("F32"), its shape, and the position of its first byte in the file."""

    dtype: str
    shape: tuple[int, ...]
    begin: int


_Size = Annotated[int, msgspec.Meta(ge=0)]


class _Stated(msgspec.Struct):
    dtype: str
    shape: Annotated[tuple[_Size, ...], msgspec.Meta(max_length=MOST_AXES)]
    data_offsets: tuple[_Size, _Size]


def read_index(file: BinaryIO, size: int) -> tuple[dict[str, Entry], dict[str, str]]:
    """The arrays in a file of `size` bytes by name, in their order in the file, and its metadata.

    Raises:
        ValueError: the header is damaged, or does not describe every byte of the file exactly once.
    """
    length = int.from_bytes(file.read(8), "little")
    if length > min(MOST_BYTES, size - 8):
        raise ValueError(f"its header claims {length:,} bytes")
    try:
        stated = msgspec.json.decode(file.read(length), type=dict[str, msgspec.Raw])
        metadata = msgspec.json.decode(stated.pop("__metadata__", b"{}"), type=dict[str, str])
        arrays = {name: msgspec.json.decode(raw, type=_Stated) for name, raw in stated.items()}
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        raise ValueError("its header is damaged") from None
    return dict(_entries(arrays, 8 + length, size)), metadata


def _entries(arrays: dict[str, _Stated], start: int, size: int) -> Iterator[tuple[str, Entry]]:
    position = start
    for name, array in sorted(arrays.items(), key=lambda item: item[1].data_offsets):
        begin, end = (start + offset for offset in array.data_offsets)
        bits = math.prod(array.shape) * _BITS.get(array.dtype, 0)
        if array.dtype not in _BITS or begin != position or bits != 8 * (end - begin):
            raise ValueError("its header contradicts itself")
        yield name, Entry(array.dtype, array.shape, begin)
        position = end
    if position != size:
        raise ValueError(f"it has {size:,} bytes, and its header claims {position:,}")
