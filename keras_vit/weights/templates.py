"""Templates for keys with numbers: "Transformer/encoderblock_{i}/LayerNorm_0/scale".

{i} is the number of a block in official keys, {j} the number of a unit in the block. {i0} and {j0}
are one less, for layouts that count from zero where the official layout counts from one.
"""

from __future__ import annotations

import functools
import re
import string

_NUMBER = re.compile(r"\{[^}]*\}|\d+")
# The digits that a format such as {i} or {i:02} writes. Blocks have at most four digits.
_DIGITS = {"": "(0|[1-9][0-9]{0,3})", "02": "([0-9]{2}|[1-9][0-9]{2,3})"}


def fill(template: str, i: int = 0, j: int = 0) -> str:
    """The key of block i, unit j."""
    return template.format(i=i, j=j, i0=i - 1, j0=j - 1)


def outline(text: str) -> str:
    """A key or a template with # for each number. A template and its keys have the same outline."""
    return _NUMBER.sub("#", text)


def numbers(template: str, key: str) -> dict[str, int] | None:
    """The i and j for which `fill` returns this key; None if the key does not match."""
    regex, fields = _parsed(template)
    match = regex.fullmatch(key)
    if match is None:
        return None
    # The field i0 is i - 1.
    return {
        field[0]: int(digits) + field.endswith("0")
        for field, digits in zip(fields, match.groups(), strict=True)
    }


@functools.cache
def _parsed(template: str) -> tuple[re.Pattern, list[str]]:
    regex, fields = "", []
    for text, field, width, _ in string.Formatter().parse(template):
        regex += re.escape(text)
        if field:
            regex += _DIGITS[width]
            fields.append(field)
    return re.compile(regex), fields
