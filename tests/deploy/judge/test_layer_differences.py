"""Finding the layer where a file begins to differ."""

import numpy as np
import pytest

import keras_vit
from keras_vit.deploy import Runner, first_difference, layer_differences, quantizable_layers


def test_the_sensitive_layer_is_the_first_to_differ_in_int8(sample, sensitive):
    few = sample.images[:4]
    (blocks, layers), (bad_blocks, bad_layers) = (
        layer_differences(s.converter.float_file("int8"), s.file("int8"), few)
        for s in (sample, sensitive)
    )
    assert list(blocks) == list(bad_blocks) == ["encoderblock_0", "encoderblock_1"]
    assert set(layers) == set(quantizable_layers(sample.file("int8")))
    assert 0 < min(layers.values()) < max(layers.values()) < 0.1
    assert first_difference(blocks) is first_difference(layers) is None
    assert bad_blocks["encoderblock_0"] < 0.05
    assert first_difference(bad_blocks) == "encoderblock_1"
    assert first_difference(bad_layers) == "encoderblock_1/mlp/dense_1"


def test_the_first_difference_is_first_in_order_not_in_size():
    differences = {"encoderblock_0": 0.01, "encoderblock_1": 0.2, "encoderblock_2": 0.9}
    assert first_difference(differences) == "encoderblock_1"
    assert first_difference(differences, fraction=0.5) == "encoderblock_2"
    assert first_difference({}) is None


def test_difference_is_the_largest_of_all_images_as_a_fraction_of_the_norm(sample):
    contents = sample.converter.float_file("int8"), sample.file("int8")
    alone = [layer_differences(*contents, image[None]) for image in sample.images[:3]]
    together, _ = layer_differences(*contents, sample.images[:3])
    assert together == {name: max(blocks[name] for blocks, _ in alone) for name in together}
    # The output of the last layer is that of the file.
    expected, found = (Runner(content).predict(sample.images[:1]) for content in contents)
    fraction = np.linalg.norm(found - expected) / np.linalg.norm(expected)
    assert alone[0][1]["head"] == pytest.approx(fraction, rel=0.05)


@pytest.mark.slow
def test_units_of_a_hybrid_are_blocks_and_a_file_equals_itself(graph_file, pictures):
    spec = keras_vit.ViTSpec(1, 48, 1, 3, 64, stem=keras_vit.ResNetStem((2,)))
    content = graph_file(spec, (32, 32))
    blocks, layers = layer_differences(content, content, pictures(2, (32, 32)))
    assert blocks == {"block1_unit1": 0.0, "block1_unit2": 0.0, "encoderblock_0": 0.0}
    assert set(layers.values()) == {0.0}


def test_integer_outputs_are_dequantised_before_they_are_compared(sample):
    reference = sample.converter.float_file("int8-full")
    blocks, layers = layer_differences(reference, sample.file("int8-full"), sample.images[:1])
    assert list(blocks) == ["encoderblock_0", "encoderblock_1"]
    assert 0 < layers["patch_encoder/projection"] < 0.05  # the first layer, nothing is lost before
    assert all(0.01 < value < 0.6 for value in blocks.values())
