"""Finds the layer where an exported file begins to differ from the float32 file."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from keras_vit._quiet import quiet
from keras_vit.deploy.stored_arrays import StoredArrays
from keras_vit.tflite.flatbuffer import Graph, Model, read_graph
from keras_vit.tflite.runner import (
    as_input,
    as_source,
    grouped,
    ignore_kept_tensors,
    interpreter_class,
)

# Names of the tensors at the end of blocks and units in the graph.
_BLOCK_END = re.compile(r"(encoderblock_\d+|block\d+_unit\d+)/output")
_PRODUCTS = ("FULLY_CONNECTED", "CONV_2D")


def layer_differences(
    reference: Model, content: Model, inputs: np.ndarray
) -> tuple[dict[str, float], dict[str, float]]:
    """How much the outputs of blocks and of layers with a kernel differ from the float32 file's.

    Args:
        reference: the float32 file that `content` was quantised from.
        content: a file of any precision.
        inputs: inputs of both files (n, height, width, 3).

    Returns:
        The differences of blocks, {"encoderblock_0": 0.004, ...}, and of layers,
        {"encoderblock_0/mlp/dense_0": 0.003, ...}, in the order of execution. Each is the norm of
        the difference divided by the norm of the reference, the largest of all images. Outputs that
        only one file has are left out.
    """
    expected, actual = _Intermediates(reference), _Intermediates(content)
    shared = [name for name in expected.places if name in actual.places]
    largest = dict.fromkeys(shared, 0.0)
    with tempfile.TemporaryDirectory() as folder:
        # One file after the other, so that only one of them is loaded.
        stored = StoredArrays(Path(folder, "reference"))
        for i, values in enumerate(expected.values(inputs, shared)):
            stored.update({(i, name): value for name, value in values.items()})
        for i, values in enumerate(actual.values(inputs, shared)):
            for name, after in values.items():
                before = stored[i, name]
                norm = max(np.linalg.norm(before), 1e-12)
                largest[name] = max(largest[name], float(np.linalg.norm(before - after) / norm))
    blocks = {name: value for name, value in largest.items() if name in expected.blocks}
    return blocks, {name: value for name, value in largest.items() if name not in blocks}


def first_difference(differences: dict[str, float], fraction: float = 0.1) -> str | None:
    """The first name with a difference larger than `fraction`; None if there is none."""
    return next((name for name, value in differences.items() if value > fraction), None)


def block_ends(graph: Graph) -> dict[str, int]:
    """The tensors at the end of blocks and units, by the names of the blocks, in order."""
    ends: dict[str, int] = {}
    for operator in graph.operators:
        for index, tensor in zip(operator.outputs, graph.written(operator), strict=True):
            if named := _BLOCK_END.search(tensor.name):
                ends.setdefault(named[1], index)
    return ends


class _Intermediates:
    """Runs a file and returns the intermediate outputs of its blocks and layers."""

    def __init__(self, content: Model):
        self.content, graph = content, read_graph(content)
        self.blocks, self.places = set(block_ends(graph)), {}
        for operator in graph.operators:
            for index, tensor in zip(operator.outputs, graph.written(operator), strict=True):
                if named := _BLOCK_END.search(tensor.name):
                    self.places.setdefault(named[1], index)
                elif operator.name in _PRODUCTS:
                    self.places.setdefault(graph.layer(operator), index)

    def values(self, images: np.ndarray, names: list[str]) -> Iterator[dict[str, np.ndarray]]:
        """The outputs of these names for each batch of the file."""
        ignore_kept_tensors()
        with quiet():
            interpreter = interpreter_class()(
                **as_source(self.content), num_threads=2, experimental_preserve_all_tensors=True
            )
            interpreter.allocate_tensors()
        details = {d["index"]: d for d in interpreter.get_tensor_details()}
        [input_details] = interpreter.get_input_details()
        for batch in grouped(images, int(input_details["shape"][0])):
            interpreter.set_tensor(input_details["index"], as_input(batch, input_details))
            interpreter.invoke()
            yield {name: _value(interpreter, details[self.places[name]]) for name in names}


def _value(interpreter: Any, details: dict[str, Any]) -> np.ndarray:
    value = interpreter.get_tensor(details["index"])
    scale, zero = details["quantization"]
    return (value.astype(np.float32) - zero) * np.float32(scale) if scale else value
