"""Moves the weights of a `.tflite` file from after its flatbuffer into it, and adds metadata.

The converter and AI Edge Quantizer write large weights after the flatbuffer and refer to them by
offset, because a flatbuffer cannot exceed 2 GB. TensorFlow 2.13, MediaPipe before 1.1 and the
standard metadata writers do not support these offsets: they refuse the file or lose its weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from keras_vit.deploy.convert.metadata import NAME
from keras_vit.deploy.inspect.flatbuffer import has_weights_behind
from keras_vit.deploy.inspect.packing import ALIGNMENT, packed

# The largest flatbuffer: offsets have 31 bits.
LARGEST = 2**31 - 1


def embed_weights(content: bytes | bytearray | memoryview, metadata: bytes = b"") -> bytearray:
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
    weights = weights_behind(model, content)
    if behind:
        written = bytearray()
        write_weights_behind(model, weights, written.extend)
        return written
    for i, weight in weights.items():
        model.buffers[i].data = weight
    for buffer in model.buffers:
        buffer.offset = buffer.size = 0
    return packed(model, size + len(metadata))


def weights_behind(model: Any, content: Any) -> dict[int, np.ndarray]:
    """The bytes of each buffer of a `ModelT` that are after the flatbuffer, by its number."""
    return {
        i: np.frombuffer(content, np.uint8, buffer.size, buffer.offset)
        for i, buffer in enumerate(model.buffers)
        if buffer.size
    }


def _buffer(data: bytes) -> Any:
    from ai_edge_litert import schema_py_generated as schema

    buffer = schema.BufferT()
    buffer.data = np.frombuffer(data, np.uint8)
    return buffer


def write_weights_behind(
    model: Any, weights: Mapping[int, np.ndarray], write: Callable[[Any], Any]
) -> None:
    """Writes a flatbuffer, and then the weights of some of its buffers.

    Args:
        model: the `ModelT`; these buffers' offsets and sizes are replaced.
        weights: the contents by the numbers of the buffers; each is copied only when it is written.
        write: called with one part after the other.
    """
    for i, weight in weights.items():
        buffer = model.buffers[i]
        buffer.data, buffer.offset, buffer.size = None, 1, weight.nbytes
    # The offsets have the same size whatever they are, so the flatbuffer's size is known.
    size = len(packed(model, 2**20))
    end = size + -size % ALIGNMENT
    for i, weight in weights.items():
        model.buffers[i].offset = end
        end += weight.nbytes + -weight.nbytes % ALIGNMENT
    write(packed(model, 2**20))
    write(bytes(-size % ALIGNMENT))
    for weight in weights.values():
        write(np.ascontiguousarray(weight).data)
        write(bytes(-weight.nbytes % ALIGNMENT))


def _embedded_size(content: bytes) -> int:
    """An upper limit, in bytes, for the file with its tables repacked and constants aligned."""
    return len(content) + len(content) // 64 + 2**20
