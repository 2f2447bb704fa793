"""Reads and edits the constants of Java class files."""

import struct
from dataclasses import dataclass

_UTF8 = 1
# Sizes of the constants of a class file behind their tag, by tag (JVM specification, table 4.4-A).
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4}
_SIZES |= {15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
_WIDE = (5, 6)
# Kotlin allows these in names between backticks, dex files do not. Descriptors have none of them.
_FORBIDDEN = b" ,'!?#%&={}|~^@"
_PLAIN = bytes.maketrans(_FORBIDDEN, b"_" * len(_FORBIDDEN))


@dataclass(frozen=True)
class Constant:
    """A constant, and where it begins. `first` is its first index, of a text its size."""

    tag: int
    at: int
    first: int
    text: str = ""


def constants(content: bytes) -> tuple[dict[int, Constant], int]:
    """The constants by their index, and where they end."""
    (count,) = struct.unpack_from(">H", content, 8)
    found = {}
    position, index = 10, 1
    while index < count:
        tag = content[position]
        (first,) = struct.unpack_from(">H", content, position + 1)
        size = 2 + first if tag == _UTF8 else _SIZES[tag]
        text = content[position + 3 : position + 1 + size] if tag == _UTF8 else b""
        found[index] = Constant(tag, position, first, text.decode(errors="replace"))
        position += 1 + size
        index += 2 if tag in _WIDE else 1
    return found, position


def with_plain_names(content: bytes) -> bytes:
    """The class with underscores for spaces and punctuation in all of its names and texts."""
    edited = bytearray(content)
    for constant in constants(content)[0].values():
        if constant.tag == _UTF8:
            text = slice(constant.at + 3, constant.at + 3 + constant.first)
            edited[text] = content[text].translate(_PLAIN)
    return bytes(edited)
