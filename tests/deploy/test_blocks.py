"""Where a file begins to differ."""

from __future__ import annotations

import pytest

import keras_vit
from keras_vit.deploy import block_differences, first_difference

pytestmark = pytest.mark.once


def test_the_block_that_int8_spoils_is_the_first_to_differ(sample, sensitive):
    few = sample.images[:4]
    good, bad = (
        block_differences(s.converter.float_file("int8"), s.file("int8"), few)
        for s in (sample, sensitive)
    )
    assert list(good) == list(bad) == ["encoderblock_0", "encoderblock_1"]
    assert 0 < good["encoderblock_0"] < 0.05
    assert first_difference(good) is None
    assert bad["encoderblock_0"] < 0.05
    assert bad["encoderblock_1"] > 0.1
    assert first_difference(bad) == "encoderblock_1"


def test_the_first_is_told_by_order_and_not_by_size():
    differences = {"encoderblock_0": 0.01, "encoderblock_1": 0.2, "encoderblock_2": 0.9}
    assert first_difference(differences) == "encoderblock_1"
    assert first_difference(differences, share=0.5) == "encoderblock_2"
    assert first_difference({}) is None


def test_difference_is_the_largest_of_all_images(sample):
    contents = sample.converter.float_file("int8"), sample.file("int8")
    alone = [block_differences(*contents, image[None]) for image in sample.images[:3]]
    together = block_differences(*contents, sample.images[:3])
    assert together == {name: max(found[name] for found in alone) for name in together}


def test_units_of_a_hybrid_are_blocks_and_a_file_equals_itself(graph_file, pictures):
    stem = keras_vit.ResNetStem((2,))
    spec = keras_vit.ViTSpec(1, 48, 1, 3, 64, stem=stem)
    content = graph_file(spec, (32, 32))
    assert block_differences(content, content, pictures(2, (32, 32))) == {
        "block1_unit1": 0.0,
        "block1_unit2": 0.0,
        "encoderblock_0": 0.0,
    }


def test_a_file_without_float_blocks_has_none_to_compare(sample):
    reference = sample.converter.float_file("int8-full")
    assert block_differences(reference, sample.file("int8-full"), sample.images[:1]) == {}
