"""Runs a `.tflite` file on zeros: a separate program, started by `trial.py`.

Its argument is the file. It runs with XNNPACK and with LiteRT's own kernels, as the golden check.
"""

import sys

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

KERNELS = (OpResolverType.AUTO, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)


def main(model: str) -> None:
    for kernels in KERNELS:
        interpreter = Interpreter(model, experimental_op_resolver_type=kernels)
        interpreter.allocate_tensors()
        for details in interpreter.get_input_details():
            zeros = np.zeros(details["shape"], details["dtype"])
            interpreter.set_tensor(details["index"], zeros)
        interpreter.invoke()


if __name__ == "__main__":
    main(sys.argv[1])
