"""Command lines read into dataclasses, and their help.

The type of a field decides how it is written: `bool` is a flag, `tuple[int, ...]` takes one value
or several, `int | tuple[int, int]` one or two, a `Literal` one of its words. The docstring below a
field is its help. A field that is a dataclass gives its own fields as a group of options.

It is written by hand on top of argparse, because tyro and its like take longer to import than
--help may take, and their messages do not suggest what was meant.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import functools
import inspect
import itertools
import re
import shlex
import shutil
import textwrap
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from keras_vit._errors import UsageError, did_you_mean, nearest
from keras_vit.cli import COMMANDS

_MORE = ("choices", "check", "positional", "help", "bare")  # what a field may say of itself
_NAMES = {int: "N", float: "NUMBER", str: "TEXT", Path: "PATH"}
_NUMBERS = {int: "an integer", float: "a number"}
# Options' names in other training programs, and here: the first one that the command has.
_USUAL_NAMES = {
    "--lr": ("--learning-rates", "--learning-rate"),
    "--epochs": ("--duration",),
    "--steps": ("--duration",),
    "--wd": ("--weight-decay",),
    "--precision": ("--quantize",),
    "--output": ("--out",),
    "--output-dir": ("--out",),
    "--dataset": ("--data",),
}
# What only functions do.
_IN_PYTHON = {"--batch": "keras_vit.export_tflite(..., batch=8) fixes the number of images"}
# The option for a folder that holds such a file; other words are data.
_FOLDERS = {"spec.json": "--run", "model.json": "--bundle", "": "--data"}
# Lists of values in a message, which may have the name of an argument.
_VALUES = re.compile(r"((?:did you mean|choose one of|One of:) \S+(?:(?:(?<=,)| or) \S+)*)")


def option(default: Any, **described: Any) -> Any:
    """A field with more information than its type.

    Args:
        default: the value if the option is not given.
        described: `choices`, the allowed values; `check`, a function of the option's name and value
            that raises for an invalid value; `positional`, the name of a positional argument in the
            help; `help`, a text that replaces the docstring below the field; `bare`, the text that
            stands for the option without a value; `internal`, whether the field is no option, but a
            command's `defaults` set it.
    """
    return dataclasses.field(default=default, metadata=described)


@dataclasses.dataclass(frozen=True)
class Option:
    """An option of a command.

    Attributes:
        name: name of the field.
        default: the value if the option is not given.
        help: its help text.
        element: the type of one value.
        nargs: None for one value, "+" for one or more, else their number, as in argparse.
        most: the largest number of values; None for any.
        choices, check, positional, bare: see `option`.
        group: the field of the dataclass that it belongs to; empty for the main dataclass.
    """

    name: str
    default: Any
    help: str
    element: type
    nargs: int | str | None = None
    most: int | None = 1
    choices: Sequence[str] = ()
    check: Callable[[str, Any], Any] | None = None
    positional: str = ""
    bare: str | None = None
    group: str = ""

    @property
    def is_one_or_two(self) -> bool:
        """Whether it accepts a single value or a tuple of two."""
        return self.nargs == "+" and self.most is not None

    @property
    def flag(self) -> str:
        """The option as it is written; empty for a positional argument."""
        if self.positional:
            return ""
        is_on = self.element is bool and self.default
        return f"--{'no-' if is_on else ''}{self.name.replace('_', '-')}"

    def read(self, word: str) -> list[Any]:
        """The values in a word: `0.1,0.3` is the same as `0.1 0.3`."""
        # Paths and free text may contain commas themselves.
        has_commas = self.element in _NUMBERS or self.choices or self.check is not None
        words = word.split(",") if self.most is None and has_commas else [word]
        return [self._read(each) for each in [each for each in words if each] or [word]]

    def _read(self, word: str) -> Any:
        if self.choices and word not in map(str, self.choices):
            suggestion = did_you_mean(word, map(str, self.choices))
            raise argparse.ArgumentTypeError(f"unknown value {word!r}; {suggestion}")
        try:
            return self.element(word)
        except ValueError:
            expected = _NUMBERS.get(self.element, self.element.__name__)
            raise argparse.ArgumentTypeError(f"expected {expected}. Received: {word!r}") from None

    def value(self, values: list[Any]) -> Any:
        """The field's value: a tuple, or the one value if one is enough.

        Raises:
            UsageError: there are too many values.
        """
        values = list(itertools.chain(*values)) if self.nargs else values
        if self.most is not None and len(values) > self.most:
            received = " ".join(map(str, values))
            raise UsageError(f"{self.flag} takes 1 value or {self.most}. Received: {received}.")
        is_single = not self.nargs or (self.is_one_or_two and len(values) == 1)
        return values[0] if is_single else tuple(values)


TRACEBACK = Option("traceback", False, "Show the traceback of an error.", bool)  # of every command


@functools.cache
def options_of(kind: type, group: str = "") -> tuple[Option, ...]:
    """The options of a dataclass, in the order of its fields."""
    hints, documents, found = typing.get_type_hints(kind), _documents(kind), []
    for field in dataclasses.fields(kind):
        if dataclasses.is_dataclass(hints[field.name]):
            found += options_of(hints[field.name], field.name)
        elif not field.metadata.get("internal"):
            described = {"help": documents.get(field.name, "")} | _typed(hints[field.name])
            described |= {
                key: field.metadata[key] for key in _MORE if field.metadata.get(key) is not None
            }
            found.append(Option(field.name, field.default, group=group, **described))
    return tuple(found)


def _typed(annotation: Any) -> dict[str, Any]:
    """The type of a value, the number of values and the choices, from an annotation."""
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    parts = typing.get_args(annotation) if is_union else (annotation,)
    several = next((part for part in parts if typing.get_origin(part) is tuple), None)
    element = single = next((p for p in parts if p not in (several, type(None))), None)
    nargs, most = None, 1
    if several is not None:
        element, *_, last = typing.get_args(several)
        most = None if last is ... else len(typing.get_args(several))
        nargs = most if most is not None and single is None else "+"
    choices = typing.get_args(element) if typing.get_origin(element) is typing.Literal else ()
    element = type(choices[0]) if choices else element
    return {"element": element, "nargs": nargs, "most": most, "choices": choices}


def _documents(kind: type) -> dict[str, str]:
    """The docstring below each field of `kind`, including inherited fields."""
    documents = {}
    for each in filter(dataclasses.is_dataclass, reversed(kind.__mro__)):
        for field, text in itertools.pairwise(_classes(each.__module__).get(each.__name__, [])):
            is_text = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
            if isinstance(field, ast.AnnAssign) and is_text:
                documents[field.target.id] = " ".join(text.value.value.split())
    return documents


@functools.cache
def _classes(module: str) -> dict[str, list[ast.stmt]]:
    """What is in each class of a module."""
    try:
        source = inspect.getsource(import_module(module))
    except OSError:  # an installation without sources has options without descriptions
        return {}
    nodes = ast.parse(source).body
    return {node.name: node.body for node in nodes if isinstance(node, ast.ClassDef)}


def read(
    kind: type,
    words: Sequence[str],
    defaults: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
    program: str = "",
    description: str = "",
) -> Any:
    """Reads a command line into the dataclass `kind`; --help prints help and exits.

    Args:
        kind: a dataclass.
        words: the command line.
        defaults: a function from the given values, by name, to defaults that depend on them.
        program: the command as the user types it, for the help.
        description: a description of the command, for the help.

    Raises:
        UsageError: an unknown option or an invalid value.
    """
    options = [*options_of(kind), TRACEBACK]
    others = [word for word in words if word not in ("-h", "--help")]
    wants_help = len(others) < len(words)
    try:
        given = _given(options, others)
    except UsageError as error:
        if not wants_help:
            raise UsageError(f"{error} --help lists the options.") from None
        given = {}
    given.pop(TRACEBACK.name, None)
    values = dict(defaults(given)) if defaults else {}
    if wants_help:
        print(_help(kind, program, description, values), end="")
        raise SystemExit(0)
    for each in (each for each in options if each.check is not None and each.name in given):
        value = given[each.name]
        for one in value if isinstance(value, tuple) else (value,):
            each.check(each.flag or each.name, one)  # the error names the option
    for group in {each.group for each in options if each.group}:
        names = {each.name for each in options if each.group == group} & given.keys()
        base = values[group] if group in values else getattr(kind, group)
        values[group] = dataclasses.replace(base, **{name: given.pop(name) for name in names})
    return kind(**{**values, **given})


def with_flags(message: str, kind: type | None) -> str:
    """A message of the library in a command's words: `input='uint8'` becomes `--input uint8`.

    Parts of paths and of calls, such as `ViT_B16(weights="augreg")`, stay as they are, and so do
    suggested values.

    Args:
        message: names arguments of Python.
        kind: the dataclass with the options whose flags replace them; None for no options.
    """
    if kind is None:
        return message
    by_name = {each.name: each for each in options_of(kind) if each.flag}
    if "data" in by_name:
        by_name["representative_data"] = by_name["data"]
    spellings = [pair for name, each in by_name.items() for pair in _spellings(name, each)]
    parts = _VALUES.split(message)
    for i in range(0, len(parts), 2):
        for pattern, flag in spellings:
            parts[i] = re.sub(pattern, flag, parts[i])
        parts[i] = parts[i].replace("keras_vit.list_weights", "an unknown name lists all")
    return "".join(parts)


def _spellings(name: str, option: Option) -> list[tuple[str, Any]]:
    """Patterns for an argument of Python, and what a command has for it."""
    flag, argument = option.flag, rf"(?<![\w./\\'\"-])(?<!\w\(){name}"
    if option.element is bool:
        other = f"without {flag}" if option.default is not None else flag.replace("--", "--no-", 1)
        return [
            (f"{argument}={not option.default}", flag),
            (f"{argument}={bool(option.default)}", other),
        ]
    is_word = "_" not in name and " " not in name  # "data" is also a usual word
    pattern = argument + ("(?==| must )" if is_word else r"(?![\w/\\'\"-]|\.\w)")
    return [
        (f"{pattern}='([^']+)'", lambda match: f"{flag} {shlex.quote(match[1])}"),
        (pattern, flag),
    ]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        message = message.removeprefix("argument ")
        raise UsageError(message if message.endswith((".", "?")) else f"{message}.")


def _given(options: Sequence[Option], words: list[str]) -> dict[str, Any]:
    """The values on the command line, by name."""
    parser = _Parser(add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    for each in options:
        _add(parser, each)
    namespace, unknown = parser.parse_known_intermixed_args(words)
    if unknown:
        raise UsageError(_unknown(unknown[0], options, words))
    given = {name: value for name, value in vars(namespace).items() if value not in (None, [])}
    for each in options:
        if each.name in given and each.element is not bool:
            given[each.name] = each.value(given[each.name])
    return given


def _add(parser: argparse._ActionsContainer, option: Option, help: str | None = None) -> None:
    settings = {"help": help} if option.positional else {"help": help, "dest": option.name}
    if option.element is bool and option.default is None:
        settings |= {"action": argparse.BooleanOptionalAction}
    elif option.element is bool:
        settings |= {"action": "store_const", "const": not option.default}
    else:
        shown = option.positional or ("NAME" if option.choices else _NAMES[option.element])
        settings |= {"type": option.read, "metavar": shown, "nargs": option.nargs}
        if option.positional:
            settings |= {"nargs": "*" if option.nargs else "?", "default": None}
        elif help is not None and option.is_one_or_two:
            # Otherwise argparse would show "N [N ...]".
            settings |= {"nargs": None, "metavar": f"{shown} [{shown}]"}
        elif option.bare is not None:
            settings |= {"nargs": "?", "const": option.bare}
    parser.add_argument(option.flag or option.name, **settings)


def _unknown(word: str, options: Sequence[Option], words: Sequence[str]) -> str:
    name, flags = word.partition("=")[0], [each.flag for each in options if each.flag]
    if not word.startswith("-"):
        files = _FOLDERS if Path(word).is_dir() else {}
        fitting = (flag for file, flag in files.items() if Path(word, file).exists())
        flag = next((flag for flag in fitting if flag in {*flags} - {*words}), None)
        return f"unexpected argument {word!r}{f'; did you mean {flag} {word}?' if flag else '.'}"
    usual = (flag for flag in _USUAL_NAMES.get(name, ()) if flag in flags)
    near = next(usual, None) or nearest(name, flags)
    if name in _IN_PYTHON:
        return f"unknown option {name}; in Python, {_IN_PYTHON[name]}."
    if near is None and (commands := _commands_with(name)):
        return f"unknown option {name}; it is an option of {', '.join(commands)}."
    return f"unknown option {name}{f'; did you mean {near}?' if near else '.'}"


def _commands_with(flag: str) -> list[str]:
    """The commands that have an option."""

    def flags(command: str) -> list[str]:
        return [each.flag for each in options_of(command_module(command).Arguments)]

    return [command for command in COMMANDS if flag in flags(command)]


def command_module(name: str) -> types.ModuleType:
    """The module of a command: `Arguments`, `run` and perhaps `defaults`."""
    return import_module(f"keras_vit.cli.{name.replace('-', '_')}")


def _help(kind: type, program: str, description: str, defaults: Mapping[str, Any]) -> str:
    width = shutil.get_terminal_size().columns - 2
    options = [*options_of(kind), TRACEBACK]
    paragraphs = description.strip().split("\n\n")
    if defaults.get("recipe"):
        data = f" for {defaults['data']}" if defaults.get("data") else ""
        paragraphs.append(f"The defaults are those of the recipe {defaults['recipe']}{data}.")
    places = [
        f"{each.positional}{' ...' if each.nargs else ''}" for each in options if each.positional
    ]
    parser = _Parser(
        prog=program,
        usage=" ".join([program, *places, "[options]"]),
        description="\n\n".join(textwrap.fill(" ".join(p.split()), width) for p in paragraphs),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    groups: dict[str, Any] = {"": parser}
    for each in options:
        if each.group not in groups:
            groups[each.group] = parser.add_argument_group(each.group)
        values = vars(defaults[each.group]) if each.group in defaults else defaults
        described = _described(each, values.get(each.name, each.default))
        _add(groups[each.group], each, with_flags(described, kind))
    return parser.format_help()


def _described(option: Option, default: Any) -> str:
    is_on = option.element is bool and option.default
    text = f"Turns off {option.help}" if is_on else option.help
    if option.choices:
        text += f" One of: {', '.join(map(str, option.choices))}."
    in_text = default in (None, ()) and "efault: " in text  # the docstring explains the default
    if option.element is not bool and not option.positional and not in_text:
        values = default if isinstance(default, tuple) else (default,)
        shown = " ".join("none" if value is None else str(value) for value in values)
        text += f" (default: {shown or 'none'})"
    return text.replace("%", "%%")
