"""The contenders of `benchmarks/exporters.py`: each computes the same model."""

import contextlib
import dataclasses
import itertools
import os
import sys
from collections import Counter

import contenders
import numpy as np
import pytest

import keras_vit
from keras_vit import _quiet
from keras_vit._keras import keras
from keras_vit.deploy.resolve import parameters_of
from keras_vit.specs import ResNetStem
from keras_vit.tflite.flatbuffer import read_graph

pytestmark = pytest.mark.soak(of="benchmarks")

DEEP = keras_vit.ViTSpec(patch_size=8, hidden_dim=32, depth=4, num_heads=2, mlp_dim=48)
PRODUCTS = ("FULLY_CONNECTED", "BATCH_MATMUL", "CONV_2D")


@pytest.fixture(scope="module")
def setting(pictures):
    keras.utils.set_random_seed(0)
    model = contenders.trained_like(keras_vit.ViT(dataclasses.replace(DEEP, depth=1), 5, 16))
    images = pictures(28, (16, 16))
    return contenders.setting(model, images[:4], images[4:], threads=1)


def cosine(actual, expected):
    return (actual * expected).sum() / np.linalg.norm(actual) / np.linalg.norm(expected)


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("keras_vit int8", 0.99),
        ("Keras, converted plainly", 0.999999),
        ("keras_vit float32", 0.999999),
        ("keras_vit float16", 0.99999),
        ("keras_vit dynamic", 0.99),
        ("Keras, full integer by the converter", 0.8),
    ],
)
def test_a_contender_computes_keras_logits(setting, name, least):
    made = contenders.contender(name, setting)
    expected = np.asarray(setting.model(setting.images, training=False))
    assert min(map(cosine, made.logits, expected)) > least
    np.testing.assert_array_equal(made.run(), made.logits[:1])
    assert made.bytes > 10_000


@pytest.mark.parametrize(
    "changes",
    [{}, {"depth": 2, "pooling": "map"}, {"patch_size": 1, "depth": 1, "stem": ResNetStem((1, 1))}],
    ids=["token", "map", "hybrid"],
)
def test_the_floor_has_only_the_products_of_the_model(changes, graph_file):
    spec = dataclasses.replace(DEEP, **changes)
    content = graph_file(spec, (16, 16))
    floor = contenders.products_alone(content)
    assert {operator.name for operator in read_graph(floor).operators} <= set(PRODUCTS)
    assert products(floor) == products(content)
    kinds = PRODUCTS if spec.stem else PRODUCTS[:2]
    assert {name for name, *_ in products(content)} == set(kinds)


def products(content):
    """The number of products of each kind and shape in a file."""
    graph = read_graph(content)
    return Counter(
        (
            operator.name,
            *((tensor.shape, tensor.constant) for tensor in graph.read(operator)[:2]),
            graph.written(operator)[0].size,
            *(operator.options.get(name) for name in ("adjY", "strideH", "strideW", "padding")),
        )
        for operator in graph.operators
        if operator.name in PRODUCTS
    )


def test_the_floor_has_inputs_and_outputs_as_large_as_the_models(setting):
    scores = contenders.contender("matrix products alone", setting).run()
    assert scores.size == 5
    assert 0.01 < np.abs(scores).max() < 100


@pytest.mark.parametrize("outliers", [10, 100])
def test_outliers_have_the_requested_size_and_norms_compensate_for_them(outliers):
    plain, grown = (trained_like_with(size) for size in (1, outliers))
    before, after = (np.abs(embedding(model)).max((0, 1)) for model in (plain, grown))
    growth = after / before
    outlying = growth > 1.001
    assert outlying.sum() == 6
    assert 0.3 * outliers <= growth[outlying].min() <= growth[outlying].max() <= outliers
    np.testing.assert_allclose(growth[~outlying], 1, rtol=1e-5)
    weights, larger = (parameters_of(model) for model in (plain, grown))
    blocks = ("encoderblock_0", "encoderblock_3")
    for block, layer, part in itertools.product(
        blocks, ("attention/out", "mlp/dense_1"), ("kernel", "bias")
    ):
        name = f"{block}/{layer}/{part}"
        np.testing.assert_allclose(larger[name], weights[name] * growth, rtol=1e-4)
    norms = [f"{block}/norm_{part}" for block in blocks for part in ("attention", "mlp")]
    for norm in (*norms, "encoder_norm"):
        name = f"{norm}/gamma"
        np.testing.assert_allclose(larger[name] * growth, weights[name], rtol=1e-4)


def trained_like_with(outliers):
    keras.utils.set_random_seed(0)
    return contenders.trained_like(keras_vit.ViT(DEEP, 5, 16), outliers)


def embedding(model):
    images = np.random.default_rng(0).uniform(-1, 1, (2, 16, 16, 3)).astype(np.float32)
    return np.asarray(keras.Model(model.input, model.get_layer("patch_encoder").output)(images))


@pytest.mark.parametrize("works", [True, False])
def test_output_of_a_contender_is_shown_only_if_it_fails(setting, monkeypatch, capfd, works):
    def build(argument):
        assert argument is setting
        print("pages of progress")
        os.write(2, b"greetings\n")
        if not works:
            raise RuntimeError("broken")
        return contenders.Contender(int)

    monkeypatch.setitem(contenders.CONTENDERS, "loud", (None, build))
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    monkeypatch.setattr(_quiet, "_is_own_process", True)
    # As in a command: pytest's own does not write to the descriptor.
    expected = contextlib.nullcontext() if works else pytest.raises(RuntimeError, match="broken")
    with open(2, "w", buffering=1, closefd=False) as error, expected:
        monkeypatch.setattr(sys, "stderr", error)
        contenders.contender("loud", setting)
    said = "" if works else "pages of progress\ngreetings\n"
    assert capfd.readouterr() == ("", said)
