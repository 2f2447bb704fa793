"""Runs a `.tflite` file with LiteRT, as a phone does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from keras_vit._errors import RefusedError, UsageError, naming_install, one_line
from keras_vit._quiet import ignore_warning, quiet
from keras_vit.tflite.flatbuffer import MappedFile, existing_file

# Bounds of the number of images that both kernels run, and the weights that they read in all: the
# slower ones take a quarter of a second per image for S/16 (23 MB).
_FEWEST, _MOST, _BYTES = 16, 128, 2**28
# TFLite 2.13 to LiteRT 1.4 stay within the largest difference (`benchmarks/runtimes.py`), other
# clients within 1.2 times that of 128 images (`benchmarks/clients.py`); the margin is for those
# that were not tried.
_MARGIN = 2.0
# Where activations are quantised at run time, few images show less of it: MediaPipe's probabilities
# of 120 images differed by up to 3.8 times as much as those of 16 images between these kernels.
_DYNAMIC_MARGIN = 5.0
_ANOTHER_BATCH = "predict takes any number of images, and export_tflite(batch=...) fixes another"


class Runner:
    """A loaded `.tflite` model with images as input and one tensor of scores as output.

    Inputs and outputs are floats; they are quantised and dequantised if the file uses integers.

    Args:
        model: the file, which is mapped into memory, or its bytes.
        threads: number of threads of the interpreter.
        xnnpack: whether XNNPACK runs the operators that it supports, the default on phones;
            otherwise LiteRT's own kernels run all of them.
        name: what errors call bytes.

    Raises:
        UsageError: the file is missing or not a TFLite model.
        RefusedError: LiteRT refuses it, because its weights are not finite or LiteRT does not have
            its operators.
    """

    def __init__(
        self,
        model: str | os.PathLike | bytes,
        threads: int = 2,
        xnnpack: bool = True,
        name: str = "the model",
    ):
        in_memory = isinstance(model, bytes)
        name = self._name = name if in_memory else str(model)
        if not in_memory:
            existing_file(model)
        interpreter = interpreter_class()
        kernels = {} if xnnpack else _own_kernels()
        try:
            with quiet():
                self.interpreter = interpreter(**as_source(model), **kernels, num_threads=threads)
                self.interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise refusal(name, str(error), isinstance(error, ValueError)) from None
        self.input = self.interpreter.get_input_details()[0]
        self.output = self.interpreter.get_output_details()[0]

    def __call__(self, tensor: np.ndarray) -> np.ndarray:
        """Scores (batch, ...) of preprocessed images (batch, height, width, channels).

        Raises:
            RefusedError: LiteRT cannot run the file.
            UsageError: the images have another shape than its input.
        """
        shape = tuple(map(int, self.input["shape"]))
        if tensor.shape != shape:
            same = tensor.shape[1:] == shape[1:]
            advice = _ANOTHER_BATCH if same else "preprocess the images for this model"
            raise UsageError(
                f"{self._name} takes {shape}: its sizes are fixed. "
                f"Received: {tensor.shape}; {advice}."
            )
        self.interpreter.set_tensor(self.input["index"], as_input(tensor, self.input))
        try:
            self.interpreter.invoke()
        except RuntimeError as error:
            raise RefusedError(f"LiteRT cannot run {self._name}: {_line(str(error))}.") from None
        return as_scores(self.interpreter.get_tensor(self.output["index"]), self.output)

    def predict(self, inputs: np.ndarray) -> np.ndarray:
        """Scores (n, ...) of preprocessed images (n, height, width, channels)."""
        batches = grouped(inputs, int(self.input["shape"][0]))
        return np.concatenate([self(batch) for batch in batches])[: len(inputs)]


def runtime_tolerance(
    content: MappedFile | bytes, inputs: np.ndarray, runner: Runner, dynamic: bool = False
) -> tuple[float, float]:
    """How much an output may differ between correct runtimes: the tolerances of golden.json.

    XNNPACK, LiteRT's own kernels and older runtimes round integers differently, and each rounding
    changes all later results. LiteRT's own kernels differ from XNNPACK as much as older runtimes do
    (`benchmarks/runtimes.py`), and they are available wherever a file is exported.

    Args:
        content: the file or its content.
        inputs: inputs of the file (n, height, width, 3); a few of them are run.
        runner: the same file, loaded with XNNPACK.
        dynamic: whether activations are quantised at run time.

    Returns:
        Those of `difference_of` and, for masks, of `changed_pixels`; otherwise the second is 0.
    """
    count = min(max(_FEWEST, _BYTES // len(content)), _MOST)
    few = inputs[:: max(len(inputs) // count, 1)][:count]
    own = Runner(content, xnnpack=False).predict(few)
    margin = _DYNAMIC_MARGIN if dynamic and count < _MOST else _MARGIN
    scores = runner.predict(few)
    changed = changed_pixels(own, scores) if is_class_map(own) or own.ndim == 4 else 0.0
    return margin * difference_of(own, scores), margin * changed


def difference_of(one: np.ndarray, other: np.ndarray) -> float:
    """How much outputs for the same images (n, ...) differ.

    Of scores it is the largest difference; of class maps, uint8 (n, height, width), the largest
    fraction of an image's pixels that have another class.
    """
    if is_class_map(one):
        return changed_pixels(one, other)
    return float(np.abs(one.astype(np.float64) - other).max())


def changed_pixels(one: np.ndarray, other: np.ndarray) -> float:
    """The largest fraction of an image's pixels that have another class.

    Args:
        one, other: class maps, or scores (n, height, width, classes), of the same images.
    """
    one, other = (each if is_class_map(each) else each.argmax(-1) for each in (one, other))
    return float((one != other).mean(axis=(1, 2)).max())


def is_class_map(output: np.ndarray) -> bool:
    """Whether an output (n, ...) is class maps."""
    return output.ndim == 3 and output.dtype == np.uint8


def grouped(inputs: np.ndarray, batch: int) -> np.ndarray:
    """Inputs (n, ...) as batches (n / batch, batch, ...); the last input fills up the last one."""
    batch = max(batch, 1)  # -1 stands for any number
    missing = -len(inputs) % batch
    if missing:
        inputs = np.concatenate([inputs, np.repeat(inputs[-1:], missing, axis=0)])
    return inputs.reshape(-1, batch, *inputs.shape[1:])  # (n / batch, batch, ...)


def refusal(name: str, reason: str, is_no_model: bool) -> UsageError | RefusedError:
    """The error for a file that LiteRT does not load, with LiteRT's reason."""
    if is_no_model:
        return UsageError(f"{name} is not a TFLite model: {_line(reason)}.")
    return RefusedError(
        f"LiteRT refuses {name}: {_line(reason)}; are all weights finite, and does TFLite have all "
        "operators?"
    )


