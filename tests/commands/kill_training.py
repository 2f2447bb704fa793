"""Kills a training at random moments and resumes it: python tests/commands/kill_training.py

A training is run to its end. Then it is started again, killed by SIGKILL at a random moment and
resumed, until it ends; this is repeated until there were enough kills. Each time weights.npz, the
average of the weights and the last line of metrics.jsonl must be those of the first training.

Every second one saves its state so rarely that it is also killed after an evaluation, but before
the first checkpoint.

Words after -- are options of fit: python tests/commands/kill_training.py -- --accumulate 2 --lora 4
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMAND = Path(__file__).parents[2] / "train/fit.py"
# An evaluation comes after each 89 steps.
STEPS, EVERY = 400, (20, 150)
SETTINGS = (
    "--model", "ViT_Pico4", "--image-size", "8", "--batch-size", "16",
    "--duration", f"{STEPS} steps",
    "--dropout", "0.1", "--drop-path", "0.1", "--ema", "0.99", "--augment", "shift",
)  # fmt: skip
FILES = ("weights.npz", "weights_ema.npz")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20, help="(default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="(default: 0)")
    parser.add_argument("--jit", action="store_true", help="compile the step by XLA, as fit does")
    parser.add_argument("words", nargs="*", metavar="OPTION", help="an option of fit, after --")
    arguments = parser.parse_args()
    words = (*([] if arguments.jit else ["--no-jit"]), *arguments.words)
    moments = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        if code := _start(folder, "whole", *words).wait():
            sys.exit(f"the training that is not killed exits with {code}")
        expected, kills, runs = _result(Path(folder) / "whole"), 0, 0
        while kills < arguments.kills:
            name, every = f"run{runs}", f"{EVERY[runs % 2]} steps"
            runs += 1
            saved = (*words, "--checkpoint-every", every)
            steps = _killed_until_done(folder, name, moments, *saved)
            kills += len(steps)
            if _result(Path(folder) / name) != expected:
                sys.exit(f"{name}, killed after {steps}, differs from the training without kills")
            print(f"{name}, saved every {every}: killed after steps {steps}", flush=True)
    print(f"{kills} kills of {runs} trainings; all ended with the same files")


def _killed_until_done(folder: str, name: str, moments: random.Random, *words: str) -> list[int]:
    """Starts and kills a training until it ends; returns the last step on the disk at each kill."""
    killed = []
    while True:
        newest = _newest(folder, name)
        process = _start(folder, name, *words, *(["--resume"] if newest >= 0 else []))
        # A moment of the training rather than of the clock, because machines are busy or not. One
        # in four is at its beginning, where there is a run folder, but no checkpoint yet.
        step = 0 if moments.random() < 0.25 else moments.uniform(newest, 1.2 * STEPS)
        delay = moments.uniform(0, 1)
        while process.poll() is None and _newest(folder, name) < step:
            time.sleep(0.01)
        try:
            code = process.wait(delay)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            killed.append(_newest(folder, name))
            continue
        if code:
            sys.exit(f"{name} exits with {code}")
        return killed


def _newest(folder: str, name: str) -> int:
    """The step of the newest checkpoint or line of metrics.jsonl; 0 for a new run, -1 before it."""
    run = Path(folder) / name
    steps = [0] if (run / "spec.json").exists() else []
    steps += [int(path.stem[5:]) for path in (run / "checkpoints").glob("step-*.npz")]
    with contextlib.suppress(FileNotFoundError):
        lines = (run / "metrics.jsonl").read_text().splitlines()
        steps += [json.loads(line)["step"] for line in lines if line.endswith("}")]
    return max(steps, default=-1)


def _start(folder: str, name: str, *more: str) -> subprocess.Popen:
    words = ("--data", "digits", "--out", name, *SETTINGS, *more)
    return subprocess.Popen(
        [sys.executable, COMMAND, *words], stdout=subprocess.DEVNULL, cwd=folder
    )


def _result(run: Path) -> tuple:
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    figures = {name: last[name] for name in ("step", "val_loss", "val_accuracy", "ema_val_loss")}
    return figures, *((run / name).read_bytes() for name in FILES)


if __name__ == "__main__":
    main()
