"""The split is stratified, stable, and the same on every machine; parts of it are nested."""

import dataclasses
import itertools

import numpy as np
import pytest

from keras_vit import UsageError
from keras_vit.data import Source, digits
from keras_vit.data.split import Split, development_split, split_source, split_summary, subset


def source(*counts, **options):
    """Images of so many of each class, in a random order."""
    targets = np.random.default_rng(3).permutation(np.repeat(np.arange(len(counts)), counts))
    return Source(
        name="numbers",
        labels=tuple(f"class {i}" for i in range(len(counts))),
        ids=tuple(f"{i}.png" for i in range(len(targets))),
        targets=targets,
        image=lambda i: np.zeros((4, 4, 3), np.uint8),
        **options,
    )


def test_a_fifth_of_every_class_is_held_out_and_the_rest_is_for_training():
    data = digits()
    split = split_source(data)
    assert sorted([*split.train, *split.held_out]) == list(range(1797))
    held_out = np.bincount(data.targets[split.held_out])
    np.testing.assert_array_equal(held_out, np.round(np.bincount(data.targets) * 0.2))
    # Every run holds out these images. After a change, published accuracies cannot be compared.
    assert split.held_out[:6].tolist() == [4, 27, 34, 52, 59, 61]


def test_added_pictures_do_not_change_the_split_of_the_others():
    before = source(50, 50)
    after = dataclasses.replace(
        before, ids=(*before.ids, "new.jpg"), targets=np.append(before.targets, 1)
    )
    held = [{data.ids[i] for i in split_source(data).held_out} for data in (before, after)]
    assert len((held[0] ^ held[1]) - {"new.jpg"}) <= 1


@pytest.mark.parametrize("fraction", [0.01, 0.2, 0.99])
@pytest.mark.parametrize("count", [2, 3])
def test_small_classes_keep_one_image_on_each_side(count, fraction):
    data = source(count, 40)
    split = split_source(data, fraction)
    for part in (split.train, split.held_out):
        assert (data.targets[part] == 0).any()


def test_a_class_with_one_image_and_an_invalid_fraction_are_refused():
    few = r"at least 2 readable images.*fewer in 'class 1' \(1\), 'class 3' \(0\)\.$"
    with pytest.raises(UsageError, match=few):
        split_source(source(5, 1, 2, 0, 3))
    with pytest.raises(UsageError, match=r"must lie in \(0, 1\). Received: 1.5"):
        split_source(source(5, 5), 1.5)


def test_declared_splits_are_used_and_the_test_split_is_held_out_only_without_validation():
    parts = {"train": np.arange(6), "validation": np.array([6, 7]), "test": np.array([8, 9])}
    split = split_source(source(5, 5, splits=parts), 0.5)
    assert (split.train.tolist(), split.held_out.tolist()) == (list(range(6)), [6, 7])
    assert "validation is held out" in split.rule
    summary = split_summary(source(5, 5, splits=parts), "evaluate --split test")
    assert summary.endswith("; test is not used: evaluate --split test reads it)")
    del parts["validation"]
    split = split_source(source(5, 5, splits=parts), 0.5)
    assert split.held_out.tolist() == [8, 9]
    assert "test is held out" in split.rule


@pytest.mark.parametrize(
    ("train", "validation", "message"),
    [
        ([], [6, 7], "images to train and others to hold out.*none in train"),
        ([0, 1], [], "images to train and others to hold out.*none in validation"),
        ([0, 1], [1, 2], "no image in common"),
    ],
)
def test_declared_splits_that_are_empty_or_have_common_images_are_refused(
    train, validation, message
):
    parts = {"train": np.array(train, int), "validation": np.array(validation, int)}
    with pytest.raises(UsageError, match=message):
        split_source(source(5, 5, splits=parts))


@pytest.mark.parametrize(
    ("train", "held_out", "message"),
    [
        ([0, 1, 2], [2, 3, 0], "no image in common.*2 in both, the first is 0."),
        ([0, 1, 10], [2, 3], "split.train must be from 0 to 9, indices. Received: 0 to 10."),
        ([0, 1], [-1, 3], "split.held_out must be from 0 to 9, indices. Received: -1 to 3."),
        ([], [1], "split.train must have one image or more. Received: none."),
        ([1], [], "split.held_out must have one image or more. Received: none."),
        ([True, False], [1], "split.train must be integers .*Received: bool"),
        ([[0], [1]], [2], r"split.train must be integers \(2,\).*Received: int64 \(2, 1\)"),
    ],
)
def test_a_split_that_is_none_of_these_images_is_refused(train, held_out, message):
    parts = (np.array(part, None if part else int) for part in (train, held_out))
    with pytest.raises(UsageError, match=message):
        Split(*parts).checked(10)


@pytest.mark.parametrize("seed", [1, 2])
def test_smaller_parts_lie_inside_larger_ones_and_have_all_classes_alike(seed):
    images = source(200, 50, 10)
    split = split_source(images, 0.2)
    again, other = (subset(images, split, 0.3, each).train for each in (seed, 0))
    parts = [subset(images, split, fraction, seed) for fraction in (0.05, 0.3, 1.0)]
    for smaller, larger in itertools.pairwise(parts):
        assert set(smaller.train) < set(larger.train)
    np.testing.assert_array_equal(parts[-1].train, split.train)
    counts = [np.bincount(images.targets[part.train]).tolist() for part in parts]
    assert counts == [[8, 2, 1], [48, 12, 2], [160, 40, 8]]  # at least one of each class
    for part in parts:
        np.testing.assert_array_equal(part.held_out, split.held_out)
    np.testing.assert_array_equal(parts[1].train, again)
    assert len({*again} & {*other}) < 0.6 * len(again)


def test_a_development_split_is_a_part_of_the_training_images():
    images = source(200, 50, 10)
    split = split_source(images, 0.2)
    tried = development_split(images, split, 0.1)
    assert np.bincount(images.targets[tried.held_out]).tolist() == [16, 4, 1]
    assert sorted([*tried.train, *tried.held_out]) == split.train.tolist()


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.5])
def test_parts_of_other_fractions_or_of_a_single_image_are_refused(fraction):
    images = source(20, 2)
    split = split_source(images, 0.2)
    with pytest.raises(UsageError, match="fractions must lie in"):
        subset(images, split, fraction)
    with pytest.raises(UsageError, match="development must lie in"):
        development_split(images, split, fraction)
    with pytest.raises(UsageError, match="needs 2 training images of each class. Received: 1 of"):
        development_split(images, split)
