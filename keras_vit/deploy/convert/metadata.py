"""TFLite Metadata: a file says itself what goes in and what comes out.

MediaPipe Tasks, ML Kit and Android Studio read it: how pixels are normalised, and the names of the
classes, which are a text file in a zip archive behind the flatbuffer. Runtimes ignore both.

Sources: metadata_schema.fbs 1.5.0 and image_segmenter_metadata_schema.fbs of MediaPipe, whose
fields have the numbers that are used here.
"""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from keras_vit.deploy.resolve import About
from keras_vit.encoder.ops import HeadActivation
from keras_vit.specs import Preprocessing
from keras_vit.tflite.file_layout import laid_out
from keras_vit.tflite.flatbuffer import Graph, MappedFile, Tensor
from keras_vit.tflite.runtimes import state_versions

_IDENTIFIER = b"M001"  # of the metadata's own flatbuffer
# The oldest parsers that know all fields that are written here, without and with `_SEGMENTER`.
_PARSER, _CUSTOM_PARSER = "1.0.0", "1.5.0"
# What MediaPipe's ImageSegmenter reads, in a flatbuffer of its own.
_SEGMENTER, _SEGMENTER_IDENTIFIER, _SOFTMAX = "SEGMENTER_METADATA", b"V001", 2
LABELS = "labels.txt"
# The earliest date of a zip archive: equal labels give equal bytes.
_DATE = (1980, 1, 1, 0, 0, 0)
# Numbers of the schema's enumerations and unions.
_AXIS_LABELS, _FEATURE, _IMAGE, _NORMALIZATION = 2, 1, 2, 1
# By the number of channels: the schema's colour space and words. Others are unknown to it.
_COLOURS = {3: (1, "An RGB image."), 1: (2, "A grey image.")}
_OUTPUTS = {
    "logits": "A score for each class; their softmax gives probabilities.",
    "probabilities": "The probability of each class.",
    "features": "The input of the classifier's last layer.",
    "feature_map": "The features of each patch of the image, in rows and columns.",
    "scores": "A score for each class, in rows and columns of the image; their softmax gives "
    "probabilities.",
    "class_map": "The class with the highest score, in rows and columns of the image.",
}
_ONE_SCORE = {
    "logits": "One score, whose sigmoid is the probability of the class.",
    "probabilities": "The probability of the class.",
}
_INDEPENDENT = {
    "logits": "A score for each class, whose sigmoid is its probability; classes do not exclude "
    "each other.",
    "probabilities": "The probability of each class; classes do not exclude each other.",
}


def meaning(output: str, classes: int, activation: HeadActivation | None = None) -> str:
    """A sentence about the output of a file."""
    known = _ONE_SCORE if classes == 1 else _INDEPENDENT if activation == "sigmoid" else _OUTPUTS
    return known.get(output, _OUTPUTS[output])


def metadata(about: About, graph: Graph) -> bytes:
    """The metadata of a file with this graph, as a flatbuffer of its own."""
    return _Writer().written(about, graph)


def described_file(
    model: Any, weights: Mapping[int, np.ndarray], about: About | None, graph: Graph
) -> MappedFile:
    """Writes a file that states the versions it needs, and says of its model what is known.

    Args:
        model, weights: as for `file_layout.laid_out`.
        about: what the file says; None for nothing.
        graph: a graph with the input and the output of the file.
    """
    layout = laid_out(model, weights, metadata(about, graph) if about else b"")
    folder = tempfile.TemporaryDirectory()
    graph, path = state_versions(layout.image), Path(folder.name) / "model.tflite"
    with path.open("wb") as file:
        file.writelines(layout.parts())
        if about:
            append_labels(file, about, graph)
    return MappedFile(path, folder, graph)


def append_labels(file: BinaryIO, about: About, graph: Graph) -> None:
    """Writes the zip archive with the labels at the end of a file; nothing without labels.

    It is not compressed, so that readers can map it.
    """
    labels = _labels(about, graph)
    if labels is not None:
        with zipfile.ZipFile(file, "w") as archive:
            entry = zipfile.ZipInfo(LABELS, _DATE)
            archive.writestr(entry, "".join(f"{label}\n" for label in labels))


def _labels(about: About, graph: Graph) -> tuple[str, ...] | None:
    """The labels, if a file's output has a score for each of them."""
    shape = graph.tensors[graph.outputs[0]].shape
    has_axis = len(shape) == (4 if about.options.is_mask else 2)
    scored = about.labels and about.options.scores_classes and has_axis
    return about.labels if scored and shape[-1] == len(about.labels) else None


