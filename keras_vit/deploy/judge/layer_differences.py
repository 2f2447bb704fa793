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
from keras_vit.tflite import runner
from keras_vit.tflite.flatbuffer import Graph, Model, read_graph

# Names of blocks and units, and of the tensors at their end in the graph.
_BLOCK = re.compile(r"encoderblock_\d+|block\d+_unit\d+")
_BLOCK_END = re.compile(f"({_BLOCK.pattern})/output")


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
    expected, found = _places(read_graph(reference)), _places(read_graph(content))
    largest = {name: 0.0 for name in expected if name in found}
    with tempfile.TemporaryDirectory() as folder:
        # One file after the other, so that only one of them is loaded.
        stored = StoredArrays(Path(folder, "reference"))
        stored.update(values_at(reference, {n: expected[n] for n in largest}, inputs))
        for (i, name), after in values_at(content, {n: found[n] for n in largest}, inputs):
            before = stored[i, name]
            norm = max(np.linalg.norm(before), 1e-12)
            largest[name] = max(largest[name], float(np.linalg.norm(before - after) / norm))
    blocks = {name: value for name, value in largest.items() if _BLOCK.fullmatch(name)}
    return blocks, {name: value for name, value in largest.items() if name not in blocks}


def first_difference(differences: dict[str, float], fraction: float = 0.1) -> str | None:
    """The first name with a difference larger than `fraction`; None if there is none."""
    return next((name for name, value in differences.items() if value > fraction), None)


def block_ends(graph: Graph) -> dict[str, int]:
    """The tensors at the end of blocks and units, by the names of the blocks, in order."""
    return {name: index for name, index in _places(graph).items() if _BLOCK.fullmatch(name)}


def _places(graph: Graph) -> dict[str, int]:
    """The tensors at the end of blocks, and those that layers with a kernel write, by name."""
    places: dict[str, int] = {}
    for operator in graph.operators:
        for index, tensor in zip(operator.outputs, graph.written(operator), strict=True):
            if named := _BLOCK_END.search(tensor.name):
                places.setdefault(named[1], index)
            elif operator.name in PRODUCTS:
                places.setdefault(graph.layer(operator), index)
    return places


def values_at(
    content: Model, places: dict[str, int], images: np.ndarray
) -> Iterator[tuple[tuple[int, str], np.ndarray]]:
    """What a file has at these places, by the batch that it takes and the place."""
    runner.ignore_kept_tensors()
    with quiet():
        interpreter = runner.interpreter_class()(
            **runner.as_source(content), num_threads=2, experimental_preserve_all_tensors=True
        )
        interpreter.allocate_tensors()
    details = {d["index"]: d for d in interpreter.get_tensor_details()}
    [input_details] = interpreter.get_input_details()
    for i, batch in enumerate(runner.grouped(images, int(input_details["shape"][0]))):
        interpreter.set_tensor(input_details["index"], runner.as_input(batch, input_details))
        interpreter.invoke()
        for name, index in places.items():
            yield (i, name), runner.as_scores(interpreter.get_tensor(index), details[index])
