"""The kinds of position embeddings: their values and their records."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

from keras_vit import parts
from keras_vit.parts.grids import Tokens
from keras_vit.parts.positions import (
    POSITION_EMBEDDINGS,
    relative_entries,
    relative_index,
    sincos_2d,
)


def test_relative_index_counts_offsets_and_has_three_entries_for_the_class_token():
    index = relative_index(Tokens((2, 3), prefix=0))
    # The offset between the first patch and the last is the largest; that of a patch and itself is
    # in the middle.
    assert (index[5, 0], index[5, 5], index[0, 5]) == (14, 7, 0)
    # All right neighbours have the same offset; lower neighbours have another.
    assert index[0, 1] == index[1, 2] == index[4, 5] == 6
    assert index[0, 3] == index[2, 5] == 2
    assert sorted(set(index.ravel())) == list(range(15))
    with_token = relative_index(Tokens((2, 3), prefix=1))
    np.testing.assert_array_equal(with_token[1:, 1:], index)
    assert with_token[0, 0] == 17
    assert set(with_token[0, 1:]) == {15}
    assert set(with_token[1:, 0]) == {16}
    assert relative_entries(Tokens((2, 3), 1)) == 18


def test_sines_and_cosines_equal_big_vision(fixtures):
    expected = np.load(fixtures / "sincos2d.npz")
    for key in expected.files:
        rows, columns, width = map(int, key.split("x"))
        actual = sincos_2d((rows, columns), width)
        assert actual.dtype == np.float64
        np.testing.assert_allclose(actual, expected[key], atol=1e-6, err_msg=key)


WITH_WEIGHTS = [n for n, k in POSITION_EMBEDDINGS.items() if k.weights or k.attention_weights]
# No kind inside attention is used with a distillation token, the second before the patches.
CASES = [
    (name, prefix)
    for name in WITH_WEIGHTS
    for prefix in (0, 1, 2)
    if prefix < 2 or not POSITION_EMBEDDINGS[name].bias
]


def _weights(kind):
    return (*kind.weights, *kind.attention_weights)


@pytest.mark.parametrize(("name", "prefix"), CASES)
def test_the_shapes_of_weights_show_a_square_grid(name, prefix):
    kind = POSITION_EMBEDDINGS[name]
    for grid in ((1, 1), (3, 3), (14, 14)):
        shapes = {w.name: w.shape(Tokens(grid, prefix), 8) for w in _weights(kind)}
        assert kind.grid_from_shapes(shapes, prefix) == grid
    shapes = {w.name: w.shape(Tokens((2, 3), prefix), 8) for w in _weights(kind)}
    shown = kind.grid_from_shapes(shapes, prefix)
    assert shown == ((2, 3) if name == "learned2d" else None)


@pytest.mark.parametrize(("name", "prefix"), CASES)
def test_resampled_weights_have_the_shape_for_the_new_grid(name, prefix, rng):
    old, new = (2, 3), (5, 4)
    for weight in _weights(POSITION_EMBEDDINGS[name]):
        array = rng.normal(size=weight.shape(Tokens(old, prefix), 8)).astype(np.float32)
        for method in ("bilinear", "bicubic"):
            resampled = weight.resample(array, old, new, prefix, method)
            assert resampled.shape == weight.shape(Tokens(new, prefix), 8)
        same = weight.resample(array, old, old, prefix, "bilinear")
        np.testing.assert_allclose(same, array, atol=1e-6)


def test_the_tables_are_read_without_keras():
    for file in Path(parts.__file__).parent.rglob("*.py"):
        for node in ast.parse(file.read_text()).body:  # imports inside functions may be heavy
            if isinstance(node, ast.ImportFrom):
                assert not node.module.startswith(("keras_vit._keras", "keras_vit.layers")), file
