"""The choice of layers that stay float."""

from unittest.mock import Mock

import numpy as np
import pytest

from keras_vit import deploy
from keras_vit._errors import RefusedError
from keras_vit.deploy import Runner, choose_float_layers

SPOILED = "encoderblock_1/mlp/dense_1"


@pytest.fixture
def float_layers(kernel_types):
    """Finds the layers whose kernels are in float."""
    return lambda content: {
        layer for layer, dtype in kernel_types(content).items() if dtype == "float32"
    }


def accurate(sample):
    """A budget: a function that says whether a file's cosine with Keras is large enough."""

    def holds(content):
        found = Runner(content).predict(sample.images)
        return deploy.compare("int8", sample.expected, found).cosine > 0.99

    return holds


def test_no_layer_stays_float_if_int8_is_within_the_budget(sample):
    converter = Mock(wraps=sample.converter)
    found = choose_float_layers(converter, "int8", sample.images[:2], accurate(sample))
    assert (found.float_layers, found.sensitivity) == ((), {})
    assert converter.call_count == 1


@pytest.mark.slow
def test_the_sensitive_layer_is_found_reproducibly(sensitive, float_layers):
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
def test_the_list_is_the_shortest_within_the_budget(sensitive, float_layers):
    needed = {"encoderblock_0/attention/query", SPOILED}
    arguments = sensitive.converter, "int8", sensitive.images[:1]
    found = choose_float_layers(*arguments, lambda content: needed <= float_layers(content))
    assert set(found.float_layers) == needed
    assert found.float_layers[0] == SPOILED  # the most sensitive first


def test_a_budget_that_float_layers_exceed_is_refused_before_measuring(sensitive):
    converter = Mock(wraps=sensitive.converter)
    with pytest.raises(RefusedError, match="over its budget even with all layers in float"):
        choose_float_layers(converter, "int8", sensitive.images[:1], lambda content: False)
    assert converter.call_count == 2


def test_sensitivity_is_the_error_of_quantising_one_layer_alone(sensitive):
    converter, images = sensitive.converter, sensitive.images[:2]
    found = choose_float_layers(converter, "int8", images, accurate(sensitive)).sensitivity
    others = [layer for layer in found if layer != SPOILED]
    alone = Runner(converter("int8", others)).predict(images)
    whole = Runner(converter.float_file("int8")).predict(images)
    expected = np.mean((alone - whole) ** 2) / np.mean(whole**2)
    assert found[SPOILED] == pytest.approx(expected)
