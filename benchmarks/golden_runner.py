"""Runs the golden case of a bundle with the installed TFLite runtime and prints the result as JSON.

`runtimes.py` starts it in environments of old runtimes: Python 3.9 with only NumPy and a runtime.
"""

import base64
import json
import sys
from pathlib import Path

import numpy as np


def main(bundle):
    golden = json.loads((bundle / "golden.json").read_text(encoding="utf-8"))
    try:
        found = scores(loaded(str(bundle / "model.tflite")), decoded(golden["tensor"]))
    except (RuntimeError, ValueError) as error:
        return {"refused": str(error).splitlines()[0]}
    return {"difference": float(np.abs(found - decoded(golden["scores"])).max())}


def loaded(model, threads=2):
    interpreter = interpreter_class()(model_path=model, num_threads=threads)
    interpreter.allocate_tensors()
    return interpreter


def scores(interpreter, tensor):
    inputs, outputs = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    scale, zero = inputs["quantization"]
    if scale:
        limits = np.iinfo(inputs["dtype"])
        tensor = np.clip(np.rint(tensor / scale + zero), limits.min, limits.max)
    interpreter.set_tensor(inputs["index"], tensor[None].astype(inputs["dtype"]))
    interpreter.invoke()
    values = interpreter.get_tensor(outputs["index"])[0]
    scale, zero = outputs["quantization"]
    return (values.astype(np.float32) - zero) * np.float32(scale) if scale else values


def interpreter_class():
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:
        try:
            from tflite_runtime.interpreter import Interpreter
        except ImportError:
            import tensorflow

            return tensorflow.lite.Interpreter
    return Interpreter


def decoded(entry):
    values = np.frombuffer(base64.b64decode(entry["base64"]), entry["dtype"])
    return values.reshape(entry["shape"])


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
