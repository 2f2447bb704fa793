"""Runs tensors through a file with LiteRT's GPU accelerator and prints the result as JSON.

python gpu_runner.py FILE TENSORS.npz

TENSORS.npz has "tensors" (n, height, width, 3), inputs of the file in its own type. The answer is
{"device", "scores", "milliseconds"}, or {"refused": why} for a file that the accelerator does not
take and where there is no Vulkan device.
"""

import json
import sys

import numpy as np

from keras_vit._errors import RefusedError
from keras_vit.deploy.judge.gpu_device import run_on_gpu

LIMIT_S = 1800


def main(file: str, tensors: str) -> dict:
    with np.load(tensors, allow_pickle=False) as content:
        inputs = content["tensors"][:, None]  # (n, 1, height, width, 3)
    try:
        found = run_on_gpu(file, inputs, LIMIT_S)
    except RefusedError as error:
        return {"refused": str(error)}
    return {
        "device": found.device,
        "scores": found.outputs[0].tolist(),
        "milliseconds": found.milliseconds,
    }


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
