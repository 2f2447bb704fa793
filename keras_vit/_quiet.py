"""Hides messages of other libraries, without hiding those of other threads."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import os
import re
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import IO

from keras_vit import _interrupts

_LEVEL = "TF_CPP_MIN_LOG_LEVEL"


@contextlib.contextmanager
def quiet() -> Iterator[int]:
    """Hides messages on standard error; in a script only if it has not set TensorFlow's log level.

    While they start, TensorFlow (its issue 100442) and LiteRT ignore TF_CPP_MIN_LOG_LEVEL and
    write to the file descriptor directly. The descriptor belongs to the whole process, and messages
    of other threads would be lost. It is therefore only redirected in a process that is a
    keras_vit command, or in the only thread of a process: otherwise nothing is hidden. The first
    thread that enters redirects it, and the last one that leaves restores it. If the body raises,
    the hidden messages are printed.

    Yields:
        A descriptor that still writes to the real standard error.
    """
    redirection = _enter()
    if redirection is None:
        yield 2
        return
    try:
        yield redirection.standard_error
    except Exception:
        redirection.failed = True
        raise
    finally:
        _leave(redirection)


def own_process() -> None:
    """Marks this process as a keras_vit command, in which no other code starts threads."""
    global _is_own_process
    _is_own_process = True


def ignore_warning(message: str, module: str) -> None:
    """Hides the warnings of a module that begin with a message, from now on.

    `warnings.catch_warnings` is not for several threads: it restores the filters of the whole
    process, so one thread undoes what others did, or leaves its own filter for good.

    Args:
        message: a regular expression.
        module: a regular expression for the module that the warning is attributed to.
    """
    warnings.filterwarnings("ignore", message, module=module)


def ignore_log(message: str, logger: str) -> None:
    """Hides the messages of a logger that begin with a message, from now on.

    Args:
        message: a regular expression.
        logger: the name of the logger.
    """
    logging.getLogger(logger).addFilter(_without(message))  # the same filter is added once


@functools.cache
def _without(message: str) -> Callable[[logging.LogRecord], bool]:
    """A filter of a logger."""
    return lambda record: re.match(message, record.getMessage()) is None


@dataclasses.dataclass
class _Redirection:
    level: str | None  # the old value
    standard_error: int
    hidden: IO[bytes]
    users: int = 0
    failed: bool = False


_lock = threading.Lock()
_current: _Redirection | None = None
_is_own_process = False


def _enter() -> _Redirection | None:
    global _current
    with _lock:
        if _current is None:
            if not _is_own_process and threading.active_count() > 1:
                return None
            level = os.environ.get(_LEVEL)
            # Importing JAX sets it to 1.
            is_users = level is not None and not (level == "1" and "jax" in sys.modules)
            if is_users and not _is_own_process:
                return None
            os.environ[_LEVEL] = "3"
            _current = _Redirection(level, os.dup(2), tempfile.TemporaryFile())  # noqa: SIM115
            os.dup2(_current.hidden.fileno(), 2)
            _interrupts.terminal = _current.standard_error
        _current.users += 1
        return _current


def _leave(redirection: _Redirection) -> None:
    global _current
    with _lock:
        redirection.users -= 1
        if redirection.users:
            return
        _current = None
        os.dup2(redirection.standard_error, 2)
        _interrupts.terminal = 2
        os.environ.pop(_LEVEL, None)  # so that later child processes do not inherit it
        if redirection.level is not None:
            os.environ[_LEVEL] = redirection.level
        with redirection.hidden as hidden:
            if redirection.failed:
                hidden.seek(0)
                os.write(redirection.standard_error, hidden.read())
        os.close(redirection.standard_error)
