"""What the commands share: reading the line, one-line errors, exit codes, tables.

The one place in the package that parses arguments and prints.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from keras_vit._errors import DiskFullError, RefusedError, UsageError
from keras_vit._files import full_disk

_MOST_CLASSES = 20  # that are listed one by one


def run(command: Callable[[Any], None], arguments: type | Any, default: Any = None) -> None:
    """Reads the command line into a dataclass, runs `command` on it and exits.

    Exit codes: 0 done, 2 a mistake in what was asked for, 3 a result that misses its budget (each
    one line on standard error), 130 interrupted.
    """
    try:
        import tyro
    except ImportError:
        _fail("the commands need tyro: pip install 'keras_vit[train]'")
    with _one_line_errors():
        command(_parse(tyro, arguments, default))


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """What goes wrong while a command imports the library is one line too, as in `run`.

    A script imports the library before it can call `run`. Other programs get the error itself.
    """
    folder = Path(sys.argv[0] if sys.argv else "").absolute().parent
    beside = folder.parent / "keras_vit" / "__init__.py"  # also where another copy is installed
    is_command = folder.name in ("train", "export") and beside.is_file()
    with _one_line_errors() if is_command else contextlib.nullcontext():
        yield


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


def class_table(labels: Sequence[str], counts: Sequence[int]) -> str:
    """How many images each class has, a line each; of many classes the largest and smallest."""
    lines = list(zip(labels, [f"{count:,}" for count in counts], strict=True))
    if len(lines) > _MOST_CLASSES:
        order = sorted(range(len(lines)), key=lambda i: -counts[i])
        left_out = (f"... {len(lines) - _MOST_CLASSES} more ...", "")
        first, last = order[: _MOST_CLASSES // 2], order[-_MOST_CLASSES // 2 :]
        lines = [*(lines[i] for i in first), left_out, *(lines[i] for i in last)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(f"  {a.ljust(widths[0])}  {b.rjust(widths[1])}".rstrip() for a, b in lines)


def warn(message: str | None) -> None:
    """Prints a warning to standard error, where there is one."""
    if message:
        print(f"warning: {message}", file=sys.stderr, flush=True)


def positional(metavar: str, kind: Any = Path | None) -> Any:
    """The annotation of a path that is given by its place on the line; None where it is not given.

    Modules say so in annotations, which are read once tyro is there.
    """
    import tyro

    return Annotated[tyro.conf.Positional[kind], tyro.conf.arg(metavar=metavar)]


@contextlib.contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except (UsageError, OSError, ImportError) as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "tensorflow":
            _fail("this command needs TensorFlow: pip install 'keras_vit[tensorflow]'")
        # The list that follows a first line is for scripts; an error may also say nothing.
        _fail(_about_a_full_disk(error) or (str(error) or type(error).__name__).splitlines()[0])
    except RefusedError as error:
        _fail(str(error), code=3)
    except Exception as error:
        message = _about_a_full_disk(error)
        if message is None:
            raise
        _fail(message)
    except KeyboardInterrupt:
        print("\ninterrupted.", file=sys.stderr)
        sys.exit(130)


def _about_a_full_disk(error: Exception) -> str | None:
    # What is written for good is written by _files, which names it; the rest are temporary files.
    reason = None if isinstance(error, DiskFullError) else full_disk(error)
    if reason is None:
        return None
    path = getattr(error, "filename", None) or f"a temporary file in {tempfile.gettempdir()}"
    return f"{path} could not be written: {reason}; make room or set TMPDIR to another disk."


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
