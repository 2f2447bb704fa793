"""JSON from files of strangers: bounded in size, depth and numbers, then checked by a schema.

A schema is a type hint, such as a dataclass or a Struct of msgspec. Fields with a default may be
absent, because files of older versions lack them; fields that the schema does not have are left to
their readers. Texts and numbers have the bounds of `_BOUNDS`, unless a hint states others, such as
`Text`. A file that one room reads has its schema there; table.json is read by several.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import re
import types
import typing
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from keras_vit._checks import LONGEST_LABEL, LONGEST_SIDE, MOST_CLASSES, ONE_LINE
from keras_vit._errors import UsageError, shown

Text = Annotated[str, Meta(max_length=10_000, pattern=r"\A[^\0]*\Z")]  # such as a path
# Keras takes the slash in a layer's name for a folder.
Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=ONE_LINE.replace("^", "^/"))]
Lines = Annotated[list[str], Meta(max_length=MOST_CLASSES)]
Amount = Annotated[int, Meta(ge=1, le=1 << 53)]
Side = Annotated[int, Meta(ge=1, le=LONGEST_SIDE)]
Sides = Annotated[list[Side], Meta(min_length=2, max_length=2)]
Positive = Annotated[float, Meta(gt=0, le=1e30)]

MOST_BYTES = 16 << 20
_MOST_DEPTH, _MOST_DIGITS = 64, 20
_TOO_DEEP = f"it is nested more than {_MOST_DEPTH} deep"
# An empty list has 3 bytes in a file and 64 in memory, a number 4 and 32. There may be more of them
# in a file that is long for another reason, such as the index of a folder with many pictures.
_MOST_CONTAINERS, _MOST_VALUES, _LEAST_LENGTH = 1_000_000, 1 << 24, 16
_BOUNDS = {
    str: Annotated[str, Meta(max_length=LONGEST_LABEL, pattern=ONE_LINE)],
    int: Annotated[int, Meta(ge=0, le=1 << 53)],
    float: Annotated[float, Meta(ge=-1e30, le=1e30)],
}
_WORDS = {"int": "an integer", "float": "a number", "str": "text", "bool": "true or false",
          "array": "a list", "object": "an object", "null": "null"}  # fmt: skip


class TableRow(Struct):
    """A row of table.json, of a file; CONTRIBUTING.md says what it means."""

    precision: str
    bytes: int
    accuracy: float | None
    agreement: float | None
    max_difference: float | None
    latency_ms: float | None
    mean_iou: float | None = None
    name: str = ""
    sha256: str = ""


class Table(Struct):
    """table.json of a folder of bundles."""

    machine: str
    images: int
    rows: list[TableRow]


def parse(content: str | bytes, place: str, nan: bool = False) -> Any:
    """The value of a JSON text.

    Args:
        content: the text, or its bytes in UTF-8.
        place: the file, for the error.
        nan: whether the numbers NaN and Infinity are accepted, which are not JSON.

    Raises:
        UsageError: the text is not JSON, states a field twice, is nested too deeply, or has a
            number that is too large or too many values.
    """
    constant = float if nan else _refuse_constant
    try:
        text = content if isinstance(content, str) else str(content, "utf-8")
        _check_counts(text)
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=constant,
            parse_int=_integer,
            parse_float=_float,
        )
        _check_depth(value)
    except (RecursionError, ValueError) as error:  # also JSONDecodeError and UnicodeDecodeError
        reason = _TOO_DEEP if isinstance(error, RecursionError) else error
        raise UsageError(f"{place} is not valid JSON: {reason}.") from None
    return value


def check(value: Any, place: str, schema: Any, fix: str = "", root: str = "$") -> Any:
    """Checks that a value of JSON fits a schema.

    Args:
        value: the value.
        place: the file, for the error.
        schema: what the value must be.
        fix: what the user can do about a fault; default: write the file again.
        root: the value's field in the file.

    Returns:
        The value as a record: the Struct, or the fields of a dataclass.

    Raises:
        UsageError: it does not; the message names the field, as in `$.preprocessing.mean[2]`.
    """
    try:
        return msgspec.convert(value, bounded_type(schema))
    except msgspec.ValidationError as error:
        message = _message(str(error), value, root)
        raise UsageError(f"{place}{message}; {fix or 'write it again'}.") from None
    except UnicodeEncodeError as error:
        received = shown(error.object[error.start : error.end])
        raise UsageError(
            f"{place}: expected text. Received: {received}, which is no character; "
            f"{fix or 'write it again'}."
        ) from None


@functools.cache
def bounded_type(kind: Any) -> Any:
    """The type for msgspec of a type hint, with bounds."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if not parts:
        is_struct = hasattr(kind, "__struct_fields__")
        is_record = is_struct or dataclasses.is_dataclass(kind)
        return _record(kind, is_struct) if is_record else _BOUNDS.get(kind, kind)
    if origin is Literal:
        return Annotated[str, Meta(pattern=rf"\A({'|'.join(parts)})\Z")]
    if origin is Annotated:
        return kind if parts[0] in _BOUNDS else Annotated[(bounded_type(parts[0]), *parts[1:])]
    bounded = tuple(bounded_type(part) for part in parts if part is not ...)
    if origin is types.UnionType:
        origin = typing.Union
    bases = set(map(_base, bounded))
    if origin is typing.Union and str in bases and bases & {list, dict}:
        # msgspec 0.22 frees memory twice for a text with a pattern beside one of them.
        raise TypeError(f"expected a type without a text beside a list or dict. Received: {kind}.")
    if origin is tuple and ... not in parts:
        return Annotated[list[bounded[0]], Meta(min_length=len(parts), max_length=len(parts))]
    return list[bounded] if origin is tuple else origin[bounded]


