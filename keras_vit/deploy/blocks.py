"""Where in a model an exported file begins to differ: its blocks against the float32 file's."""

from __future__ import annotations

import re
import warnings

import numpy as np

from keras_vit._quiet import quiet
from keras_vit.deploy.flatbuffer import read_graph
from keras_vit.deploy.runner import as_input, interpreter_class

# What the graph calls the ends of its blocks and units.
_BLOCK_END = re.compile(r"(encoderblock_\d+|block\d+_unit\d+)/output")


def block_differences(reference: bytes, content: bytes, inputs: np.ndarray) -> dict[str, float]:
    """How far each block's output is from the float32 file's: the norm of the difference over the
    norm, the largest of all images.

    Args:
        reference: the float32 file that `content` was quantised from.
        content: a file of whatever precision.
        inputs: images as both take them (n, height, width, 3).

    Returns:
        {"encoderblock_0": 0.004, ...} in the order of execution; a block that is not float in
        `content`, or not to be found, is left out.
    """
    expected, found = (_outputs(file, inputs) for file in (reference, content))
    return {
        block: float(
            max(
                np.linalg.norm(a - b) / max(np.linalg.norm(a), 1e-12)
                for a, b in zip(expected[block], found[block], strict=True)
            )
        )
        for block in expected
        if block in found
    }


def first_difference(differences: dict[str, float], share: float = 0.1) -> str | None:
    """The first block whose output differs by more than `share`; None if none does."""
    return next((block for block, value in differences.items() if value > share), None)


def _outputs(content: bytes, inputs: np.ndarray) -> dict[str, list[np.ndarray]]:
    graph = read_graph(content)
    places = {}
    for operator in graph.operators:
        for index, tensor in zip(operator.outputs, graph.written(operator), strict=True):
            named = _BLOCK_END.search(tensor.name)
            if named and tensor.dtype == "float32":
                places[named[1]] = index
    with warnings.catch_warnings(), quiet():
        warnings.simplefilter("ignore")  # that keeping all tensors is for debugging: it is
        interpreter = interpreter_class()(
            model_content=content, num_threads=2, experimental_preserve_all_tensors=True
        )
        interpreter.allocate_tensors()
    given = interpreter.get_input_details()[0]
    values: dict[str, list[np.ndarray]] = {block: [] for block in places}
    for image in inputs:
        interpreter.set_tensor(given["index"], as_input(image[None], given))
        interpreter.invoke()
        for block, index in places.items():
            values[block].append(interpreter.get_tensor(index))
    return values