class _Writer:
    """Writes the tables of the schema; a table is a dict from the number of a field to its value.

    A value is a place of what was written before, or a number with the name of its type.
    """

    def __init__(self):
        import flatbuffers

        self._builder = flatbuffers.Builder(1024)

    def written(self, about: About, graph: Graph) -> bytes:
        """The whole flatbuffer."""
        image = self._input(about.preprocessing, graph.tensors[graph.inputs[0]])
        classes = graph.tensors[graph.outputs[0]].shape[-1]
        words = meaning(about.options.output, classes, about.activation)
        scores = self._output(about.options.output, _labels(about, graph), words)
        fields, parser = {2: self._list(image), 3: self._list(scores)}, _PARSER
        if about.options.output == "scores":
            data = self._bytes(_Writer().segmenter())
            custom = self._table(2, {0: self._text(_SEGMENTER), 1: data})
            fields[9], parser = self._list(custom), _CUSTOM_PARSER
        subgraph = self._table(10, fields)
        fields = {0: self._text(about.name), 3: self._list(subgraph), 7: self._text(parser)}
        return self._finished(self._table(8, fields), _IDENTIFIER)

    def segmenter(self) -> bytes:
        """The whole flatbuffer for MediaPipe's ImageSegmenter: a softmax gives probabilities."""
        return self._finished(self._table(2, {0: ("Int8", _SOFTMAX)}), _SEGMENTER_IDENTIFIER)

    def _finished(self, table: int, identifier: bytes) -> bytes:
        self._builder.Finish(table, identifier)
        return bytes(self._builder.Output())

    def _input(self, preprocessing: Preprocessing | None, tensor: Tensor) -> int:
        sides = zip((1, 0), tensor.shape[1:3], strict=True)  # the width is the first field
        size = self._table(2, {field: ("Uint32", side) for field, side in sides})
        channels = tensor.shape[3]
        colours, words = _COLOURS.get(channels, (0, f"An image of {channels} channels."))
        image = self._table(2, {0: ("Int8", colours), 1: size})
        fields = {
            0: self._text("image"),
            1: self._text(words),
            3: self._table(3, {0: ("Uint8", _IMAGE), 1: image}),
        }
        if preprocessing is not None and tensor.dtype != "uint8":
            fields |= self._normalised(preprocessing)
        return self._table(7, fields)

    def _normalised(self, preprocessing: Preprocessing) -> dict[int, int]:
        """The fields for (pixel - mean) / scale, and for the ends of the result."""
        # Readers expect as many means as scales.
        mean, scale = np.broadcast_arrays(
            *(np.atleast_1d(v) for v in (preprocessing.mean, preprocessing.scale))
        )
        options = self._table(2, {0: self._floats(mean), 1: self._floats(scale)})
        unit = self._table(2, {0: ("Uint8", _NORMALIZATION), 1: options})
        highest, lowest = (self._floats((end - mean) / scale) for end in (255.0, 0.0))
        return {4: self._list(unit), 5: self._table(2, {0: highest, 1: lowest})}

    def _output(self, output: str, labels: Sequence[str] | None, words: str) -> int:
        fields = {
            0: self._text(output),
            1: self._text(words),
            3: self._table(3, {0: ("Uint8", _FEATURE), 1: self._table(0, {})}),
        }
        if labels is not None:
            file = {0: self._text(LABELS), 1: self._text("A class in each line.")}
            fields[6] = self._list(self._table(5, file | {2: ("Int8", _AXIS_LABELS)}))
        return self._table(7, fields)

    def _table(self, count: int, fields: dict[int, int | tuple[str, int]]) -> int:
        self._builder.StartObject(count)
        for field, value in fields.items():
            if isinstance(value, tuple):
                kind, number = value
                getattr(self._builder, f"Prepend{kind}Slot")(field, number, 0)
            else:
                self._builder.PrependUOffsetTRelativeSlot(field, value, 0)
        return self._builder.EndObject()

    def _list(self, table: int) -> int:
        """A list of one table."""
        self._builder.StartVector(4, 1, 4)
        self._builder.PrependUOffsetTRelative(table)
        return self._builder.EndVector()

    def _bytes(self, content: bytes) -> int:
        """Bytes, aligned so that they can be a flatbuffer."""
        self._builder.StartVector(1, len(content), 16)
        for byte in reversed(content):
            self._builder.PrependByte(byte)
        return self._builder.EndVector()

    def _floats(self, values: Any) -> int:
        return self._builder.CreateNumpyVector(np.asarray(values, np.float32))

    def _text(self, text: str) -> int:
        return self._builder.CreateString(text)
