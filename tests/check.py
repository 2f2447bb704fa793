"""The checks of `make check` and the soaks of `make soak`: python tests/check.py [name ...]

Most run programs as a user does. A soak proves by repetition; with --soak-of, the hash of a commit
chooses one of them, so that each is met from time to time. If one fails, the others still run, and
the exit code is 1. The last lines name the soak that was chosen, what was skipped and what failed,
with the end of what it printed.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
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


def main() -> None:
    every = {**CHECKS, **SOAKS}
    parser = argparse.ArgumentParser(description="The checks of `make check` and `make soak`.")
    parser.add_argument("names", nargs="*", help=f"out of {', '.join(every)} (default: {_DEFAULT})")
    parser.add_argument("--soaks", action="store_true", help=f"run {', '.join(SOAKS)}")
    parser.add_argument(
        "--soak-of", metavar="COMMIT", type=commit_hash, help="run the soak that its hash chooses"
    )
    options = parser.parse_args()
    if unknown := set(options.names) - every.keys():
        parser.error(f"expected names out of {', '.join(every)}. Received: {', '.join(unknown)}")
    if options.soak_of is not None:
        names = soaks_of(options.soak_of)
    else:
        names = options.names or (SOAKS if options.soaks else CHECKS)
    failed, skipped = {}, {}
    for name in names:
        print(f"\n== {name}", flush=True)
        start = time.monotonic()
        _failures.clear()
        try:
            every[name]()
        except SkippedError as reason:
            skipped[name] = reason
        except Exception as error:  # a failed demo leaves no table, for example
            _failures.append(repr(error))
        if _failures:
            failed[name] = _failures[0]
        print(f"== {name}: {time.monotonic() - start:.0f} s", flush=True)
        if options.soak_of is not None and name not in skipped:
            others = ", ".join(each for each in SOAKS if each != name)
            print(f"\nsoak of this commit: {name} (make soak also runs {others})", flush=True)
            break
    if skipped:
        reasons = ", ".join(f"{name} ({reason})" for name, reason in skipped.items())
        print(f"\nskipped: {reasons}", flush=True)
    for name, end in failed.items():
        print(f"\n== the end of {name}\n{end}", flush=True)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def commit_hash(text: str) -> int:
    """The number that a commit's hash writes."""
    return int(text, 16)


def soaks_of(commit: int) -> list[str]:
    """The soak that a commit's hash chooses, then those that replace it where it cannot run."""
    first = commit % len(SOAKS)
    return [*SOAKS][first:] + [*SOAKS][:first]


def demo() -> None:
    """The demo of the README reaches its accuracy and writes four files."""
    _run("make", "demo")
    rows = _table("export")["rows"]
    assert [row["precision"] for row in rows] == ["float32", "float16", "dynamic", "int8"], rows
    for row in rows:
        assert row["accuracy"] >= 0.975, f"expected an accuracy of 0.975 or more. Received: {row}"


def demo_dense() -> None:
    """The demo of masks reaches its mean IoU, and its files lose at most two points of it."""
    _run("make", "demo-dense")
    rows = _table("export", f"{RUN}-dense")["rows"]
    assert [row["precision"] for row in rows] == ["float32", "float16", "dynamic", "int8"], rows
    for row in rows:
        assert row["largest_drop"] < 2, f"expected less than 2 points lost. Received: {row}"
        assert row["partitions"] == 1, f"expected one XNNPACK partition. Received: {row}"


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


def wheel() -> None:
    """The built wheel works in an empty environment."""
    _python("tests/commands/check_wheel.py")


def clients() -> None:
    """MediaPipe and other clients run the demos' files. They need Python 3.11 or older."""
    if sys.version_info >= (3, 12):
        raise SkippedError("it needs Python 3.11 or older; see benchmarks/clients.py --python")
    _python("benchmarks/clients.py", "--run", RUN, "--images", "60")
    _python("benchmarks/segmenter_clients.py", "--run", f"{RUN}-dense", "--images", "20")


def slow() -> None:
    """The slow tests with Keras 3."""
    _pytest("slow and not soak", legacy=False)


def slow_tf_keras() -> None:
    """The slow tests of what depends on the flavour of Keras, with tf_keras."""
    _pytest("slow and flavours and not soak", legacy=True)


def compression() -> None:
    """Compressed files of the demo's run are as good as docs/evidence-export.md states."""
    _soak_tests("compression")
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
    _soak_tests("kills")


