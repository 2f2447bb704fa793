"""Runs the golden case of one bundle with whatever TFLite runtime is installed; answers in JSON.

Started by `runtimes.py` in environments of old runtimes: Python 3.9, NumPy and the runtime alone.
"""

import base64
import json
import sys
from pathlib import Path

import numpy as np


def main(bundle):
    golden = json.loads((bundle / "golden.json").read_text(encoding="utf-8"))
    try:
        found = scores(str(bundle / "model.tflite"), decoded(golden["tensor"]))
    except (RuntimeError, ValueError) as error:
        return {"refused": str(error).splitlines()[0]}
    return {"difference": float(np.abs(found - decoded(golden["scores"])).max())}


def scores(model, tensor):
    interpreter = interpreter_class()(model_path=model, num_threads=2)
    interpreter.allocate_tensors()
    given, taken = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    scale, zero = given["quantization"]
    if scale:
        limits = np.iinfo(given["dtype"])
        tensor = np.clip(np.rint(tensor / scale + zero), limits.min, limits.max)
    interpreter.set_tensor(given["index"], tensor[None].astype(given["dtype"]))
    interpreter.invoke()
    found = interpreter.get_tensor(taken["index"])[0]
    scale, zero = taken["quantization"]
    return (found.astype(np.float32) - zero) * np.float32(scale) if scale else found


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
