"""Runs a command: reads its arguments, imports, prints errors in one line, sets the exit code.

Exit codes: 0 done, 1 a bug, with its traceback, or training that lost one of its processes, 2 a
mistake of the user, 3 a result over its budget, 75 ended by SIGTERM after the state was saved, 130
interrupted by Ctrl-C, 141 if nobody reads the output any more.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from keras_vit import _errors, _interrupts
from keras_vit._files import full_disk
from keras_vit._quiet import ignore_warning, own_process, quiet
from keras_vit.cli import COMMANDS, _arguments, is_command
from keras_vit.cli._arguments import command_module, with_flags

# If these errors have a path, they are about a file or folder of the user.
_FILE_ERRORS = (
    FileExistsError,
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)

# The messages of these errors may name arguments of Python.
_WITH_ARGUMENTS = (_errors.LostProcessError, _errors.RefusedError, _errors.UsageError)
# The exit code of other mistakes of the user is 2.
_EXIT_CODES = {_errors.RefusedError: 3, _errors.LostProcessError: 1}
_has_others = False  # whether other processes train with this one


def run_command(name: str | None, words: Sequence[str]) -> None:
    """Runs the command `name`, or the one that the first word names, and exits."""
    if name is None:
        with _one_line_errors(""):
            name, words = _chosen(words)
    command = command_module(name)
    defaults = getattr(command, "defaults", None)
    run(command.run, command.Arguments, command.__doc__, name, words, defaults)


def run(
    command: Callable[[Any], None],
    arguments: type,
    description: str | None = None,
    name: str = "",
    words: Sequence[str] | None = None,
    defaults: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
) -> None:
    """Reads the command line into the dataclass `arguments`, runs `command` on it and exits.

    Args:
        command: does the work.
        arguments: its options, a dataclass (see `_arguments`).
        description: a description for --help; None for the main module's docstring.
        name: name of the command; empty for a script that is not in `COMMANDS`.
        words: the command line; None for that of this process.
        defaults: defaults that depend on the given values, see `_arguments.read`.
    """
    words = sys.argv[1:] if words is None else words
    description = description or sys.modules["__main__"].__doc__ or ""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 (None if it is closed)
    sys.stdout.reconfigure(line_buffering=True)  # a file or a pipe shows the progress, too
    with _one_line_errors(name, arguments, _arguments.TRACEBACK.flag in words):
        command(_arguments.read(arguments, words, defaults, spelled(name), description))
        sys.stdout.flush()
    if is_command():
        _interrupts.exit_on_interrupt(code=0, message="")  # the work is done


def load(*modules: str) -> None:
    """Imports the modules that a command needs, and hides TensorFlow's messages.

    Until it returns, Ctrl-C ends a command at once; afterwards it raises an exception.

    Raises:
        MissingPackageError: a package is not installed.
    """
    packages = dict.fromkeys(module.partition(".")[0] for module in modules)
    known = (package for package in packages if package in _errors.PACKAGES)
    _errors.check_installed(known, "this command")
    if is_command():
        own_process()
        # Pillow warns of each damaged tag of EXIF, of which there may be thousands.
        ignore_warning("", r"PIL\.TiffImagePlugin")
        gc.disable()  # a full collection among TensorFlow's objects takes 0.2 s
    with _progress("starting ..."), quiet():
        for module in ("keras_vit._public", *modules):
            import_module(module)
    if is_command():
        gc.freeze()
        gc.enable()
        _interrupts.raise_on_interrupt()


def spelled(command: str = "") -> str:
    """A command as the user would type it: "keras-vit fit" or "python train/fit.py".

    Without a command it is the current program.
    """
    program = Path(sys.argv[0])
    if program.suffix != ".py":
        return f"keras-vit {command}".rstrip()
    if program.name == "__main__.py":
        return f"python -m keras_vit {command}".rstrip()
    script = program.absolute().parents[1] / COMMANDS[command] if command else program
    return f"python {min(str(script), os.path.relpath(script), key=len)}"


def train_with_others() -> None:
    """From now on an error ends this process at once, without waiting for the other processes."""
    global _has_others
    _has_others = True


def exit_interrupted(message: str, arguments: type) -> None:
    """Ends this process at once, as after Ctrl-C, without waiting for any thread.

    Args:
        message: what was saved, in the words of the library.
        arguments: the options of the command.
    """
    message = with_flags(message, arguments)
    os.write(2, f"\ninterrupted; {message}.\n".encode())
    os._exit(_interrupts.EXIT_CODE)


def _chosen(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The command that the first word names, and the other words."""
    if words and words[0] == "help":
        words = [*words[1:2], "--help"]
    if not words or words[0] in ("-h", "--help"):
        print(_overview())
        sys.exit(0)
    if words[0] == "--version":
        print(import_module("keras_vit").__version__)
        sys.exit(0)
    if words[0] not in COMMANDS:
        raise _errors.UsageError(
            f"there is no command {words[0]!r}; {_errors.did_you_mean(words[0], COMMANDS)}"
        )
    return words[0], words[1:]


