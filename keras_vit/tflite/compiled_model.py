"""Runs `.tflite` files with LiteRT's CompiledModel, on a GPU or in half precision on the CPU.

Android apps allow half precision with `Interpreter.Options.setAllowFp16PrecisionForFp32(true)`:
XNNPACK then computes float32 and float16 files in it. It emulates half precision on x86 processors
without such instructions.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_vit._errors import RefusedError, one_line
from keras_vit.tflite.flatbuffer import Model, read_graph
from keras_vit.tflite.processes import run_program
from keras_vit.tflite.runner import as_path, grouped
from keras_vit.tflite.vulkan import Vulkan, vulkan_devices

NO_DEVICE = "no Vulkan device: install a GPU's Vulkan driver, or Chromium, which brings SwiftShader"
_PROGRAM = Path(__file__).with_name("compiled_model_program.py")
_DEVICE = re.compile(r"Selected adapter: (.+?), arch=")
_NO_DEVICE = ("No adapters found", "Couldn't load Vulkan")
# What the accelerator logs before it names the operators that it does not take, a line for each.
_NOT_TAKEN = "not supported by GPU delegate:"
_STATUS = re.compile(r"(?:INVALID_ARGUMENT|UNIMPLEMENTED|UNAVAILABLE|INTERNAL): (.+)")
_SILENT = "the process ended without a message"


class NoDeviceError(RefusedError):
    """This machine has no Vulkan device that LiteRT can use."""


class GpuOutputs(NamedTuple):
    """What a GPU gives for a file.

    Attributes:
        device: the name of the device, "SwiftShader Device (Subzero)".
        outputs: each output of the file (n * batch, ...), in the file's types.
        milliseconds: of each run, with the transfer of input and outputs.
    """

    device: str
    outputs: list[np.ndarray]
    milliseconds: list[float]


def run_on_gpu(file: Model, inputs: np.ndarray, limit_s: float) -> GpuOutputs:
    """Runs a file on a GPU.

    Args:
        file: a file of one input, or its content.
        inputs: n of its inputs (n, batch, height, width, 3), in the file's type.
        limit_s: the most seconds that it may take.

    Raises:
        NoDeviceError: there is no Vulkan device.
        RefusedError: the accelerator does not take the whole file, ends the process, or takes
            longer; the message begins with the device and a colon.
    """
    with tempfile.TemporaryDirectory() as folder:
        model = as_path(file, folder)
        np.save(Path(folder, "inputs.npy"), inputs)
        for vulkan in vulkan_devices():
            log = _run_on(vulkan, model, folder, limit_s)
            written = Path(folder, "outputs.npz")
            if not written.exists() and any(text in log for text in _NO_DEVICE):
                continue
            named = _DEVICE.search(log)
            device = one_line(named[1]) if named else "unknown device"
            if not written.exists():
                raise RefusedError(f"{device}: {one_line(_why_no_gpu(log))}")
            return GpuOutputs(device, *_outputs(written))
    raise NoDeviceError(NO_DEVICE)


def predict_in_half_precision(content: Model, inputs: np.ndarray, threads: int = 2) -> np.ndarray:
    """A file's scores (n, ...) for inputs (n, height, width, 3), in half precision.

    Raises:
        RefusedError: LiteRT does not run the file in half precision.
    """
    with tempfile.TemporaryDirectory() as folder:
        model, graph = as_path(content, folder), read_graph(content)
        batch = graph.tensors[graph.inputs[0]].shape[0]
        np.save(Path(folder, "inputs.npy"), grouped(inputs, batch))
        done = run_program(_PROGRAM, model, folder, "half", str(threads))
        if done.returncode:
            lines = _lines(done.stderr)
            errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
            reason = (errors or lines[-1:] or [_SILENT])[0].rstrip(".")
            raise RefusedError(f"LiteRT does not run the file in half precision: {reason}")
        [scores, *_], _ = _outputs(Path(folder, "outputs.npz"))
        return scores[: len(inputs)]


def _run_on(vulkan: Vulkan, model: Path, folder: str, limit_s: float) -> str:
    """Runs the program on a device; returns what it and LiteRT logged."""
    # Drivers want a private folder for their sockets.
    variables = {"XDG_RUNTIME_DIR": folder, **vulkan.variables}
    arguments = (model, folder, "gpu", vulkan.loader)
    try:
        done = run_program(_PROGRAM, *arguments, limit_s=limit_s, **variables)
    except subprocess.TimeoutExpired as error:
        log = error.stderr or ""
        log = log.decode("utf-8", "replace") if isinstance(log, bytes) else log
        return f"{log}\nERROR: stopped after {limit_s:g} seconds"
    if done.returncode < 0:
        return f"{done.stderr}\nERROR: the process was ended by signal {-done.returncode}"
    return done.stderr


def _outputs(written: Path) -> tuple[list[np.ndarray], list[float]]:
    """What the program wrote: each output, and the milliseconds of each run."""
    with np.load(written, allow_pickle=False) as arrays:
        outputs = [arrays[str(i)] for i in range(len(arrays) - 1)]
        return outputs, arrays["milliseconds"].tolist()


def _why_no_gpu(log: str) -> str:
    """Why a file was refused, in one line."""
    lines = _lines(log)
    for i, line in enumerate(lines):
        if line.endswith(_NOT_TAKEN):
            named = [line for line in lines[i + 1 :] if re.match(r"[A-Z0-9_]+: ", line)]
            return f"the accelerator does not take {'; '.join(dict.fromkeys(named[:3]))}"
    if status := _STATUS.search(log):
        return status[1].rstrip(".")
    errors = [line for line in lines if re.match(r"(?:ERROR|\w*Error): ", line)]
    others = [line for line in lines if not line.startswith(("INFO: ", "WARNING: "))]
    found = (errors[-1:] or others[-1:] or [_SILENT])[0]
    return found.removeprefix("ERROR: ").rstrip(".")


def _lines(log: str) -> list[str]:
    return [line.strip() for line in log.splitlines() if line.strip()]
