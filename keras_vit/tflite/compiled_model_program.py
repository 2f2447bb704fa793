"""Runs a `.tflite` file with LiteRT's CompiledModel: a program that `compiled_model.py` starts.

Its arguments are the file, a folder with inputs.npy (n, batch, ...), and "gpu" with the Vulkan
loader to use ("" for the system's own) or "half" with a number of threads of the CPU. It writes
outputs.npz: outputs "0", "1" ... of all inputs, and the milliseconds of each run, "milliseconds".
LiteRT's log has the name of the GPU. It is a separate process because LiteRT logs until the process
ends, and a driver or a delegate may hang or end the process.
"""

import ctypes
import sys
import time
from pathlib import Path

import numpy as np
from ai_edge_litert.compiled_model import CompiledModel
from ai_edge_litert.options import CpuOptions, HardwareAccelerator, Options

# TFLITE_XNNPACK_DELEGATE_FLAG_FORCE_FP16 of LiteRT's xnnpack_delegate.h.
FORCE_FP16 = 4


def main(file: str, folder: Path, device: str, setting: str) -> None:
    """Runs the file on the inputs and writes what it gives."""
    model = {"gpu": on_gpu, "half": in_half_precision}[device](file, setting)
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    results: list[list[np.ndarray]] = [[] for _ in outputs]
    milliseconds = []
    for tensor in np.load(folder / "inputs.npy", mmap_mode="r"):
        start = time.perf_counter()
        inputs[0].write(np.ascontiguousarray(tensor))
        model.run_by_index(0, inputs, outputs)
        for buffer, found in zip(outputs, results, strict=True):
            details = buffer.get_tensor_details()
            count = int(np.prod(details["shape"]))
            values = buffer.read(count, np.dtype(details["dtype"]).type)
            found.append(values.reshape(details["shape"]))
        milliseconds.append(1000 * (time.perf_counter() - start))
    arrays = {str(i): np.concatenate(found) for i, found in enumerate(results)}
    np.savez(folder / "outputs.npz", milliseconds=milliseconds, **arrays)


def on_gpu(file: str, loader: str) -> CompiledModel:
    """The file on the GPU that the Vulkan loader finds."""
    if loader:
        ctypes.CDLL(loader)  # LiteRT finds a library that is already loaded
    options = Options(hardware_accelerators=HardwareAccelerator.GPU)
    model = CompiledModel.from_file(file, options=options)
    if not model.is_fully_accelerated():
        raise SystemExit("ERROR: the accelerator does not take all operators")
    return model


def in_half_precision(file: str, threads: str) -> CompiledModel:
    """The float file in half precision on the CPU."""
    cpu = CpuOptions(num_threads=int(threads), xnnpack_flags=FORCE_FP16)
    return CompiledModel.from_file(file, options=Options(cpu_options=cpu))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
