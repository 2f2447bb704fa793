"""Compares `keras_vit.data.mediapipe` with the pixels that MediaPipe gives a model.

A model that returns its input as scores runs in MediaPipe's ImageClassifier, in each version of
`clients.py`, on noise of many sizes. Among them are those where a place halfway between two units
is rounded by the errors of OpenCV's equations. Every pixel must be equal; otherwise the exit code
is 3.

With --record the pixels of a few sizes are written to tests/fixtures/mediapipe.npz, for the tests.
"""

from __future__ import annotations

import dataclasses
import runpy
import sys
from pathlib import Path

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from clients import MEDIAPIPE
from environments import FOLDER, check_python, installed

from keras_vit import _files
from keras_vit._errors import RefusedError
from keras_vit.cli._program import run
from keras_vit.data import mediapipe
from keras_vit.deploy import About
from keras_vit.deploy.clients import CLIENTS
from keras_vit.deploy.convert.metadata import metadata
from keras_vit.deploy.judge.client_verdict import run_in_client
from keras_vit.tflite.file_layout import laid_out, split
from keras_vit.tflite.flatbuffer import read_graph

FIXTURES = Path(__file__).parents[1] / "tests" / "fixtures"
noise = runpy.run_path(str(FIXTURES / "noise.py"))["noise"]
# (height, width) of inputs, and of pictures: to the same size, larger, smaller, thin, 12 million
# pixels.
INPUTS = ((32, 32), (24, 40), (5, 64), (8, 384), (384, 8), (7, 512), (96, 96), (1, 1), (224, 224))
PICTURES = (
    (32, 32), (8, 8), (1, 1), (1, 50), (37, 1), (9, 13), (64, 48), (97, 96), (12, 1475), (277, 878),
    (480, 640), (101, 777), (9, 46), (469, 46), (3024, 4032),
)  # fmt: skip
RECORDED = {
    (32, 32): ((8, 8), (1, 1), (37, 1), (97, 96), (480, 640), (3024, 4032)),
    (24, 40): ((9, 13), (64, 48), (101, 777)),
    # For these, the exact projection without OpenCV's rounding errors gives other pixels.
    (5, 64): ((196, 457), (542, 11), (46, 3)),
    (8, 384): ((11, 1), (9, 46), (472, 87)),
    (384, 8): ((469, 46), (95, 5), (281, 7)),
}


@dataclasses.dataclass(frozen=True)
class Arguments:
    record: bool = False
    """Write tests/fixtures/mediapipe.npz instead."""
    environments: Path = FOLDER
    """The folder where clients are installed; installed clients are reused."""
    python: str = sys.executable
    """The Python to install them for, 3.9 to 3.11."""


def main(arguments: Arguments) -> None:
    check_python(arguments.python)
    cases = RECORDED if arguments.record else dict.fromkeys(INPUTS, PICTURES)
    recorded, wrong = {}, []
    for client in MEDIAPIPE:
        python = installed(client.environment, arguments.environments, arguments.python)
        if python is None:
            wrong.append(f"{client.name} could not be installed")
            continue
        count, largest = 0, 0
        for size, pictures in cases.items():
            shown = shown_to(python, size, [noise(*picture) for picture in pictures])
            for picture, pixels in zip(pictures, shown, strict=True):
                recorded["_".join(map(str, (*picture, *size)))] = pixels
                own = mediapipe.resize(noise(*picture), size)
                difference = int(np.abs(own.astype(int) - pixels).max())
                count, largest = count + 1, max(largest, difference)
                if difference:
                    wrong.append(f"{client.name}: {picture} to {size} differs by {difference}")
        print(f"{client.name}: {count} sizes, largest difference {largest}", flush=True)
    if wrong:
        raise RefusedError("\n".join(wrong))
    if arguments.record:
        path = FIXTURES / "mediapipe.npz"
        with _files.replacing(path) as temporary, open(temporary, "wb") as file:
            np.savez_compressed(file, **recorded)


def shown_to(python: str, size: tuple[int, int], pictures: list[np.ndarray]) -> list[np.ndarray]:
    """The pixels that MediaPipe makes of pictures, uint8 (*size, 3) each."""
    answer = run_in_client(CLIENTS["mediapipe"], _identity(size), pictures, python)
    return [np.asarray(scores).astype(np.uint8).reshape(*size, 3) for scores in answer["scores"]]


def _identity(size: tuple[int, int]) -> bytes:
    """A `.tflite` file from pixels to the same values as scores."""
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec((1, *size, 3), tf.uint8)], autograph=False)
    def flattened(images):
        return tf.cast(tf.reshape(images, (1, -1)), tf.float32)

    concrete = flattened.get_concrete_function()
    content = tf.lite.TFLiteConverter.from_concrete_functions([concrete]).convert()
    about = metadata(About("identity"), read_graph(content))
    return b"".join(laid_out(*split(schema.ModelT.InitFromPackedBuf(content)), about).parts())


if __name__ == "__main__":
    run(main, Arguments)