def _overview() -> str:
    width = max(map(len, COMMANDS))
    lines = []
    for name in COMMANDS:
        first_line, *_ = command_module(name).__doc__.splitlines()
        lines.append(f"  {name.ljust(width)}  {first_line}")
    program, commands = spelled(), "\n".join(lines)
    return (
        f"usage: {program} COMMAND [options]\n\nVision Transformers for Keras, from pre-training "
        f"to the phone.\n\n{commands}\n\n{program} COMMAND --help lists the options of a "
        f"command,\n{program} --version prints the version."
    )


@contextlib.contextmanager
def _progress(message: str) -> Iterator[None]:
    """Shows a message on a terminal while the body runs."""
    if not sys.stderr.isatty():
        yield
        return
    print(message, end="\r", file=sys.stderr)
    try:
        yield
    finally:
        print(" " * len(message), end="\r", file=sys.stderr)


@contextlib.contextmanager
def _one_line_errors(
    command: str, arguments: type | None = None, show_traceback: bool = False
) -> Iterator[None]:
    try:
        yield
    except (KeyboardInterrupt, _interrupts.Terminated) as error:
        is_terminated = isinstance(error, _interrupts.Terminated)
        _interrupted(with_flags(str(error), arguments), is_terminated)
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(141)  # as a program that SIGPIPE ends
    except Exception as error:
        message = _message(error)
        if message is None:
            if _interrupts.was_interrupted():
                _interrupted()
            raise
        if show_traceback:
            traceback.print_exc()
        if isinstance(error, _WITH_ARGUMENTS):
            message = with_flags(message, arguments)
        program = spelled(command)
        if program.startswith("python ") and not program.startswith("python -m"):
            program = Path(sys.argv[0]).name
        print(f"{program}: {message}", file=sys.stderr)
        code = next((code for kind, code in _EXIT_CODES.items() if isinstance(error, kind)), 2)
        _exit(code, at_once=_has_others)


def _interrupted(message: str = "", is_terminated: bool = False) -> NoReturn:
    _interrupts.answered()
    what = "terminated" if is_terminated else "interrupted"
    print(f"\n{what}{f'; {message}' if message else ''}.", file=sys.stderr)
    code = _interrupts.TERMINATED if is_terminated else _interrupts.EXIT_CODE
    # At once: while Python ends, TensorFlow may wait for ever for threads that read data.
    _exit(code, at_once=is_command())


def _exit(code: int, at_once: bool) -> NoReturn:
    if at_once:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _message(error: Exception) -> str | None:
    """The message for an error of the user; None for any other error."""
    path = getattr(error, "filename", None)
    if isinstance(error, _errors.RefusedError | _errors.LostProcessError):
        return str(error)
    if not isinstance(error, _errors.DiskFullError) and (reason := full_disk(error)):
        # Errors of _files name the file that is written; without a name it is a temporary file.
        path = path or f"a temporary file in {tempfile.gettempdir()}"
        return f"{path} could not be written: {reason}; make room or set TMPDIR to another disk."
    if isinstance(error, _errors.UsageError | _errors.MissingPackageError | _errors.DiskFullError):
        # Further lines are details for programs; the message may be empty.
        return (str(error) or type(error).__name__).splitlines()[0]
    if isinstance(error, ModuleNotFoundError) and error.name in _errors.PACKAGES:
        name, extras = _errors.PACKAGES[error.name]
        return f"this command needs {name}: pip install 'keras_vit[{extras[0]}]'"
    if isinstance(error, _FILE_ERRORS) and path is not None:
        # It may also be a bug: see the traceback.
        return f"{path}: {error.strerror} ({_arguments.TRACEBACK.flag} shows where)."
    return None
