"""Reads the kernels of a `.tflite` file and counts their zeros and distinct values."""

from __future__ import annotations

import dataclasses
import zlib
from typing import Any

import numpy as np

from keras_vit._quiet import quiet
from keras_vit.tflite.flatbuffer import Graph, Model, mapped, read_graph
from keras_vit.tflite.runner import as_source, interpreter_class


@dataclasses.dataclass(frozen=True)
class StoredKernel:
    """A kernel as it is stored in the file.

    Attributes:
        layer: its layer: "encoderblock_0/mlp/dense_0".
        numbers: the stored numbers: (outputs, inputs) for a Dense layer.
        scale: the scale of the numbers: 1 for floats, otherwise an array that broadcasts.
    """

    layer: str
    numbers: np.ndarray
    scale: np.ndarray

    @property
    def values(self) -> np.ndarray:
        """The dequantised weights, float32, with the shape of `numbers`."""
        return self.numbers * self.scale

    @property
    def zeros(self) -> int:
        """The number of zero weights."""
        return self.numbers.size - int(np.count_nonzero(self.numbers))

    @property
    def distinct(self) -> int:
        """The number of distinct stored numbers."""
        return len(np.unique(self.numbers))


def stored_kernels(content: Model) -> list[StoredKernel]:
    """The constant operands of a file's matrix products, in the order of execution."""
    graph = read_graph(content)
    with quiet():
        file = interpreter_class()(**as_source(content))  # only its constants are read
    details = {each["index"]: each for each in file.get_tensor_details()}
    indices = [
        (operator, _source(graph, operand))
        for operator in graph.operators
        if operator.name in ("FULLY_CONNECTED", "BATCH_MATMUL")
        for operand in operator.inputs[:2]
    ]
    return [
        StoredKernel(graph.layer(operator), file.get_tensor(index), _scale(details[index]))
        for operator, index in indices
        if graph.tensors[index].constant
    ]


def summary(content: Model) -> dict[str, Any]:
    """The effect of compression on a file, as JSON values.

    "deflated": its size in bytes after deflate at level 9; "sparsity": the fraction of zero kernel
    weights; "distinct": the largest number of distinct values in a kernel; "kernels": "sparsity"
    and "distinct" of each kernel.
    """
    kernels = stored_kernels(content)
    return {
        "deflated": len(zlib.compress(mapped(content), 9)),
        "sparsity": sum(k.zeros for k in kernels) / max(sum(k.numbers.size for k in kernels), 1),
        "distinct": max((kernel.distinct for kernel in kernels), default=0),
        "kernels": [
            {"layer": k.layer, "sparsity": k.zeros / k.numbers.size, "distinct": k.distinct}
            for k in kernels
        ],
    }


def _source(graph: Graph, index: int) -> int:
    """The stored tensor of an operand: half-precision kernels have a DEQUANTIZE after them."""
    producer = graph.producers.get(index)
    return producer.inputs[0] if producer and producer.name == "DEQUANTIZE" else index


def _scale(details: dict[str, Any]) -> np.ndarray:
    """The scale of a kernel, from what the interpreter says of it."""
    shape, quantization = details["shape"], details["quantization_parameters"]
    scales, block = quantization["scales"], quantization["block_size"]
    if block:
        # (outputs, blocks of inputs) to (outputs, inputs)
        return np.repeat(scales.astype(np.float32).reshape(shape[0], -1), block, axis=-1)
    if not scales.size:
        return np.float32(1)
    sides = [1] * len(shape)
    sides[quantization["quantized_dimension"]] = -1
    return scales.reshape(sides)
