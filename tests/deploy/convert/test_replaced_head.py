"""A file gets another head, and is otherwise as it was."""

import numpy as np
import pytest

import keras_vit
from keras_vit import deploy
from keras_vit._errors import RefusedError
from keras_vit.deploy.convert.converter import to_tflite
from keras_vit.deploy.convert.replaced_head import with_head
from keras_vit.deploy.graph.graph_options import GraphOptions
from keras_vit.deploy.resolve import resolve
from keras_vit.tflite.flatbuffer import read_graph

SPEC = keras_vit.ViTSpec(8, 48, 1, 3, 64, normalized_features=True)
SIZE = (16, 24)
PROBABILITIES = GraphOptions(output="probabilities")


@pytest.fixture
def model(randomised):
    return randomised(keras_vit.ViT(SPEC, 3, SIZE, labels=("cat", "dog", "owl")))


@pytest.fixture
def head(rng):
    return rng.normal(0, 1, (48, 5)).astype(np.float32), rng.normal(0, 1, 5).astype(np.float32)


@pytest.fixture
def about():
    model = keras_vit.ViT(SPEC, 5, SIZE, labels=tuple("abcde"))
    return resolve(model, PROBABILITIES).about


def check(file, model, head, inputs):
    """The file gives the probabilities of the model with that head."""
    other = keras_vit.ViT(SPEC, 5, SIZE)
    other.set_weights([*model.get_weights()[:-2], *head])
    powers = np.exp(other.predict(inputs, verbose=0).astype(float))
    found = deploy.Runner(file).predict(inputs)
    np.testing.assert_allclose(found, powers / powers.sum(-1, keepdims=True), atol=1e-6)


@pytest.mark.parametrize("behind", [False, True])
def test_the_scores_are_those_of_the_other_head(behind, model, head, about, inputs):
    converter = deploy.Converter(resolve(model, PROBABILITIES), ["none"])
    file = converter.float_file() if behind else converter("none")
    assert read_graph(file).weights_behind == behind
    made = with_head(file, *head, about)
    check(made, model, head, inputs)
    assert len(read_graph(made).tensors) == len(read_graph(file).tensors)


def test_a_layer_with_the_same_constant_keeps_it(randomised, head, about, inputs):
    """The converter stores equal constants once."""
    model = randomised(keras_vit.ViT(SPEC, 64, SIZE))
    mlp = model.get_layer("encoderblock_0")
    mlp.norm_mlp.beta.assign(np.zeros(48))
    model.get_layer("head").bias.assign(mlp.mlp.dense_0.bias)
    file = to_tflite(model, options=PROBABILITIES)
    graph = read_graph(file)
    dense = [op.inputs[2] for op in graph.operators if op.name == "FULLY_CONNECTED"]
    assert dense.count(dense[-1]) == 2
    check(with_head(file, *head, about), model, head, inputs)


@pytest.mark.parametrize(
    ("quantize", "message"),
    [
        ("int8-full", "something other than a softmax or a sigmoid reads its scores"),
        ("dynamic", "expected float32 weights for 48 features. Received: int8"),
    ],
)
def test_heads_in_integers_are_refused(quantize, message, head, about, trained_like, inputs):
    spec = keras_vit.ViTSpec(8, 48, 1, 3, 64, normalized_features=quantize == "int8-full")
    model = trained_like(keras_vit.ViT(spec, 3, SIZE))
    file = to_tflite(model, quantize, inputs)
    with pytest.raises(RefusedError, match=f"{message}.*; convert it again"):
        with_head(file, *head, about)


def test_a_head_of_other_features_or_none_is_refused(model, head, about):
    kernel, bias = head
    with pytest.raises(RefusedError, match="for 40 features. Received: float32 .3, 48.;"):
        with_head(to_tflite(model), kernel[:40], bias, about)
    features = to_tflite(model, options=GraphOptions(output="features"))
    with pytest.raises(RefusedError, match="one layer of the name head. Received: 0;"):
        with_head(features, kernel, bias, about)
    model.get_layer("head").bias.assign(np.zeros(3))
    with pytest.raises(RefusedError, match="it has no bias; convert it again"):
        with_head(to_tflite(model), kernel, bias, about)
