"""Lays `.tflite` files out: their weights go into the flatbuffer, or after it above 2 GB.

The converter and AI Edge Quantizer write large weights after the flatbuffer and refer to them by
offset, because a flatbuffer cannot exceed 2 GB. TensorFlow 2.13, MediaPipe before 1.1 and the
standard metadata writers do not support these offsets: they refuse the file or lose its weights.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from keras_vit.tflite.flatbuffer import Model, mapped

METADATA = b"TFLITE_METADATA"  # the name of the TFLite Metadata in a file
# The largest flatbuffer: offsets have 31 bits.
LARGEST = 2**31 - 1
# The alignment of constants that the schema requires (`force_align` of Buffer.data).
_ALIGNMENT = 16
_BAND = 8  # columns that are copied at once; most of them are in the processor's cache
_TABLES = 2**26  # bytes that all but the weights take at most
_LARGE = 1024  # bytes of a constant that is written to the file without a copy in memory


@dataclasses.dataclass(frozen=True)
class LaidOutFile:
    """A file whose weights are not in memory.

    Attributes:
        image: the content of the file, but zeros in the places of the weights: they take no memory
            until they are written.
        weights: the place and the content of each weight, in the order of places.
    """

    image: memoryview
    weights: list[tuple[int, np.ndarray]]

    def parts(self) -> Iterator[memoryview]:
        """The content of the file, one part after the other."""
        end = 0
        for place, weight in self.weights:
            yield self.image[end:place]
            yield _contiguous(weight).data
            end = place + weight.nbytes
        yield self.image[end:]


def laid_out(
    model: Any,
    weights: Mapping[int, np.ndarray],
    metadata: bytes = b"",
    behind: bool | None = None,
) -> LaidOutFile:
    """The layout of a file.

    Args:
        model: the `ModelT` without these weights; its buffers are changed.
        weights: contents by the numbers of the buffers; each is copied only when it is written.
        metadata: the file's TFLite Metadata, which are added; b"" adds none.
        behind: whether the weights are after the flatbuffer; None if the file is larger than 2 GB.
    """
    from ai_edge_litert import schema_py_generated as schema

    if metadata:
        model.buffers.append(schema.BufferT())
        model.buffers[-1].data = np.frombuffer(metadata, np.uint8)
        entry = schema.MetadataT()
        entry.name, entry.buffer = METADATA, len(model.buffers) - 1
        model.metadata = [*(model.metadata or []), entry]
    size = _TABLES + sum(weight.nbytes for weight in weights.values())
    behind = size > LARGEST if behind is None else behind
    return _behind(model, weights) if behind else _inside(model, weights, size)


def split(model: Any) -> tuple[Any, dict[int, np.ndarray]]:
    """A `ModelT` without its large constants, as `laid_out` takes it, and these by their buffers.

    The model is as it would be read from a file.
    """
    from ai_edge_litert import schema_py_generated as schema

    data = {i: buffer.data for i, buffer in enumerate(model.buffers) if buffer.data is not None}
    weights = {i: np.asarray(values) for i, values in data.items() if len(values) >= _LARGE}
    for i in weights:
        buffer = model.buffers[i]
        buffer.data, buffer.offset, buffer.size = None, 1, 1
    return schema.ModelT.InitFromPackedBuf(_packed(model, _TABLES).Output()), weights


def unpacked(content: Any) -> tuple[Any, dict[int, np.ndarray]]:
    """The `ModelT` of a file's content, and its weights after the flatbuffer by their buffers."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(content)
    places = {i: (each.size, each.offset) for i, each in enumerate(model.buffers) if each.size}
    return model, {i: np.frombuffer(content, np.uint8, *place) for i, place in places.items()}


def loaded(file: Model) -> Any:
    """The `ModelT` of a file with all its weights, as `split` takes it."""
    model, behind = unpacked(mapped(file))
    for i, weight in behind.items():
        model.buffers[i].data = weight
    return model


def ending_at(file: Model, tensor: int) -> bytes:
    """A file whose output is a tensor of another file, and which computes nothing after it.

    Args:
        file: a `.tflite` file of one graph.
        tensor: the index of a tensor that one of its operators writes.
    """
    model = loaded(file)
    [graph] = model.subgraphs
    last = next(i for i, op in enumerate(graph.operators) if tensor in op.outputs)
    graph.operators = graph.operators[: last + 1]
    graph.outputs = [tensor]
    model.signatureDefs = model.metadata = model.metadataBuffer = None  # about the whole file
    return b"".join(laid_out(*split(model)).parts())


def _contiguous(array: np.ndarray) -> np.ndarray:
    """`np.ascontiguousarray`, which takes three times as long for large transposed matrices."""
    if array.ndim != 2 or array.flags.c_contiguous:
        return np.ascontiguousarray(array)
    copied = np.empty(array.shape, array.dtype)
    for start in range(0, array.shape[1], _BAND):
        copied[:, start : start + _BAND] = array[:, start : start + _BAND]
    return copied


def _inside(model: Any, weights: Mapping[int, np.ndarray], size: int) -> LaidOutFile:
    for buffer in model.buffers:
        buffer.offset = buffer.size = 0
    # Small ones are in the image, where a graph's constants of one element are read.
    large = {i: weight for i, weight in weights.items() if weight.nbytes >= _LARGE}
    for i, weight in weights.items():
        # The builder leaves space for it, because its values have no memory of their own.
        space = np.broadcast_to(np.uint8(0), weight.nbytes)
        model.buffers[i].data = space if i in large else np.ravel(weight).view(np.uint8)
    builder = _packed(model, size)
    image = builder.Output()
    places = (len(image) - distance for distance in builder.spaces)
    found = zip(places, (large[i] for i in sorted(large)), strict=True)
    return LaidOutFile(image, sorted(found, key=lambda pair: pair[0]))


def _behind(model: Any, weights: Mapping[int, np.ndarray]) -> LaidOutFile:
    for i, weight in weights.items():
        buffer = model.buffers[i]
        buffer.data, buffer.offset, buffer.size = None, 1, weight.nbytes
    # The offsets have the same size whatever they are, so the flatbuffer's size is known.
    size = len(_packed(model, _TABLES).Output())
    end, places = size + -size % _ALIGNMENT, []
    for i, weight in weights.items():
        model.buffers[i].offset = end
        places.append((end, weight))
        end += weight.nbytes + -weight.nbytes % _ALIGNMENT
    image = memoryview(np.zeros(end, np.uint8))
    image[:size] = _packed(model, _TABLES).Output()
    return LaidOutFile(image, places)


def _packed(model: Any, size: int) -> Any:
    """The builder of a flatbuffer of at most `size` bytes, after it has written a model."""
    import flatbuffers

    class Builder(flatbuffers.Builder):
        """Aligns constants, and leaves space for those without memory.

        Attributes:
            spaces: how far from the end of the file each space begins, in the order of buffers.
        """

        def __init__(self):
            super().__init__(0)
            # The system provides memory for a page of zeros when something is written to it.
            self.Bytes, self.head = memoryview(np.zeros(size, np.uint8)), size
            self.spaces = []

        def CreateNumpyVector(self, x):
            constant = x.dtype == np.uint8
            self.StartVector(x.itemsize, x.size, _ALIGNMENT if constant else x.dtype.alignment)
            self.head -= x.nbytes
            if x.strides == (0,):
                self.spaces.append(len(self.Bytes) - self.head)
            else:
                self.Bytes[self.head : self.head + x.nbytes] = memoryview(x).cast("B")
            return self.EndVector()

    builder = Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    return builder
