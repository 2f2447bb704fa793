"""The fields of a dataclass as options of a command.

The type of a field decides how it is written: `bool` is a flag, `tuple[int, ...]` takes one value
or several, `int | tuple[int, int]` one or two, a `Literal` one of its words. The docstring below a
field is its help. A field that is a dataclass gives its own fields as a group of options.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import textwrap
import types
import typing
from collections.abc import Callable, Collection, Iterator
from typing import Any

from keras_vit._errors import UsageError

_MORE = ("choices", "check", "positional", "help")  # what a field may say of itself


def option(
    default: Any,
    choices: Collection[str] = (),
    check: Callable[[str, Any], Any] | None = None,
    positional: str = "",
    help: str = "",
) -> Any:
    """A field with more information than its type.

    Args:
        default: the value if the option is not given.
        choices: the allowed values.
        check: a function of the option's name and value that raises for an invalid value.
        positional: the name of a positional argument in the help.
        help: a help text that replaces the docstring below the field.
    """
    metadata = {"choices": tuple(choices), "check": check, "positional": positional, "help": help}
    return dataclasses.field(default=default, metadata=metadata)


def internal(default: Any) -> Any:
    """A field that is no option: a command's `defaults` sets it."""
    return dataclasses.field(default=default, metadata={"internal": True})


@dataclasses.dataclass(frozen=True)
class Option:
    """An option of a command.

    Attributes:
        name: name of the field.
        default: the value if the option is not given.
        help: its help text.
        element: the type of one value.
        fewest, most: the numbers of values that it accepts; `most` is None for any number.
        is_tuple: whether several values are possible.
        choices, check, positional: see `option`.
        group: the field of the dataclass that it belongs to; empty for the main dataclass.
    """

    name: str
    default: Any
    help: str
    element: type
    fewest: int = 1
    most: int | None = 1
    is_tuple: bool = False
    choices: tuple[str, ...] = ()
    check: Callable[[str, Any], Any] | None = None
    positional: str = ""
    group: str = ""

    @property
    def is_one_or_two(self) -> bool:
        """Whether it accepts a single value or a tuple of two."""
        return (self.fewest, self.most) == (1, 2)

    @property
    def takes_commas(self) -> bool:
        """Whether `a,b` are two values. Paths and free text may contain commas themselves."""
        is_free = self.element not in (int, float) and not self.choices and self.check is None
        return self.most is None and not is_free

    @property
    def flag(self) -> str:
        """The option as it is written; empty for a positional argument."""
        if self.positional:
            return ""
        is_on = self.element is bool and self.default
        return f"--{'no-' if is_on else ''}{self.name.replace('_', '-')}"

    def value(self, values: Any) -> Any:
        """The field's value: a tuple, or the one value if one is enough.

        Raises:
            UsageError: there are too many values.
        """
        values = values if isinstance(values, list) else [values]
        if self.most is not None and len(values) > self.most:
            raise UsageError(
                f"{self.flag} takes {self.fewest} value or {self.most}. "
                f"Received: {' '.join(map(str, values))}."
            )
        is_single = not self.is_tuple or (self.is_one_or_two and len(values) == 1)
        return values[0] if is_single else tuple(values)

    def check_value(self, value: Any) -> None:
        """Runs `check` on each value; its error names the option."""
        for each in value if isinstance(value, tuple) else (value,):
            if self.check is not None:
                self.check(self.flag or self.name, each)


def options_of(kind: type, group: str = "") -> Iterator[Option]:
    """The options of a dataclass, in the order of its fields."""
    hints, documents = typing.get_type_hints(kind), _documents(kind)
    for field in dataclasses.fields(kind):
        if field.metadata.get("internal"):
            continue
        annotation = hints[field.name]
        if dataclasses.is_dataclass(annotation):
            yield from options_of(annotation, field.name)
            continue
        described = {"help": documents.get(field.name, "")} | _shape(annotation)
        described |= {key: field.metadata[key] for key in _MORE if field.metadata.get(key)}
        yield Option(field.name, field.default, group=group, **described)


def _shape(annotation: Any) -> dict[str, Any]:
    """The type of a value, the number of values and the choices, from an annotation."""
    parts = [part for part in _union(annotation) if part is not type(None)]
    tuples = [part for part in parts if typing.get_origin(part) is tuple]
    single = [part for part in parts if part not in tuples]
    element, fewest, most = (single or [None])[0], 1, 1
    if tuples:
        elements = typing.get_args(tuples[0])
        element, most = elements[0], None if elements[-1] is ... else len(elements)
        fewest = 1 if single or most is None else most
    choices = typing.get_args(element) if typing.get_origin(element) is typing.Literal else ()
    element = type(choices[0]) if choices else element
    sizes = {"fewest": fewest, "most": most, "is_tuple": bool(tuples)}
    return {"element": element, "choices": choices, **sizes}


def _union(annotation: Any) -> tuple[Any, ...]:
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    return typing.get_args(annotation) if is_union else (annotation,)


def _documents(kind: type) -> dict[str, str]:
    """The docstring below each field of `kind`, including inherited fields."""
    documents = {}
    for each in reversed(kind.__mro__):
        if not dataclasses.is_dataclass(each):
            continue
        try:
            source = inspect.getsource(each)
        except OSError:  # an installation without sources has options without descriptions
            continue
        body = ast.parse(textwrap.dedent(source)).body[0].body
        for field, text in itertools.pairwise(body):
            is_text = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
            if isinstance(field, ast.AnnAssign) and is_text:
                documents[field.target.id] = " ".join(text.value.value.split())
    return documents