def as_input(tensor: np.ndarray, details: dict[str, Any]) -> np.ndarray:
    """A tensor converted to the type of a file's input, and quantised if that has a scale."""
    scale, zero = details["quantization"]
    if scale:
        limits = np.iinfo(details["dtype"])
        tensor = np.clip(np.rint(tensor / scale + zero), limits.min, limits.max)
    return tensor.astype(details["dtype"])


def as_scores(tensor: np.ndarray, details: dict[str, Any]) -> np.ndarray:
    """A tensor of a file as floats: dequantised if it has a scale."""
    scale, zero = details["quantization"]
    return (tensor.astype(np.float32) - zero) * np.float32(scale) if scale else tensor


def as_source(model: str | os.PathLike | bytes) -> dict[str, Any]:
    """The argument of LiteRT's interpreter for a file or its content."""
    if isinstance(model, bytes):
        return {"model_content": model}
    return {"model_path": os.fspath(model)}


def as_path(
    model: str | os.PathLike | bytes, folder: str | os.PathLike, name: str = "model.tflite"
) -> Path:
    """The path of a file for another process; its content is first written to a folder."""
    if not isinstance(model, bytes):
        return Path(model).resolve()
    path = Path(folder, name)
    path.write_bytes(model)
    return path


def interpreter_class() -> Any:
    """LiteRT's interpreter, or an error that says how to install it."""
    with naming_install("running TFLite files needs LiteRT", "export"):
        from ai_edge_litert.interpreter import Interpreter
    return Interpreter


def ignore_kept_tensors() -> None:
    """Hides LiteRT's warning that keeping all intermediates of a file is for debugging."""
    ignore_warning(".*experimental_preserve_all_tensors", "ai_edge_litert")


def _own_kernels() -> dict[str, Any]:
    from ai_edge_litert.interpreter import OpResolverType

    return {"experimental_op_resolver_type": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES}


def _line(reason: str) -> str:
    return one_line(" ".join(reason.split())).rstrip(".")
