"""Runs float files in half precision, which Android apps can allow on the CPU.

`Interpreter.Options.setAllowFp16PrecisionForFp32(true)` lets XNNPACK compute float32 and float16
files in half precision. XNNPACK emulates it on x86 processors without half-precision instructions.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from keras_vit._errors import RefusedError
from keras_vit.deploy.judge.parity import Verdict, compare
from keras_vit.deploy.precisions import Budget
from keras_vit.deploy.reference import ParityError
from keras_vit.tflite.compiled_model import predict_in_half_precision
from keras_vit.tflite.flatbuffer import Model

# The budget was measured like those in `precisions`: D: 100%, 0.0010, 0.0004. R: 100%, 0.0010,
# 0.0015.
BUDGET = Budget(0.99, 2e-2, 1e-2, None)


@dataclasses.dataclass(frozen=True)
class HalfPrecision:
    """The result of a float file in half precision. It is reported, and no file is refused for it.

    Attributes:
        problem: why half precision must not be allowed for this file; "" if it may be.
        verdict: the comparison with Keras; None if the file does not run or returns NaN.
    """

    problem: str
    verdict: Verdict | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values: "problem", and the fields of the verdict but its note."""
        figures = {} if self.verdict is None else dataclasses.asdict(self.verdict)
        figures.pop("note", None)  # it is about the graph, not about half precision
        return {"problem": self.problem, **figures}


def judge_half_precision(
    content: Model,
    precision: str,
    inputs: np.ndarray,
    expected: np.ndarray,
    targets: np.ndarray | None = None,
    output: str = "logits",
) -> HalfPrecision:
    """Runs a float file in half precision and compares it with Keras.

    Args:
        content: the file.
        precision: its name.
        inputs: inputs of the file (n, height, width, 3).
        expected: Keras' scores for them.
        targets, output: as in `parity.compare`.
    """
    try:
        scores = predict_in_half_precision(content, inputs)
    except RefusedError as error:
        return HalfPrecision(str(error))
    if not np.isfinite(scores).all():
        return HalfPrecision("some scores are not finite: values overflow half precision")
    verdict = dataclasses.replace(
        compare(precision, expected, scores, targets, output), precision="half precision"
    )
    try:
        verdict.check(budget=BUDGET)
    except ParityError as error:
        return HalfPrecision(str(error), verdict)
    return HalfPrecision("", verdict)
