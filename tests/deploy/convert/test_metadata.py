"""A file says itself what goes in and what comes out, in the schema that MediaPipe reads."""

import copy
import dataclasses
import io
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
from keras_vit.tflite import file_layout
from keras_vit.tflite.flatbuffer import read_graph

LABELS = ("tench", "great white shark, Haifisch", "鲨鱼", "naïve 🦈", "5", "6", "7", "8", "9", " ")
SEGMENTER = bytes.fromhex("100000005630303100000600080007000600000000000002")
PREPROCESSING = keras_vit.Preprocessing(16, 16, mean=(123.675, 116.28, 103.53), scale=(58.4, 57, 5))


class Table(flatbuffers.table.Table):
    """A table of a flatbuffer, read by the numbers of its fields."""

    def place(self, field):
        offset = self.Offset(4 + 2 * field)
        return offset and self.Pos + offset

    def table(self, field):
        return Table(self.Bytes, self.Indirect(self.place(field)))

    def text(self, field):
        return self.String(self.place(field)).decode()

    def number(self, field, flags=number_types.Int8Flags):
        return self.Get(flags, self.place(field))

    def only(self, field):
        """The table in a list of one table."""
        offset = self.Offset(4 + 2 * field)
        assert self.VectorLen(offset) == 1
        return Table(self.Bytes, self.Indirect(self.Vector(offset)))

    def content(self, field):
        """A list of bytes, and its place."""
        offset = self.Offset(4 + 2 * field)
        return self.GetVectorAsNumpy(number_types.Uint8Flags, offset).tobytes(), self.Vector(offset)

    def floats(self, field):
        return self.GetVectorAsNumpy(number_types.Float32Flags, self.Offset(4 + 2 * field))


def root_of(metadata):
    assert metadata[4:8] == b"M001"
    return Table(metadata, encode.Get(number_types.UOffsetTFlags.packer_type, metadata, 0))


def image_and_scores(root):
    graph = root.only(3)
    return graph.only(2), graph.only(3)


def unpacked(content):
    """A file, and the entry of its metadata."""
    model = schema.ModelT.InitFromPackedBuf(content)
    [entry] = [entry for entry in model.metadata if entry.name == b"TFLITE_METADATA"]
    return model, entry


def written(content):
    """The root of a file's metadata."""
    model, entry = unpacked(content)
    return root_of(bytes(model.buffers[entry.buffer].data))


