"""Command lines as dataclasses: each field is an option, and the docstring below it its help.

The type of a field decides how it is written: `bool` is a flag, `tuple[int, ...]` takes one value
or several, `int | tuple[int, int]` one or two, a `Literal` one of its words. A field that is a
dataclass gives its own fields as a group of options.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import functools
import inspect
import itertools
import shutil
import textwrap
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from keras_vit._errors import UsageError, did_you_mean, nearest

TRACEBACK = "--traceback"  # of every command
_NAMES = {int: "N", float: "NUMBER", str: "TEXT", Path: "PATH"}
_NUMBERS = {int: "an integer", float: "a number"}


def option(
    default: Any,
    choices: Collection[str] = (),
    check: Callable[[str, Any], Any] | None = None,
    positional: str = "",
    help: str = "",
) -> Any:
    """A field that says more than its type.

    Args:
        default: its value where it is not given.
        choices: the words that it takes.
        check: raises for a value that is out of range; called with the option's name.
        positional: what help calls an argument that is given by its place, without a name.
        help: instead of the docstring below the field, where it is made from a table.
    """
    metadata = {
        "choices": tuple(choices),
        "check": check,
        "positional": positional,
        "help": help,
    }
    return dataclasses.field(default=default, metadata=metadata)


class Line(NamedTuple):
    """A command line to read, and what help says of the command.

    Attributes:
        words: the arguments.
        program: how the user spells the command.
        description: what it does.
    """

    words: Sequence[str]
    program: str
    description: str


def read(
    kind: type, line: Line, defaults: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
) -> Any:
    """The dataclass `kind` with the values of a command line; --help prints help and exits.

    Args:
        kind: a dataclass.
        line: the command line.
        defaults: defaults that depend on the values that are given; it takes these by name.

    Raises:
        UsageError: an unknown option or a value that it does not take.
    """
    defaults = defaults or (lambda given: {})
    options = [*_options(kind), _TRACEBACK]
    words = [word for word in line.words if word not in ("-h", "--help")]
    try:
        given = _given(options, words, line.program)
    except UsageError as error:
        if len(words) == len(line.words):
            raise UsageError(f"{error} --help lists the options.") from None
        given = {}
    given.pop(_TRACEBACK.name, None)
    chosen = {**defaults(given)}
    if len(words) < len(line.words):
        print(_help(options, line, chosen), end="")
        raise SystemExit(0)
    for each in options:
        if each.name in given and each.check is not None:
            values = given[each.name]
            for value in values if isinstance(values, tuple) else (values,):
                each.check(each.flag or each.name, value)
    for group in {each.group for each in options if each.group}:
        base = chosen.get(group) or next(
            field.default for field in dataclasses.fields(kind) if field.name == group
        )
        names = {each.name for each in options if each.group == group} & given.keys()
        chosen[group] = dataclasses.replace(base, **{name: given.pop(name) for name in names})
    return kind(**{**chosen, **given})


@dataclasses.dataclass(frozen=True)
class _Option:
    name: str
    default: Any
    help: str
    element: type
    fewest: int
    most: int | None  # None for any number of values
    is_tuple: bool
    choices: tuple[str, ...] = ()
    check: Callable[[str, Any], Any] | None = None
    positional: str = ""
    group: str = ""

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
        is_single = not self.is_tuple or (self.most == 2 and len(values) == 1)
        return values[0] if is_single else tuple(values)


_TRACEBACK = _Option(
    "traceback", False, "Show where an error comes from.", bool, fewest=1, most=1, is_tuple=False
)


def _options(kind: type, group: str = "") -> Iterator[_Option]:
    hints, documents = typing.get_type_hints(kind), _documents(kind)
    for field in dataclasses.fields(kind):
        annotation = hints[field.name]
        if dataclasses.is_dataclass(annotation):
            yield from _options(annotation, field.name)
            continue
        described = {"help": documents.get(field.name, "")} | _shape(annotation)
        described |= {key: value for key, value in field.metadata.items() if value}
        yield _Option(field.name, field.default, group=group, **described)


def _shape(annotation: Any) -> dict[str, Any]:
    """What an annotation says: the type of a value, how many there are, its choices."""
    parts = [part for part in _union(annotation) if part is not type(None)]
    tuples = [part for part in parts if typing.get_origin(part) is tuple]
    single = [part for part in parts if part not in tuples]
    element, fewest, most = (single or [None])[0], 1, 1
    if tuples:
        inner = typing.get_args(tuples[0])
        element, most = inner[0], None if inner[-1] is ... else len(inner)
        fewest = 1 if single or most is None else most
    choices = typing.get_args(element) if typing.get_origin(element) is typing.Literal else ()
    element = type(choices[0]) if choices else element
    sizes = {"fewest": fewest, "most": most, "is_tuple": bool(tuples)}
    return {"element": element, "choices": choices, **sizes}


def _union(annotation: Any) -> tuple[Any, ...]:
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    return typing.get_args(annotation) if is_union else (annotation,)


def _documents(kind: type) -> dict[str, str]:
    """The docstring below each field, also of the classes that `kind` inherits from."""
    found = {}
    for each in reversed(kind.__mro__):
        if not dataclasses.is_dataclass(each):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(each))).body[0].body
        for field, text in itertools.pairwise(body):
            is_text = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
            if isinstance(field, ast.AnnAssign) and is_text:
                found[field.target.id] = " ".join(text.value.value.split())
    return found


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> typing.NoReturn:
        message = message.removeprefix("argument ")
        raise UsageError(message if message.endswith((".", "?")) else f"{message}.")


def _given(options: Sequence[_Option], words: list[str], program: str) -> dict[str, Any]:
    """The values on the line, by name."""
    parser = _Parser(
        prog=program, add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS
    )
    for each in options:
        _add(parser, each)
    namespace, unknown = parser.parse_known_intermixed_args(words)
    if unknown:
        raise UsageError(_unknown(unknown[0], options))
    given = {name: value for name, value in vars(namespace).items() if value not in (None, [])}
    for each in options:
        if each.name in given and each.element is not bool:
            given[each.name] = each.value(given[each.name])
    return given


def _add(parser: argparse._ActionsContainer, option: _Option, help: str | None = None) -> None:
    names = [option.name] if option.positional else [option.flag]
    settings: dict[str, Any] = {"help": help}
    if not option.positional:
        settings["dest"] = option.name
    if option.element is bool:
        parser.add_argument(*names, action="store_const", const=not option.default, **settings)
        return
    name = option.positional or ("NAME" if option.choices else _NAMES[option.element])
    settings["metavar"] = name
    if option.positional:
        settings |= {"nargs": "*" if option.is_tuple else "?", "default": None}
    elif option.is_tuple:
        settings["nargs"] = option.fewest if option.fewest == option.most != 1 else "+"
    if help is not None and option.is_tuple and option.most == 2 and option.fewest == 1:
        # In help alone: "N [N]" is not something that argparse can be told.
        settings["nargs"], settings["metavar"] = None, f"{name} [{name}]"
    parser.add_argument(*names, type=functools.partial(_value, option), **settings)


def _value(option: _Option, word: str) -> Any:
    if option.choices and word not in map(str, option.choices):
        suggestion = did_you_mean(word, map(str, option.choices))
        raise argparse.ArgumentTypeError(f"unknown value {word!r}; {suggestion}")
    try:
        return option.element(word)
    except ValueError:
        expected = _NUMBERS.get(option.element, option.element.__name__)
        raise argparse.ArgumentTypeError(f"expected {expected}. Received: {word!r}") from None


def _unknown(word: str, options: Sequence[_Option]) -> str:
    if not word.startswith("-"):
        return f"unexpected argument {word!r}."
    name = word.partition("=")[0]
    near = nearest(name, [each.flag for each in options if each.flag])
    return f"unknown option {name}{f'; did you mean {near}?' if near else '.'}"


def _help(options: Sequence[_Option], line: Line, chosen: Mapping[str, Any]) -> str:
    width = shutil.get_terminal_size().columns - 2
    paragraphs = line.description.strip().split("\n\n")
    places = " ".join(
        f"{each.positional} ..." if each.is_tuple else each.positional
        for each in options
        if each.positional
    )
    parser = _Parser(
        prog=line.program,
        usage=f"{line.program} {f'{places} ' if places else ''}[options]",
        description="\n\n".join(textwrap.fill(" ".join(p.split()), width) for p in paragraphs),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    groups: dict[str, Any] = {"": parser}
    for each in options:
        values = chosen
        if each.group:
            values = vars(chosen[each.group]) if each.group in chosen else {}
            if each.group not in groups:
                groups[each.group] = parser.add_argument_group(each.group)
        _add(groups[each.group], each, _described(each, values.get(each.name, each.default)))
    return parser.format_help()


def _described(option: _Option, default: Any) -> str:
    is_on = option.element is bool and option.default
    text = f"Turns off: {option.help}" if is_on else option.help
    if option.choices:
        text += f" One of: {', '.join(map(str, option.choices))}."
    is_told = default is None and "efault: " in text  # the docstring says what None stands for
    if option.element is not bool and not option.positional and not is_told:
        values = default if isinstance(default, tuple) else (default,)
        shown = " ".join("none" if value is None else str(value) for value in values)
        text += f" (default: {shown or 'none'})"
    return text.replace("%", "%%")
