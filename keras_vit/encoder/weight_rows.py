"""Rows: the weights of a part, with their names, shapes and initial values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple


class Row(NamedTuple):
    """A weight of a part; {i} and {j} stand for the numbers of a block and of its unit.

    Attributes:
        key: the official key.
        path: layers and weight in a keras_vit model, separated by slashes.
        shape: the official shape: sizes by their letters (see `weights/names.py`), or numbers.
            keras_vit's kernels are the official ones reshaped to two dimensions.
        initial: how it is initialised, a name in `INITIALIZERS` of `layers/base.py`.
        when: the field of the spec without which a model does not have this weight; "" if every
            model has it.
    """

    key: str
    path: str
    shape: tuple[str, ...]
    initial: str = ""
    when: str = ""


def rows(table: str, when: str = "") -> list[Row]:
    """The rows of a table with the columns key, path, initial values, and the shape's sizes."""
    return [
        Row(key, path, tuple(shape), initial, when)
        for key, path, initial, *shape in table_words(table)
    ]


def nested(rows: Iterable[Row], key: str, path: str) -> list[Row]:
    """The rows of a part inside another one: with prefixes for keys and paths."""
    return [row._replace(key=key + row.key, path=path + row.path) for row in rows]


def present(rows: Iterable[Row], spec: Any) -> list[Row]:
    """The rows that a model of the spec has."""
    return [row for row in rows if not row.when or getattr(spec, row.when)]


def with_present_names(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields of a spec or of a layer, of which older files have some under other names."""
    return {_PRESENT_NAMES.get(name, name): value for name, value in fields.items()}


_PRESENT_NAMES = {"gelu": "activation"}


def table_words(table: str, *prefixes: str) -> Iterator[list[str]]:
    """The words of each line of a table; the prefixes are added to the first words."""
    for words in map(str.split, table.splitlines()):
        if words:
            start = [prefix + word for prefix, word in zip(prefixes, words, strict=False)]
            yield [*start, *words[len(prefixes) :]]
