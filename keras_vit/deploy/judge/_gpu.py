"""Runs a `.tflite` file on LiteRT's GPU accelerator: a program that `gpu_device.py` starts.

Its arguments are the file, a folder with inputs.npy (n, batch, ...), and the Vulkan loader to use
("" for the system's own). It writes outputs.npz: outputs "0", "1" ... of all inputs, and the
milliseconds of each run, "milliseconds". The name of the device is in LiteRT's log. It is a
separate process because a driver may hang or end the process.
"""

import ctypes
import sys
import time
from pathlib import Path

import numpy as np
from ai_edge_litert.compiled_model import CompiledModel
from ai_edge_litert.options import HardwareAccelerator, Options


def main(file: str, folder: Path, loader: str) -> None:
    if loader:
        ctypes.CDLL(loader)  # LiteRT finds a library that is already loaded
    options = Options(hardware_accelerators=HardwareAccelerator.GPU)
    model = CompiledModel.from_file(file, options=options)
    if not model.is_fully_accelerated():
        raise SystemExit("ERROR: the accelerator does not take all operators")
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


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
