"""Runs a converted file, compares it with Keras and inspects it, and refuses it if it is bad.

Float files are also run in half precision.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from keras_vit._errors import RefusedError
from keras_vit.deploy.convert.converter import MadeFile
from keras_vit.deploy.graph.graph_options import is_mask
from keras_vit.deploy.judge.client_verdict import ClientVerdict
from keras_vit.deploy.judge.gpu import NOT_ASKED, GpuChoice, GpuRun, judge_on_gpu
from keras_vit.deploy.judge.heavy_tokens import heavy_token
from keras_vit.deploy.judge.layer_differences import first_difference, layer_differences
from keras_vit.deploy.judge.mask_parity import compare_masks
from keras_vit.deploy.judge.parity import compare
from keras_vit.deploy.judge.verdict import HALF_PRECISION, Verdict
from keras_vit.deploy.precisions import NORM_STATISTICS
from keras_vit.deploy.reference_scores import ParityError, Reference
from keras_vit.tflite.compiled_model import predict_in_half_precision
from keras_vit.tflite.file_inspection import FileInspection, inspect_file
from keras_vit.tflite.flatbuffer import MappedFile, check_static
from keras_vit.tflite.processes import release_memory
from keras_vit.tflite.runner import Runner, runtime_tolerance
from keras_vit.tflite.runtimes import check_runtime

# The fraction of a mask's pixels that may have another class in every runtime: near ties.
_FEWEST_PIXELS = 1e-3
# Number of images to find the layer where a difference begins.
_WATCHED = 4
# The largest float file, in bytes, that is run with all its intermediates kept in memory.
_LARGEST_COMPARED = 2**31


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


@dataclasses.dataclass(frozen=True)
class JudgedFile:
    """A file that has been run, compared and inspected. `check` may still refuse it.

    Attributes:
        made: the file.
        verdict: how it compares with Keras.
        reference: the compared images, with Keras' scores.
        inspection: what the file needs from the runtime and how the runtime runs it.
        half: the result of a float file in half precision; None for other files.
        tolerance: how much the scores of a quantised file may differ between runtimes, see
            `runtime_tolerance`.
        pixel_tolerance: likewise, which fraction of the pixels of a mask may have another class.
        gpu: the file on a GPU, and in emulated half precision.
        client: what a client makes of it; None if it is for none.
    """

    made: MadeFile
    verdict: Verdict
    reference: Reference
    inspection: FileInspection
    half: HalfPrecision | None = None
    tolerance: float = 0.0
    pixel_tolerance: float = 0.0
    gpu: GpuRun = NOT_ASKED
    client: ClientVerdict | None = None

    @property
    def score_tolerance(self) -> float:
        """How much float scores of a correct runner may differ, as `difference_of`.

        At least a thousandth of the scale: float files differ by 2e-6 on TFLite 2.13 to LiteRT 2.3
        (`benchmarks/runtimes.py`).
        """
        return max(1e-3 * self.verdict.scale, 1e-6, self.tolerance)

    @property
    def most_changed_pixels(self) -> float:
        """Which fraction of a mask's pixels a correct runner may give another class."""
        return max(_FEWEST_PIXELS, self.pixel_tolerance)

    @functools.cached_property
    def differences(self) -> tuple[dict[str, float], dict[str, float]]:
        """How much blocks and layers differ from the float file's, see `layer_differences`.

        Both are empty for a file that was not quantised, and for one of more than 2 GB.
        """
        float_file = self.made.float_file
        if float_file is None or len(float_file) > _LARGEST_COMPARED:
            return {}, {}
        return layer_differences(float_file, self.content, self.reference.inputs[:_WATCHED])

    @property
    def content(self) -> MappedFile:
        """The content of model.tflite."""
        return self.made.content


