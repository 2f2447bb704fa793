"""What the commands share: reading the line, one-line errors, exit codes, tables.

The one place in the package that parses arguments and prints.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

from keras_vit._errors import RefusedError, UsageError


def run(command: Callable[[Any], None], arguments: type | Any, default: Any = None) -> None:
    """Reads the command line into a dataclass, runs `command` on it and exits.

    Exit codes: 0 done, 2 a mistake in what was asked for, 3 a result that misses its budget (each
    one line on standard error), 130 interrupted.
    """
    try:
        import tyro
    except ImportError:
        _fail("the commands need tyro: pip install 'keras_vit[train]'")
    try:
        parsed = _parse(tyro, arguments, default)
        command(parsed)
    except (UsageError, OSError, ImportError) as error:
        # The list that follows a first line is for scripts; an error may also say nothing.
        _fail((str(error) or type(error).__name__).splitlines()[0])
    except RefusedError as error:
        _fail(str(error), code=3)
    except KeyboardInterrupt:
        print("\ninterrupted.", file=sys.stderr)
        sys.exit(130)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned text: the first column to the left, the others to the right."""
    cells = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = [
        "  ".join(
            c.ljust(w) if i == 0 else c.rjust(w)
            for i, (c, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def positional(metavar: str) -> Any:
    """The annotation of a path that is given by its place on the line; None where it is not given.

    Modules say so in annotations, which are read once tyro is there.
    """
    import tyro

    return Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar=metavar)]


def _parse(tyro: Any, arguments: type, default: Any) -> Any:
    told = io.StringIO()
    try:
        with contextlib.redirect_stderr(told):
            return tyro.cli(
                arguments,
                default=default,
                description=(sys.modules["__main__"].__doc__ or "").strip(),
                config=(tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff),
            )
    except SystemExit as stop:
        if not stop.code:
            raise
        # tyro frames its errors and adds help; the first paragraph in the frame says it all.
        lines = [line.strip("│ ") for line in told.getvalue().splitlines()[1:]]
        first = itertools.takewhile(lambda line: not line.startswith("─"), lines)
        # What a dataclass refuses, tyro prefixes with the dataclass's name.
        said = re.sub(r"^Error parsing \w+: ", "", " ".join(first)).rstrip(".")
        raise UsageError(f"{said}; --help lists the options.") from None


def _fail(message: str, code: int = 2) -> None:
    print(f"{Path(sys.argv[0]).name}: {message}", file=sys.stderr)
    sys.exit(code)