def resumes() -> None:
    """Runs that are killed and resumed end with the files of one that was not."""
    _python("tests/commands/kill_training.py", "--kills", "3", "--in-writes", "1")
    _soak_tests("resumes")


def interrupts() -> None:
    """Ctrl-C at any moment prints one line and ends the command within 5 seconds."""
    _python("tests/commands/interrupt_commands.py", "--run", RUN, "--step", "1", "--random", "4")


def fuzz() -> None:
    """Damaged files of every kind give a short error, quickly and with little memory."""
    _python("tests/fuzz/fuzz.py", "--seconds", "60", "--seed", "0")
    _soak_tests("fuzz")


def notebooks() -> None:
    """Every notebook of examples/ runs to its last cell."""
    for path in sorted((ROOT / "examples").glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:  # what it writes is removed
            copy = shutil.copy(path, folder)
            _python("-m", "jupyter", "execute", "--inplace", "--timeout=1200", copy)


def devices() -> None:
    """Runs on several devices and in several processes, some of which fail, end alike."""
    _soak_tests("devices")


def trainings() -> None:
    """Every recipe trains, and so do variations and compiled steps."""
    _soak_tests("trainings")


def benchmarks() -> None:
    """The benchmarks run on small models."""
    _soak_tests("benchmarks")


def forms() -> None:
    """Every screen of the app in each of five forms."""
    _app_tests("forms")


def dex() -> None:
    """The tests of the app's core on what R8 made of it."""
    _app_tests("dex")


def start() -> None:
    """The app of the shipped dex starts and checks a model."""
    _app_tests("start")


def libraries() -> None:
    """A program outside the repository runs on the libraries that it publishes."""
    _app_tests("libraries")


def runtimes() -> None:
    """Older TFLite runtimes run the demo's files. These runtimes need Python 3.11 or older."""
    if sys.version_info >= (3, 12):
        raise SkippedError("it needs Python 3.11 or older; see benchmarks/runtimes.py --python")
    _python("benchmarks/runtimes.py", "--run", RUN)


# The demo trains the run that those after it use.
CHECKS = {
    check.__name__: check
    for check in (demo, demo_dense, docs, exports, clients, wheel, slow, slow_tf_keras)
}
SOAKS = {
    soak.__name__: soak
    for soak in (
        kills, interrupts, resumes, fuzz, devices, trainings, compression, benchmarks, runtimes,
        notebooks, forms, dex, start, libraries,
    )
}  # fmt: skip
_DEFAULT = ", ".join(CHECKS)
_NO_TESTS = 5  # pytest's exit code
_failures: list[str] = []  # the ends of what the commands of a check printed that failed


def _pytest(marks: str, legacy: bool, accepted: tuple[int, ...] = (0,)) -> None:
    words = ("-q", "-n", os.environ.get("JOBS", "3"), "--dist", "worksteal", "--durations", "20")
    environment = os.environ | {"TF_USE_LEGACY_KERAS": str(int(legacy))}
    _run(sys.executable, "-m", "pytest", *words, "-m", marks, env=environment, accepted=accepted)


def _soak_tests(name: str) -> None:
    """The tests that are marked with the name of a soak; with tf_keras, too, if there are any."""
    marks = f'soak(of="{name}")'
    _pytest(marks, legacy=False)
    _pytest(f"{marks} and flavours", legacy=True, accepted=(0, _NO_TESTS))


def _app_tests(name: str) -> None:
    if not shutil.which("mvn"):
        raise SkippedError("it needs Debian packages: make android-setup")
    _run("python3", "android_demo/tools/test_app.py", name)


def _python(program: str, *arguments: str) -> None:
    _run(sys.executable, program, *arguments)


def _run(
    *command: str, env: dict[str, str] | None = None, accepted: tuple[int, ...] = (0,)
) -> None:
    """Runs a command in the clone and prints what it prints; the check goes on if it fails."""
    end = deque(maxlen=12)
    with subprocess.Popen(
        command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace",
    ) as process:  # fmt: skip
        for line in process.stdout:
            print(line, end="", flush=True)
            end.append(line.rstrip("\n"))
    if process.returncode not in accepted:
        end.append(f"{' '.join(command)} ended with {process.returncode}")
        _failures.append("\n".join(end))


def _table(folder: str, run: str = RUN) -> dict:
    return json.loads((ROOT / run / folder / "table.json").read_text())


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
