"""JSON from files of strangers: bounded in size, depth and numbers, then checked by a schema.

A schema is a type that msgspec understands; `_contracts.py` has those of the files. A value is
checked, not converted: what the readers return has all fields of the file, also unknown ones.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from keras_vit._errors import UsageError, shown

MOST_BYTES = 16 << 20
_MOST_DEPTH, _MOST_DIGITS = 64, 20
# An empty list has 3 bytes in a file and 64 in memory, a number 4 and 32. There may be more of them
# in a file that is long for another reason, such as the index of a folder with many pictures.
_MOST_CONTAINERS, _MOST_VALUES, _LEAST_LENGTH = 1_000_000, 1 << 24, 16
_WORDS = {"int": "an integer", "float": "a number", "str": "text", "bool": "true or false",
          "array": "a list", "object": "an object", "null": "null"}  # fmt: skip


def parse(
    content: str | bytes, place: str, schema: Any = None, *, nan: bool = False, fix: str = ""
) -> Any:
    """The value of a JSON text.

    Args:
        content: the text, or its bytes in UTF-8.
        place: the file, for the error.
        schema: what the value must be; None for any JSON.
        nan: whether the numbers NaN and Infinity are accepted, which are not JSON.
        fix: what the user can do about a fault; default: write the file again.

    Raises:
        UsageError: the text is not JSON, states a field twice, is nested too deeply, has a number
            that is too large or too many values, or does not fit the schema.
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
    except RecursionError:
        raise _too_deep(place) from None
    except ValueError as error:  # also JSONDecodeError and UnicodeDecodeError
        raise UsageError(f"{place} is not valid JSON: {error}.") from None
    _check_depth(value, place)
    if schema is not None:
        check(value, place, schema, fix)
    return value


def check(value: Any, place: str, schema: Any, fix: str = "", root: str = "$") -> None:
    """Checks that a value of JSON fits a schema; `root` is its field in the file.

    Raises:
        UsageError: it does not; the message names the field, as in `$.preprocessing.mean[2]`.
    """
    try:
        msgspec.convert(value, schema)
    except msgspec.ValidationError as error:
        message = _message(str(error), value, root)
        raise UsageError(f"{place}{message}; {fix or 'write it again'}.") from None
    except UnicodeEncodeError as error:
        received = shown(error.object[error.start : error.end])
        raise UsageError(
            f"{place}: expected text. Received: {received}, which is no character; "
            f"{fix or 'write it again'}."
        ) from None


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


def _check_depth(value: Any, place: str) -> None:
    level = list(_containers([value]))
    for _ in range(_MOST_DEPTH):
        level = [each for parent in level for each in _containers(parent)]
    if level:
        raise _too_deep(place)


def _containers(parent: list[Any] | dict[str, Any]) -> Iterable[Any]:
    values = parent.values() if isinstance(parent, dict) else parent
    return (each for each in values if isinstance(each, (dict, list)))


def _too_deep(place: str) -> UsageError:
    return UsageError(f"{place} is not valid JSON: it is nested more than {_MOST_DEPTH} deep.")


def _message(error: str, value: Any, root: str) -> str:
    """msgspec's message in our words: " lacks x", ": $.a must be an integer. Received: ..."."""
    fault, _, place = error.partition(" - at ")
    field = place.rpartition("`$")[2].rstrip("`")  # also of "`key` in `$.a`"
    expected, _, kind = fault.removeprefix("Expected ").partition(", got ")
    received, field = _UNKNOWN if "`key`" in place else _at(field, value), root + field
    missing = re.fullmatch(r"Object missing required field `(.*)`", fault)
    if missing:
        return f" lacks {missing[1]}" + (f" in {field}" if field != "$" else "")
    if fault.startswith("Invalid enum value"):
        expected = "one of the known names"
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
