"""The images of an export: they cover all classes, and none both calibrates and is compared."""

import dataclasses

import numpy as np
import pytest

import keras_vit
from keras_vit import deploy
from keras_vit.data import digits


@pytest.fixture
def images():
    """Digits as the pictures of a trained model that is not there."""
    source, preprocessing = digits(), keras_vit.Preprocessing(16, 24)
    parts = np.arange(501), np.arange(501, 1001)
    return deploy.TrainedModel(
        None, "none", source.labels, preprocessing, source, *parts, labelled=True
    )


def drawn(images, most, calibrate=32):
    """Images to measure ranges on, to choose layers on, and to compare."""
    options = deploy.ExportOptions(("auto",), most, calibrate=calibrate)
    samples = images.samples(options)
    return samples.calibration, samples.for_float_layers, samples.compared


@pytest.mark.parametrize(
    ("most", "counts"), [(1, [2, 1, 1]), (3, [4, 3, 3]), (999, [251, 250, 500])]
)
def test_every_part_has_the_allowed_number_of_images_and_none_is_in_two(images, most, counts):
    calibration, for_float_layers, compared = drawn(images, most, calibrate=most + 1)
    parts = [calibration, for_float_layers.inputs, compared.inputs]
    assert [part.shape for part in parts] == [(count, 16, 24, 3) for count in counts]
    distinct = {image.tobytes() for part in parts for image in part}
    assert len(distinct) > 0.99 * sum(counts)  # a few digits look alike
    np.testing.assert_array_equal(drawn(images, 1, calibrate=most + 1)[0], calibration)


def test_data_sorted_by_class_gives_every_part_all_classes(images):
    targets = np.sort(digits().targets)
    of_class = dataclasses.replace(
        digits(), targets=targets, image=lambda i: np.full((8, 8, 3), 20 * targets[i], np.uint8)
    )
    places = {"training": np.arange(0, 1797, 2), "held_out": np.arange(1, 1797, 2)}
    images = dataclasses.replace(images, source=of_class, **places)
    calibration, *judged = drawn(images, 20, 20)
    for part in (calibration, *(each.inputs for each in judged)):
        assert {*np.rint((127.5 * part[:, 0, 0, 0] + 127.5) / 20)} == set(range(10))
    for each in judged:
        assert set(each.targets) == set(range(10))


def test_pictures_are_the_compared_images(images):
    _, _, compared = drawn(images, 5)
    expected = keras_vit.preprocess(images.pictures(5), images.preprocessing)
    assert (len(expected), len(compared.targets)) == (5, 5)
    np.testing.assert_array_equal(compared.inputs, expected)


def test_a_single_training_image_is_described_as_used_twice(images):
    assert drawn(images, 5)[1].images_from == "other images of digits"
    alone = dataclasses.replace(images, training=images.training[:1])
    calibration, for_float_layers, _ = drawn(alone, 5)
    np.testing.assert_array_equal(calibration, for_float_layers.inputs)
    assert for_float_layers.images_from == "other images of digits, which also measured the ranges"


def test_a_run_is_compared_on_held_out_images_and_may_be_resampled(trained_run):
    found = deploy.of_run(trained_run.path)
    assert not set(found.training) & set(found.held_out)
    assert len(found.training) + len(found.held_out) == len(found.source)
    described = [found.compared_from, drawn(found, 5)[1].images_from]
    assert described == ["held-out images of digits", "training images of digits"]
    assert (found.labelled, found.preprocessing) == (True, trained_run.model().preprocessing)
    resampled = deploy.of_run(trained_run.path, image_size=(24, 16))
    assert resampled.load().preprocessing == resampled.preprocessing
    assert (resampled.preprocessing.height, resampled.preprocessing.width) == (24, 16)


def test_pictures_for_weights_are_split_and_no_class_may_be_empty(fixtures, image_folder):
    weights = str(fixtures / "vit_token.weights.npz")
    found = deploy.of_weights(weights, data=image_folder)
    assert sorted([*found.training, *found.held_out]) == list(range(12))
    assert len(found.held_out) == 6
    for picture in (image_folder / "red").iterdir():
        picture.unlink()
    with pytest.raises(keras_vit.UsageError, match="no readable picture in red"):
        deploy.of_weights(weights, data=image_folder)


def test_all_but_the_label_of_one_logit_is_not_its_class(small_spec, image_folder, tmp_path):
    def found(**labels):
        model = keras_vit.ViT(small_spec, 1, (16, 24), **labels)
        keras_vit.save_weights(model, tmp_path / "one.npz")
        return deploy.of_weights(str(tmp_path / "one.npz"), data=image_folder)

    named, unnamed = found(labels=("blue",)), found()
    assert (named.labels, named.labelled) == (("blue",), True)
    blue = ["blue" in named.source.ids[i] for i in named.held_out]
    assert drawn(named, 12)[2].targets.tolist() == blue
    assert 0 < sum(blue) < 6
    assert (unnamed.labels, unnamed.labelled) == (("1",), False)


def test_weights_are_loaded_twice_and_without_pictures_compared_on_noise(fixtures):
    found = deploy.of_weights(str(fixtures / "vit_token.weights.npz"))
    first, again = found.load(), found.load()
    assert first is not again
    for a, b in zip(first.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    samples = found.samples(deploy.ExportOptions(("none",), 500))
    compared = samples.compared
    assert (len(compared.inputs), compared.targets) == (16, None)
    assert {compared.images_from, found.compared_from} == {"random images"}
    assert (samples.calibration, samples.for_float_layers, found.pictures(5)) == (None, None, None)
    with pytest.raises(keras_vit.UsageError, match="auto needs images to measure ranges on"):
        drawn(found, 5)
