"""Delays Ctrl-C and SIGTERM until a point where the exception cannot get lost."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator

# Seconds after which a program that was told to stop is called stuck.
_STUCK = 2.0
# The exit code of a program that saved its state and ended after SIGTERM: EX_TEMPFAIL of
# sysexits.h, "try again". A shell reports 143 for a program that SIGTERM killed.
TERMINATED = 75


class Terminated(SystemExit):
    """SIGTERM was received, which schedulers send before they end a job."""

    def __init__(self, message: str = ""):
        super().__init__(TERMINATED)
        self.message = message

    def __str__(self) -> str:
        return self.message


@contextlib.contextmanager
def deferred_interrupts(
    stuck: Callable[[], None] | None = None, terminate: bool = False
) -> Iterator[Callable[[], None]]:
    """Yields a function that raises `KeyboardInterrupt` if Ctrl-C has been pressed.

    Keras and TensorFlow call Python from places that discard exceptions, so an exception raised
    where the signal arrives can be lost. A second Ctrl-C raises at once. Nothing changes where the
    signal is ignored, or outside the main thread, where Python allows no signal handlers.

    Args:
        stuck: called in a thread if the function was not called within seconds after Ctrl-C.
        terminate: whether SIGTERM is delayed too; the function then raises `Terminated`.
    """
    received: list[type[BaseException]] = []
    answered = threading.Event()

    def handler(number, frame):
        kind = Terminated if number == signal.SIGTERM else KeyboardInterrupt
        if received:
            raise kind
        received.append(kind)

    def check():
        if received:
            answered.set()
            raise received[0]

    numbers = [signal.SIGINT, *([signal.SIGTERM] if terminate else [])]
    numbers = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    if threading.current_thread() is not threading.main_thread():
        numbers = []
    previous = {number: signal.signal(number, handler) for number in numbers}
    watched = stuck is not None and signal.SIGINT in numbers
    try:
        with _calling_if_stuck(stuck, answered) if watched else contextlib.nullcontext():
            yield check
    finally:
        answered.set()
        for number, before in previous.items():
            signal.signal(number, before)


@contextlib.contextmanager
def _calling_if_stuck(stuck: Callable[[], None], answered: threading.Event) -> Iterator[None]:
    """Calls `stuck` in a thread if nothing has `answered` seconds after Ctrl-C.

    Python runs a signal's handler only between two of its own instructions, and a step or its
    compilation may last minutes. But the system writes the signal's number to a file descriptor at
    once, where a thread waits for it.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def watch():
        while number := os.read(reader, 1):
            if number[0] == signal.SIGINT and not answered.wait(_STUCK):
                stuck()
        os.close(reader)

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writer)  # which ends the thread
