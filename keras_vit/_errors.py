"""The error that is the user's to mend: one line with what was expected, received, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UsageError(ValueError):
    """A mistake in what was asked for (a name, a file, a size), not a fault of the library.

    Commands print its one line and exit with 2; everywhere else it is a `ValueError`.
    """


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A suggestion for a mistyped name: the nearest known ones, or all of them if none is near.

    >>> did_you_mean("ViT-B_61", ["ViT-B_16", "ViT-H_14"])
    'did you mean ViT-B_16?'
    """
    known = list(known)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.7)
    return f"did you mean {' or '.join(near)}?" if near else f"choose one of {', '.join(known)}."
