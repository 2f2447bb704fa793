"""Kills training runs and resumes them: python tests/commands/kill_training.py

A training is run to its end. Then it is started again, killed by SIGKILL at a random moment or in a
write and resumed, until it ends; this is repeated until there were enough kills. Each time
weights.npz, the average of the weights and the last line of metrics.jsonl must be those of the
first training.

Every second one saves its state so rarely that it is also killed after an evaluation, but before
the first checkpoint.

Words after -- are options of fit: python tests/commands/kill_training.py -- --accumulate 2 --lora 4
"""

import contextlib
import functools
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import kills

COMMAND = Path(__file__).parents[2] / "train/fit.py"
# An evaluation comes after each 89 steps.
STEPS, EVERY = 200, (20, 150)
SETTINGS = (
    "--model", "ViT_Pico4", "--image-size", "8", "--batch-size", "16",
    "--duration", f"{STEPS} steps",
    "--dropout", "0.1", "--drop-path", "0.1", "--ema", "0.99", "--augment", "shift",
)  # fmt: skip
FILES = ("weights.npz", "weights_ema.npz")
# Of so many writes after each start, one is aimed at.
WRITES = 6


def main() -> None:
    options = kills.options(__doc__.splitlines()[0])
    options.add_argument("--jit", action="store_true", help="compile the step, as fit does on GPUs")
    options.add_argument("words", nargs="*", metavar="OPTION", help="an option of fit, after --")
    arguments = options.parse_args()
    words = (*([] if arguments.jit else ["--no-jit"]), *arguments.words)
    moments = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        kills.load("keras_vit._public", "keras_vit.training.run", "tensorflow")
        whole = _start(folder, "whole", *words)
        whole.join()
        if whole.exitcode:
            sys.exit(f"the training that is not killed exits with {whole.exitcode}")
        expected, runs = _result(Path(folder) / "whole"), 0
        killer = kills.Killer(Path(folder))
        while killer.kills < arguments.kills:
            name, every = f"run{runs}", f"{EVERY[runs % 2]} steps"
            runs += 1
            saved = (*words, "--checkpoint-every", every)
            steps = _killed_until_done(killer, name, moments, *saved)
            if _result(Path(folder) / name) != expected:
                sys.exit(f"{name}, killed after {steps}, differs from the training without kills")
            print(f"{name}, saved every {every}: killed after steps {steps}", flush=True)
            print(f"{killer.kills} kills, {killer.in_writes} in a write", flush=True)
    print(
        f"{killer.kills} kills of {runs} runs, {killer.in_writes} of them in a write; all "
        "ended with the same files"
    )
    kills.check(killer, arguments.in_writes)


def _killed_until_done(
    killer: kills.Killer, name: str, moments: random.Random, *words: str
) -> list[int]:
    """Starts and kills a training until it ends; returns the last step on the disk at each kill."""
    killed, run = [], killer.folder / name
    while True:
        newest = _newest(run)
        again = ["--resume"] if newest >= 0 else []
        begin = functools.partial(_start, killer.folder, name, *words, *again)
        if killer.kills % 2 == 0:
            end = killer.kill_in_write(begin, **kills.aim(moments, WRITES))
        else:
            # A moment of the training rather than of the clock, because machines are busy or not.
            # One in four is at its beginning, where there is a run folder, but no checkpoint yet.
            step = 0 if moments.random() < 0.25 else moments.uniform(newest, 1.2 * STEPS)
            late = functools.partial(_started_until, step, run, begin)
            end = killer.kill_after(late, moments.uniform(0, 1))
        if end == "ended":
            return killed
        killed.append(_newest(run))


def _started_until(step: float, run: Path, begin: Callable[[], BaseProcess]) -> BaseProcess:
    """A training that has reached a step or has ended."""
    process = begin()
    while process.is_alive() and _newest(run) < step:
        time.sleep(0.01)
    return process


def _newest(run: Path) -> int:
    """The step of the newest checkpoint or line of metrics.jsonl; 0 for a new run, -1 before it."""
    steps = [0] if (run / "spec.json").exists() else []
    steps += [int(path.stem[5:]) for path in (run / "checkpoints").glob("step-*.npz")]
    with contextlib.suppress(FileNotFoundError):
        lines = (run / "metrics.jsonl").read_text().splitlines()
        steps += [json.loads(line)["step"] for line in lines if line.endswith("}")]
    return max(steps, default=-1)


def _start(folder: str | Path, name: str, *more: str) -> BaseProcess:
    return kills.start(COMMAND, "--data", "digits", "--out", name, *SETTINGS, *more, cwd=folder)


def _result(run: Path) -> tuple:
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    figures = {name: last[name] for name in ("step", "val_loss", "val_accuracy", "ema_val_loss")}
    return figures, *((run / name).read_bytes() for name in FILES)


if __name__ == "__main__":
    main()