def labels_in(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.namelist() == ["labels.txt"]
        return archive.read("labels.txt").decode().split("\n")[:-1]


def described(sample, **changes):
    about = dataclasses.replace(sample.converter.about, **{"labels": LABELS} | changes)
    float_file = sample.converter.float_file("none")
    return quantized(float_file, PRECISIONS["none"], about=about).read_bytes()


def graph_of(channels=3, classes=10, dtype="float32"):
    """What metadata reads of a graph."""
    shapes = (1, 16, 24, channels), (1, classes)
    tensors = [types.SimpleNamespace(shape=shape, dtype=dtype) for shape in shapes]
    return types.SimpleNamespace(tensors=tensors, inputs=[0], outputs=[1])


def read(about, **graph):
    """The tables of the image and of the scores in the metadata of a graph."""
    return image_and_scores(root_of(metadata(about, graph_of(**graph))))


@pytest.mark.parametrize("name", PRECISIONS)
def test_every_precision_has_metadata_and_the_scores_that_it_has_without(sample, name):
    converter, row = sample.converter, PRECISIONS[name]
    content = sample.file(name).read_bytes()
    plain = quantized(converter.float_file(name), row, converter._ranges.get(row.rules))
    assert written(content).text(0) == sample.model.name
    assert len(content) - len(plain) < 2000
    np.testing.assert_array_equal(
        deploy.Runner(content).predict(sample.images), deploy.Runner(plain).predict(sample.images)
    )


@pytest.mark.parametrize("means", [PREPROCESSING.mean, 127.5])
def test_the_input_is_an_rgb_image_that_is_normalised(sample, means):
    preprocessing = dataclasses.replace(PREPROCESSING, mean=means)
    image, _ = image_and_scores(written(described(sample, preprocessing=preprocessing)))
    assert image.table(3).number(0, number_types.Uint8Flags) == 2  # ImageProperties
    properties = image.table(3).table(1)
    assert properties.number(0) == 1  # RGB
    size = properties.table(1)
    sides = [size.number(field, number_types.Uint32Flags) for field in (1, 0)]
    assert tuple(sides) == sample.model.image_size
    unit = image.only(4)
    assert unit.number(0, number_types.Uint8Flags) == 1  # NormalizationOptions
    mean, scale = (np.broadcast_to(np.float32(v), 3) for v in (means, preprocessing.scale))
    np.testing.assert_array_equal(unit.table(1).floats(0), mean)
    np.testing.assert_array_equal(unit.table(1).floats(1), scale)
    np.testing.assert_allclose(image.table(5).floats(0), (255 - mean) / scale, rtol=1e-6)
    np.testing.assert_allclose(image.table(5).floats(1), -mean / scale, rtol=1e-6)


@pytest.mark.parametrize(
    ("channels", "colours", "words"),
    [(1, 2, "A grey image."), (4, None, "An image of 4 channels.")],
)
def test_other_images_than_rgb_are_described(channels, colours, words):
    image, _ = read(deploy.About("ViT-Test"), channels=channels)
    assert image.text(1) == words
    properties = image.table(3).table(1)
    assert bool(properties.place(0)) == (colours is not None)
    assert colours is None or properties.number(0) == colours  # GRAYSCALE


def test_labels_are_a_file_of_the_output(sample):
    content = described(sample)
    _, scores = image_and_scores(written(content))
    assert scores.text(0) == "logits"
    file = scores.only(6)
    assert (file.text(0), file.number(2)) == ("labels.txt", 2)  # TENSOR_AXIS_LABELS
    assert labels_in(content) == list(LABELS)
    assert described(sample) == content


def test_100_000_labels_are_stored_where_readers_find_them():
    names = tuple(f"class {i}" for i in range(100_000))
    about, graph = deploy.About("large", names), graph_of(classes=100_000)
    file = io.BytesIO()
    file.write(bytes(12_345))
    append_labels(file, about, graph)
    assert labels_in(file.getvalue()) == list(names)
    assert len(metadata(about, graph)) < 2000


@pytest.mark.parametrize(
    ("labels", "output"), [(None, "logits"), (LABELS[:2], "logits"), (LABELS, "features")]
)
def test_labels_that_are_unknown_or_not_those_of_the_scores_are_left_out(labels, output):
    about = deploy.About("m", labels, options=GraphOptions(output=output))
    _, scores = read(about)
    assert not scores.place(6)
    file = io.BytesIO()
    append_labels(file, about, graph_of())
    assert not file.getvalue()


@pytest.mark.parametrize(("preprocessing", "dtype"), [(None, "float32"), (PREPROCESSING, "uint8")])
def test_pixels_and_unknown_preprocessings_are_not_normalised(preprocessing, dtype):
    about = deploy.About("m", None, preprocessing)
    image, _ = read(about, dtype=dtype)
    assert not image.place(4)


@pytest.mark.parametrize(("classes", "text"), [(1, "whose sigmoid is"), (3, "their softmax")])
def test_the_output_says_how_its_logits_become_probabilities(classes, text):
    _, scores = read(deploy.About("model"), classes=classes)
    assert text in scores.text(1)


def graph_of_masks(classes):
    graph = graph_of(classes=classes)
    graph.tensors[1].shape = (1, 4, 6, classes)
    return graph


def test_mediapipe_is_told_that_scores_of_pixels_need_a_softmax():
    """The bytes of `SEGMENTER` are those of MediaPipe 0.10.21's own writer."""
    for labels in (LABELS, None):
        about = deploy.About("m", labels, options=GraphOptions(output="scores"))
        root = root_of(metadata(about, graph_of_masks(len(LABELS))))
        assert root.text(7) == "1.5.0"  # the oldest parser that knows custom metadata
        custom = root.only(3).only(9)
        assert custom.text(0) == "SEGMENTER_METADATA"
        content, place = custom.content(1)
        assert content == SEGMENTER
        assert place % 16 == 0
        assert bool(root.only(3).only(3).place(6)) == (labels is not None)
    file = io.BytesIO()
    append_labels(file, dataclasses.replace(about, labels=LABELS), graph_of_masks(len(LABELS)))
    assert labels_in(file.getvalue()) == list(LABELS)


@pytest.mark.parametrize("output", ["logits", "probabilities", "class_map", "feature_map"])
def test_only_scores_of_pixels_have_metadata_of_a_segmenter(output):
    about = deploy.About("m", options=GraphOptions(output=output))
    root = root_of(metadata(about, graph_of_masks(4)))
    assert root.text(7) == "1.0.0"
    assert not root.only(3).place(9)


def test_weights_behind_a_large_flatbuffer_are_still_found(sample, monkeypatch):
    inside = described(sample)
    monkeypatch.setattr(file_layout, "LARGEST", len(sample.converter.float_file("none")) - 1)
    behind = described(sample)
    assert read_graph(behind).weights_behind
    assert not read_graph(inside).weights_behind
    assert labels_in(behind) == list(LABELS)
    np.testing.assert_array_equal(
        deploy.Runner(behind).predict(sample.images), deploy.Runner(inside).predict(sample.images)
    )


def test_nothing_here_believes_the_metadata_of_a_file(sample):
    content = described(sample)
    model, entry = unpacked(content)
    lies = np.full(len(model.buffers[entry.buffer].data), 255, np.uint8)  # offsets to nowhere
    model.buffers[entry.buffer].data = lies
    model.metadata[:0] = [copy.copy(entry) for _ in range(20_000)]
    model.metadata[0].buffer = 2**31
    hostile = bytes(file_layout._packed(model, len(content) + 2**20).Output())
    np.testing.assert_array_equal(
        deploy.Runner(hostile).predict(sample.images), deploy.Runner(content).predict(sample.images)
    )
    assert deploy.inspect_file(hostile).runtime == deploy.inspect_file(content).runtime
