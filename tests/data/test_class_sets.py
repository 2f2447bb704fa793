"""Classes of images that may have several: rows are made when they are needed."""

from __future__ import annotations

import numpy as np

from keras_vit.data.source import ClassSets


def test_rows_equal_those_of_a_whole_array(rng):
    rows = (rng.uniform(size=(50, 7)) < 0.2).astype(np.uint8)
    assert not rows.any(-1).all()
    sets = ClassSets.of_rows(rows)
    for key in (slice(None), slice(3, 9), 5, -1, np.array([4, 4, 0]), [7, 1], rows[:, 0] == 1):
        np.testing.assert_array_equal(sets[key], rows[key])
    np.testing.assert_array_equal(np.asarray(sets), rows)
    assert (len(sets), sets.shape, sets[2].dtype) == (50, (50, 7), np.uint8)
    np.testing.assert_array_equal(sets.counts, rows.sum(0))


def test_the_rarest_class_of_an_image_is_the_first_of_equals(rng):
    rows = (rng.uniform(size=(200, 30)) < 0.1).astype(np.uint8)
    counts = rows.sum(axis=0, dtype=np.int64)
    expected = np.where(rows, counts, len(rows) + 1).argmin(axis=1)
    np.testing.assert_array_equal(ClassSets.of_rows(rows).rarest, expected)


def test_repeated_classes_count_once():
    sets = ClassSets(np.array([1, 1, 0]), np.array([2, 2, 1]), (3, 4))
    np.testing.assert_array_equal(sets[:], [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]])
    np.testing.assert_array_equal(sets.counts, [0, 1, 1, 0])
