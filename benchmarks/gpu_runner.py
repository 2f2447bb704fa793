"""Runs tensors through a file with LiteRT's GPU accelerator and prints the scores as JSON.

python gpu_runner.py FILE FOLDER

`keras_vit/tflite/client_process.py` says what FOLDER has and what is printed. Input and output of
the file must be float32. The answer also has "milliseconds" of each case. Without a Vulkan device
the client is missing.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np

from keras_vit._errors import RefusedError
from keras_vit.tflite.compiled_model import NoDeviceError, run_on_gpu

LIMIT_S = 1800


def main(file: str, folder: str) -> dict:
    cases = json.loads(Path(folder, "cases.json").read_text())
    arrays = [np.fromfile(Path(folder, c["file"]), c["dtype"]).reshape(c["shape"]) for c in cases]
    answer = {"version": f"ai-edge-litert {version('ai-edge-litert')}"}
    try:
        found = run_on_gpu(file, np.stack(arrays)[:, None], LIMIT_S)  # (n, 1, height, width, 3)
    except NoDeviceError as error:
        return {"missing": str(error)}
    except RefusedError as error:
        return answer | {"refused": str(error)}
    answer["version"] += f" on {found.device}"
    return answer | {"scores": found.outputs[0].tolist(), "milliseconds": found.milliseconds}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
