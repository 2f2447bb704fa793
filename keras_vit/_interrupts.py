"""Ctrl-C at a safe point: after what would swallow it, never inside."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def deferred_interrupts() -> Iterator[Callable[[], None]]:
    """Yields a function that raises `KeyboardInterrupt` if Ctrl-C came since.

    An exception raised wherever the signal happens to arrive can be lost: Keras and TensorFlow
    call Python back from places that swallow it. A second Ctrl-C raises at once. Where the signal
    is ignored, and outside the main thread, where Python allows no handlers, nothing changes.
    """
    came = False

    def note(number, frame):
        nonlocal came
        if came:
            raise KeyboardInterrupt
        came = True

    def check():
        if came:
            raise KeyboardInterrupt

    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # as under nohup
    if ignored or threading.current_thread() is not threading.main_thread():
        yield check
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)
