"""The images that an export measures on: evenly chosen, and judged on others than calibrated on."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

import keras_vit
from keras_vit.data import digits
from keras_vit.deploy.subject import Subject, of_run, of_weights

pytestmark = pytest.mark.once


@pytest.fixture
def subject(small_spec):
    source = digits()
    parts = np.arange(501), np.arange(501, 1001)
    model = keras_vit.ViT(small_spec, 10, (16, 24))
    return Subject(model, "ViT-Test", source.labels, None, source, *parts, labelled=True)


@pytest.mark.parametrize(("most", "count"), [(1, 1), (3, 3), (500, 500), (501, 501), (900, 501)])
def test_as_many_images_as_may_be_are_chosen_and_none_twice(subject, most, count):
    chosen = subject.calibration(most)
    assert chosen.shape == (count, 16, 24, 3)
    first = subject.calibration(1)
    np.testing.assert_array_equal(chosen[:1], first)
    assert len(np.unique(chosen.reshape(count, -1), axis=0)) > 0.99 * count


def test_a_few_are_spread_over_all(subject):
    images, targets = subject.comparison(5)
    expected = [subject.source.targets[i] for i in (501, 601, 701, 801, 901)]
    assert (len(images), targets.tolist()) == (5, expected)
    pictures = list(subject.pictures(5))
    np.testing.assert_array_equal(pictures[1], subject.source.image(601))


def test_a_run_is_judged_on_images_that_neither_trained_nor_calibrated_it(trained_run):
    found = of_run(trained_run.path)
    assert not set(found.training) & set(found.held_out)
    assert len(found.training) + len(found.held_out) == len(found.source)


def test_pictures_for_weights_calibrate_or_judge_unless_there_is_one(
    fixtures, image_folder, tmp_path
):
    weights = str(fixtures / "vit_token.weights.npz")
    found = of_weights(weights, data=image_folder)
    assert sorted([*found.training, *found.held_out]) == list(range(12))
    (tmp_path / "one" / "only").mkdir(parents=True)
    (tmp_path / "one" / "other").mkdir()
    Image.new("RGB", (20, 20)).save(tmp_path / "one" / "only" / "a.png")
    with pytest.raises(keras_vit.UsageError, match="no readable picture in other"):
        of_weights(weights, data=tmp_path / "one")


def test_without_pictures_noise_is_compared_and_nothing_calibrates(fixtures):
    found = of_weights(str(fixtures / "vit_token.weights.npz"))
    images, targets = found.comparison(500)
    assert (len(images), targets, found.images_from) == (16, None, "seeded noise")
    assert found.calibration(32) is None
    assert found.pictures(5) is None
