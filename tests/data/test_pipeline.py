"""The pipeline: its order depends only on the seed and the step."""

from __future__ import annotations

import numpy as np
import pytest

from keras_vit import Preprocessing
from keras_vit.data import evaluation_batches, load, open_source, training_batches
from keras_vit.data.sources import Source

PREPROCESSING = Preprocessing(4, 4, mean=0.0, scale=1.0)


@pytest.fixture
def numbered():
    """Ten images; all pixels of an image are its index."""
    return Source(
        name="numbered",
        labels=("even", "odd"),
        ids=tuple(map(str, range(10))),
        targets=np.arange(10) % 2,
        image=lambda i: np.full((4, 4, 3), i, np.uint8),
    )


def order(batches):
    return np.concatenate([np.asarray(images)[:, 0, 0, 0] for images, _ in batches]).astype(int)


def test_every_epoch_is_a_fresh_permutation(numbered):
    seen = order(training_batches(numbered, np.arange(10), PREPROCESSING, 4, steps=5))
    assert len(seen) == 20  # batches run across the border of epochs
    assert sorted(seen[:10]) == sorted(seen[10:]) == list(range(10))
    assert seen[:10].tolist() != seen[10:].tolist()


def test_the_seed_decides_the_order(numbered):
    first, again, other = (
        order(
            training_batches(numbered, np.arange(10), PREPROCESSING, 4, steps=5, seed=seed)
        ).tolist()
        for seed in (1, 1, 2)
    )
    assert first == again != other


def test_training_can_begin_at_any_step(image_folder):
    source = open_source(image_folder)
    preprocessing = Preprocessing(16, 16)
    settings = {"batch_size": 5, "augment": "crop_flip", "seed": 3}
    whole = list(training_batches(source, np.arange(12), preprocessing, steps=7, **settings))
    rest = list(
        training_batches(source, np.arange(12), preprocessing, steps=3, first_step=4, **settings)
    )
    for (images, targets), (again, same) in zip(whole[4:], rest, strict=True):
        np.testing.assert_array_equal(images, again)
        np.testing.assert_array_equal(targets, same)


def test_only_the_chosen_indices_come_with_their_targets(numbered):
    for images, targets in training_batches(
        numbered, np.array([1, 4, 7]), PREPROCESSING, 6, steps=2
    ):
        values = np.asarray(images)[:, 0, 0, 0]
        assert set(values) == {1, 4, 7}
        np.testing.assert_array_equal(values % 2, targets)


def test_evaluation_runs_once_in_order_with_a_smaller_last_batch(numbered):
    batches = list(evaluation_batches(numbered, np.array([3, 1, 2, 9, 5]), PREPROCESSING, 2))
    assert [len(images) for images, _ in batches] == [2, 2, 1]
    assert order(batches).tolist() == [3, 1, 2, 9, 5]


def test_length_and_shapes_are_known(numbered):
    batches = training_batches(numbered, np.arange(10), PREPROCESSING, 4, steps=5)
    assert len(batches) == 5
    assert batches.element_spec[0].shape.as_list() == [4, 4, 4, 3]
    assert len(evaluation_batches(numbered, np.arange(10), PREPROCESSING, 4)) == 3


def test_load_is_evaluation_in_memory(numbered):
    inputs, targets = load(numbered, np.array([2, 7]), PREPROCESSING)
    assert inputs[:, 0, 0, 0].tolist() == [2, 7]
    assert targets.tolist() == [0, 1]
