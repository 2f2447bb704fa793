"""Splitting images: they cover all classes, and no image is chosen twice."""

import numpy as np
import pytest

import keras_vit
from keras_vit.data.preprocessing import normalise
from keras_vit.deploy.sampling import coarse_noise, spread, to_pixels

SORTED = np.repeat(np.arange(10), 30)
IN_TURN = np.tile(np.arange(10), 30)


@pytest.mark.parametrize("classes", [SORTED, IN_TURN], ids=["sorted", "in turn"])
def test_all_classes_are_covered_in_their_proportions_or_if_they_are_unknown(classes):
    for count in (10, 30, 100):
        chosen = spread(count, 300, classes)
        assert np.bincount(classes[chosen], minlength=10).tolist() == [count // 10] * 10
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


def test_coarse_noise_is_made_of_blocks_and_differs_between_images():
    noise = coarse_noise(16, (16, 24, 3))
    assert noise.shape == (16, 16, 24, 3)
    assert (noise[:, :4, :6] == noise[:, :1, :1]).all()
    assert noise.mean(axis=(1, 2, 3)).std() > 0.02
    assert coarse_noise(2, (3, 2, 1)).shape == (2, 3, 2, 1)


def test_to_pixels_inverts_the_preprocessing(rng):
    how = keras_vit.Preprocessing(16, 24, mean=(120.0, 110.0, 100.0), scale=(60.0, 50.0, 70.0))
    pixels = rng.integers(0, 256, (2, 16, 24, 3), np.uint8)
    inputs = normalise(pixels, how)
    np.testing.assert_array_equal(to_pixels(inputs, how), pixels)
    assert to_pixels(inputs * 10, how).dtype == np.uint8  # clipped, not wrapped
    assert to_pixels(np.full((1, 1, 1, 3), 9.0), how).tolist() == [[[[255] * 3]]]
