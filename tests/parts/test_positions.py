"""Position embeddings as numbers."""

from __future__ import annotations

import numpy as np
import pytest

from keras_vit.parts.grids import Tokens
from keras_vit.parts.positions.relative import relative_entries, relative_index
from keras_vit.parts.positions.sincos2d import sincos_2d

pytestmark = pytest.mark.once


def test_relative_index_counts_offsets_and_has_three_entries_for_the_class_token():
    index = relative_index(Tokens((2, 3), class_token=False))
    # The offset from the first patch to the last is the largest; a patch and itself, the middle.
    assert (index[5, 0], index[5, 5], index[0, 5]) == (14, 7, 0)
    # Neighbours to the right have the same offset everywhere; neighbours below have another.
    assert index[0, 1] == index[1, 2] == index[4, 5] == 6
    assert index[0, 3] == index[2, 5] == 2
    assert sorted(set(index.ravel())) == list(range(15))
    with_token = relative_index(Tokens((2, 3), class_token=True))
    np.testing.assert_array_equal(with_token[1:, 1:], index)
    assert with_token[0, 0] == 17
    assert set(with_token[0, 1:]) == {15}
    assert set(with_token[1:, 0]) == {16}
    assert relative_entries(Tokens((2, 3), True)) == 18


def test_waves_are_those_of_big_vision(fixtures):
    expected = np.load(fixtures / "sincos2d.npz")
    for key in expected.files:
        rows, columns, width = map(int, key.split("x"))
        found = sincos_2d((rows, columns), width)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, expected[key], atol=1e-6, err_msg=key)
