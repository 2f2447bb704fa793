"""What the commands share: reading the line, one-line errors, exit codes, tables.

The one place in the package that parses arguments and prints.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from keras_vit._errors import UsageError


def run(command: Callable[[Any], int | None], arguments: type | Any, default: Any = None) -> None:
    """Reads the command line into a dataclass, runs `command` on it and exits.

    Exit codes: 0 done, 2 a mistake in what was asked for (one line on standard error), 130
    interrupted, otherwise what `command` returns.
    """
    try:
        import tyro
    except ImportError:
        _fail("the commands need tyro: pip install 'keras_vit[train]'")
    parsed = tyro.cli(
        arguments,
        default=default,
        description=(sys.modules["__main__"].__doc__ or "").strip(),
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.FlagConversionOff)
    )
    try:
        code = command(parsed)
    except UsageError as error:
        _fail(str(error))
    except (OSError, ImportError) as error:
        _fail(str(error))
    except KeyboardInterrupt:
        print("\ninterrupted.", file=sys.stderr)
        sys.exit(130)
    sys.exit(code or 0)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned text: the first column to the left, the others to the right."""
    cells = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = [
        "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in cells
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def _fail(message: str) -> None:
    print(f"{sys.argv[0].rsplit('/', 1)[-1]}: {message}", file=sys.stderr)
    sys.exit(2)
