"""Splitting images: they cover all classes, and no image is chosen twice."""

from __future__ import annotations

import numpy as np
import pytest

from keras_vit.deploy.sampling import coarse_noise, divided, spread

SORTED = np.repeat(np.arange(10), 30)
IN_TURN = np.tile(np.arange(10), 30)


@pytest.mark.parametrize("classes", [SORTED, IN_TURN])
def test_known_classes_are_all_covered_in_their_proportions(classes):
    for count in (10, 30, 100):
        chosen = spread(count, 300, classes)
        assert np.bincount(classes[chosen], minlength=10).tolist() == [count // 10] * 10


@pytest.mark.parametrize("classes", [SORTED, IN_TURN])
def test_unknown_classes_are_covered_too(classes):
    # Taking every thirtieth image would give a single class.
    assert len(set(classes[spread(30, 300)])) >= 8
    assert len(set(classes[spread(100, 300)])) == 10


def test_no_image_is_chosen_twice_and_the_choice_is_reproducible():
    for count, total in ((1, 1), (3, 7), (7, 7), (9, 7), (0, 7), (5, 0)):
        chosen = spread(count, total)
        assert len(set(chosen.tolist())) == len(chosen) == min(count, total)
        assert (np.diff(chosen) > 0).all()
        np.testing.assert_array_equal(spread(count, total), chosen)
    assert (spread(100, 300, seed=1) != spread(100, 300)).any()


def test_divided_returns_all_other_images():
    chosen, others = divided(32, np.arange(300), SORTED)
    assert len(chosen) == 32
    assert sorted([*chosen, *others]) == list(range(300))


def test_coarse_noise_is_made_of_blocks_and_differs_between_images():
    noise = coarse_noise(16, (16, 24, 3))
    assert noise.shape == (16, 16, 24, 3)
    assert (noise[:, :4, :6] == noise[:, :1, :1]).all()
    assert noise.mean(axis=(1, 2, 3)).std() > 0.02
    assert coarse_noise(2, (3, 2, 1)).shape == (2, 3, 2, 1)
