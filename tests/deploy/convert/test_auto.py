"""The choice of layers that stay float."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from keras_vit import deploy
from keras_vit._errors import RefusedError
from keras_vit.deploy import Runner, choose_float_layers
from keras_vit.deploy.convert.auto import Choice
from keras_vit.tflite.flatbuffer import read_graph

SPOILED = "encoderblock_1/mlp/dense_1"


def float_layers(content) -> set[str]:
    graph = read_graph(content)
    return {
        graph.layer(op)
        for op in graph.operators
        if op.name == "FULLY_CONNECTED" and graph.read(op)[1].dtype == "float32"
    }


def accurate(sample):
    """A budget: a function that says whether a file's cosine with Keras is large enough."""

    def holds(content):
        found = Runner(content).predict(sample.images)
        return deploy.compare("int8", sample.expected, found).cosine > 0.99

    return holds


class Counting:
    """A converter that counts the files that it makes."""

    def __init__(self, converter):
        self.converter, self.count = converter, 0

    def __call__(self, *arguments):
        self.count += 1
        return self.converter(*arguments)

    def __getattr__(self, name):
        return getattr(self.converter, name)


def test_no_layer_stays_float_if_int8_is_within_the_budget(sample):
    converter = Counting(sample.converter)
    found = choose_float_layers(converter, "int8", sample.images[:2], accurate(sample))
    assert (found.float_layers, found.sensitivity) == ((), {})
    assert converter.count == 1


@pytest.mark.slow
def test_the_sensitive_layer_is_found_reproducibly(sensitive):
    said = []
    arguments = (sensitive.converter, "int8", sensitive.images[:2], accurate(sensitive))
    assert not accurate(sensitive)(sensitive.file("int8"))
    found = choose_float_layers(*arguments, said.append)
    assert found.float_layers == (SPOILED,)
    assert next(iter(found.sensitivity)) == SPOILED
    values = list(found.sensitivity.values())
    assert values == sorted(values, reverse=True)
    assert values[0] > 10 * values[1]
    layers = deploy.quantizable_layers(sensitive.converter.float_file("int8"))
    assert set(found.sensitivity) == set(layers)
    assert f"sensitivity of {len(layers)} of {len(layers)} layers" in said
    content = sensitive.converter("int8", found.float_layers)
    assert float_layers(content) == {SPOILED}
    assert choose_float_layers(*arguments) == found
    again = sensitive.converter("int8", found.float_layers)
    assert again.read_bytes() == content.read_bytes()


@pytest.mark.slow
def test_the_list_is_the_shortest_within_the_budget(sensitive):
    needed = {"encoderblock_0/attention/query", SPOILED}
    found = choose_float_layers(
        sensitive.converter,
        "int8",
        sensitive.images[:1],
        lambda content: needed <= float_layers(content),
    )
    assert set(found.float_layers) == needed
    assert found.float_layers[0] == SPOILED  # the most sensitive first


def test_a_budget_that_float_layers_exceed_is_refused_before_measuring(sensitive):
    converter = Counting(sensitive.converter)
    with pytest.raises(RefusedError, match="over its budget even with all layers in float"):
        choose_float_layers(converter, "int8", sensitive.images[:1], lambda content: False)
    assert converter.count == 2


def test_sensitivity_is_the_error_of_quantising_one_layer_alone(sensitive):
    found = choose_float_layers(
        sensitive.converter, "int8", sensitive.images[:2], accurate(sensitive)
    ).sensitivity
    others = [layer for layer in found if layer != SPOILED]
    alone = Runner(sensitive.converter("int8", others)).predict(sensitive.images[:2])
    whole = Runner(sensitive.converter.float_file("int8")).predict(sensitive.images[:2])
    expected = np.mean((alone - whole) ** 2) / np.mean(whole**2)
    assert found[SPOILED] == pytest.approx(expected)


def test_a_choice_is_plain_json():
    choice = Choice(1, "int8", "ViT-Test", "8 images", ("head",), {"head": 0.5, "other": 0.25})
    assert json.loads(json.dumps(dataclasses.asdict(choice))) == {
        "format": 1,
        "base": "int8",
        "model": "ViT-Test",
        "chosen_on": "8 images",
        "float_layers": ["head"],
        "sensitivity": {"head": 0.5, "other": 0.25},
    }
