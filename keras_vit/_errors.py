"""Errors that the user can fix. Each says what was expected, what was received, what to do."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable


class UsageError(ValueError):
    """A mistake of the user (a wrong name, file or size), not a bug in the library.

    Commands print its message, one line, and exit with 2. In Python it is a `ValueError`.
    """


class DiskFullError(OSError):
    """The disk is full, so a file could not be written; the message is one line with its path."""


class MissingPackageError(ImportError):
    """An optional package is not installed; the message is one line with the command to install it.

    A package that is installed but fails to import raises its own `ImportError` instead.
    """


class RefusedError(RuntimeError):
    """Results miss their budget. Commands print the message, a line for each, and exit with 3."""


class LostProcessError(RuntimeError):
    """Another process of the same training ended. Commands print the message and exit with 1."""


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
