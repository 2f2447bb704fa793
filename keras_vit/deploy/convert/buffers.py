"""Moves the weights of a `.tflite` file from after its flatbuffer into it, and adds metadata.

The converter and AI Edge Quantizer write large weights after the flatbuffer and refer to them by
offset, because a flatbuffer cannot exceed 2 GB. TensorFlow 2.13, MediaPipe before 1.1 and the
standard metadata writers do not support these offsets: they refuse the file or lose its weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_vit.deploy.convert.metadata import NAME
from keras_vit.deploy.inspect.flatbuffer import has_weights_behind

# The largest flatbuffer: offsets have 31 bits.
LARGEST = 2**31 - 1
# The alignment of constants that the schema requires (`force_align` of Buffer.data).
_ALIGNMENT = 16


def embed_weights(content: bytes | bytearray, metadata: bytes = b"") -> bytearray:
    """A file with its weights inside the flatbuffer, unless it is larger than 2 GB.

    Args:
        content: a valid `.tflite` file, made by the converter or the quantizer.
        metadata: its TFLite Metadata, which are added; b"" adds none.

    Returns:
        A file that may be changed: `content` itself if it is a bytearray with nothing to change.
    """
    from ai_edge_litert import schema_py_generated as schema

    size, has_behind = _embedded_size(content), has_weights_behind(content)
    behind = has_behind and size > LARGEST
    if not metadata and (behind or not has_behind):
        return content if isinstance(content, bytearray) else bytearray(content)
    model = schema.ModelT.InitFromPackedBuf(content)
    if metadata:
        model.buffers.append(_buffer(metadata))
        entry = schema.MetadataT()
        entry.name, entry.buffer = NAME, len(model.buffers) - 1
        model.metadata = [*(model.metadata or []), entry]
    if behind:
        return _moved(model, content)
    for buffer in model.buffers:
        if buffer.size:
            buffer.data = np.frombuffer(content, np.uint8, buffer.size, buffer.offset)
        buffer.offset = buffer.size = 0
    return _packed(model, size + len(metadata))


def _buffer(data: bytes) -> Any:
    from ai_edge_litert import schema_py_generated as schema

    buffer = schema.BufferT()
    buffer.data = np.frombuffer(data, np.uint8)
    return buffer


def _moved(model: Any, content: bytes | bytearray) -> bytearray:
    """A flatbuffer that has changed, followed by the weights that are after the old one."""
    weights = [buffer for buffer in model.buffers if buffer.size]
    start = min(buffer.offset for buffer in weights)
    # The offsets have the same size whatever they are, so the new flatbuffer's size is known.
    end = len(_packed(model, start))
    padding = -end % _ALIGNMENT
    for buffer in weights:
        buffer.offset += end + padding - start
    moved = _packed(model, start)
    moved.extend(bytes(padding))
    moved.extend(memoryview(content)[start:])
    return moved


def _packed(model: Any, size: int) -> bytearray:
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
