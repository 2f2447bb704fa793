"""Presses Ctrl-C at many moments: python tests/commands/interrupt_commands.py --run runs/demo

Each command is started and interrupted after 0.04 s, 0.06 s, 0.08 s, 0.1 s, and then after 0.05 s,
0.1 s ... 8 s. It must always print one line on standard error and exit with 130, unless it has
already ended. While Python itself starts (0.03 s, or more on a busy machine) no code of keras_vit
runs, so none can handle Ctrl-C: such cases are counted separately, and only a few are accepted.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
FIT = ("--model", "ViT_Pico4", "--image-size", "8", "--no-jit", "--duration", "200 steps")
COMMANDS = {
    "fit": ("train/fit.py", *FIT, "--out", "fresh", "--overwrite"),
    "export": ("export/to_tflite.py", "--run", "run", "--quantize", "none", "int8"),
    "evaluate": ("train/evaluate.py", "--run", "run"),
}
EARLY = (0.04, 0.06, 0.08, 0.1)
# The latest moment in seconds at which Python may still be starting, and how often it may be.
PYTHON_STARTS, PYTHON_ITSELF = 0.1, 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", type=Path, required=True, help="a run folder; it is copied")
    parser.add_argument("--commands", nargs="+", default=[*COMMANDS], choices=[*COMMANDS])
    parser.add_argument("--step", type=float, default=0.05, help="seconds (default: 0.05)")
    parser.add_argument("--until", type=float, default=8, help="seconds (default: 8)")
    arguments = parser.parse_args()
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(arguments.run, Path(folder) / "run")
        for name in arguments.commands:
            answers: dict[str, int] = {}
            steps = range(1, round(arguments.until / arguments.step) + 1)
            for seconds in (*EARLY, *(i * arguments.step for i in steps)):
                answer = judged(*interrupted(COMMANDS[name], seconds, folder), seconds)
                answers[answer] = answers.get(answer, 0) + 1
                if answer.startswith("wrong"):
                    wrong.append(name)
                    print(f"{name} after {seconds:.2f} s: {answer}", flush=True)
            print(f"{name}: {answers}", flush=True)
            if problem := judged_together(answers):
                wrong.append(name)
                print(f"{name}: {problem}", flush=True)
    if wrong:
        sys.exit(f"{len(wrong)} wrong answers")


def interrupted(command: tuple[str, ...], seconds: float, folder: str) -> tuple[int, str]:
    """The exit code and the standard error of a command that is interrupted after `seconds`."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TF_")}
    script, *words = command
    process = subprocess.Popen(
        [sys.executable, ROOT / script, *words],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # under nohup, too
    )
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=120)
    return process.returncode, error


def judged(code: int, error: str, seconds: float) -> str:
    """A description of the result of an interrupt after `seconds`."""
    if code == 130 and error.strip().startswith("interrupted") and len(error.split("\n")) == 3:
        return "one line"
    if code == 0 and not error.strip():
        return "had ended"
    # Python exits with -SIGINT after any KeyboardInterrupt, even one that keras_vit should handle.
    is_python = code in (-signal.SIGINT, 1) and str(ROOT / "keras_vit") not in error
    if is_python and seconds <= PYTHON_STARTS:
        return "Python itself"
    return f"wrong: exit code {code}, {error.strip()[-2000:]!r}"


def judged_together(answers: dict[str, int]) -> str | None:
    """What is wrong with the numbers of all answers of a command, if anything."""
    if not answers.get("one line"):
        return "no interrupt was answered in one line"
    if answers.get("Python itself", 0) > PYTHON_ITSELF:
        return f"expected at most {PYTHON_ITSELF} interrupts before keras_vit is imported"
    return None


if __name__ == "__main__":
    main()
