"""Runs a `.tflite` file on zeros: a separate program, started by `opened_bundle.py`.

Its argument is the file. It is loaded as `Runner` does, with XNNPACK and with LiteRT's own kernels,
as the golden check does. LiteRT's reason to refuse it is printed; the exit code is then 2 if it is
no model, else 3.
"""

import sys
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

KERNELS = (OpResolverType.AUTO, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)


def run(content: bytes) -> None:
    """Runs the model on zeros with each kind of kernels."""
    for kernels in KERNELS:
        interpreter = Interpreter(
            model_content=content, experimental_op_resolver_type=kernels, num_threads=2
        )
        interpreter.allocate_tensors()
        for details in interpreter.get_input_details():
            zeros = np.zeros(details["shape"], details["dtype"])
            interpreter.set_tensor(details["index"], zeros)
        interpreter.invoke()


if __name__ == "__main__":
    try:
        run(Path(sys.argv[1]).read_bytes())
    except (ValueError, RuntimeError) as error:
        print(error)
        sys.exit(2 if isinstance(error, ValueError) else 3)
