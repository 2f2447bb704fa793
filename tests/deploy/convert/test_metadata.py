"""A file says itself what goes in and what comes out, in the schema that MediaPipe reads."""

from __future__ import annotations

import dataclasses
import io
import struct
import types
import zipfile

import flatbuffers.table
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from flatbuffers import encode, number_types

import keras_vit
from keras_vit import deploy
from keras_vit.deploy.convert.metadata import append_labels, metadata
from keras_vit.deploy.convert.quantize import quantized
from keras_vit.deploy.graph.graph_options import GraphOptions
from keras_vit.deploy.precisions import PRECISIONS
from keras_vit.tflite import layout
from keras_vit.tflite.flatbuffer import read_graph

LABELS = ("tench", "great white shark, Haifisch", "鲨鱼", "naïve 🦈", "5", "6", "7", "8", "9", " ")
PREPROCESSING = keras_vit.Preprocessing(16, 16, mean=(123.675, 116.28, 103.53), scale=(58.4, 57, 5))


class Table:
    """A table of a flatbuffer, read by the numbers of its fields."""

    def __init__(self, content, place):
        self._table = flatbuffers.table.Table(content, place)

    @classmethod
    def root(cls, content):
        assert content[4:8] == b"M001"
        return cls(content, encode.Get(number_types.UOffsetTFlags.packer_type, content, 0))

    def _place(self, field):
        offset = self._table.Offset(4 + 2 * field)
        return offset and self._table.Pos + offset

    def has(self, field):
        return bool(self._place(field))

    def table(self, field):
        return Table(self._table.Bytes, self._table.Indirect(self._place(field)))

    def text(self, field):
        return self._table.String(self._place(field)).decode()

    def number(self, field, flags=number_types.Int8Flags):
        return self._table.Get(flags, self._place(field))

    def tables(self, field):
        offset = self._table.Offset(4 + 2 * field)
        start = self._table.Vector(offset)
        places = range(start, start + 4 * self._table.VectorLen(offset), 4)
        return [Table(self._table.Bytes, self._table.Indirect(place)) for place in places]

    def floats(self, field):
        offset = self._table.Offset(4 + 2 * field)
        return self._table.GetVectorAsNumpy(number_types.Float32Flags, offset)


def written(content):
    """The root of a file's metadata."""
    model = schema.Model.GetRootAs(content, 0)
    entries = [model.Metadata(i) for i in range(model.MetadataLength())]
    [entry] = [entry for entry in entries if entry.Name() == b"TFLITE_METADATA"]
    return Table.root(bytes(model.Buffers(entry.Buffer()).DataAsNumpy()))


