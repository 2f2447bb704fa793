"""Runs a `.tflite` file in half precision: a separate program, started by `half_precision.py`.

Its arguments are the file, a folder and a number of threads: it reads inputs.npy (n, batch, height,
width, 3) from the folder and writes scores.npy there. It is a separate process because LiteRT logs
until the process ends and a failing delegate may end the process.
"""

import sys
from pathlib import Path

import numpy as np
from ai_edge_litert.compiled_model import CompiledModel
from ai_edge_litert.options import CpuOptions, Options

# TFLITE_XNNPACK_DELEGATE_FLAG_FORCE_FP16 of LiteRT's xnnpack_delegate.h.
FORCE_FP16 = 4


def main(file: str, folder: Path, threads: int) -> None:
    options = Options(cpu_options=CpuOptions(num_threads=threads, xnnpack_flags=FORCE_FP16))
    model = CompiledModel.from_file(file, options=options)
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    shape = outputs[0].get_tensor_details()["shape"]
    scores = []
    for batch in np.load(folder / "inputs.npy", mmap_mode="r"):
        inputs[0].write(np.ascontiguousarray(batch))
        model.run_by_index(0, inputs, outputs)
        scores.append(outputs[0].read(int(np.prod(shape)), np.float32).reshape(shape))
    np.save(folder / "scores.npy", np.concatenate(scores))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
