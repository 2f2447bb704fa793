"""Ctrl-C at any moment of a command: one line and exit code 130.

While Keras and TensorFlow are imported, an exception would be swallowed or shown by whatever is
being imported. Nothing is written yet, so the process ends at once. After that Ctrl-C is a
KeyboardInterrupt, and the library removes what is unfinished.

keras_vit imports this module first, so that Ctrl-C is handled as early as possible. Python has
already loaded the modules that it imports. `_signal` is `signal` without its enums, which take 10
ms to import.
"""

from __future__ import annotations

import _signal as signal
import atexit
import os
import sys

EXIT_CODE = 130
_terminal = 2  # the descriptor of standard error, even while descriptor 2 is redirected
_INSISTS_AFTER = 2.0  # seconds
_interrupted = False
_answered = False
_ignores_at_the_end = False


def exit_on_interrupt(code: int = EXIT_CODE, message: str = "\ninterrupted.\n") -> None:
    """From now on Ctrl-C ends this process at once, unless it is ignored, as with nohup."""

    def end(number, frame):
        os.write(_terminal, message.encode())
        os._exit(code)

    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
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
            time.sleep(_INSISTS_AFTER)
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

    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
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


class writing_to:  # noqa: N801 (used like a function; contextlib is too slow to import here)
    """Sets the descriptor for the message of Ctrl-C while descriptor 2 is redirected."""

    def __init__(self, descriptor: int):
        self._descriptor = descriptor

    def __enter__(self) -> None:
        global _terminal
        self._before, _terminal = _terminal, self._descriptor

    def __exit__(self, *error: object) -> None:
        global _terminal
        _terminal = self._before
