"""Keys with numbers in them, as format strings: "Transformer/encoderblock_{i}/LayerNorm_0/scale".

{i} and {j} are the numbers of official keys: {i} of a block, {j} of a unit in it. {i0} and {j0} are
one less, for layouts that count from zero what the official one counts from one.
"""

from __future__ import annotations

import functools
import re
import string
from collections.abc import Iterator


def fill(template: str, i: int = 0, j: int = 0) -> str:
    """The key of block i, unit j."""
    return template.format(i=i, j=j, i0=i - 1, j0=j - 1)


def pattern(template: str) -> str:
    """A regular expression for the keys of a template, with a group for each number."""
    parts = string.Formatter().parse(template)
    return "".join(re.escape(text) + (r"(\d{1,4})" if number else "") for text, number, *_ in parts)


def numbers(template: str, key: str) -> dict[str, int] | None:
    """The i and j with which `fill` gives this key; None if there are none."""
    regex, fields = _parsed(template)
    match = regex.fullmatch(key)
    if match is None:
        return None
    # The field i0 is i - 1.
    found = {
        field[0]: int(digits) + field.endswith("0")
        for field, digits in zip(fields, match.groups(), strict=True)
    }
    return found if fill(template, **found) == key else None


def rows(table: str, *prefixes: str) -> Iterator[list[str]]:
    """The words of each line of a table; the first words get the prefixes."""
    for words in map(str.split, table.splitlines()):
        if words:
            start = [prefix + word for prefix, word in zip(prefixes, words, strict=False)]
            yield [*start, *words[len(prefixes) :]]


@functools.cache
def _parsed(template: str) -> tuple[re.Pattern, list[str]]:
    fields = [field for _, field, *_ in string.Formatter().parse(template) if field]
    return re.compile(pattern(template)), fields
