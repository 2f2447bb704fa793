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
from multiprocessing.process import BaseProcess
from pathlib import Path

import kills

COMMAND = Path(__file__).parents[2] / "train/fit.py"
# An evaluation comes after each 89 steps.
STEPS, EVERY = 200, (20, 150)
SETTINGS = (
    "--data", "digits", "--model", "ViT_Pico4", "--image-size", "8", "--batch-size", "16",
    "--duration", f"{STEPS} steps",
    "--dropout", "0.1", "--drop-path", "0.1", "--ema", "0.99", "--augment", "shift",
)  # fmt: skip
FILES = ("weights.npz", "weights_ema.npz")
# Before one of so many steps of writes after each start it is killed; a new run folder takes 43.
IN_WRITES = 60


def main() -> None:
    options = kills.options(__doc__.splitlines()[0])
    options.add_argument("--jit", action="store_true", help="compile the step, as fit does on GPUs")
    options.add_argument("words", nargs="*", metavar="OPTION", help="an option of fit, after --")
    arguments = options.parse_args()
    words = (*SETTINGS, *([] if arguments.jit else ["--no-jit"]), *arguments.words)
    moments = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        modules = ("keras_vit._public", "keras_vit.training.run", "tensorflow")
        killer, runs = kills.Killer(Path(folder), *modules), 0
        killer.run(COMMAND, *words, "--out", "whole")
        expected = _result(Path(folder) / "whole")
        while killer.kills < arguments.kills:
            run, every = Path(folder) / f"run{runs}", f"{EVERY[runs % 2]} steps"
            runs += 1
            saved = ("--out", run.name, "--checkpoint-every", every)
            steps = _killed_until_done(killer, run, moments, *words, *saved)
            if _result(run) != expected:
                sys.exit(f"{run.name}, killed after {steps}, is not as the one without kills")
            print(f"{run.name}, saved every {every}: killed after steps {steps}", flush=True)
            print(f"{killer.kills} kills, {killer.in_writes} in a write", flush=True)
    print(
        f"{killer.kills} kills of {runs} runs, {killer.in_writes} of them in a write; all "
        "ended with the same files"
    )
    killer.check(arguments.in_writes)


def _killed_until_done(
    killer: kills.Killer, run: Path, moments: random.Random, *words: str
) -> list[int]:
    """Starts and kills a run until it ends; returns the last step on the disk at each kill."""
    killed = []
    while True:
        newest = _newest(run)
        command = (COMMAND, *words, *(["--resume"] if newest >= 0 else []))
        if killer.kills % 2 == 0:
            end = killer.run(*command, step=moments.randrange(IN_WRITES))
        else:
            # A moment of the training rather than of the clock, because machines are busy or not.
            # One in four is at its beginning, where there is a run folder, but no checkpoint yet.
            step = 0 if moments.random() < 0.25 else moments.uniform(newest, 1.2 * STEPS)
            wait = functools.partial(_wait, run, step, moments.uniform(0, 1))
            end = killer.run(*command, wait=wait)
        if end == "ended":
            return killed
        killed.append(_newest(run))


def _wait(run: Path, step: float, seconds: float, process: BaseProcess) -> None:
    """Waits until a run has reached a step, and some seconds more, or has ended."""
    while process.is_alive() and _newest(run) < step:
        time.sleep(0.01)
    process.join(seconds)


def _newest(run: Path) -> int:
    """The step of the newest checkpoint or line of metrics.jsonl; 0 for a new run, -1 before it."""
    steps = [0] if (run / "spec.json").exists() else []
    steps += [int(path.stem[5:]) for path in (run / "checkpoints").glob("step-*.npz")]
    with contextlib.suppress(FileNotFoundError):
        lines = (run / "metrics.jsonl").read_text().splitlines()
        steps += [json.loads(line)["step"] for line in lines if line.endswith("}")]
    return max(steps, default=-1)


def _result(run: Path) -> tuple:
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    figures = {name: last[name] for name in ("step", "val_loss", "val_accuracy", "ema_val_loss")}
    return figures, *((run / name).read_bytes() for name in FILES)


if __name__ == "__main__":
    main()
