"""Delays Ctrl-C until a point where the exception cannot get lost."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def deferred_interrupts() -> Iterator[Callable[[], None]]:
    """Yields a function that raises `KeyboardInterrupt` if Ctrl-C has been pressed.

    Keras and TensorFlow call Python from places that discard exceptions, so an exception raised
    where the signal arrives can be lost. A second Ctrl-C raises at once. Nothing changes where the
    signal is ignored, or outside the main thread, where Python allows no signal handlers.
    """
    interrupted = False

    def handler(number, frame):
        nonlocal interrupted
        if interrupted:
            raise KeyboardInterrupt
        interrupted = True

    def check():
        if interrupted:
            raise KeyboardInterrupt

    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # as under nohup
    if ignored or threading.current_thread() is not threading.main_thread():
        yield check
        return
    previous = signal.signal(signal.SIGINT, handler)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, previous)
