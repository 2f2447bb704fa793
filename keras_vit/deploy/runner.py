"""Runs a `.tflite` file with LiteRT, as a phone does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from keras_vit._errors import UsageError
from keras_vit._quiet import quiet


class Runner:
    """A loaded `.tflite` model of one float32 image in and one tensor of scores out.

    Args:
        model: the file, or its bytes.
        threads: of the interpreter.

    Raises:
        UsageError: the file is absent or not a TFLite model.
    """

    def __init__(self, model: str | os.PathLike | bytes, threads: int = 2):
        content = model if isinstance(model, bytes) else _read(Path(model))
        interpreter = _interpreter()
        try:
            with quiet():
                self.interpreter = interpreter(model_content=content, num_threads=threads)
                self.interpreter.allocate_tensors()
        except ValueError as error:
            name = "the model" if isinstance(model, bytes) else model
            raise UsageError(f"{name} is not a TFLite model: {error}.") from None
        self.input = self.interpreter.get_input_details()[0]
        self.output = self.interpreter.get_output_details()[0]

    def __call__(self, tensor: np.ndarray) -> np.ndarray:
        """Scores (1, ...) of one preprocessed image (1, height, width, channels)."""
        self.interpreter.set_tensor(self.input["index"], tensor)
        self.interpreter.invoke()
        return self.interpreter.get_tensor(self.output["index"])

    def predict(self, inputs: np.ndarray) -> np.ndarray:
        """Scores (n, ...) of preprocessed images (n, height, width, channels), one by one."""
        return np.concatenate([self(tensor[None]) for tensor in inputs])


def _interpreter() -> Any:
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:
        raise ImportError(
            "running TFLite files needs LiteRT: pip install 'keras_vit[export]'"
        ) from None
    return Interpreter


def _read(path: Path) -> bytes:
    if not path.is_file():
        raise UsageError(f"{path}: expected a .tflite file; there is no such file.")
    return path.read_bytes()
