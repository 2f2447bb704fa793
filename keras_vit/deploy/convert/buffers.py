"""Where a `.tflite` file keeps its weights: inside the flatbuffer, or behind it.

The converter and AI Edge Quantizer write large weights behind the flatbuffer and refer to them by
offset, because a flatbuffer ends at 2 GB. TensorFlow 2.13, MediaPipe before 1.1 and the stock
metadata writers do not know these offsets: they refuse the file or drop its weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# Flatbuffers count bytes in 31 bits.
LARGEST = 2**31 - 1
# Where constants must start, according to the schema (`force_align` of Buffer.data).
_ALIGNMENT = 16


def embed_weights(content: bytes | bytearray) -> bytearray:
    """A copy of a file with its weights inside the flatbuffer; above 2 GB they stay behind it.

    Args:
        content: a valid `.tflite` file, made by the converter or the quantizer.
    """
    from ai_edge_litert import schema_py_generated as schema

    size = _embedded_size(content)
    if size > LARGEST or not has_weights_behind(content):
        return bytearray(content)
    model = schema.ModelT.InitFromPackedBuf(content)
    for buffer in model.buffers:
        if buffer.size:
            buffer.data = np.frombuffer(content, np.uint8, buffer.size, buffer.offset)
        buffer.offset = buffer.size = 0
    builder = _builder(size)
    builder.Finish(model.Pack(builder), b"TFL3")
    return builder.Output()


def has_weights_behind(content: Any) -> bool:
    """Whether some weights of a file stand behind its flatbuffer."""
    from ai_edge_litert import schema_py_generated as schema

    file = schema.Model.GetRootAs(content, 0)
    return any(file.Buffers(i).Size() for i in range(file.BuffersLength()))


def _embedded_size(content: bytes) -> int:
    """Bytes that are certainly enough: tables are packed anew and constants aligned."""
    return len(content) + len(content) // 64 + 2**20


def _builder(size: int) -> Any:
    import flatbuffers

    class Builder(flatbuffers.Builder):
        """Writes constants aligned, and without the copy that the library makes of each."""

        def CreateNumpyVector(self, x):
            constant = x.dtype == np.uint8
            self.StartVector(x.itemsize, x.size, _ALIGNMENT if constant else x.dtype.alignment)
            self.head -= x.nbytes
            self.Bytes[self.head : self.head + x.nbytes] = memoryview(x).cast("B")
            return self.EndVector()

    # In its full size at once: a builder that grows holds its content twice.
    return Builder(size)
