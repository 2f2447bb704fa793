"""Writes a `.tflite` file from the objects of its schema: whole, or only up to a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

# The alignment of constants that the schema requires (`force_align` of Buffer.data).
ALIGNMENT = 16


def packed(model: Any, size: int) -> bytearray:
    """A `ModelT` as a flatbuffer; `size` is an upper limit for its bytes, or a first guess."""
    builder = _builder(size)
    builder.Finish(model.Pack(builder), b"TFL3")
    return builder.Output()


def ending_at(content: bytes, tensor: int) -> bytes:
    """A file whose output is a tensor of another file, and which computes nothing after it.

    Args:
        content: a `.tflite` file of one graph, with its weights inside the flatbuffer.
        tensor: the index of a tensor that one of its operators writes.
    """
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(content)
    [graph] = model.subgraphs
    last = next(i for i, op in enumerate(graph.operators) if tensor in op.outputs)
    graph.operators = graph.operators[: last + 1]
    graph.outputs = [tensor]
    model.signatureDefs = model.metadata = model.metadataBuffer = None  # about the whole file
    return bytes(packed(model, len(content) + len(content) // 64 + 2**20))


def _builder(size: int) -> Any:
    import flatbuffers

    class Builder(flatbuffers.Builder):
        """Aligns constants, and does not copy each of them as the library's builder does."""

        def CreateNumpyVector(self, x):
            constant = x.dtype == np.uint8
            self.StartVector(x.itemsize, x.size, ALIGNMENT if constant else x.dtype.alignment)
            self.head -= x.nbytes
            self.Bytes[self.head : self.head + x.nbytes] = memoryview(x).cast("B")
            return self.EndVector()

    # Allocated in full size: a builder that grows holds its content twice.
    return Builder(size)
