"""The app's class on the phone that measures one backend, and the lines that it prints.

A shell starts it from the APK, which is not installed, as scrcpy does.
"""

from __future__ import annotations

import contextlib
import queue
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence

from msgspec import Struct

from keras_vit import _json
from keras_vit._errors import UsageError, one_line, shortened
from keras_vit.deploy.phone.adb import Adb
from keras_vit.deploy.phone.apk import MAIN
from keras_vit.tflite.phone_records import Cold, Golden, Interval, Times

FOLDER = "/data/local/tmp/keras-vit"  # on the phone
# In brackets, so that it does not find the shell that searches.
KILL = f"pkill -9 -f '[{MAIN[0]}]{MAIN[1:]}'"
_LONGEST_LINE, _MOST_LINES, _KEPT_LINES = 10_000, 5_000, 3


class Loaded(Cold, kw_only=True):
    """The model was loaded and has run once."""

    runtime: str
    delegated: int | None


class Refused(Struct):
    """The backend does not run the model, in the runtime's words."""

    runtime: str
    kind: str
    reason: _json.Text


class Line(Struct):
    """A line of the app: one of its fields, named after the step."""

    cold: Loaded | None = None
    golden: Golden | None = None
    warm: Times | None = None
    interval: Interval | None = None
    refused: Refused | None = None
    end: dict[str, str] | None = None


class BrokenAppError(UsageError):
    """The app ended before its last line, got stuck, or says what nobody understands."""


def measured_lines(
    adb: Adb, backend: str, threads: int, seconds: int, silent_s: float
) -> Iterator[Line]:
    """Starts the app for a backend; its lines, as they come. It is ended when they are closed.

    Args:
        adb: the phone, with the app in `FOLDER`.
        backend, threads, seconds: what is measured.
        silent_s: after so many seconds without a line it counts as stuck.

    Raises:
        BrokenAppError: there is no last line.
    """
    process = adb.start(
        f"CLASSPATH={FOLDER}/app.apk exec app_process -Djava.library.path={FOLDER}/lib "
        # JNA looks for a folder for its own files, of which it needs none.
        f"-Djava.io.tmpdir={FOLDER}/cache / {MAIN} {FOLDER} {backend} {threads} {seconds}"
    )
    others: list[str] = []
    try:
        for text in _received(process, silent_s):
            if not text.startswith("{"):
                others = [*others, text.strip()][-_KEPT_LINES:]
                continue
            line = _parsed(text)
            yield line
            if line.end is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(adb.limit_s)
                return
        raise BrokenAppError(_ended(process.wait(adb.limit_s), others))
    except subprocess.TimeoutExpired:
        raise BrokenAppError("the app closed its output and goes on") from None
    finally:
        process.kill()
        process.wait()


def _received(process: subprocess.Popen[str], silent_s: float) -> Iterator[str]:
    received: queue.Queue[str] = queue.Queue()

    def read() -> None:
        with process.stdout:
            for _ in range(_MOST_LINES):
                text = process.stdout.readline(_LONGEST_LINE)
                received.put(text)
                if not text:
                    return

    threading.Thread(target=read, daemon=True).start()
    for _ in range(_MOST_LINES):
        try:
            text = received.get(timeout=silent_s)
        except queue.Empty:
            raise BrokenAppError(f"the app says nothing for {silent_s:.0f} seconds") from None
        if not text:
            return
        yield text
    raise BrokenAppError("the app says more than it should")


def _parsed(text: str) -> Line:
    try:
        return _json.check(_json.parse(text, "its line"), "its line", Line, "build the app again")
    except UsageError as error:
        raise BrokenAppError(f"the app says something else than expected: {error}") from None


def _ended(code: int, others: Sequence[str]) -> str:
    # A shell adds 128 to the number of a signal.
    what = f"exit code {code}"
    with contextlib.suppress(ValueError):
        what = signal.Signals(code - 128).name
    said = shortened(one_line(" / ".join(filter(None, others))), 500)
    return f"the app ended with {what}{f': {said}' if said else ''}"
