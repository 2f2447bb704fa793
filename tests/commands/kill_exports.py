"""Kills exports at random moments: python tests/commands/kill_exports.py --run runs/demo --kills 20

Every second export has pixels instead of floats as input, so that the old and the new bundle
differ. After each kill, every bundle must be either the old or the new one, and complete. A last
export that is not killed must remove all unfinished folders.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from keras_vit import deploy

COMMAND = Path(__file__).parents[2] / "export/to_tflite.py"
INPUTS = ("float32", "uint8")
BUNDLES = ("float32", "dynamic")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", type=Path, required=True, help="a run folder; it is copied")
    parser.add_argument("--kills", type=int, default=20, help="(default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="(default: 0)")
    arguments = parser.parse_args()
    moments = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        run = shutil.copytree(arguments.run, Path(folder) / "run")
        start = time.monotonic()
        _start(run, INPUTS[0]).wait()
        seconds = time.monotonic() - start
        print(f"an export of two bundles takes {seconds:.1f} s", flush=True)
        killed = 0
        for i in range(arguments.kills):
            killed += _export_killed_after(moments.uniform(0, seconds), run, INPUTS[(i + 1) % 2])
        left = len(_hidden(run))
        if _start(run, INPUTS[0]).wait() or _hidden(run):
            sys.exit(f"a complete export did not remove {_hidden(run)}")
    print(f"{arguments.kills} exports, {killed} killed before their end; all bundles are complete")
    print(f"{left} unfinished folders were left, none after one more export")


def _start(run: Path, taken: str) -> subprocess.Popen:
    arguments = ("--run", run, "--quantize", "none", "dynamic", "--input", taken)
    return subprocess.Popen(
        [sys.executable, COMMAND, *arguments], stdout=subprocess.DEVNULL, cwd=run.parent
    )


def _export_killed_after(seconds: float, run: Path, taken: str) -> bool:
    process = _start(run, taken)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    killed = process.wait() == -signal.SIGKILL
    bundles = {name: deploy.read_bundle(run / "export" / name)[0] for name in BUNDLES}
    held = {name: bundle["input"]["dtype"] for name, bundle in bundles.items()}
    print(f"{taken}, {'killed' if killed else 'ended'} after {seconds:4.1f} s: {held}", flush=True)
    return killed


def _hidden(run: Path) -> list[str]:
    return sorted(str(path.relative_to(run)) for path in run.rglob(".*"))


if __name__ == "__main__":
    main()