def labels_in(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.namelist() == ["labels.txt"]
        return archive.read("labels.txt").decode().split("\n")[:-1]


@pytest.fixture(scope="module")
def float_file(sample):
    return sample.converter.float_file("none")


def described(sample, float_file, precision="none", **changes):
    about = dataclasses.replace(sample.converter.about, **{"labels": LABELS} | changes)
    return quantized(float_file, PRECISIONS[precision], about=about).read_bytes()


@pytest.mark.parametrize("name", PRECISIONS)
def test_every_precision_has_metadata_and_the_scores_that_it_has_without(sample, name):
    converter = sample.converter
    content = sample.file(name).read_bytes()
    row = PRECISIONS[name]
    ranges = converter._ranges.get(row.rules)
    plain = quantized(converter.float_file(name), row, ranges)
    assert written(content).text(0) == sample.model.name
    assert len(content) - len(plain) < 2000
    np.testing.assert_array_equal(
        deploy.Runner(content).predict(sample.images), deploy.Runner(plain).predict(sample.images)
    )


def test_the_input_is_an_rgb_image_that_is_normalised_as_the_preprocessing_says(sample, float_file):
    content = described(sample, float_file, preprocessing=PREPROCESSING)
    [graph] = written(content).tables(3)
    [image] = graph.tables(2)
    assert image.table(3).number(0, number_types.Uint8Flags) == 2  # ImageProperties
    properties = image.table(3).table(1)
    assert properties.number(0) == 1  # RGB
    height, width = sample.model.image_size
    size = properties.table(1)
    sides = [size.number(field, number_types.Uint32Flags) for field in (0, 1)]
    assert sides == [width, height]
    [unit] = image.tables(4)
    assert unit.number(0, number_types.Uint8Flags) == 1  # NormalizationOptions
    mean, scale = (np.float32(v) for v in (PREPROCESSING.mean, PREPROCESSING.scale))
    np.testing.assert_array_equal(unit.table(1).floats(0), mean)
    np.testing.assert_array_equal(unit.table(1).floats(1), scale)
    np.testing.assert_allclose(image.table(5).floats(0), (255 - mean) / scale, rtol=1e-6)
    np.testing.assert_allclose(image.table(5).floats(1), -mean / scale, rtol=1e-6)


@pytest.mark.parametrize(
    ("channels", "colours", "words"),
    [(1, 2, "A grey image."), (4, None, "An image of 4 channels.")],
)
def test_other_images_than_rgb_are_described(sample, channels, colours, words):
    tensor = types.SimpleNamespace(shape=(1, 16, 24, channels), dtype="float32")
    scores = types.SimpleNamespace(shape=(1, 10), dtype="float32")
    graph = types.SimpleNamespace(tensors=[tensor, scores], inputs=[0], outputs=[1])
    [described] = Table.root(metadata(deploy.About("ViT-Test"), graph)).tables(3)
    [image] = described.tables(2)
    assert image.text(1) == words
    properties = image.table(3).table(1)
    assert properties.has(0) == (colours is not None)
    assert colours is None or properties.number(0) == colours  # GRAYSCALE


def test_there_are_as_many_means_as_scales(sample, float_file):
    mixed = dataclasses.replace(PREPROCESSING, mean=127.5)
    [graph] = written(described(sample, float_file, preprocessing=mixed)).tables(3)
    [unit] = graph.tables(2)[0].tables(4)
    np.testing.assert_array_equal(unit.table(1).floats(0), np.float32([127.5] * 3))
    np.testing.assert_array_equal(unit.table(1).floats(1), np.float32(mixed.scale))


def test_labels_are_a_file_of_the_output(sample, float_file):
    content = described(sample, float_file)
    [graph] = written(content).tables(3)
    [scores] = graph.tables(3)
    assert scores.text(0) == "logits"
    [file] = scores.tables(6)
    assert (file.text(0), file.number(2)) == ("labels.txt", 2)  # TENSOR_AXIS_LABELS
    assert labels_in(content) == list(LABELS)


def test_100_000_labels_are_stored_where_readers_find_them(sample, float_file):
    names = tuple(f"class {i}" for i in range(100_000))
    graph = read_graph(float_file)
    scores = graph.tensors[graph.outputs[0]]
    many = dataclasses.replace(scores, shape=(1, len(names)))
    tensors = tuple(many if tensor is scores else tensor for tensor in graph.tensors)
    graph = dataclasses.replace(graph, tensors=tensors)
    about = deploy.About("large", names)
    file = io.BytesIO()
    file.write(bytes(12_345))
    append_labels(file, about, graph)
    assert labels_in(file.getvalue()) == list(names)
    assert len(metadata(about, graph)) < 2000


@pytest.mark.parametrize("labels", [None, LABELS[:2]])
def test_labels_that_are_unknown_or_not_those_of_the_scores_are_left_out(
    sample, float_file, labels
):
    content = described(sample, float_file, labels=labels)
    [graph] = written(content).tables(3)
    assert not graph.tables(3)[0].has(6)
    assert not zipfile.is_zipfile(io.BytesIO(content))


def test_pixels_and_unknown_preprocessings_are_not_normalised(sample, graph_file, float_file):
    content = described(sample, float_file, preprocessing=None)
    assert not written(content).tables(3)[0].tables(2)[0].has(4)
    pixels = graph_file(sample.model.spec, (16, 16), input="uint8")
    about = deploy.About("pixels", None, PREPROCESSING)
    content = quantized(pixels, PRECISIONS["none"], about=about).read_bytes()
    assert not written(content).tables(3)[0].tables(2)[0].has(4)


@pytest.mark.parametrize(("classes", "text"), [(1, "whose sigmoid is"), (3, "their softmax")])
def test_the_output_says_how_its_logits_become_probabilities(converted, classes, text):
    graph = read_graph(converted(lambda x: 2 * x[:, 0, 0, :classes], (1, 4, 4, 3)))
    about = deploy.About("model")
    assert text in Table.root(metadata(about, graph)).tables(3)[0].tables(3)[0].text(1)


def test_features_have_no_labels(float_file):
    options, graph = GraphOptions(output="features"), read_graph(float_file)
    for about, holds in (
        (deploy.About("m", LABELS), True),
        (deploy.About("m", LABELS, options=options), False),
    ):
        append_labels(file := io.BytesIO(), about, graph)
        assert bool(file.getvalue()) == holds


def test_weights_behind_a_large_flatbuffer_are_still_found(sample, float_file, monkeypatch):
    inside = described(sample, float_file)
    monkeypatch.setattr(layout, "LARGEST", len(float_file) - 1)
    behind = described(sample, float_file)
    assert read_graph(behind).weights_behind
    assert not read_graph(inside).weights_behind
    assert labels_in(behind) == list(LABELS)
    np.testing.assert_array_equal(
        deploy.Runner(behind).predict(sample.images), deploy.Runner(inside).predict(sample.images)
    )


def test_the_bytes_repeat(sample, float_file):
    assert described(sample, float_file) == described(sample, float_file)


def lying_archive(content):
    """An archive behind the file whose directory is said to be elsewhere, with other labels."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("labels.txt", "other\n" * 10)
        archive.writestr("../../evil", "x")
    raw = bytearray(stream.getvalue())
    struct.pack_into("<IIH", raw, raw.rfind(b"PK\5\6") + 12, 2**32 - 1, 2**32 - 16, 2**16 - 1)
    return content + bytes(raw)


def damaged(change):
    def damage(content):
        model = schema.ModelT.InitFromPackedBuf(content)
        [entry] = [e for e in model.metadata if e.name == b"TFLITE_METADATA"]
        change(model, entry)
        return bytes(layout._packed(model, len(content) + 2**20).Output())

    return damage


def wild_buffer(model, entry):
    entry.buffer = 2**31


def wild_offsets(model, entry):
    buffer = model.buffers[entry.buffer]
    buffer.data = np.full(len(buffer.data), 255, np.uint8)


def many_entries(model, entry):
    model.metadata = model.metadata * 20_000


@pytest.mark.parametrize(
    "damage",
    [lying_archive, damaged(wild_buffer), damaged(wild_offsets), damaged(many_entries)],
    ids=["lying archive", "wild buffer", "wild offsets", "many entries"],
)
def test_nothing_here_believes_the_metadata_of_a_file(sample, float_file, damage):
    content = bytes(described(sample, float_file))
    hostile = damage(content)
    assert hostile != content
    np.testing.assert_array_equal(
        deploy.Runner(hostile).predict(sample.images), deploy.Runner(content).predict(sample.images)
    )
    assert deploy.inspect_file(hostile).runtime == deploy.inspect_file(content).runtime


def test_labels_of_several_lines_are_refused_before_anything_is_converted(sample, tmp_path):
    names = ["a\nb", *LABELS[1:]]
    with pytest.raises(keras_vit.UsageError, match="labels must be lines of text.*rename"):
        deploy.export_bundles(sample.model, tmp_path, labels=names, threads=())
    assert not list(tmp_path.iterdir())
