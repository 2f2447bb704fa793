"""The split is stratified, stable, and the same on every machine."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from keras_vit import UsageError
from keras_vit.data import Source, Split, digits, split_source, split_summary


def source(counts, name="x"):
    targets = np.repeat(np.arange(len(counts)), counts)
    return Source(
        name=name,
        labels=tuple(f"class {i}" for i in range(len(counts))),
        ids=tuple(f"{t}/{i}.jpg" for i, t in enumerate(targets)),
        targets=targets,
        image=lambda i: np.zeros((2, 2, 3), np.uint8),
    )


def test_parts_are_disjoint_and_complete():
    split = split_source(digits())
    assert not set(split.train) & set(split.held_out)
    assert len(split.train) + len(split.held_out) == 1797


def test_a_fifth_of_every_class_is_held_out():
    data = digits()
    held_out = np.bincount(data.targets[split_source(data).held_out])
    np.testing.assert_array_equal(held_out, np.round(np.bincount(data.targets) * 0.2))


def test_the_rule_is_fixed():
    # Every run holds out these images. After a change, published accuracies cannot be compared.
    assert split_source(digits()).held_out[:6].tolist() == [4, 27, 34, 52, 59, 61]


def test_added_pictures_do_not_change_the_split_of_the_others():
    before = source([50, 50])
    after = dataclasses.replace(
        before, ids=(*before.ids, "1/new.jpg"), targets=np.append(before.targets, 1)
    )
    held = [
        {data.ids[i] for i in split_source(data).held_out if data.ids[i] != "1/new.jpg"}
        for data in (before, after)
    ]
    assert len(held[0] ^ held[1]) <= 1


@pytest.mark.parametrize("fraction", [0.01, 0.2, 0.99])
@pytest.mark.parametrize("count", [2, 3])
def test_small_classes_keep_one_image_on_each_side(count, fraction):
    data = source([count, 40])
    split = split_source(data, fraction)
    for part in (split.train, split.held_out):
        assert (data.targets[part] == 0).any()


def test_a_class_with_one_image_and_an_invalid_fraction_are_refused():
    few = r"at least 2 readable images.*fewer in 'class 1' \(1\), 'class 3' \(0\)\.$"
    with pytest.raises(UsageError, match=few):
        split_source(source([5, 1, 2, 0, 3]))
    with pytest.raises(UsageError, match=r"must lie in \(0, 1\). Received: 1.5"):
        split_source(source([5, 5]), 1.5)


def test_declared_splits_are_used_and_the_test_split_is_held_out_only_without_validation():
    data = source([5, 5])
    parts = {"train": np.arange(6), "validation": np.array([6, 7]), "test": np.array([8, 9])}
    split = split_source(dataclasses.replace(data, splits=parts), 0.5)
    assert (split.train.tolist(), split.held_out.tolist()) == (list(range(6)), [6, 7])
    assert "validation is held out" in split.rule
    summary = split_summary(dataclasses.replace(data, splits=parts), "evaluate --split test")
    assert summary.endswith("; test is not used: evaluate --split test reads it)")
    del parts["validation"]
    split = split_source(dataclasses.replace(data, splits=parts), 0.5)
    assert split.held_out.tolist() == [8, 9]
    assert "test is held out" in split.rule


@pytest.mark.parametrize("name", ["train", "validation"])
def test_an_empty_declared_split_is_refused(name):
    parts = {"train": np.arange(6), "validation": np.array([6, 7]), name: np.arange(0)}
    with pytest.raises(UsageError, match=f"images to train and others to hold out.*none in {name}"):
        split_source(dataclasses.replace(source([5, 5]), splits=parts))


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


def test_declared_splits_with_common_images_are_refused():
    parts = {"train": np.arange(6), "test": np.array([5, 6])}
    with pytest.raises(UsageError, match="no image in common"):
        split_source(dataclasses.replace(source([5, 5]), splits=parts))
