"""Ctrl-C and SIGTERM: at any moment of a command, and in the library only at safe points.

In a command Ctrl-C is one line and exit code 130. While Keras and TensorFlow are imported, an
exception would be swallowed or shown by whatever is being imported. Nothing is written yet, so the
process ends at once. After that Ctrl-C is a KeyboardInterrupt, and the library removes what is
unfinished.

keras_vit imports this module first, so that Ctrl-C is handled as early as possible. Python has
already loaded the modules that it imports. `_signal` is `signal` without its enums, which take 10
ms to import; contextlib, threading and typing are imported later or not at all.
"""

from __future__ import annotations

import _signal as signal
import atexit
import os
import sys
from _collections_abc import Callable

EXIT_CODE = 130
# The exit code of a program that saved its state and ended after SIGTERM: EX_TEMPFAIL of
# sysexits.h, "try again". A shell reports 143 for a program that SIGTERM killed.
TERMINATED = 75
_STUCK = 2.0  # seconds after which a program that was told to stop is called stuck
terminal = 2  # the descriptor of standard error, even while `_quiet` redirects descriptor 2
_interrupted = False
_answered = False
_ignores_at_the_end = False


class Terminated(SystemExit):
    """SIGTERM was received, which schedulers send before they end a job."""

    def __init__(self, message: str = ""):
        super().__init__(TERMINATED)
        self.message = message

    def __str__(self) -> str:
        return self.message


class deferred_interrupts:  # noqa: N801 (used like a function)
    """A context that delays Ctrl-C to points where the exception cannot get lost.

    It gives a function that raises `KeyboardInterrupt` if Ctrl-C has been pressed. Keras and
    TensorFlow call Python from places that discard exceptions, so an exception raised where the
    signal arrives can be lost. A second Ctrl-C raises at once. Nothing changes where the signal is
    ignored, or outside the main thread, where Python allows no signal handlers.

    Args:
        stuck: called in a thread if the function was not called within seconds after Ctrl-C.
        terminate: whether SIGTERM is delayed too; the function then raises `Terminated`.
    """

    def __init__(self, stuck: Callable[[], None] | None = None, terminate: bool = False):
        import threading

        self._stuck, self._answered = stuck, threading.Event()
        self._received: list[type[BaseException]] = []
        numbers = [signal.SIGINT, *([signal.SIGTERM] if terminate else [])]
        is_main = threading.current_thread() is threading.main_thread()
        self._numbers = [n for n in numbers if is_main and not _is_ignored(n)]

    def __enter__(self) -> Callable[[], None]:
        self._writer = None
        if self._stuck is not None and signal.SIGINT in self._numbers:
            self._watch()
        self._previous = {number: signal.signal(number, self._note) for number in self._numbers}
        return self._check

    def __exit__(self, *error: object) -> None:
        self._answered.set()
        if self._writer is not None:
            signal.set_wakeup_fd(self._wakeup)
            os.close(self._writer)  # which ends the thread
        for number, before in self._previous.items():
            signal.signal(number, before)

    def _note(self, number: int, frame: object) -> None:
        kind = Terminated if number == signal.SIGTERM else KeyboardInterrupt
        if self._received:
            raise kind
        self._received.append(kind)

    def _check(self) -> None:
        if self._received:
            self._answered.set()
            raise self._received[0]

    def _watch(self) -> None:
        """Calls `stuck` in a thread if nothing has `answered` seconds after Ctrl-C.

        Python runs a signal's handler only between two of its own instructions, and a step or its
        compilation may last minutes. But the system writes the signal's number to a file descriptor
        at once, where a thread waits for it.
        """
        import threading

        reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)

        def watch():
            while number := os.read(reader, 1):
                if number[0] == signal.SIGINT and not self._answered.wait(_STUCK):
                    self._stuck()
            os.close(reader)

        threading.Thread(target=watch, daemon=True).start()


def _is_ignored(number: int) -> bool:
    """Whether a signal is ignored, as Ctrl-C is with nohup."""
    return signal.getsignal(number) is signal.SIG_IGN


def exit_on_interrupt(code: int = EXIT_CODE, message: str = "\ninterrupted.\n") -> None:
    """From now on Ctrl-C ends this process at once, unless it is ignored."""

    def end(number, frame):
        os.write(terminal, message.encode())
        os._exit(code)

    if not _is_ignored(signal.SIGINT):
        signal.signal(signal.SIGINT, end)
        _ignore_at_the_end()


def raise_on_interrupt() -> None:
    """From now on Ctrl-C is a KeyboardInterrupt in the main thread.

    Libraries have places that swallow it. So it is raised again and again until `answered`.
    """
    import _thread
    import threading
    import time

    main = threading.main_thread().ident

    def note(number, frame):
        global _interrupted
        if not _interrupted:
            _interrupted = True
            # Not threading.Thread: the main thread may hold a lock that starting it needs.
            _thread.start_new_thread(insist, ())
        raise KeyboardInterrupt

    def insist():
        while not _answered:
            time.sleep(_STUCK)
            if not _answered and hasattr(signal, "pthread_kill"):
                signal.pthread_kill(main, signal.SIGINT)  # also ends a wait, such as time.sleep
            elif not _answered:
                _thread.interrupt_main()

    def again(unraisable):
        # Python ignores exceptions in destructors and C callbacks, so it is raised again.
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            threading.Timer(0.01, _thread.interrupt_main).start()
        else:
            sys.__unraisablehook__(unraisable)

    if not _is_ignored(signal.SIGINT):
        signal.signal(signal.SIGINT, note)
        sys.unraisablehook = again


def answered() -> None:
    """Ctrl-C has reached the end of the command; from now on it is ignored."""
    global _answered
    if _interrupted:
        _answered = True
        # Not SIG_IGN: Python would complain of a signal that it has just received.
        signal.signal(signal.SIGINT, lambda number, frame: None)


def _ignore_at_the_end() -> None:
    """From when Python has nothing left to do, Ctrl-C is ignored.

    It gives up its handlers long before it ends, and Ctrl-C would kill it. The function that is
    registered first runs last, so only the first call counts.
    """
    global _ignores_at_the_end
    if not _ignores_at_the_end:
        _ignores_at_the_end = True
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)


def was_interrupted() -> bool:
    """Whether Ctrl-C was pressed; libraries may turn its KeyboardInterrupt into another error."""
    return _interrupted
