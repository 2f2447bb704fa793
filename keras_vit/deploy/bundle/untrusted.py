"""Runs a stranger's file in a process of its own, before it is loaded into this one.

LiteRT trusts a file: one that is damaged, or made to do harm, can end the process that runs it.
"""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from keras_vit._errors import RefusedError, shown
from keras_vit.tflite.processes import last_line, run_program
from keras_vit.tflite.runner import refusal

_PROGRAM = Path(__file__).with_name("untrusted_program.py")
_SECONDS = 120  # ViT-H/14 takes a few


def try_file(model: Path) -> None:
    """Runs a `.tflite` file in another process, on zeros.

    Raises:
        UsageError: it is no TFLite model.
        RefusedError: LiteRT refuses the file; or the file ended the process, or did not finish
            within two minutes.
    """
    try:
        done = run_program(_PROGRAM, model.resolve(), limit_s=_SECONDS)
    except subprocess.TimeoutExpired:
        raise _refused(model, f"does not finish within {_SECONDS} seconds") from None
    if done.returncode < 0:
        raise _refused(model, f"is ended by {signal.Signals(-done.returncode).name}")
    if done.returncode in (2, 3):
        # It is not loaded into this process: after an error, LiteRT may end that, too.
        raise refusal(str(model), done.stdout, done.returncode == 2)
    if done.returncode:
        raise _refused(model, f"ends with {shown(last_line(done))}")


def _refused(model: Path, what: str) -> RefusedError:
    return RefusedError(f"{model} is damaged: a process that runs it {what}; export it again.")
