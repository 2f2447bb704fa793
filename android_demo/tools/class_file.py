"""Edits Java class files."""

import struct

_UTF8 = 1
# Sizes of the constants of a class file behind their tag, by tag (JVM specification, table 4.4-A).
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4}
_SIZES |= {15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
_WIDE = (5, 6)
# Kotlin allows these in names between backticks, dex files do not. Descriptors have none of them.
_FORBIDDEN = b" ,'!?#%&={}|~^@"
_PLAIN = bytes.maketrans(_FORBIDDEN, b"_" * len(_FORBIDDEN))


# Attributes with a name that nobody knows are skipped.
_PARAMETERS, _UNKNOWN = b"\1\0\x10MethodParameters", b"\1\0\x10UnusedParameters"
_VERSION = slice(4, 8)
_JAVA_8 = struct.pack(">HH", 0, 52)


def as_of_java_8(content: bytes) -> bytes:
    """The class with the version of Java 8, for tools that read no later one."""
    edited = bytearray(content)
    edited[_VERSION] = _JAVA_8
    return bytes(edited)


def without_parameter_names(content: bytes) -> bytes:
    """The class without the attribute that names the parameters of methods."""
    return content.replace(_PARAMETERS, _UNKNOWN)


def with_plain_names(content: bytes) -> bytes:
    """The class with underscores for spaces and punctuation in all of its names and texts."""
    edited = bytearray(content)
    (count,) = struct.unpack_from(">H", content, 8)
    position, index = 10, 1
    while index < count:
        tag = content[position]
        if tag == _UTF8:
            (size,) = struct.unpack_from(">H", content, position + 1)
            text = slice(position + 3, position + 3 + size)
            edited[text] = content[text].translate(_PLAIN)
            position = text.stop
        else:
            position += 1 + _SIZES[tag]
        index += 2 if tag in _WIDE else 1
    return bytes(edited)
