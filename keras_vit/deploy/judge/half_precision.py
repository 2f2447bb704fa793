"""Float files in half precision, as Android apps switch it on for the CPU.

`Interpreter.Options.setAllowFp16PrecisionForFp32(true)` lets XNNPACK compute float32 and float16
files in half precision. On x86 processors without such instructions XNNPACK emulates it.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from keras_vit._errors import RefusedError
from keras_vit.deploy.judge.parity import ParityError, Verdict, compare
from keras_vit.deploy.precisions import Budget

# A way to run a float file, not a precision. Measured as the budgets in `precisions`:
# D: 100%, 0.0010, 0.0004. R: 100%, 0.0010, 0.0015.
BUDGET = Budget(0.99, 2e-2, 1e-2, None)


@dataclasses.dataclass(frozen=True)
class HalfPrecision:
    """What a float file gives in half precision. It is reported and refuses no file.

    Attributes:
        problem: why half precision must not be allowed for this file; "" where it may.
        verdict: the comparison with Keras; None where the file does not run or gives NaN.
    """

    problem: str
    verdict: Verdict | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values: "problem", and the fields of the verdict."""
        figures = {} if self.verdict is None else dataclasses.asdict(self.verdict)
        return {"problem": self.problem, **figures}


def judge_half_precision(
    content: bytes,
    precision: str,
    inputs: np.ndarray,
    expected: np.ndarray,
    targets: np.ndarray | None = None,
    features: bool = False,
) -> HalfPrecision:
    """Runs a float file in half precision and compares it with Keras.

    Args:
        content: the file.
        precision: its name.
        inputs: images as it takes them (n, height, width, 3).
        expected: Keras' scores for them.
        targets, features: as in `parity.compare`.
    """
    try:
        scores = predict_in_half_precision(content, inputs)
    except RefusedError as error:
        return HalfPrecision(str(error))
    if not np.isfinite(scores).all():
        return HalfPrecision("some scores are not finite: values exceed what half precision holds")
    verdict = dataclasses.replace(
        compare(precision, expected, scores, targets, features), precision="half precision"
    )
    try:
        verdict.check(budget=BUDGET)
    except ParityError as error:
        return HalfPrecision(str(error), verdict)
    return HalfPrecision("", verdict)


def predict_in_half_precision(content: bytes, inputs: np.ndarray, threads: int = 2) -> np.ndarray:
    """Scores (n, ...) that a file gives for inputs (n, height, width, 3), in half precision.

    Raises:
        RefusedError: LiteRT does not run it so.
    """
    program = Path(__file__).with_name("_half_precision.py").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "model.tflite").write_bytes(content)
        np.save(Path(folder, "inputs.npy"), inputs)
        # Its text, because a script's own folder would come first on its path.
        done = subprocess.run(
            [sys.executable, "-c", program, folder, str(threads)],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            cwd=folder,
        )
        if done.returncode:
            raise RefusedError(
                f"LiteRT does not run the file in half precision: {_reason(done.stderr)}"
            )
        return np.load(Path(folder, "scores.npy"), allow_pickle=False)


def _reason(log: str) -> str:
    """The first error of a log, or its last line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines[-1:] or ["the process ended without a message"])[0].rstrip(".")
