"""Runs a `.tflite` file on LiteRT's GPU accelerator, in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_vit._errors import RefusedError, one_line
from keras_vit.deploy.inspect.flatbuffer import Model
from keras_vit.deploy.judge.vulkan import Vulkan, vulkan_devices
from keras_vit.deploy.runner import as_path

NO_DEVICE = "no Vulkan device: install a GPU's Vulkan driver, or Chromium, which brings SwiftShader"
_DEVICE = re.compile(r"Selected adapter: (.+?), arch=")
_NO_DEVICE = ("No adapters found", "Couldn't load Vulkan")
# What the accelerator logs before it names the operators that it does not take, a line for each.
_NOT_TAKEN = "not supported by GPU delegate:"
_STATUS = re.compile(r"(?:INVALID_ARGUMENT|UNIMPLEMENTED|UNAVAILABLE|INTERNAL): (.+)")


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
            log = _run(vulkan, model, folder, limit_s)
            written = Path(folder, "outputs.npz")
            if not written.exists() and any(text in log for text in _NO_DEVICE):
                continue
            named = _DEVICE.search(log)
            device = one_line(named[1]) if named else "unknown device"
            if not written.exists():
                raise RefusedError(f"{device}: {one_line(_reason(log))}")
            with np.load(written, allow_pickle=False) as arrays:
                outputs = [arrays[str(i)] for i in range(len(arrays) - 1)]
                return GpuOutputs(device, outputs, arrays["milliseconds"].tolist())
    raise NoDeviceError(NO_DEVICE)


def _run(vulkan: Vulkan, model: Path, folder: str, limit_s: float) -> str:
    """Starts the program; returns what it and LiteRT logged."""
    program = Path(__file__).with_name("_gpu.py").read_text(encoding="utf-8")
    # Drivers want a private folder for their sockets.
    environment = os.environ | {"XDG_RUNTIME_DIR": folder} | dict(vulkan.variables)
    try:
        # Run as text: the folder of a script would come first on its sys.path.
        done = subprocess.run(
            [sys.executable, "-c", program, model, folder, vulkan.loader],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            cwd=folder,
            env=environment,
            timeout=limit_s,
        )
    except subprocess.TimeoutExpired as error:
        log = error.stderr or ""
        log = log.decode("utf-8", "replace") if isinstance(log, bytes) else log
        return f"{log}\nERROR: stopped after {limit_s:g} seconds"
    if done.returncode < 0:
        return f"{done.stderr}\nERROR: the process was ended by signal {-done.returncode}"
    return done.stderr


def _reason(log: str) -> str:
    """Why a file was refused, in one line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    for i, line in enumerate(lines):
        if line.endswith(_NOT_TAKEN):
            named = [line for line in lines[i + 1 :] if re.match(r"[A-Z0-9_]+: ", line)]
            return f"the accelerator does not take {'; '.join(dict.fromkeys(named[:3]))}"
    if status := _STATUS.search(log):
        return status[1].rstrip(".")
    errors = [line for line in lines if re.match(r"(?:ERROR|\w*Error): ", line)]
    others = [line for line in lines if not line.startswith(("INFO: ", "WARNING: "))]
    found = (errors[-1:] or others[-1:] or ["the process ended without a message"])[0]
    return found.removeprefix("ERROR: ").rstrip(".")
