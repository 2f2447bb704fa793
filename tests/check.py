"""The checks of `make check`: python tests/check.py [name ...] [--minutes N]

Most checks run programs as a user does. Those that take longest come last: the slow tests of both
flavours of Keras. If one fails, the others still run, and the exit code is 1.
The last lines name the checks that were skipped and those that failed, with the end of what the
failed ones printed.

With --minutes, the check that runs when the time is over is interrupted, and no other one starts:
these count as skipped, unless a test had failed before.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from keras_vit.deploy.precisions import PRECISIONS

ROOT = Path(__file__).parents[1]
RUN = "runs/demo"
# {file: (largest loss of accuracy in points, largest fraction of the compressed float32 file)}
COMPRESSED = {
    "qat-int4": (0.7, 0.25),
    "prune-float32": (1.0, 0.65),
    "cluster-float32": (1.0, 0.35),
}


class SkippedError(Exception):
    """A check that cannot run here, with the reason."""


class FailedError(Exception):
    """A command failed; `end` has the last lines that it printed."""

    def __init__(self, message: str, end: list[str]):
        super().__init__(message)
        self.end = end


def main() -> None:
    parser = argparse.ArgumentParser(description="The checks of `make check`.")
    parser.add_argument("names", nargs="*", help=f"out of {', '.join(CHECKS)} (default: all)")
    parser.add_argument("--minutes", type=float, help="for all of them (default: no limit)")
    options = parser.parse_args()
    if unknown := set(options.names) - CHECKS.keys():
        parser.error(f"expected names out of {', '.join(CHECKS)}. Received: {', '.join(unknown)}")
    if options.minutes is not None:
        _end.append(time.monotonic() + 60 * options.minutes)
    failed, skipped = {}, []
    for name in options.names or CHECKS:
        print(f"\n== {name}", flush=True)
        start = time.monotonic()
        try:
            _check_time()
            CHECKS[name]()
        except SkippedError as reason:
            print(f"== {name} skipped: {reason}", flush=True)
            skipped.append(f"{name} ({reason})")
        except Exception as error:  # a failed demo leaves no table, for example
            print(f"== {name} FAILED: {error!r}", flush=True)
            failed[name] = "\n".join([*getattr(error, "end", ()), repr(error)])
        else:
            print(f"== {name}: {time.monotonic() - start:.0f} s", flush=True)
    if skipped:
        print(f"\nskipped: {', '.join(skipped)}", flush=True)
    for name, end in failed.items():
        print(f"\n== the end of {name}\n{end}", flush=True)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def demo() -> None:
    """The demo of the README reaches its accuracy and writes four files."""
    _run("make", "demo")
    rows = _table("export")["rows"]
    assert [row["precision"] for row in rows] == ["float32", "float16", "dynamic", "int8"], rows
    for row in rows:
        assert row["accuracy"] >= 0.975, f"expected an accuracy of 0.975 or more. Received: {row}"


def docs() -> None:
    """The documents are built without a warning, and their pages open without an error."""
    _run("make", "docs")
    if not all(map(shutil.which, ("node", "npm", "chromium"))):
        raise SkippedError("built; to open its pages, install Chromium and Node.js: make web-setup")
    _run("make", "docs-test")


def exports() -> None:
    """Every precision of the demo's run is within its budget, and the command exits with 0."""
    out = f"{RUN}/every"
    _python("export/to_tflite.py", "--run", RUN, "--out", out, "--quantize", *PRECISIONS)
    table = _table("every")
    assert (len(table["rows"]), table["refused"]) == (len(PRECISIONS), {}), table["refused"]


def compression() -> None:
    """Compressed files of the demo's run are as small and as accurate as docs/export.md states."""
    _python("export/compress.py", "--run", RUN, "--method", "qat", "prune", "cluster")
    rows = {row["name"]: row for row in _table("compressed")["rows"]}
    for name, (points, fraction) in COMPRESSED.items():
        lost = 100 * (rows["none-float32"]["accuracy"] - rows[name]["accuracy"])
        left = rows[name]["deflated_ratio"]
        print(f"{name}: {lost:.2f} points lost, {left:.3f} of the compressed file left")
        assert lost <= points, f"{name}: expected at most {points} points. Received: {lost:.2f}"
        assert left <= fraction, f"{name}: expected at most {fraction} left. Received: {left:.3f}"