def _base(kind: Any) -> Any:
    """The type without bounds and parameters."""
    origin = typing.get_origin(kind)
    return _base(kind.__origin__) if origin is Annotated else origin or kind


def _record(kind: type, is_struct: bool) -> type:
    """A Struct of the same fields, with bounds.

    A dataclass would call its constructor, which refuses values in words of Python.
    """
    hints, fields = typing.get_type_hints(kind, include_extras=True), []
    absent = (dataclasses.MISSING, msgspec.NODEFAULT)
    for field in msgspec.structs.fields(kind) if is_struct else dataclasses.fields(kind):
        default = field.default
        if field.default_factory not in absent:
            default = msgspec.field(default_factory=field.default_factory)
        optional = () if default in absent else (default,)
        fields.append((field.name, bounded_type(hints[field.name]), *optional))
    bases = (kind,) if is_struct else ()
    return msgspec.defstruct(kind.__name__, fields, bases=bases, kw_only=True)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        names = set()
        twice = next(name for name, _ in pairs if name in names or names.add(name))
        raise ValueError(f"the field {shown(twice)} is there twice")
    return result


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"an integer of {len(digits):,} digits is too long")
    return int(digits)


def _float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"the number {shown(digits)} is too large")
    return number


def _check_counts(text: str) -> None:
    """Refuses too many values before they are built. Signs in strings, which are few, count too."""
    for what, signs, limit in (
        ("lists and objects", "[{", _MOST_CONTAINERS),
        ("values", ",", _MOST_VALUES),
    ):
        count = sum(map(text.count, signs))
        most = max(limit, len(text) // _LEAST_LENGTH)
        if count > most:
            raise ValueError(f"it has {count:,} {what}, at most {most:,} are read")


def _check_depth(value: Any) -> None:
    level = list(_containers([value]))
    for _ in range(_MOST_DEPTH):
        level = [each for parent in level for each in _containers(parent)]
    if level:
        raise ValueError(_TOO_DEEP)


def _containers(parent: list[Any] | dict[str, Any]) -> Iterable[Any]:
    values = parent.values() if isinstance(parent, dict) else parent
    return (each for each in values if isinstance(each, (dict, list)))


def _message(error: str, value: Any, root: str) -> str:
    """msgspec's message in our words: " lacks x", ": $.a must be an integer. Received: ..."."""
    fault, _, place = error.partition(" - at ")
    field = place.rpartition("`$")[2].rstrip("`")  # also of "`key` in `$.a`"
    expected, _, kind = fault.removeprefix("Expected ").partition(", got ")
    received, field = _UNKNOWN if "`key`" in place else _at(field, value), root + field
    missing = re.fullmatch(r"Object missing required field `(.*)`", fault)
    if missing:
        return f" lacks {missing[1]}" + (f" in {field}" if field != "$" else "")
    names = re.search(r" matching regex '\\\\A\((.*)\)\\\\Z'", expected)
    if names:
        expected = f"one of {names[1].replace('|', ', ')}"
    elif " matching regex" in expected:
        slashes = " and slashes" if "[^/" in expected else ""
        expected = f"text of one line without control characters{slashes}"
    else:
        expected = re.sub(r"`([^`]*)`", lambda match: _in_words(match[1]), expected)
    what = f"a name in {field}" if "`key`" in place else field
    received = kind.strip("`") or "another" if received is _UNKNOWN else shown(received)
    return f"{f': {what}' if what != '$' else ''} must be {expected}. Received: {received}"


def _in_words(kinds: str) -> str:
    return " or ".join(_WORDS.get(kind, kind) for kind in kinds.split(" | "))


_UNKNOWN = object()


def _at(field: str, value: Any) -> Any:
    """The value at a path such as $.a[2]; `_UNKNOWN` if it passes through a dict of any keys."""
    for name, index in re.findall(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]", field):
        try:
            value = value[name] if name else value[int(index)]
        except (LookupError, TypeError, ValueError):
            return _UNKNOWN
    return value
