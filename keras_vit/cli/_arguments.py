"""Command lines read into dataclasses, and their help."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import shutil
import textwrap
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from keras_vit._errors import UsageError, did_you_mean, nearest
from keras_vit.cli import COMMANDS
from keras_vit.cli._fields import Option, options_of
from keras_vit.cli._flags import with_flags

TRACEBACK = "--traceback"  # of every command
_TRACEBACK = Option("traceback", False, "Show the traceback of an error.", bool)
_NAMES = {int: "N", float: "NUMBER", str: "TEXT", Path: "PATH"}
_NUMBERS = {int: "an integer", float: "a number"}
# Names that other training programs use, and ours; the first one that the command has.
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


class Line(NamedTuple):
    """A command line, with the texts for its help.

    Attributes:
        words: the arguments.
        program: the command as the user types it.
        description: a description of the command.
    """

    words: Sequence[str]
    program: str
    description: str


def read(
    kind: type, line: Line, defaults: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
) -> Any:
    """Reads a command line into the dataclass `kind`; --help prints help and exits.

    Args:
        kind: a dataclass.
        line: the command line.
        defaults: a function from the given values, by name, to defaults that depend on them.

    Raises:
        UsageError: an unknown option or an invalid value.
    """
    options = [*options_of(kind), _TRACEBACK]
    words = [word for word in line.words if word not in ("-h", "--help")]
    wants_help = len(words) < len(line.words)
    try:
        given = _given(options, words)
    except UsageError as error:
        if not wants_help:
            raise UsageError(f"{error} --help lists the options.") from None
        given = {}
    given.pop(_TRACEBACK.name, None)
    values = dict(defaults(given)) if defaults else {}
    if wants_help:
        print(_help(options, line, values), end="")
        raise SystemExit(0)
    for each in options:
        if each.name in given:
            each.check_value(given[each.name])
    for group in {each.group for each in options if each.group}:
        names = {each.name for each in options if each.group == group} & given.keys()
        base = values[group] if group in values else getattr(kind, group)
        values[group] = dataclasses.replace(base, **{name: given.pop(name) for name in names})
    return kind(**{**values, **given})


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
            values = given[each.name]
            values = list(itertools.chain(*values)) if each.takes_commas else values
            given[each.name] = each.value(values)
    return given


def _add(parser: argparse._ActionsContainer, option: Option, help: str | None = None) -> None:
    names = [option.name] if option.positional else [option.flag]
    settings: dict[str, Any] = {"help": help}
    if not option.positional:
        settings["dest"] = option.name
    if option.element is bool and option.default is None:
        parser.add_argument(*names, action=argparse.BooleanOptionalAction, **settings)
        return
    if option.element is bool:
        parser.add_argument(*names, action="store_const", const=not option.default, **settings)
        return
    name = option.positional or ("NAME" if option.choices else _NAMES[option.element])
    settings["metavar"] = name
    if option.positional:
        settings |= {"nargs": "*" if option.is_tuple else "?", "default": None}
    elif option.is_tuple:
        settings["nargs"] = option.most if option.fewest == option.most else "+"
    if help is not None and option.is_one_or_two:
        # Otherwise argparse would show "N [N ...]".
        settings["nargs"], settings["metavar"] = None, f"{name} [{name}]"
    read = _values if option.takes_commas else _value
    parser.add_argument(*names, type=functools.partial(read, option), **settings)


def _values(option: Option, word: str) -> list[Any]:
    """The values in a word: `0.1,0.3` is the same as `0.1 0.3`."""
    return [_value(option, each) for each in word.split(",") if each] or [_value(option, word)]


def _value(option: Option, word: str) -> Any:
    if option.choices and word not in map(str, option.choices):
        suggestion = did_you_mean(word, map(str, option.choices))
        raise argparse.ArgumentTypeError(f"unknown value {word!r}; {suggestion}")
    try:
        return option.element(word)
    except ValueError:
        expected = _NUMBERS.get(option.element, option.element.__name__)
        raise argparse.ArgumentTypeError(f"expected {expected}. Received: {word!r}") from None


def _unknown(word: str, options: Sequence[Option], words: Sequence[str]) -> str:
    name, flags = word.partition("=")[0], [each.flag for each in options if each.flag]
    if not word.startswith("-"):
        free = {*flags} - {*words}
        files = _FOLDERS if Path(word).is_dir() else {}
        fitting = (flag for file, flag in files.items() if Path(word, file).exists())
        flag = next((flag for flag in fitting if flag in free), None)
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
    modules = {name: import_module(f"keras_vit.cli.{name.replace('-', '_')}") for name in COMMANDS}
    return [
        name
        for name, module in modules.items()
        if any(each.flag == flag for each in options_of(module.Arguments))
    ]


def _help(options: Sequence[Option], line: Line, defaults: Mapping[str, Any]) -> str:
    width = shutil.get_terminal_size().columns - 2
    paragraphs = line.description.strip().split("\n\n")
    if defaults.get("recipe"):
        data = f" for {defaults['data']}" if defaults.get("data") else ""
        paragraphs.append(f"The defaults are those of the recipe {defaults['recipe']}{data}.")
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
        if each.group not in groups:
            groups[each.group] = parser.add_argument_group(each.group)
        values = vars(defaults[each.group]) if each.group in defaults else defaults
        described = _described(each, values.get(each.name, each.default))
        _add(groups[each.group], each, with_flags(described, options))
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