def judge_file(made: MadeFile, reference: Reference, gpu: GpuChoice = "no") -> JudgedFile:
    """Runs a file on images, compares its scores with Keras' and inspects it."""
    content, precision, inputs = made.content, made.precision, reference.inputs
    release_memory()
    # In another process, so before this one loads the file too.
    half = judge_half_precision(made, reference) if precision.is_float else None
    runner, tolerances = Runner(content), (0.0, 0.0)
    verdict = compared(made, reference, runner)
    if not precision.is_float:
        tolerances = runtime_tolerance(content, inputs, runner, not precision.calibrated)
    inspection = inspect_file(content, runner=runner)
    del runner
    release_memory()
    asked = gpu != "no"
    on_gpu = judge_on_gpu(content, precision, inputs, verdict.scale) if asked else NOT_ASKED
    return JudgedFile(made, verdict, reference, inspection, half, *tolerances, on_gpu)


def judge_half_precision(made: MadeFile, reference: Reference) -> HalfPrecision:
    """Runs a float file in half precision, which Android apps can allow on the CPU.

    `Interpreter.Options.setAllowFp16PrecisionForFp32(true)` lets XNNPACK compute float32 and
    float16 files in it. XNNPACK emulates it on x86 processors without such instructions.
    """
    try:
        scores = predict_in_half_precision(made.content, reference.inputs)
        if not np.isfinite(scores).all():
            return HalfPrecision("some scores are not finite: values overflow half precision")
        verdict = _compare(made, reference, scores)
        verdict = dataclasses.replace(verdict, precision="half precision")
        verdict.check(budget=HALF_PRECISION)
    except ParityError as error:
        return HalfPrecision(str(error), verdict)
    except RefusedError as error:
        return HalfPrecision(str(error))
    return HalfPrecision("", verdict)


def compared(made: MadeFile, reference: Reference, runner: Runner | None = None) -> Verdict:
    """Only the comparison with Keras; `runner` is the same file if it is already loaded."""
    scores = (runner or Runner(made.content)).predict(reference.inputs)
    verdict, note = _compare(made, reference, scores), made.about.note
    return dataclasses.replace(verdict, rewritten=not note, note=note)


def _compare(made: MadeFile, reference: Reference, scores: np.ndarray) -> Verdict:
    precision, output = made.precision.name, made.about.options.output
    figures = (precision, reference.expected, scores, reference.targets)
    return compare_masks(*figures) if is_mask(output) else compare(*figures, output)


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
    try:
        judged.verdict.check(max_drop)
    except ParityError as error:
        raise ParityError(
            f"{error} This file was not written.{_place(judged)}{_reason(judged)}"
            f"{_choice(judged.made)}{_images(judged)}"
        ) from None
    if gpu == "yes":
        judged.gpu.check(judged.made.precision.name)


def _place(judged: JudgedFile) -> str:
    """A sentence about the layer where a file begins to differ."""
    _, layers = judged.differences
    first = first_difference(layers)
    if first is None:
        return ""
    worst = max(layers, key=layers.get)
    return (
        f" Its layers differ from those of the float file by more than 10% from {first} on, most "
        f"in {worst} ({layers[worst]:.0%})."
    )


def _reason(judged: JudgedFile) -> str:
    """A sentence about a token that integers cannot compute together with the others."""
    float_file, statistics = judged.made.float_file, judged.made.precision.kind(NORM_STATISTICS)
    if float_file is None or len(float_file) > _LARGEST_COMPARED or statistics != "static8":
        return ""
    heavy = heavy_token(float_file, judged.reference.inputs[:_WATCHED])
    if heavy is None:
        return ""
    return (
        f" The mean square of token {heavy.token} (learned tokens come first) in {heavy.norm} is "
        f"{heavy.times:,.0f} times that of the median token, and full integers have one scale for "
        "all tokens; take int8 or dynamic, whose norms and residual stream stay in float."
    )


def _images(judged: JudgedFile) -> str:
    """A sentence about random images, which many models hardly tell apart."""
    if judged.reference.images_from != "random images":
        return ""
    return " It was compared on random images, which a model may hardly tell apart: pass pictures."


def _choice(made: MadeFile) -> str:
    """A sentence about the layers that were chosen to stay in float."""
    if made.recipe is None:
        return ""
    return (
        f" {made.precision.quantize} kept {len(made.float_layers)} layers in float, chosen on "
        f"{made.recipe['chosen_on']}: more images give a better choice."
    )
