"""Errors that the user can fix. Each says what was expected, what was received, what to do.

A package that is not installed is one of them: `PACKAGES` are those that are optional.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
import itertools
import re
import reprlib
from collections.abc import Iterable, Iterator
from typing import Any

# Messages show what strangers put into files, so all that is shown has an end.
_LONGEST_VALUE, _LONGEST_LINE, _LONGEST_TEXT, _MOST_DETAILS = 120, 2_000, 8_000, 1_000
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")

# module: (its name in messages, the extras of keras_vit that install it).
PACKAGES = {
    "tensorflow": ("TensorFlow", ("tensorflow",)),
    "tf_keras": ("tf_keras", ("tensorflow",)),
    "jax": ("JAX", ("jax",)),
    "sklearn": ("scikit-learn", ("train",)),
    "matplotlib": ("matplotlib", ("train", "export")),
    "jinja2": ("Jinja2", ("train", "export")),
    "tensorboard": ("TensorBoard", ("train",)),
    "tensorflow_datasets": ("TensorFlow Datasets", ("train",)),
    "pycocotools": ("pycocotools", ("train",)),
    "ai_edge_litert": ("LiteRT", ("export",)),
    "ai_edge_quantizer": ("AI Edge Quantizer", ("export",)),
    "huggingface_hub": ("huggingface_hub", ("hub",)),
    "sentencepiece": ("sentencepiece", ("text",)),
    "tokenizers": ("tokenizers", ("text",)),
    "tensorflow_model_optimization": ("tensorflow-model-optimization", ("compress",)),
}


class _Kept:
    """An error whose text survives `copy` and `pickle`, which must not escape it again."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.args), self.__dict__ or None


def _again(kind: type[Exception], values: tuple[Any, ...]) -> Exception:
    return kind.__new__(kind, *values)  # which sets `args`, without the constructor


class UsageError(_Kept, ValueError):
    """A mistake of the user (a wrong name, file or size), not a bug in the library.

    Commands print its message, one line, and exit with 2. In Python it is a `ValueError`.

    Args:
        message: what was expected, what was received, what to do. Control characters are escaped,
            and the middle of a very long message is left out.
        details: further lines, which commands do not print.
    """

    def __init__(self, message: object = "", details: Iterable[str] = ()):
        super().__init__(_bounded((message, *itertools.islice(details, _MOST_DETAILS))))


class DiskFullError(OSError):
    """The disk is full, so a file could not be written; the message is one line with its path."""


class MissingPackageError(ImportError):
    """An optional package cannot be imported; the message is one line and how to install it."""


class RefusedError(_Kept, RuntimeError):
    """Results miss their budget. Commands print the message, a line for each, and exit with 3.

    Its lines are escaped and shortened like those of a `UsageError`.
    """

    def __init__(self, message: object = ""):
        super().__init__(_bounded(itertools.islice(str(message).split("\n"), _MOST_DETAILS)))


class LostProcessError(RuntimeError):
    """Another process of the same run ended. Commands print the message and exit with 1."""


def _bounded(lines: Iterable[object]) -> str:
    text = "\n".join(shortened(one_line(line), _LONGEST_LINE) for line in lines)
    return shortened(text, _LONGEST_TEXT)


@contextlib.contextmanager
def naming_install(needed: str, extra: str = "train") -> Iterator[None]:
    """A context that imports an optional package; a missing one is a `MissingPackageError`.

    Args:
        needed: what needs which package, as in "plots need matplotlib".
        extra: the extra of keras_vit that installs it.
    """
    try:
        yield
    except ImportError:
        raise MissingPackageError(f"{needed}: pip install 'keras_vit[{extra}]'") from None


def shown(value: Any) -> str:
    """A value for a message: its `repr` in one short line, without addresses in memory.

    >>> shown(list("abcdefghij"))
    "['a', 'b', 'c', 'd', 'e', 'f', ...]"
    """
    return shortened(one_line(_SHORT.repr(value)), _LONGEST_VALUE)


def one_line(text: object) -> str:
    """Text with its control characters and invalid code points escaped, and without addresses."""
    text = _ADDRESS.sub("", str(text))
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shortened(text: str, longest: int) -> str:
    """Text of at most about `longest` characters; the middle of a longer one is left out."""
    end = longest // 4
    return text if len(text) <= longest else f"{text[: longest - end]} ... {text[-end:]}"


class _Short(reprlib.Repr):
    """`repr` that reads only the beginning of large values."""

    def repr_int(self, value: int, level: int) -> str:
        # Python refuses to print more digits than sys.get_int_max_str_digits().
        if value.bit_length() > 1_000:
            return f"an integer of {value.bit_length():,} bits"
        return repr(value)


_SHORT = _Short()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = _LONGEST_VALUE


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A suggestion for a mistyped name: the most similar known names, or all if none is similar.

    >>> did_you_mean("ViT-B_61", ["ViT-B_16", "ViT-H_14"])
    'did you mean ViT-B_16?'
    """
    known = list(known)
    similar = _similar(name, known)
    if similar:
        return f"did you mean {' or '.join(similar)}?"
    return f"choose one of {', '.join(known)}."


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most similar to a mistyped one; None if none is similar."""
    return next(iter(_similar(name, known)), None)


def _similar(name: str, known: Iterable[str]) -> list[str]:
    squeezed = {squeeze(word): word for word in known}
    matches = difflib.get_close_matches(squeeze(name), squeezed, n=3, cutoff=0.75)
    return [squeezed[match] for match in matches]


def squeeze(name: str) -> str:
    """A name in lower case without punctuation: "ViT-B_16" and "vit-b/16" both give "vitb16"."""
    return re.sub(r"[^a-z0-9+]", "", name.lower())


def is_installed(module: str) -> bool:
    """Whether a package is installed; it is not imported."""
    spec = importlib.util.find_spec(module)
    return spec is not None and spec.origin is not None  # a plain folder has a spec, but no origin


def check_installed(modules: Iterable[str], who: str = "this") -> None:
    """Checks that packages are installed.

    Args:
        modules: their names, keys of `PACKAGES`.
        who: who needs them, for the message.

    Raises:
        MissingPackageError: the message has one command that installs all missing packages.
    """
    missing = [PACKAGES[module] for module in modules if not is_installed(module)]
    if not missing:
        return
    needed: list[str] = []
    for _, extras in missing:
        if not set(extras) & set(needed):
            needed.append(extras[0])
    names = ", ".join(name for name, _ in missing)
    raise MissingPackageError(f"{who} needs {names}: pip install 'keras_vit[{','.join(needed)}]'")
