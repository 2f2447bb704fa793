"""Parts of the training images: nested, stratified, and never a held-out image."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from keras_vit import UsageError
from keras_vit.data import Source, development_split, split_source, subset


def source(*counts):
    targets = np.random.default_rng(3).permutation(np.repeat(np.arange(len(counts)), counts))
    return Source(
        name="numbers",
        labels=tuple("abcdef"[: len(counts)]),
        ids=tuple(f"{i}.png" for i in range(len(targets))),
        targets=targets,
        image=lambda i: np.zeros((4, 4, 3), np.uint8),
    )


@pytest.mark.parametrize("seed", [0, 1])
def test_smaller_parts_lie_inside_larger_ones_and_have_all_classes_alike(seed):
    images = source(200, 50, 10)
    split = split_source(images, 0.2)
    parts = [subset(images, split, fraction, seed) for fraction in (0.05, 0.3, 1.0)]
    for smaller, larger in itertools.pairwise(parts):
        assert set(smaller.train) < set(larger.train)
    np.testing.assert_array_equal(parts[-1].train, split.train)
    counts = [np.bincount(images.targets[part.train]).tolist() for part in parts]
    assert counts == [[8, 2, 1], [48, 12, 2], [160, 40, 8]]  # at least one of each class
    for part in parts:
        np.testing.assert_array_equal(part.held_out, split.held_out)


def test_seeds_choose_other_images():
    images = source(200, 50)
    split = split_source(images, 0.2)
    first, again, other = (set(subset(images, split, 0.3, seed).train) for seed in (0, 0, 1))
    assert first == again
    assert len(first & other) < 0.6 * len(first)


def test_a_development_split_is_a_part_of_the_training_images():
    images = source(200, 50, 10)
    split = split_source(images, 0.2)
    tried = development_split(images, split, 0.1)
    assert np.bincount(images.targets[tried.held_out]).tolist() == [16, 4, 1]
    assert sorted([*tried.train, *tried.held_out]) == split.train.tolist()
    assert not set(split.held_out) & {*tried.train, *tried.held_out}


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.5])
def test_other_fractions_are_refused(fraction):
    images = source(20, 20)
    split = split_source(images, 0.2)
    with pytest.raises(UsageError, match="fractions must lie in"):
        subset(images, split, fraction)
    with pytest.raises(UsageError, match="development must lie in"):
        development_split(images, split, fraction)


def test_a_development_split_needs_two_images_of_each_class():
    images = source(20, 2)
    with pytest.raises(UsageError, match="needs 2 training images of each class. Received: 1 of"):
        development_split(images, split_source(images, 0.2))
