"""Judges a file on a GPU: it is run on one, and half precision is emulated.

The accelerator is that of LiteRT 2.x on phones (ML Drift), with its WebGPU backend. It runs a file
whole or refuses it. Half precision, which GPUs use by default, is emulated in NumPy, because the
device of this machine may not have it.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Callable
from typing import Literal, get_args

import numpy as np

from keras_vit._errors import RefusedError, UsageError
from keras_vit._json import Positive
from keras_vit.deploy.judge.layer_differences import block_ends
from keras_vit.deploy.judge.verdict import HALF_PRECISION
from keras_vit.deploy.precisions import Precision
from keras_vit.tflite.compiled_model import NO_DEVICE, GpuOutputs, NoDeviceError, run_on_gpu
from keras_vit.tflite.file_layout import ending_at
from keras_vit.tflite.flatbuffer import Model, read_graph
from keras_vit.tflite.float16_emulation import Sums, emulate
from keras_vit.tflite.runner import Runner, as_input, as_scores, difference_of
from keras_vit.tflite.vulkan import vulkan_devices

# Whether files are run on a GPU: "no"; "auto", where there is a device, and no file is refused for
# it; "yes", and a file that a GPU does not run right is refused.
GpuChoice = Literal["no", "auto", "yes"]
# Images: SwiftShader takes a minute for one through B/16, and so do float16 sums.
_RUN, _EMULATED = 2, {"float32": 2, "float16": 1}
_LIMIT_S = 900.0
# A block is wrong if it differs from the CPU's by more than this fraction of its norm.
_WRONG = 0.05
# The most multiplications for which float16 sums are emulated: those of L/16 are 61e9.
_MOST_PRODUCTS = 7e10
Run = Callable[[Model, np.ndarray, float], GpuOutputs]


@dataclasses.dataclass(frozen=True)
class HalfSums:
    """A file in emulated half precision.

    Attributes:
        sums: the type in which products are summed.
        problem: what overflows, or that scores differ too much; "" if nothing.
        images: number of images.
        max_difference: the largest difference of a score from the CPU's; None if values overflow.
    """

    sums: Sums
    problem: str
    images: int
    max_difference: float | None = None


@dataclasses.dataclass(frozen=True)
class GpuRun:
    """A file on a GPU.

    Attributes:
        device: the device, "SwiftShader Device (Subzero)"; "" if the file was not run.
        problem: why it was not run, was refused, or is wrong; "" if it ran right.
        images: number of images that were run.
        scale: half of the difference between Keras' largest and smallest score.
        allowed: the largest difference that is not called wrong.
        max_difference: the largest difference of a score from the CPU's; None if it was not run.
        block: the first block that differs by more than 5% of its norm; "" if there is none.
        half_precision: the file in emulated half precision; empty for files in integers.
    """

    device: str
    problem: str
    images: int = 0
    scale: Positive = 1.0
    allowed: float = 0.0
    max_difference: float | None = None
    block: str = ""
    half_precision: tuple[HalfSums, ...] = ()

    @property
    def problems(self) -> list[str]:
        """All that is wrong with the file on GPUs; a missing device is nothing wrong."""
        found = [f"on {self.device}: {self.problem}"] if self.device and self.problem else []
        return found + [
            f"in half precision, emulated with {half.sums} sums: {half.problem}"
            for half in self.half_precision
            if half.problem
        ]

    def check(self, precision: str) -> None:
        """Raises a `RefusedError` if the file was not run, or is not right on GPUs."""
        if not self.device:
            raise RefusedError(f"the {precision} file was not run on a GPU: {self.problem}.")
        if self.problems:
            place = f" The first block that differs is {self.block}." if self.block else ""
            raise RefusedError(f"the {precision} file fails {'; '.join(self.problems)}.{place}")


NOT_ASKED = GpuRun("", "not asked for; --gpu auto runs it where there is a Vulkan device")


def check_gpu_choice(choice: str) -> None:
    """Raises a `UsageError` for an unknown choice, and for "yes" without a Vulkan device."""
    if choice not in get_args(GpuChoice):
        known = ", ".join(get_args(GpuChoice))
        raise UsageError(f"gpu must be one of {known}. Received: {choice!r}.")
    if choice == "yes" and not vulkan_devices():
        raise UsageError(f"gpu='yes' needs a GPU. Received: {NO_DEVICE}, or choose gpu='auto'.")


def judge_on_gpu(
    content: Model,
    precision: Precision,
    inputs: np.ndarray,
    scale: float,
    run: Run = run_on_gpu,
) -> GpuRun:
    """Runs a file on a GPU and in emulated half precision, and compares it with the CPU.

    Args:
        content: the file.
        precision: its precision.
        inputs: inputs of the file (n, height, width, 3); the first ones are run.
        scale: half of the difference between Keras' largest and smallest score.
        run: runs a file on a GPU.
    """
    runner = Runner(content)
    expected = runner.predict(inputs[:_RUN])
    # Real GPUs compute in half precision, integer files in float.
    budget = HALF_PRECISION if precision.is_float else precision.budget
    allowed = budget.difference * scale
    half = _in_half_precision(content, inputs, expected, allowed) if precision.is_float else ()
    known = {"scale": scale, "allowed": allowed, "half_precision": half}
    try:
        device, [found, *_], _ = run(content, as_input(inputs[:_RUN, None], runner.input), _LIMIT_S)
    except NoDeviceError as error:
        return GpuRun("", str(error), **known)
    except RefusedError as error:
        device, _, reason = str(error).partition(": ")
        return GpuRun(device, reason, **known)
    difference = difference_of(as_scores(found, runner.output), expected)
    problem = _problem(difference, allowed, " from the CPU's")
    if not np.isfinite(difference):
        problem, difference = "scores that are not finite", None
    block = first_wrong_block(content, inputs[:1], run) if problem else ""
    return GpuRun(device, problem, len(expected), max_difference=difference, block=block, **known)


def _problem(difference: float, allowed: float, reference: str = "") -> str:
    if not difference > allowed:
        return ""
    return f"scores differ{reference} by {difference:.3g}; allowed are {allowed:.3g}"


def first_wrong_block(content: Model, inputs: np.ndarray, run: Run = run_on_gpu) -> str:
    """The first block whose output on a GPU differs from the CPU's; "" if there is none.

    It is found by halving: files that end at a block are run on both. Files of more than 2 GB are
    not cut.

    Args:
        content: the file.
        inputs: one input of the file (1, height, width, 3).
        run: runs a file on a GPU.
    """
    graph = read_graph(content)
    ends = {} if graph.weights_behind else block_ends(graph)

    def is_wrong(name: str) -> bool:
        part = ending_at(content, ends[name])
        runner = Runner(part)
        try:
            found = run(part, as_input(inputs[:, None], runner.input), _LIMIT_S).outputs[0]
        except RefusedError:
            return True
        expected, actual = runner.predict(inputs), as_scores(found, runner.output)
        difference = np.linalg.norm(actual - expected) / max(np.linalg.norm(expected), 1e-12)
        return not difference <= _WRONG  # NaN is wrong

    return [*ends, ""][bisect.bisect_left(list(ends), True, key=is_wrong)]


def _in_half_precision(
    content: Model, inputs: np.ndarray, expected: np.ndarray, allowed: float
) -> tuple[HalfSums, ...]:
    found = []
    for sums, count in _EMULATED.items():
        if sums == "float16" and _products(content) > _MOST_PRODUCTS:
            continue
        try:
            scores, overflow = emulate(content, inputs[:count], sums)
        except RefusedError as error:
            return (HalfSums(sums, f"not emulated: {error}", 0),)
        images = min(count, len(inputs))
        if scores is None:
            found.append(HalfSums(sums, f"overflow in {overflow}", images))
        else:
            difference = difference_of(scores.astype(expected.dtype), expected[:images])
            found.append(HalfSums(sums, _problem(difference, allowed), images, difference))
    return tuple(found)


def _products(content: Model) -> float:
    """The multiplications of one image's matrix products."""
    graph, total = read_graph(content), 0.0
    for operator in graph.operators:
        if operator.name in ("FULLY_CONNECTED", "CONV_2D"):
            outputs, kernel = graph.written(operator)[0], graph.read(operator)[1]
            total += outputs.size * kernel.size / kernel.shape[0]
    return total