def kills() -> None:
    """Exports that are killed, most of them in a write, leave complete bundles."""
    _python("tests/commands/kill_exports.py", "--run", RUN, "--kills", "8", "--in-writes", "4")


def resumes() -> None:
    """Trainings that are killed and resumed end with the files of one that was not."""
    _python("tests/commands/kill_training.py", "--kills", "3", "--in-writes", "1")


def interrupts() -> None:
    """Ctrl-C at any moment prints one line and ends the command within 5 seconds."""
    _python("tests/commands/interrupt_commands.py", "--run", RUN, "--step", "1", "--random", "4")


def fuzz() -> None:
    """Damaged files of every kind give a short error, quickly and with little memory."""
    _python("tests/fuzz/fuzz.py", "--seconds", "60", "--seed", "0")


def wheel() -> None:
    """The built wheel works in an empty environment."""
    _python("tests/commands/check_wheel.py")


def notebooks() -> None:
    """Every notebook of examples/ runs to its last cell."""
    for path in sorted((ROOT / "examples").glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:  # what it writes is removed
            copy = shutil.copy(path, folder)
            _python("-m", "jupyter", "execute", "--inplace", "--timeout=1200", copy)


def clients() -> None:
    """MediaPipe and other clients run the demo's files. They need Python 3.11 or older."""
    if sys.version_info >= (3, 12):
        raise SkippedError("it needs Python 3.11 or older; see benchmarks/clients.py --python")
    _python("benchmarks/clients.py", "--run", RUN, "--images", "60")


def runtimes() -> None:
    """Older TFLite runtimes run the demo's files. These runtimes need Python 3.11 or older."""
    if sys.version_info >= (3, 12):
        raise SkippedError("it needs Python 3.11 or older; see benchmarks/runtimes.py --python")
    _python("benchmarks/runtimes.py", "--run", RUN)


def slow() -> None:
    """The slow tests with Keras 3."""
    _pytest("slow", legacy=False)


def slow_tf_keras() -> None:
    """The slow tests with tf_keras."""
    _pytest("slow and not once", legacy=True)


# The demo trains the run that those after it use.
_ALL = (
    demo, docs, exports, wheel, notebooks, kills, resumes, interrupts, fuzz, runtimes, compression,
    clients, slow, slow_tf_keras,
)  # fmt: skip
CHECKS = {check.__name__: check for check in _ALL}
_end: list[float] = []  # the monotonic time when no check may run any more, if there is one


def _pytest(marks: str, legacy: bool) -> None:
    words = ("-q", "-n", os.environ.get("JOBS", "3"), "--dist", "worksteal", "--durations", "20")
    environment = os.environ | {"TF_USE_LEGACY_KERAS": str(int(legacy))}
    _run(sys.executable, "-m", "pytest", *words, "-m", marks, env=environment)


def _python(program: str, *arguments: str) -> None:
    _run(sys.executable, program, *arguments)


def _run(*command: str, env: dict[str, str] | None = None) -> None:
    """Runs a command and prints what it prints. It is interrupted when the time is over."""
    end, failures = deque(maxlen=12), []
    with subprocess.Popen(
        command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", start_new_session=True,
    ) as process, _ended(process):  # fmt: skip
        for line in process.stdout:
            print(line, end="", flush=True)
            end.append(line.rstrip("\n"))
            failures += [line] if line.startswith("FAILED ") else []
        process.wait()
    if process.returncode:
        if not failures:
            _check_time()
        raise FailedError(f"{' '.join(command)} ended with {process.returncode}", list(end))


@contextlib.contextmanager
def _ended(process: subprocess.Popen) -> Iterator[None]:
    """Interrupts the process and its children when the time is over; leaves none of them behind."""
    send = functools.partial(_signal, process.pid)
    seconds = _end[0] - time.monotonic() if _end else 0.0
    timers = [
        threading.Timer(seconds + grace, send, (number,))
        for number, grace in ((signal.SIGINT, 0), (signal.SIGKILL, 60))
        if _end
    ]
    for timer in timers:
        timer.start()
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()
        send(signal.SIGTERM)


def _signal(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # all have ended
        os.killpg(group, number)


def _check_time() -> None:
    if _end and time.monotonic() >= _end[0]:
        raise SkippedError("the time was over")


def _table(folder: str) -> dict:
    return json.loads((ROOT / RUN / folder / "table.json").read_text())


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
