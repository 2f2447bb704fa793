"""Presses Ctrl-C at many moments: python tests/commands/interrupt_commands.py --run runs/demo

Each command is started and interrupted after 0.05 s, 0.1 s ... 8 s. It must always print one line
on standard error and exit with 130, unless it has already ended. In the first 0.05 s or so, before
keras_vit is imported, Python itself handles Ctrl-C; these cases are counted separately.
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
            for i in range(1, round(arguments.until / arguments.step) + 1):
                seconds = i * arguments.step
                answer = judged(*interrupted(COMMANDS[name], seconds, folder))
                answers[answer] = answers.get(answer, 0) + 1
                if answer.startswith("wrong"):
                    wrong.append(name)
                    print(f"{name} after {seconds:.2f} s: {answer}", flush=True)
            print(f"{name}: {answers}", flush=True)
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


def judged(code: int, error: str) -> str:
    """A description of the result."""
    if code == 130 and error.strip().startswith("interrupted") and len(error.split("\n")) == 3:
        return "one line"
    if code == 0 and not error.strip():
        return "had ended"
    if code == -signal.SIGINT or (code == 1 and "keras_vit" not in error):
        return "Python itself"
    return f"wrong: exit code {code}, {error.strip()[-2000:]!r}"


if __name__ == "__main__":
    main()
