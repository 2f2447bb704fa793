"""Messages of the library in a command's words: `input='uint8'` becomes `--input uint8`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

from keras_vit.cli._fields import Option

# Arguments of the library whose options have another name.
_OPTIONS = {"representative_data": "data"}
# Functions of the library, and how a command says the same.
_FUNCTIONS = {"keras_vit.list_weights": "an unknown name lists all"}
# Lists of values, which may have the name of an argument.
_VALUES = re.compile(r"((?:did you mean|choose one of|One of:) \S+(?:(?:(?<=,)| or) \S+)*)")


def with_flags(message: str, options: Iterable[Option]) -> str:
    """A text in which the flags of `options` replace the arguments of Python.

    Parts of paths and of calls, such as `ViT_B16(weights="augreg")`, stay as they are, and so do
    suggested values.
    """
    options, parts = [*options], _VALUES.split(message)
    parts[::2] = [_with_flags(part, options) for part in parts[::2]]
    return "".join(parts)


def _with_flags(message: str, options: Sequence[Option]) -> str:
    by_name = {each.name: each for each in options if each.flag}
    by_name |= {name: by_name[other] for name, other in _OPTIONS.items() if other in by_name}
    for name, option in by_name.items():
        argument = rf"(?<![\w./\\'\"-])(?<!\w\(){name}"
        if option.element is bool and option.default is None:  # it has both flags
            message = re.sub(f"{argument}=True", option.flag, message)
            message = re.sub(f"{argument}=False", option.flag.replace("--", "--no-", 1), message)
            continue
        pattern = f"{argument}{_end(name, option)}"
        message = re.sub(
            rf"{pattern}='([^']+)'", lambda m, f=option.flag: f"{f} {shlex.quote(m[1])}", message
        )
        message = re.sub(pattern, option.flag, message)
        if option.element is bool:
            message = re.sub(f"{argument}={option.default}", f"without {option.flag}", message)
    for function, words in _FUNCTIONS.items():
        message = message.replace(function, words)
    return message


def _end(name: str, option: Option) -> str:
    """A pattern for what follows the name of an argument."""
    if option.element is bool:
        return f"={not option.default}"
    if "_" in name or " " in name:
        return r"(?![\w/\\'\"-]|\.\w)"
    # A name such as "data" is also a usual word.
    return "(?==| must )"
