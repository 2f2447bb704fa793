"""The images of an export: they cover all classes, and none both calibrates and is compared."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from PIL import Image

import keras_vit
from keras_vit.data import digits
from keras_vit.data.pipeline import load
from keras_vit.deploy.subject import OwnImages, of_run, of_weights


@pytest.fixture
def images():
    parts = np.arange(501), np.arange(501, 1001)
    return OwnImages(keras_vit.Preprocessing(16, 24), digits(), *parts, labelled=True)


@pytest.mark.parametrize(("most", "count"), [(1, 1), (3, 3), (251, 251), (900, 251)])
def test_the_allowed_number_of_images_is_chosen_and_none_twice(images, most, count):
    chosen = images.calibration(most)
    assert chosen.shape == (count, 16, 24, 3)
    np.testing.assert_array_equal(images.calibration(most), chosen)
    assert len(np.unique(chosen.reshape(count, -1), axis=0)) > 0.99 * count


def rows(images):
    return {image.tobytes() for image in images}


def test_calibration_choice_and_comparison_use_different_images(images):
    parts = [images.calibration(999), images.choosing(999)[0], images.comparison(999)[0]]
    assert [len(part) for part in parts] == [251, 250, 500]
    assert len(set.union(*map(rows, parts))) > 0.99 * 1001  # a few digits look alike


def test_data_sorted_by_class_gives_every_part_all_classes():
    source = digits()
    order = np.argsort(source.targets, kind="stable")
    source = dataclasses.replace(
        source, targets=source.targets[order], image=lambda i: digits_image(order[i])
    )
    digits_image = digits().image
    parts = np.arange(0, 1797, 2), np.arange(1, 1797, 2)
    preprocessing = keras_vit.Preprocessing(16, 24)
    images = OwnImages(preprocessing, source, *parts, labelled=True)
    for _, targets in (images.comparison(20), images.choosing(20)):
        assert (np.bincount(targets, minlength=10) >= 1).all()
    calibrating = rows(images.calibration(20))
    everything, targets = load(source, np.arange(1797), preprocessing)
    found = {
        int(t)
        for image, t in zip(everything, targets, strict=True)
        if image.tobytes() in calibrating
    }
    assert found == set(range(10))


def test_pictures_are_the_compared_images(images):
    compared, targets = images.comparison(5)
    pictures = list(images.pictures(5))
    assert (len(compared), len(targets), len(pictures)) == (5, 5, 5)
    for image, picture in zip(compared, pictures, strict=True):
        expected = keras_vit.preprocess(picture, images.preprocessing)[0]
        np.testing.assert_array_equal(image, expected)


def test_a_single_training_image_is_described_as_used_twice(images):
    assert images.chosen_from == "other images of digits"
    alone = dataclasses.replace(images, training=images.training[:1])
    np.testing.assert_array_equal(alone.calibration(5), alone.choosing(5)[0])
    assert alone.chosen_from == "other images of digits, which also measured the ranges"


def test_a_run_is_compared_on_held_out_images(trained_run):
    found = of_run(trained_run.path).images
    assert not set(found.training) & set(found.held_out)
    assert len(found.training) + len(found.held_out) == len(found.source)


def test_pictures_for_weights_are_split_unless_there_is_only_one(fixtures, image_folder, tmp_path):
    weights = str(fixtures / "vit_token.weights.npz")
    found = of_weights(weights, data=image_folder).images
    assert sorted([*found.training, *found.held_out]) == list(range(12))
    assert len(found.held_out) == 6
    (tmp_path / "one" / "only").mkdir(parents=True)
    (tmp_path / "one" / "other").mkdir()
    Image.new("RGB", (20, 20)).save(tmp_path / "one" / "only" / "a.png")
    with pytest.raises(keras_vit.UsageError, match="no readable picture in other"):
        of_weights(weights, data=tmp_path / "one")


def test_all_but_the_label_of_one_logit_is_not_its_class(small_spec, image_folder, tmp_path):
    model = keras_vit.ViT(small_spec, 1, (16, 24), labels=("blue",))
    keras_vit.save_weights(model, tmp_path / "one.npz")
    found = of_weights(str(tmp_path / "one.npz"), data=image_folder)
    assert (found.labels, found.images.labelled) == (("blue",), True)
    _, targets = found.images.comparison(12)
    blue = ["blue" in found.images.source.ids[i] for i in found.images.held_out]
    assert targets.tolist() == blue
    assert 0 < sum(blue) < 6
    keras_vit.save_weights(keras_vit.ViT(small_spec, 1, (16, 24)), tmp_path / "one.npz")
    found = of_weights(str(tmp_path / "one.npz"), data=image_folder)
    assert (found.labels, found.images.labelled) == (("1",), False)


def test_without_pictures_noise_is_compared_and_not_calibrated_on(fixtures):
    found = of_weights(str(fixtures / "vit_token.weights.npz")).images
    compared, targets = found.comparison(500)
    assert (len(compared), targets, found.compared_from) == (16, None, "random images")
    assert found.calibration(32) is None
    assert found.pictures(5) is None
    np.testing.assert_array_equal(found.choosing(500)[0], compared)
    assert found.chosen_from == "random images"
