"""Moves the weights of a `.tflite` file from after its flatbuffer into it.

The converter and AI Edge Quantizer write large weights after the flatbuffer and refer to them by
offset, because a flatbuffer cannot exceed 2 GB. TensorFlow 2.13, MediaPipe before 1.1 and the
standard metadata writers do not support these offsets: they refuse the file or lose its weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_vit.deploy.inspect.flatbuffer import has_weights_behind

# The largest flatbuffer: offsets have 31 bits.
LARGEST = 2**31 - 1
# The alignment of constants that the schema requires (`force_align` of Buffer.data).
_ALIGNMENT = 16


def embed_weights(content: bytes | bytearray) -> bytearray:
    """A file with its weights inside the flatbuffer, unless it is larger than 2 GB.

    Args:
        content: a valid `.tflite` file, made by the converter or the quantizer.

    Returns:
        A file that may be changed: `content` itself if it is a bytearray with nothing to move.
    """
    from ai_edge_litert import schema_py_generated as schema

    size = _embedded_size(content)
    if size > LARGEST or not has_weights_behind(content):
        return content if isinstance(content, bytearray) else bytearray(content)
    model = schema.ModelT.InitFromPackedBuf(content)
    for buffer in model.buffers:
        if buffer.size:
            buffer.data = np.frombuffer(content, np.uint8, buffer.size, buffer.offset)
        buffer.offset = buffer.size = 0
    builder = _builder(size)
    builder.Finish(model.Pack(builder), b"TFL3")
    return builder.Output()


def _embedded_size(content: bytes) -> int:
    """An upper limit, in bytes, for the file with its tables repacked and constants aligned."""
    return len(content) + len(content) // 64 + 2**20


def _builder(size: int) -> Any:
    import flatbuffers

    class Builder(flatbuffers.Builder):
        """Aligns constants, and does not copy each of them as the library's builder does."""

        def CreateNumpyVector(self, x):
            constant = x.dtype == np.uint8
            self.StartVector(x.itemsize, x.size, _ALIGNMENT if constant else x.dtype.alignment)
            self.head -= x.nbytes
            self.Bytes[self.head : self.head + x.nbytes] = memoryview(x).cast("B")
            return self.EndVector()

    # Allocated in full size: a builder that grows holds its content twice.
    return Builder(size)
