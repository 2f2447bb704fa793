"""Errors that are the user's to mend: what was expected, what was received, what to do."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable


class UsageError(ValueError):
    """A mistake in what was asked for (a name, a file, a size), not a fault of the library.

    Commands print its one line and exit with 2; everywhere else it is a `ValueError`.
    """


class RefusedError(RuntimeError):
    """A result that misses its budget. Commands print its one line and exit with 3."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A suggestion for a mistyped name: the nearest known ones, or all of them if none is near.

    >>> did_you_mean("ViT-B_61", ["ViT-B_16", "ViT-H_14"])
    'did you mean ViT-B_16?'
    """
    spelled = {squeeze(word): word for word in known}
    near = difflib.get_close_matches(squeeze(name), spelled, n=3, cutoff=0.75)
    if near:
        return f"did you mean {' or '.join(spelled[word] for word in near)}?"
    return f"choose one of {', '.join(spelled.values())}."


def squeeze(name: str) -> str:
    """A name without case and punctuation: "ViT-B_16" and "vit-b/16" are both "vitb16"."""
    return re.sub(r"[^a-z0-9+]", "", name.lower())
