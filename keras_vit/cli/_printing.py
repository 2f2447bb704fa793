"""Tables and warnings on the terminal.

They are printed without rich: importing `rich.table` here would make `fit --help` slower by more
than a tenth, and lines in a log file must be plain. In a file, rich fits tables to 80 columns.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import Any

from keras_vit import data
from keras_vit.cli._arguments import with_flags
from keras_vit.cli._program import spelled

_MOST_CLASSES = 20  # more classes are summarised


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned text: the first column to the left, the others to the right."""
    cells = [header, *rows]
    first, *others = (max(map(len, column)) for column in zip(*cells, strict=True))
    lines = ["  ".join([row[0].ljust(first), *map(str.rjust, row[1:], others)]) for row in cells]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def class_table(labels: Sequence[str], counts: Sequence[int]) -> str:
    """One line with the number of images for each class, or only the largest and smallest ones."""
    lines = list(zip(labels, [f"{count:,}" for count in counts], strict=True))
    if len(lines) > _MOST_CLASSES:
        order = sorted(range(len(lines)), key=lambda i: -counts[i])
        left_out = (f"... {len(lines) - _MOST_CLASSES} more ...", "")
        first, last = order[: _MOST_CLASSES // 2], order[-_MOST_CLASSES // 2 :]
        lines = [*(lines[i] for i in first), left_out, *(lines[i] for i in last)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(f"  {a.ljust(widths[0])}  {b.rjust(widths[1])}".rstrip() for a, b in lines)


def warn(message: str | None, arguments: type | None = None) -> None:
    """Prints a warning to standard error, if there is one, with the flags of `arguments`."""
    if message:
        print(f"warning: {with_flags(message, arguments)}", file=sys.stderr)


def print_next(command: str, *words: object) -> None:
    """Prints the command that comes next, as it can be typed."""
    print(f"next:    {spelled(command)} {shlex.join(map(str, words))}")


def print_skipped(source: Any) -> None:
    """Prints to standard error which pictures of a `data.Source` were left out.

    After the first time it is only their number.
    """

    lines = data.skipped_summary(source)
    if lines and source.skipped_before:
        number = len(source.skipped)
        lines = [f"{number:,} file{'' if number == 1 else 's'}, as before"]
    for line in lines:
        print(f"skipped {line}", file=sys.stderr)
