"""A file that was made, and the same file once it has been run and compared with Keras."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from keras_vit.deploy.inspect.flatbuffer import TFLiteFile, check_static
from keras_vit.deploy.inspect.inspection import Inspection, inspect_file
from keras_vit.deploy.inspect.runtimes import check_runtime
from keras_vit.deploy.judge.half_precision import HalfPrecision, judge_half_precision
from keras_vit.deploy.judge.kernels import runtime_tolerance
from keras_vit.deploy.judge.parity import Verdict, compare
from keras_vit.deploy.judge.reference import Reference
from keras_vit.deploy.precisions import Precision
from keras_vit.deploy.runner import Runner


@dataclasses.dataclass(frozen=True)
class MadeFile:
    """A file of one precision, and what it was made from.

    Attributes:
        precision: which decides the budget.
        content: of model.tflite.
        options: a `GraphOptions`: what it takes and gives.
        rewritten: whether the model was rebuilt as a faster graph.
        float_layers: layers that stayed float in a quantised file.
        calibration: the images that ranges were measured on; None if there were none.
        recipe: what `auto` chose, as recipe.json has it; None for other precisions.
    """

    precision: Precision
    content: TFLiteFile
    options: Any
    rewritten: bool = True
    float_layers: tuple[str, ...] = ()
    calibration: np.ndarray | None = None
    recipe: dict[str, Any] | None = None


@dataclasses.dataclass(frozen=True)
class JudgedFile:
    """A file that has been run, compared and looked into. It may still be refused: see `check`.

    Attributes:
        made: the file.
        verdict: how it compares with Keras.
        images_from: where the compared images come from, in words.
        inspection: what it needs and what the runtime does with it.
        half: what a float file gives in half precision; None for other files.
        tolerance: how far the scores of quantised files may be apart on different runtimes, see
            `runtime_tolerance`.
        differences: of each block from the float file, see `layer_differences`.
    """

    made: MadeFile
    verdict: Verdict
    images_from: str
    inspection: Inspection
    half: HalfPrecision | None = None
    tolerance: float = 0.0
    differences: dict[str, float] = dataclasses.field(default_factory=dict)

    @property
    def content(self) -> TFLiteFile:
        """Of model.tflite."""
        return self.made.content


def judge_file(made: MadeFile, reference: Reference) -> JudgedFile:
    """Runs a file over images, compares its scores with Keras' and looks into it."""
    runner, content = Runner(made.content), made.content
    half, tolerance = None, 0.0
    features = made.options.output == "features"
    verdict = compared(made, reference, runner)
    if made.precision.is_float:
        half = judge_half_precision(
            content,
            made.precision.name,
            reference.inputs,
            reference.expected,
            reference.targets,
            features,
        )
    else:
        tolerance = runtime_tolerance(content, reference.inputs, runner)
    inspection = inspect_file(content, runner=runner)
    return JudgedFile(made, verdict, reference.images_from, inspection, half, tolerance)


def compared(made: MadeFile, reference: Reference, runner: Runner | None = None) -> Verdict:
    """The comparison alone; `runner` is the same file, if it has been loaded already."""
    scores = (runner or Runner(made.content)).predict(reference.inputs)
    features = made.options.output == "features"
    verdict = compare(made.precision.name, reference.expected, scores, reference.targets, features)
    return dataclasses.replace(verdict, rewritten=made.rewritten)


def check(
    judged: JudgedFile, max_drop: float | None = None, min_runtime: str | None = None
) -> None:
    """Refuses a file that must not get its name.

    Args:
        judged: the file.
        max_drop: points of accuracy that a quantised file may lose, where labels are known; None:
            0.5, of int4 1.5.
        min_runtime: the oldest runtime that must run it: "2.16.1", "LiteRT 2.1".

    Raises:
        RefusedError: a budget is exceeded, or the runtime will not run it.
    """
    check_static(judged.content)
    if min_runtime is not None:
        check_runtime(judged.content, min_runtime)
    judged.verdict.check(max_drop)
