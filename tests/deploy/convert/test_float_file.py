"""Graphs are converted without their kernels, which are written into the file afterwards."""

import contextlib
import dataclasses
import functools
import signal
from unittest.mock import Mock

import numpy as np
import pytest

import keras_vit
from keras_vit import deploy
from keras_vit._keras import keras
from keras_vit.deploy.convert import converter, float_file
from keras_vit.deploy.graph import inference
from keras_vit.deploy.graph.graph_options import GraphOptions
from keras_vit.deploy.graph.rewrites import REWRITES
from keras_vit.deploy.resolve import resolve
from keras_vit.models.pretrained import model_class
from keras_vit.tflite.flatbuffer import read_graph

# Square kernels, which a wrong order of axes does not show in their shapes.
SPEC = keras_vit.ViTSpec(patch_size=4, hidden_dim=48, depth=3, num_heads=3, mlp_dim=48)
variant = functools.partial(dataclasses.replace, SPEC)
HYBRID = {"patch_size": 2, "stem": keras_vit.ResNetStem((1, 1), width=0.5), "pooling": "gap"}
KINDS = {
    "token": SPEC,
    "map": variant(pooling="map", position_embedding="learned2d"),
    "distilled": variant(pooling="distilled"),
    "relative": variant(pooling="none", position_embedding="relative"),
    "hybrid": variant(**HYBRID, representation_dim=48),
    "bit": keras_vit.ResNetSpec((1, 1, 1, 1)),
    "balanced": SPEC,
}
SLOW = {"distilled", "relative", "hybrid", "bit"}


@pytest.fixture(autouse=True)
def all_kernels_are_large(monkeypatch):
    monkeypatch.setattr(float_file, "_SMALLEST", 64)


@pytest.fixture
def written(trained_like):
    """A converter with the graph of a model that resembles a trained one."""

    def write(spec, calibration=None, **options):
        model = trained_like(model_class(spec)(spec, 10, (32, 64)))
        resolved = resolve(model, GraphOptions(**options))
        name = "none" if calibration is None else "int8"
        return deploy.Converter(resolved, [name], calibration)

    return write


def converted_with_weights(graph, folder):
    saved = converter._saved(inference.inference_module(graph), folder / "saved")
    converter.write_float_graph(saved, folder / "whole.tflite")
    return folder / "whole.tflite"


def described(graph):
    """Each operator with the shapes of what it reads and writes; their order may differ."""
    return sorted(
        (o.name, graph.layer(o), *(t.shape for t in (*graph.read(o), *graph.written(o))))
        for o in graph.operators
    )


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=pytest.mark.slow if k in SLOW else ()) for k in KINDS]
)
def test_the_file_is_the_one_that_is_converted_with_its_weights(written, kind, pictures, tmp_path):
    images = pictures(4, (32, 64))
    made = written(KINDS[kind], images if kind == "balanced" else None)
    [graph] = made._graphs.values()
    assert ("stream/scale" in graph.weights) == (kind == "balanced")
    found = tmp_path / "model.tflite"
    assert float_file.write_float_file(graph, found)
    expected = converted_with_weights(graph, tmp_path)
    assert described(read_graph(found)) == described(read_graph(expected))
    np.testing.assert_array_equal(
        deploy.Runner(found).predict(images), deploy.Runner(expected).predict(images)
    )


def test_layers_of_ones_own_follow_the_filled_graph(trained_like, pictures, tmp_path):
    vit = trained_like(keras_vit.ViT(SPEC, 0, (32, 64)))
    model = keras.Sequential([vit, keras.layers.Dense(3, "softmax")])
    resolved = resolve(model)
    assert resolved.graph.tail is not None
    made = deploy.Converter(resolved, ["none"])
    [graph] = made._graphs.values()
    assert float_file.write_float_file(graph, tmp_path / "model.tflite")
    images = pictures(2, (32, 64))
    found = deploy.Runner(tmp_path / "model.tflite").predict(images)
    np.testing.assert_allclose(found, deploy.predict(model, images), atol=1e-6)


def test_kernels_that_the_converter_changes_are_converted(written, pictures, tmp_path):
    rewrites = frozenset(REWRITES) - {"attention_biases"}  # the converter scales the queries
    made = written(SPEC, rewrites=rewrites)
    assert not float_file.write_float_file(made._graphs["plain"], tmp_path / "model.tflite")
    assert not (tmp_path / "model.tflite").exists()
    images = pictures(2, (32, 64))
    found = deploy.Runner(made.float_file()).predict(images)
    expected = deploy.Runner(written(SPEC).float_file()).predict(images)
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


def test_the_converter_sees_the_kernels_of_one_block(written):
    sizes = []
    for depth in (2, 8):
        made = written(variant(depth=depth))
        [graph] = made._graphs.values()
        placeholders = float_file._placeholders(graph.weights)
        sizes.append(len(float_file._converted(graph, placeholders)))
    blocks = 6 * (4 * 48 * 48 + 2 * 48 * 48) * 4  # bytes of the kernels of six blocks
    assert sizes[1] - sizes[0] < 0.7 * blocks


def test_ctrl_c_during_conversion_is_not_lost():
    def convert():
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            float_file.convert(Mock(convert=convert))
    finally:
        signal.signal(signal.SIGINT, before)
