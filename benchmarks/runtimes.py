"""Runs every precision of a run on older TFLite runtimes and compares the scores.

Each runtime is installed from PyPI in its own environment. A cell shows the largest difference of a
score from golden.json, or "refused". The exit code is 3 if a runtime that is not older than a
file's runtime_floor refuses the file or differs by more than golden.json allows, or if a runtime
could not be installed.
"""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from environments import FOLDER, Environment, check_python, installed

from keras_vit import _files
from keras_vit._errors import RefusedError, UsageError
from keras_vit.cli._printing import table
from keras_vit.cli._program import run
from keras_vit.deploy.bundle.description import read_golden
from keras_vit.deploy.precisions import PRECISIONS
from keras_vit.tflite.runtimes import runs

ROOT = Path(__file__).parents[1]
# Files of "auto" have no operators that files of other precisions do not have.
QUANTIZE = [name for name, precision in PRECISIONS.items() if precision.base is None]


# Their names are those of `runtime_floor`. All of them have wheels for Python 3.9 to 3.11.
RUNTIMES = (
    Environment("2.13.1", ("tensorflow-cpu==2.13.1",)),
    Environment("2.14.0", ("tflite-runtime==2.14.0", "numpy<2")),
    Environment("LiteRT 1.0.1", ("ai-edge-litert==1.0.1", "numpy<2")),
    Environment("LiteRT 1.4.0", ("ai-edge-litert==1.4.0",)),
)


@dataclasses.dataclass(frozen=True)
class Arguments:
    run: Path | None = None
    """The run folder to export in every precision; default: the newest under runs/."""
    bundles: Path | None = None
    """Instead of a run: a folder of exported bundles."""
    environments: Path = FOLDER
    """The folder where runtimes are installed; installed runtimes are reused."""
    python: str = sys.executable
    """The Python to install them for, 3.9 to 3.11."""


def main(arguments: Arguments) -> None:
    if arguments.run is not None and arguments.bundles is not None:
        raise UsageError("expected --run or --bundles. Received: both.")
    check_python(arguments.python)
    runners = {f"LiteRT {version('ai-edge-litert')}": sys.executable}
    pythons = {r.name: installed(r, arguments.environments, arguments.python) for r in RUNTIMES}
    runners = {name: python for name, python in pythons.items() if python} | runners
    with tempfile.TemporaryDirectory() as folder:
        if arguments.bundles is None:
            bundles = _exported(arguments.run, Path(folder))
        else:
            bundles = sorted(file.parent for file in arguments.bundles.glob("*/golden.json"))
        if not bundles:
            raise UsageError(f"{arguments.bundles} does not contain bundles.")
        rows, wrong = _compared(bundles, runners)
    header = ["precision", "floor", "tolerance", *runners]
    print(f"\n{table(header, rows)}")
    wrong += [f"{name} could not be installed" for name, python in pythons.items() if not python]
    if wrong:
        raise RefusedError("\n".join(wrong))


def _compared(bundles: list[Path], runners: dict[str, str]) -> tuple[list[list[str]], list[str]]:
    rows, wrong = [], []
    for bundle in bundles:
        floor = _files.read_json(bundle / "model.json", format=1)["runtime_floor"]
        tolerance = read_golden(bundle)[1].scores
        cells = []
        for name, python in runners.items():
            found = _run(python, bundle)
            supported = runs(floor, name)
            difference = found.get("difference")
            cells.append("refused" if difference is None else f"{difference:.1e}")
            if supported and not (difference is not None and difference <= tolerance):
                why = found.get("refused") or f"differs by {difference:.3g}, over {tolerance:.3g}"
                wrong.append(f"{bundle.name} on {name}: {why}")
            elif not supported and difference is not None:
                cells[-1] += " (older)"
        rows.append([bundle.name, floor, f"{tolerance:.1e}", *cells])
    return rows, wrong


def _run(python: str, bundle: Path) -> dict:
    """The result of a bundle's golden case with the runtime of an environment."""
    program = Path(__file__).with_name("golden_runner.py")
    done = subprocess.run([python, program, bundle], capture_output=True, text=True)
    if done.returncode < 0:
        return {"refused": f"ended by {signal.Signals(-done.returncode).name}"}
    if done.returncode:
        raise UsageError(f"{python} {program}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def _exported(run: Path | None, folder: Path) -> list[Path]:
    """Bundles of every precision, and dynamic in its form for older runtimes."""
    print("exporting", ", ".join(QUANTIZE), flush=True)
    command = [sys.executable, ROOT / "export" / "to_tflite.py", "--images", "100"]
    command += [] if run is None else ["--run", run]
    older = ["--quantize", "dynamic", "--min-runtime", "2.9"]
    for name, options in {"new": ["--quantize", *QUANTIZE], "older": older}.items():
        done = subprocess.run(
            [*command, *options, "--out", folder / name], capture_output=True, text=True
        )
        if done.returncode:
            raise UsageError(done.stderr.strip().splitlines()[-1])
    (folder / "older" / "dynamic").rename(folder / "new" / "dynamic, 2.9")
    return sorted(file.parent for file in (folder / "new").glob("*/golden.json"))


if __name__ == "__main__":
    run(main, Arguments)
