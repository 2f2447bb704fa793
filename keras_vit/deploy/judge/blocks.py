"""Where in a model an exported file begins to differ: layer by layer against the float32 file."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np

from keras_vit._quiet import quiet
from keras_vit.deploy.inspect.flatbuffer import read_graph
from keras_vit.deploy.runner import as_input, interpreter_class

# What the graph calls the ends of its blocks and units.
_BLOCK_END = re.compile(r"(encoderblock_\d+|block\d+_unit\d+)/output")
_PRODUCTS = ("FULLY_CONNECTED", "CONV_2D")


def layer_differences(
    reference: bytes, content: bytes, inputs: np.ndarray
) -> tuple[dict[str, float], dict[str, float]]:
    """How far the outputs of blocks, and of layers with a kernel, are from the float32 file's.

    Args:
        reference: the float32 file that `content` was quantised from.
        content: a file of any precision.
        inputs: images as both take them (n, height, width, 3).

    Returns:
        Of blocks, {"encoderblock_0": 0.004, ...}, and of layers, {"encoderblock_0/mlp/dense_0":
        0.003, ...}, in the order of execution: the norm of the difference over the norm, the
        largest of all images. Only what is in both files is compared.
    """
    expected, actual = _Watched(reference), _Watched(content)
    shared = [name for name in expected.places if name in actual.places]
    largest = dict.fromkeys(shared, 0.0)
    for image in inputs:
        before, after = expected(image, shared), actual(image, shared)
        for name in shared:
            norm = max(np.linalg.norm(before[name]), 1e-12)
            difference = float(np.linalg.norm(before[name] - after[name]) / norm)
            largest[name] = max(largest[name], difference)
    blocks = {name: value for name, value in largest.items() if name in expected.blocks}
    return blocks, {name: value for name, value in largest.items() if name not in blocks}


def first_difference(differences: dict[str, float], fraction: float = 0.1) -> str | None:
    """The first whose output differs by more than `fraction`; None if none does."""
    return next((name for name, value in differences.items() if value > fraction), None)


class _Watched:
    """A file that is run with all its intermediates kept."""

    def __init__(self, content: bytes):
        graph = read_graph(content)
        self.places: dict[str, int] = {}
        self.blocks = set()
        for operator in graph.operators:
            for index, tensor in zip(operator.outputs, graph.written(operator), strict=True):
                if named := _BLOCK_END.search(tensor.name):
                    self.blocks.add(named[1])
                    self.places.setdefault(named[1], index)
                elif operator.name in _PRODUCTS:
                    self.places.setdefault(graph.layer(operator), index)
        with warnings.catch_warnings(), quiet():
            warnings.simplefilter("ignore")  # that keeping all tensors is for debugging: it is
            self.interpreter = interpreter_class()(
                model_content=content, num_threads=2, experimental_preserve_all_tensors=True
            )
            self.interpreter.allocate_tensors()
        self.details = {d["index"]: d for d in self.interpreter.get_tensor_details()}

    def __call__(self, image: np.ndarray, names: list[str]) -> dict[str, np.ndarray]:
        given = self.interpreter.get_input_details()[0]
        self.interpreter.set_tensor(given["index"], as_input(image[None], given))
        self.interpreter.invoke()
        return {name: self._value(self.details[self.places[name]]) for name in names}

    def _value(self, details: dict[str, Any]) -> np.ndarray:
        value = self.interpreter.get_tensor(details["index"])
        scale, zero = details["quantization"]
        return (value.astype(np.float32) - zero) * np.float32(scale) if scale else value
