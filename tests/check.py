"""The checks of `make check`: python tests/check.py [name ...]

The slow tests of both flavours of Keras come first; each other check runs programs as a user does.
If one fails, the others still run, and the exit code is 1. The last lines name the checks that were
skipped and those that failed, with the end of what the failed ones printed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import deque
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
    names = sys.argv[1:] or list(CHECKS)
    unknown = set(names) - CHECKS.keys()
    if unknown:
        sys.exit(f"expected names out of {', '.join(CHECKS)}. Received: {', '.join(unknown)}")
    failed, skipped = {}, []
    for name in names:
        print(f"\n== {name}", flush=True)
        start = time.monotonic()
        try:
            CHECKS[name]()
        except SkippedError as reason:
            print(f"== {name} skipped: {reason}", flush=True)
            skipped.append(name)
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


def slow() -> None:
    """The slow tests with Keras 3."""
    _pytest("slow", legacy=False)


def slow_tf_keras() -> None:
    """The slow tests with tf_keras."""
    _pytest("slow and not once", legacy=True)


def demo() -> None:
    """The demo of the README reaches its accuracy and writes four files."""
    _run("make", "demo")
    rows = _table("export")["rows"]
    assert [row["precision"] for row in rows] == ["float32", "float16", "dynamic", "int8"], rows
    for row in rows:
        assert row["accuracy"] >= 0.975, f"expected an accuracy of 0.975 or more. Received: {row}"


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


def runtimes() -> None:
    """Older TFLite runtimes run the demo's files. These runtimes need Python 3.11 or older."""
    if sys.version_info >= (3, 12):
        raise SkippedError("it needs Python 3.11 or older; see benchmarks/runtimes.py --python")
    _python("benchmarks/runtimes.py", "--run", RUN)


# The demo trains the run that those after it use.
_ALL = (
    slow, slow_tf_keras, demo, exports, compression, kills, resumes, interrupts, fuzz, wheel,
    runtimes,
)  # fmt: skip
CHECKS = {check.__name__: check for check in _ALL}


def _pytest(marks: str, legacy: bool) -> None:
    words = ("-q", "-n", os.environ.get("JOBS", "3"), "--dist", "worksteal", "--durations", "20")
    environment = os.environ | {"TF_USE_LEGACY_KERAS": str(int(legacy))}
    _run(sys.executable, "-m", "pytest", *words, "-m", marks, env=environment)


def _python(program: str, *arguments: str) -> None:
    _run(sys.executable, program, *arguments)


def _run(*command: str, env: dict[str, str] | None = None) -> None:
    """Runs a command and prints what it prints."""
    end: deque[str] = deque(maxlen=12)
    with subprocess.Popen(
        command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace",
    ) as process:  # fmt: skip
        for line in process.stdout:
            print(line, end="", flush=True)
            end.append(line.rstrip("\n"))
    if process.returncode:
        raise FailedError(f"{' '.join(command)} ended with {process.returncode}", list(end))


def _table(folder: str) -> dict:
    return json.loads((ROOT / RUN / folder / "table.json").read_text())


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
