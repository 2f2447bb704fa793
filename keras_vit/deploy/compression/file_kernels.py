"""Reads the kernels of a `.tflite` file and counts their zeros and distinct values."""

from __future__ import annotations

import dataclasses
import zlib
from typing import Any

import numpy as np

from keras_vit.tflite.flatbuffer import Model, mapped, read_graph
from keras_vit.tflite.layout import unpacked

_NUMBERS = {"float32": "<f4", "float16": "<f2", "int8": "i1"}


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
    file = _File(content)
    return [
        StoredKernel(file.graph.layer(operator), file.numbers(index), file.scale(index))
        for operator in file.graph.operators
        if operator.name in ("FULLY_CONNECTED", "BATCH_MATMUL")
        for index in map(file.source, operator.inputs[:2])
        if file.graph.tensors[index].constant
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


class _File:
    def __init__(self, content: Model):
        self.graph = read_graph(content)
        model, behind = unpacked(mapped(content))
        # Weights are in the flatbuffer, or after it.
        self.buffers = [behind.get(i, buffer.data) for i, buffer in enumerate(model.buffers)]
        self.tensors = model.subgraphs[0].tensors

    def source(self, index: int) -> int:
        """The stored tensor of an operand: half-precision kernels have a DEQUANTIZE after them."""
        producer = self.graph.producers.get(index)
        return producer.inputs[0] if producer and producer.name == "DEQUANTIZE" else index

    def numbers(self, index: int) -> np.ndarray:
        tensor, raw = self.graph.tensors[index], self.buffers[self.tensors[index].buffer]
        if tensor.dtype == "int4":  # two in a byte, the first in the lower half
            halves = np.stack([raw & 15, raw >> 4], axis=-1).astype(np.int8).ravel()
            numbers = np.where(halves > 7, halves - 16, halves)[: tensor.size]
        else:
            numbers = np.frombuffer(raw.tobytes(), _NUMBERS[tensor.dtype])
        return numbers.reshape(tensor.shape)

    def scale(self, index: int) -> np.ndarray:
        tensor, quantization = self.graph.tensors[index], self.tensors[index].quantization
        if tensor.blocks:
            blocks = quantization.details
            scales = self.numbers(blocks.scales)  # (outputs, blocks of inputs)
            return np.repeat(scales.astype(np.float32), blocks.blockSize, axis=-1)
        if not tensor.scales:
            return np.float32(1)
        shape = [1] * len(tensor.shape)
        if tensor.scales > 1:
            shape[quantization.quantizedDimension] = -1
        return quantization.scale.reshape(shape)
