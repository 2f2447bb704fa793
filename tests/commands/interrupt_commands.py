"""Presses Ctrl-C at many moments: python tests/commands/interrupt_commands.py --run runs/demo

Each command is started and interrupted early, after 0.04 s to 0.4 s, and then every --step seconds
until --until; `photographs`, a run of S/16 compiled by XLA, at --random moments of its first
epoch. It must always print one line on standard error and exit with 130 within --within seconds,
unless it has already ended; the line of a run must say what its folder holds. `resumed` is the
same training with the default interval of states, which goes on after each Ctrl-C and may not lose
more than five minutes; it takes an hour or two, and is only run if it is named. Time that a virtual
machine's host gives to others (steal, in /proc/stat) does not count. While Python itself starts
(0.03 s, or more on a busy machine) and until keras_vit has imported its handler, nothing can handle
Ctrl-C: such cases are counted separately, and few are accepted.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).parents[2]
FIT = ("--model", "ViT_Pico4", "--image-size", "8", "--no-jit", "--duration", "200 steps")
# Compilation of the step and the step itself last longer than --within.
SLOW = ("--model", "ViT_S16", "--batch-size", "32", "--duration", "200 steps", "--held-out", "0.1")
SLOW = ("train/fit.py", "--data", "pictures", *SLOW)
OFTEN = ("--checkpoint-every", "2 steps")
COMMANDS = {
    "fit": ("train/fit.py", *FIT, "--out", "fresh", "--overwrite"),
    "export": ("export/to_tflite.py", "--run", "run", "--quantize", "none", "int8"),
    "evaluate": ("train/evaluate.py", "--run", "run"),
    "photographs": (*SLOW, *OFTEN, "--out", "slow", "--overwrite"),
    "resumed": (*SLOW, "--duration", "2000 steps", "--out", "resumed"),
}
# What the runs write.
TRAINED = {"fit": "fresh", "photographs": "slow"}
# The lines of keras_vit/__init__.py that import what handles Ctrl-C.
FIRST_IMPORTS = (
    "from keras_vit.cli import is_command as _is_command",
    "from keras_vit._interrupts import exit_on_interrupt as _exit_on_interrupt",
)
EARLY = (0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.4)
# Seconds in which `photographs` imports, reads, compiles and makes its first steps.
FIRST_EPOCH = (3.0, 60.0)
# Seconds after which `resumed` is interrupted, and how many a Ctrl-C may lose: two steps more than
# the interval.
ANY_TIME, MOST_LOST = (20.0, 600.0), 360
# The latest moment in seconds at which Python may still be starting, and how often it may be.
PYTHON_STARTS, PYTHON_ITSELF = 0.2, 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", type=Path, required=True, help="a run folder; it is copied")
    parser.add_argument("--commands", nargs="+", default=[*COMMANDS][:-1], choices=[*COMMANDS])
    parser.add_argument("--step", type=float, default=0.05, help="seconds (default: 0.05)")
    parser.add_argument("--until", type=float, default=8, help="seconds (default: 8)")
    parser.add_argument("--random", type=int, default=50, help="moments (default: 50)")
    parser.add_argument("--within", type=float, default=5, help="seconds (default: 5)")
    arguments = parser.parse_args()
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(arguments.run, Path(folder) / "run")
        write_photographs(Path(folder) / "pictures")
        steps = range(1, round(arguments.until / arguments.step) + 1)
        moments = (*EARLY, *(i * arguments.step for i in steps))
        chance = random.Random(0)
        later = [chance.uniform(*FIRST_EPOCH) for _ in range(arguments.random)]
        for name in arguments.commands:
            if name == "resumed":
                wrong += resumed(folder, [chance.uniform(*ANY_TIME) for _ in later])
                continue
            answers, slowest = Counter(), 0.0
            for seconds in later if name == "photographs" else moments:
                code, error, lasted = interrupted(COMMANDS[name], seconds, folder)
                answer = judged(code, error, seconds)
                if answer == "one line" and name in TRAINED:
                    answer = compared(error, Path(folder) / TRAINED[name])
                if lasted > arguments.within:
                    answer = f"wrong: it took {lasted:.1f} s"
                slowest = max(slowest, lasted)
                answers[answer] += 1
                if answer.startswith("wrong"):
                    print(f"{name} after {seconds:.2f} s: {answer}", flush=True)
            print(f"{name}: {dict(answers)}, the slowest after {slowest:.1f} s", flush=True)
            wrong += [answer for answer in answers.elements() if answer.startswith("wrong")]
            if problem := judged_together(answers):
                wrong.append(problem)
                print(f"{name}: {problem}", flush=True)
    if wrong:
        sys.exit(f"{len(wrong)} wrong answers")


def resumed(folder: str, moments: list[float]) -> list[str]:
    """The wrong answers of a run that is interrupted and goes on, again and again."""
    wrong, lost, states = [], [], Path(folder, "resumed", "checkpoints")
    for seconds in moments:
        is_begun = states.parent.is_dir()
        began = time.time()
        command = (*COMMANDS["resumed"], *(["--resume"] if is_begun else []))
        code, error, lasted = interrupted(command, seconds, folder)
        answer = judged(code, error, seconds)
        saved = max([began, *(file.stat().st_mtime for file in states.glob("step-*.npz"))])
        lost.append(max(time.time() - lasted - saved, 0))
        print(f"resumed after {seconds:.0f} s: {answer}, {lost[-1]:.0f} s lost", flush=True)
        if answer != "one line" or lost[-1] > MOST_LOST:
            wrong.append(answer)
    print(f"resumed: {len(lost)} times, {max(lost):.0f} s lost at most", flush=True)
    return wrong


def write_photographs(folder: Path) -> None:
    """Two classes of 64 pictures of 320 x 240 pixels: JPEGs, half of them turned, and WebPs."""
    noise = np.random.default_rng(0)
    turned = Image.Exif()
    turned[0x0112] = 6
    for label in ("day", "night"):
        (folder / label).mkdir(parents=True)
        for i in range(64):
            image = Image.fromarray(noise.integers(0, 256, (12, 16, 3), np.uint8))
            suffix, exif = ("webp" if i % 2 else "jpg"), (turned if i % 4 == 2 else Image.Exif())
            image.resize((320, 240)).save(folder / label / f"{i}.{suffix}", exif=exif)


def interrupted(command: tuple[str, ...], seconds: float, folder: str) -> tuple[int, str, float]:
    """The exit code, the standard error and the seconds until the end of a command.

    It is interrupted after `seconds`.
    """
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TF_")}
    script, *words = command
    for out in TRAINED.values():
        shutil.rmtree(Path(folder) / out, ignore_errors=True)
    process = subprocess.Popen(
        [sys.executable, ROOT / script, *words],
        cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # under nohup, too
    )  # fmt: skip
    started = own_time()
    while own_time() < started + seconds:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    pressed = own_time()
    try:
        _, error = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        _, error = process.communicate()
    return process.returncode, error, own_time() - pressed


def own_time() -> float:
    """The time in seconds, without that in which the host gave the processors to others."""
    stolen = int(Path("/proc/stat").read_text().split()[8])  # of all processors
    return time.monotonic() - stolen / os.sysconf("SC_CLK_TCK") / os.cpu_count()


def judged(code: int, error: str, seconds: float) -> str:
    """A description of the result of an interrupt after `seconds`."""
    if code == 130 and error.strip().startswith("interrupted") and len(error.split("\n")) == 3:
        return "one line"
    if code == 0 and not error.strip():
        return "had ended"
    # Python exits with -SIGINT after any KeyboardInterrupt, even one that keras_vit should handle.
    is_first = error.strip().endswith(tuple(f"{line}\nKeyboardInterrupt" for line in FIRST_IMPORTS))
    is_python = code in (-signal.SIGINT, 1) and (is_first or str(ROOT / "keras_vit") not in error)
    if is_python and seconds <= PYTHON_STARTS:
        return "Python itself"
    return f"wrong: exit code {code}, {error.strip()[-2000:]!r}"


def compared(error: str, run: Path) -> str:
    """A description of the line about a run folder, which must say what the folder holds."""
    states = sorted(run.glob("checkpoints/step-*.npz"))
    log = run / "metrics.jsonl"
    lines = log.read_text().splitlines() if log.is_file() else []
    evaluated = [line for line in map(json.loads, lines) if "epoch" in line]
    if states:
        kind, expected = "a state", f"the state after {int(states[-1].stem.partition('-')[2])} of"
    elif evaluated:
        kind, expected = "weights", f"the weights after {evaluated[-1]['step']} of"
    elif (run / "spec.json").is_file():
        kind, expected = "initial weights", "only the initial weights"
    else:
        return "nothing saved" if error.strip() == "interrupted." else f"wrong: {error!r}"
    said = f"; {run.name} holds {expected}" in error
    return f"{kind} saved" if said else f"wrong: expected {expected!r}, {error.strip()!r}"


def judged_together(answers: dict[str, int]) -> str | None:
    """What is wrong with the numbers of all answers of a command, if anything."""
    if not answers.keys() - {"had ended", "Python itself"}:
        return "no interrupt was answered in one line"
    if answers.get("Python itself", 0) > PYTHON_ITSELF:
        return f"expected at most {PYTHON_ITSELF} interrupts before keras_vit is imported"
    return None


if __name__ == "__main__":
    main()
