"""Finds the layer where an exported file begins to differ from the float32 file."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from keras_vit._quiet import quiet
from keras_vit.deploy.precisions import PRODUCTS
from keras_vit.deploy.stored_arrays import StoredArrays
from keras_vit.tflite.flatbuffer import Graph, Model, read_graph
from keras_vit.tflite.runner import (
    as_input,
    as_scores,
    as_source,
    grouped,
    ignore_kept_tensors,
    interpreter_class,
)

# Names of the tensors at the end of blocks and units in the graph.
_BLOCK_END = re.compile(r"(encoderblock_\d+|block\d+_unit\d+)/output")


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
    (blocks, layers), actual = _places(read_graph(reference)), _places(read_graph(content))
    expected, found = blocks | layers, actual[0] | actual[1]
    largest = {name: 0.0 for name in expected if name in found}
    with tempfile.TemporaryDirectory() as folder:
        # One file after the other, so that only one of them is loaded.
        stored = StoredArrays(Path(folder, "reference"))
        places = {name: expected[name] for name in largest}
        for i, values in enumerate(_values(reference, places, inputs)):
            stored.update({(i, name): value for name, value in values.items()})
        places = {name: found[name] for name in largest}
        for i, values in enumerate(_values(content, places, inputs)):
            for name, after in values.items():
                before = stored[i, name]
                norm = max(np.linalg.norm(before), 1e-12)
                largest[name] = max(largest[name], float(np.linalg.norm(before - after) / norm))
    return tuple({k: v for k, v in largest.items() if k in named} for named in (blocks, layers))


def first_difference(differences: dict[str, float], fraction: float = 0.1) -> str | None:
    """The first name with a difference larger than `fraction`; None if there is none."""
    return next((name for name, value in differences.items() if value > fraction), None)


def block_ends(graph: Graph) -> dict[str, int]:
    """The tensors at the end of blocks and units, by the names of the blocks, in order."""
    return _places(graph)[0]


def _places(graph: Graph) -> tuple[dict[str, int], dict[str, int]]:
    """The tensors at the end of blocks, and those that layers with a kernel write, by name."""
    blocks: dict[str, int] = {}
    layers: dict[str, int] = {}
    for operator in graph.operators:
        for index, tensor in zip(operator.outputs, graph.written(operator), strict=True):
            if named := _BLOCK_END.search(tensor.name):
                blocks.setdefault(named[1], index)
            elif operator.name in PRODUCTS:
                layers.setdefault(graph.layer(operator), index)
    return blocks, layers


def _values(
    content: Model, places: dict[str, int], images: np.ndarray
) -> Iterator[dict[str, np.ndarray]]:
    """What a file has at these places, for each batch that it takes."""
    ignore_kept_tensors()
    with quiet():
        interpreter = interpreter_class()(
            **as_source(content), num_threads=2, experimental_preserve_all_tensors=True
        )
        interpreter.allocate_tensors()
    details = {d["index"]: d for d in interpreter.get_tensor_details()}
    [input_details] = interpreter.get_input_details()
    for batch in grouped(images, int(input_details["shape"][0])):
        interpreter.set_tensor(input_details["index"], as_input(batch, input_details))
        interpreter.invoke()
        yield {
            name: as_scores(interpreter.get_tensor(index), details[index])
            for name, index in places.items()
        }
