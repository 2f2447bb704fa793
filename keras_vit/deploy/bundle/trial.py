"""Runs a stranger's file in a process of its own, before it is loaded into this one.

LiteRT trusts a file: one that is damaged, or made to do harm, can end the process that runs it.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from keras_vit._errors import RefusedError, shown
from keras_vit.deploy.runner import refusal

_SECONDS = 120  # ViT-H/14 takes a few


def try_file(model: Path) -> None:
    """Runs a `.tflite` file in another process, on zeros.

    Raises:
        UsageError: it is no TFLite model.
        RefusedError: LiteRT refuses the file; or the file ended the process, or did not finish
            within two minutes.
    """
    program = Path(__file__).with_name("_trial.py").read_text(encoding="utf-8")
    try:
        with tempfile.TemporaryDirectory() as empty:
            # Run as text and in an empty folder: the folder of a script, or else the current one,
            # comes first on its sys.path, and that may be the stranger's.
            done = subprocess.run(
                [sys.executable, "-c", program, model.resolve()],
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                cwd=empty,
                timeout=_SECONDS,
            )
    except subprocess.TimeoutExpired:
        raise _refused(model, f"does not finish within {_SECONDS} seconds") from None
    if done.returncode < 0:
        raise _refused(model, f"is ended by {signal.Signals(-done.returncode).name}")
    if done.returncode in (2, 3):
        # It is not loaded into this process: after an error, LiteRT may end that, too.
        raise refusal(str(model), done.stdout, done.returncode == 2)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise _refused(model, f"ends with {shown(last)}")


def _refused(model: Path, what: str) -> RefusedError:
    return RefusedError(f"{model} is damaged: a process that runs it {what}; export it again.")
