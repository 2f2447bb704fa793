"""Up to 2 GB, weights are inside the flatbuffer, where every client can read them."""

from __future__ import annotations

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from keras_vit import deploy
from keras_vit._errors import RefusedError
from keras_vit.deploy.convert import buffers
from keras_vit.deploy.convert.buffers import embed_weights
from keras_vit.deploy.convert.quantize import quantized
from keras_vit.deploy.inspect.flatbuffer import has_weights_behind, read_graph
from keras_vit.deploy.precisions import PRECISIONS

pytestmark = pytest.mark.once


@pytest.mark.parametrize("name", PRECISIONS)
def test_every_precision_has_its_weights_inside_the_flatbuffer(sample, name):
    content = sample.file(name)
    assert not has_weights_behind(content)
    assert not read_graph(content).weights_behind


def test_embedded_weights_are_equal_and_aligned(sample):
    behind = sample.converter.float_file("none").path.read_bytes()
    assert has_weights_behind(behind)
    inside = embed_weights(behind)
    np.testing.assert_array_equal(
        deploy.Runner(bytes(inside)).predict(sample.images),
        deploy.Runner(behind).predict(sample.images),
    )
    before, after = read_graph(behind), read_graph(inside)
    assert (after.tensors, after.operators) == (before.tensors, before.operators)
    model = schema.Model.GetRootAs(inside, 0)
    start = np.frombuffer(inside, np.uint8).ctypes.data
    placed = [model.Buffers(i).DataAsNumpy() for i in range(model.BuffersLength())]
    places = [data.ctypes.data - start for data in placed if isinstance(data, np.ndarray)]
    assert len(places) > 20
    assert not any(place % 16 for place in places)
    assert embed_weights(inside) == inside


def test_a_file_of_2_gb_keeps_its_weights_behind_and_says_which_runtime_it_needs(
    sample, monkeypatch
):
    behind = sample.converter.float_file("none")
    monkeypatch.setattr(buffers, "LARGEST", len(behind) - 1)
    content = quantized(behind, PRECISIONS["none"])
    assert has_weights_behind(content)
    assert deploy.runtime_floor(content) == "2.14.0"
    deploy.check_runtime(content, "2.14")
    with pytest.raises(RefusedError, match="weights behind the flatbuffer needs TFL"):
        deploy.check_runtime(content, "2.13.1")
    assert read_graph(content).stated_runtime == "2.14.0"
