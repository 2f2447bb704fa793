"""Markdown of texts that come from outside, such as the names of classes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any


def code(text: Any) -> str:
    """Any text as a code span of one line, so that nothing in it is markup, a link or a mention."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split()) or "?"
    fence = "`" * (max(map(len, re.findall("`+", plain)), default=0) + 1)
    pad = " " if "`" in (plain[0], plain[-1]) else ""
    return f"{fence}{pad}{plain}{pad}{fence}"


def table_lines(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table: the first column to the left, the others to the right."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [[*header], ["---", *["---:"] * (len(header) - 1)], *cells]
    return [f"| {' | '.join(line)} |" for line in lines]
