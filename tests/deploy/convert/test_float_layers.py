"""The choice of layers that stay float."""

import dataclasses
from unittest.mock import Mock

import numpy as np
import pytest

from keras_vit import deploy
from keras_vit._errors import RefusedError
from keras_vit.deploy import Runner, choose_float_layers

SPOILED = "encoderblock_1/mlp/dense_1"


def choose(sample, say=print):
    """The layers for a cosine of 0.99 with Keras."""

    def within_budget(content):
        found = Runner(content).predict(sample.images)
        return deploy.compare("int8", sample.expected, found).cosine > 0.99

    return choose_float_layers(sample.converter, "int8", sample.images[:2], within_budget, say)


def test_no_layer_stays_float_if_int8_is_within_the_budget(sample):
    converter = Mock(wraps=sample.converter)
    found = choose(dataclasses.replace(sample, converter=converter))
    assert (found.float_layers, found.sensitivity) == ((), {})
    assert converter.call_count == 1


def test_the_sensitive_layer_is_found_by_the_error_of_quantising_it_alone(sensitive):
    said, converter, images = [], sensitive.converter, sensitive.images[:2]
    found = choose(sensitive, said.append)
    assert found.float_layers == (SPOILED,)
    layers = deploy.quantizable_layers(converter.float_file("int8"))
    assert f"sensitivity of {len(layers)} of {len(layers)} layers" in said
    assert set(found.sensitivity) == set(layers)
    (first, largest), (_, second), *_ = found.sensitivity.items()
    assert (first, largest > 10 * second) == (SPOILED, True)
    values = list(found.sensitivity.values())
    assert values == sorted(values, reverse=True)
    alone = Runner(converter("int8", set(layers) - {SPOILED})).predict(images)
    whole = Runner(converter.float_file("int8")).predict(images)
    assert largest == pytest.approx(np.mean((alone - whole) ** 2) / np.mean(whole**2))


@pytest.mark.slow
def test_the_choice_is_reproducible(sensitive):
    assert choose(sensitive) == choose(sensitive)


@pytest.mark.slow
def test_the_list_is_the_shortest_within_the_budget(sensitive, kernel_types):
    needed = {"encoderblock_0/attention/query", SPOILED}

    def within_budget(content):
        types = kernel_types(content)
        return {types[layer] for layer in needed} == {"float32"}

    found = choose_float_layers(sensitive.converter, "int8", sensitive.images[:1], within_budget)
    assert set(found.float_layers) == needed
    assert found.float_layers[0] == SPOILED  # the most sensitive first


def test_a_budget_that_float_layers_exceed_is_refused_before_measuring(sensitive):
    converter = Mock(wraps=sensitive.converter)
    with pytest.raises(RefusedError, match="over its budget even with all layers in float"):
        choose_float_layers(converter, "int8", sensitive.images[:1], lambda content: False)
    assert converter.call_count == 2
