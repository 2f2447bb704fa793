"""Errors that are the user's to mend: what was expected, what was received, what to do."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable


class UsageError(ValueError):
    """A mistake in what was asked for (a name, a file, a size), not a fault of the library.

    Commands print its one line and exit with 2; everywhere else it is a `ValueError`.
    """


class DiskFullError(OSError):
    """A file that could not be written for want of room; the message is one line with its path."""


class MissingPackageError(ImportError):
    """An optional package is not installed; the message is one line with the command to install it.

    A package that is installed but fails to import is another matter, and a plain `ImportError`.
    """


class RefusedError(RuntimeError):
    """A result that misses its budget. Commands print its one line and exit with 3."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A suggestion for a mistyped name: the nearest known ones, or all of them if none is near.

    >>> did_you_mean("ViT-B_61", ["ViT-B_16", "ViT-H_14"])
    'did you mean ViT-B_16?'
    """
    known = list(known)
    near = _near(name, known)
    return f"did you mean {' or '.join(near)}?" if near else f"choose one of {', '.join(known)}."


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that a mistyped one is nearest to; None if none is near."""
    return next(iter(_near(name, known)), None)


def _near(name: str, known: Iterable[str]) -> list[str]:
    spelled = {squeeze(word): word for word in known}
    near = difflib.get_close_matches(squeeze(name), spelled, n=3, cutoff=0.75)
    return [spelled[word] for word in near]


def squeeze(name: str) -> str:
    """A name without case and punctuation: "ViT-B_16" and "vit-b/16" are both "vitb16"."""
    return re.sub(r"[^a-z0-9+]", "", name.lower())
