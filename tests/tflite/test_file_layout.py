"""Up to 2 GB, weights are inside the flatbuffer, where every client can read them."""

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from keras_vit import deploy
from keras_vit._errors import RefusedError
from keras_vit.deploy.convert.quantize import quantized
from keras_vit.deploy.precisions import PRECISIONS
from keras_vit.tflite.file_layout import LaidOutFile, laid_out, split, unpacked
from keras_vit.tflite.flatbuffer import read_graph


@pytest.mark.parametrize("name", PRECISIONS)
def test_every_precision_has_its_weights_inside_the_flatbuffer(sample, name):
    assert not read_graph(sample.file(name)).weights_behind


def test_embedded_weights_are_equal_aligned_and_not_copied(sample):
    behind = sample.converter.float_file("none").read_bytes()
    assert read_graph(behind).weights_behind
    file = laid_out(*unpacked(behind))
    assert len(file.weights) > 10
    for place, weight in file.weights:  # which have no copy in memory
        assert not any(file.image[place : place + weight.nbytes])
    inside = b"".join(file.parts())
    scores = [deploy.Runner(each).predict(sample.images) for each in (inside, behind)]
    np.testing.assert_array_equal(*scores)
    before, after = read_graph(behind), read_graph(inside)
    assert (after.tensors, after.operators) == (before.tensors, before.operators)
    model = schema.Model.GetRootAs(inside, 0)
    start = np.frombuffer(inside, np.uint8).ctypes.data
    placed = [model.Buffers(i).DataAsNumpy() for i in range(model.BuffersLength())]
    places = [data.ctypes.data - start for data in placed if isinstance(data, np.ndarray)]
    assert len(places) > 20
    assert not any(place % 16 for place in places)
    assert b"".join(laid_out(*split(unpacked(inside)[0])).parts()) == inside


@pytest.mark.parametrize("columns", [1, 8, 21])
def test_transposed_weights_are_written_in_their_order(columns):
    weight = np.arange(5 * columns, dtype=np.float32).reshape(columns, 5).T
    file = LaidOutFile(memoryview(bytes(weight.nbytes)), [(0, weight)])
    assert b"".join(file.parts()) == weight.tobytes()


def test_a_file_of_2_gb_keeps_its_weights_behind_and_states_its_runtime(sample, monkeypatch):
    behind = sample.converter.float_file("none")
    monkeypatch.setattr("keras_vit.tflite.file_layout.LARGEST", len(behind) - 1)
    content = quantized(behind, PRECISIONS["none"])
    assert read_graph(content).weights_behind
    assert deploy.runtime_floor(content) == "2.14.0"
    deploy.check_runtime(content, "2.14")
    with pytest.raises(RefusedError, match="weights behind the flatbuffer needs TFL"):
        deploy.check_runtime(content, "2.13.1")
    assert read_graph(content).stated_runtime == "2.14.0"
