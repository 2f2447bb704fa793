"""Templates for keys with numbers."""

import pytest

from keras_vit.weights.names import fill, numbers, official_keys, outline


@pytest.mark.parametrize(
    ("template", "key", "indices"),
    [
        ("cls", "cls", {}),
        ("blocks.{i}.norm1.bias", "blocks.0.norm1.bias", {"i": 0}),
        ("blocks.{i}.norm1.bias", "blocks.1023.norm1.bias", {"i": 1023}),
        ("block{i}/unit{j:02}/a", "block3/unit07/a", {"i": 3, "j": 7}),
        ("block{i}/unit{j:02}/a", "block3/unit123/a", {"i": 3, "j": 123}),
        ("stages.{i0}.blocks.{j0}.conv1", "stages.0.blocks.9.conv1", {"i": 1, "j": 10}),
        ("blocks.{i}.norm1.bias", "blocks.00.norm1.bias", None),
        ("blocks.{i}.norm1.bias", "blocks.12345.norm1.bias", None),
        ("blocks.{i}.norm1.bias", "blocks.-1.norm1.bias", None),
        ("blocks.{i}.norm1.bias", "blocks.٣.norm1.bias", None),
        ("blocks.{i}.norm1.bias", "blocks.1.norm2.bias", None),
        ("blocks.{i}.norm1.bias", "blocks.1.norm1xbias", None),
        ("block{i}/unit{j:02}/a", "block3/unit7/a", None),
        ("block{i}/unit{j:02}/a", "block3/unit007/a", None),
    ],
)
def test_numbers_of_a_key_round_trip_and_other_keys_have_none(template, key, indices):
    assert numbers(template, key) == indices
    if indices is not None:
        assert fill(template, **indices) == key
        assert outline(template) == outline(key)


@pytest.mark.parametrize("bit", [False, True])
def test_no_two_templates_have_a_key_in_common(bit):
    templates = [key for key, _ in official_keys(bit)]
    for template in templates:
        key = fill(template, 3, 2)
        assert [t for t in templates if numbers(t, key) is not None] == [template]
