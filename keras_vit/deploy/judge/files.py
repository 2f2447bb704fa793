"""Records of a converted file, before and after it is run and compared with Keras."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from keras_vit.deploy.inspect.flatbuffer import MappedFile, check_static
from keras_vit.deploy.inspect.inspection import Inspection, inspect_file
from keras_vit.deploy.inspect.runtimes import check_runtime
from keras_vit.deploy.judge.gpu import NOT_ASKED, GpuChoice, GpuRun, judge_on_gpu
from keras_vit.deploy.judge.half_precision import HalfPrecision, judge_half_precision
from keras_vit.deploy.judge.kernels import runtime_tolerance
from keras_vit.deploy.judge.parity import Verdict, compare
from keras_vit.deploy.judge.reference import Reference
from keras_vit.deploy.memory import release_memory
from keras_vit.deploy.precisions import Precision
from keras_vit.deploy.runner import Runner


@dataclasses.dataclass(frozen=True)
class MadeFile:
    """A file of one precision, and what it was made from.

    Attributes:
        precision: the precision, which sets the budget.
        content: the content of model.tflite.
        options: a `GraphOptions`: the file's input and output.
        note: why the model was not rebuilt as a faster graph; "" if it was.
        float_layers: layers that stayed in float in a quantised file.
        calibration: the images that ranges were measured on; None if there were none.
        recipe: the layers that `auto` chose, as in recipe.json; None for other precisions.
    """

    precision: Precision
    content: MappedFile
    options: Any
    note: str = ""
    float_layers: tuple[str, ...] = ()
    calibration: np.ndarray | None = None
    recipe: dict[str, Any] | None = None


@dataclasses.dataclass(frozen=True)
class JudgedFile:
    """A file that has been run, compared and inspected. `check` may still refuse it.

    Attributes:
        made: the file.
        verdict: how it compares with Keras.
        images_from: a description of the compared images.
        inspection: what the file needs from the runtime and how the runtime runs it.
        half: the result of a float file in half precision; None for other files.
        tolerance: how much the scores of a quantised file may differ between runtimes, see
            `runtime_tolerance`.
        differences: the difference of each block from the float file, see `layer_differences`.
        gpu: the file on a GPU, and in emulated half precision.
        client: what a client makes of it, a `ClientVerdict`; None if it is for none.
    """

    made: MadeFile
    verdict: Verdict
    images_from: str
    inspection: Inspection
    half: HalfPrecision | None = None
    tolerance: float = 0.0
    differences: dict[str, float] = dataclasses.field(default_factory=dict)
    gpu: GpuRun = NOT_ASKED
    client: Any = None

    @property
    def score_tolerance(self) -> float:
        """How much float scores of a correct runner may differ.

        At least a thousandth of the scale: float files differ by 2e-6 on TFLite 2.13 to LiteRT 2.3
        (`benchmarks/runtimes.py`).
        """
        return max(1e-3 * self.verdict.scale, 1e-6, self.tolerance)

    @property
    def content(self) -> MappedFile:
        """The content of model.tflite."""
        return self.made.content


def judge_file(made: MadeFile, reference: Reference, gpu: GpuChoice = "no") -> JudgedFile:
    """Runs a file on images, compares its scores with Keras' and inspects it."""
    content, half, tolerance = made.content, None, 0.0
    release_memory()
    if made.precision.is_float:  # in another process, so before this one loads the file too
        half = judge_half_precision(
            content,
            made.precision.name,
            reference.inputs,
            reference.expected,
            reference.targets,
            made.options.output,
        )
    runner = Runner(content)
    verdict = compared(made, reference, runner)
    if not made.precision.is_float:
        dynamic = not made.precision.calibrated
        tolerance = runtime_tolerance(content, reference.inputs, runner, dynamic)
    inspection = inspect_file(content, runner=runner)
    del runner
    release_memory()
    judged = JudgedFile(made, verdict, reference.images_from, inspection, half, tolerance)
    if gpu == "no":
        return judged
    on_gpu = judge_on_gpu(content, made.precision, reference.inputs, verdict.scale)
    return dataclasses.replace(judged, gpu=on_gpu)


def compared(made: MadeFile, reference: Reference, runner: Runner | None = None) -> Verdict:
    """Only the comparison with Keras; `runner` is the same file if it is already loaded."""
    scores = (runner or Runner(made.content)).predict(reference.inputs)
    precision, output = made.precision.name, made.options.output
    verdict = compare(precision, reference.expected, scores, reference.targets, output)
    return dataclasses.replace(verdict, rewritten=not made.note, note=made.note)


def check(
    judged: JudgedFile,
    max_drop: float | None = None,
    min_runtime: str | None = None,
    gpu: GpuChoice = "no",
) -> None:
    """Refuses a file that must not be written.

    Args:
        judged: the file.
        max_drop: points of accuracy that a quantised file may lose if labels are known; None for
            its precision's own limit, `Budget.drop`.
        min_runtime: the oldest runtime that must run it: "2.16.1", "LiteRT 2.1".
        gpu: with "yes", a GPU must run it right.

    Raises:
        RefusedError: a budget is exceeded, or the runtime or a GPU cannot run the file.
    """
    check_static(judged.content)
    if min_runtime is not None:
        check_runtime(judged.content, min_runtime)
    judged.verdict.check(max_drop)
    if gpu == "yes":
        judged.gpu.check(judged.made.precision.name)
