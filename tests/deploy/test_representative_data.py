"""Chosen images cover all classes, and none serves two purposes, whatever form data has."""

import itertools
import re

import numpy as np
import pytest

import keras_vit
from keras_vit import UsageError, deploy
from keras_vit.data.preprocessing import normalise
from keras_vit.deploy.representative_data import samples_of
from keras_vit.deploy.sample_images import coarse_noise, spread, to_pixels

PREPROCESSING = keras_vit.Preprocessing(16, 24)
CLASSES = np.arange(300) // 60


@pytest.fixture
def images(pictures):
    """300 images; the first value of each is its number, in thousandths."""
    images = pictures(300, (16, 24))
    images[:, 0, 0, 0] = np.arange(300) / 1000
    return images


def numbers(images) -> list[int]:
    if images is None:
        return []
    images = getattr(images, "inputs", images)
    return np.rint(1000 * images[:, 0, 0, 0]).astype(int).tolist()


def divided(data, quantize="int8", max_images=100, preprocessing=PREPROCESSING):
    options = deploy.ExportOptions(quantize, max_images)
    return samples_of(data, (16, 24, 3), preprocessing, options)


def batches(*arrays):
    cut = [[array[i : i + 16] for i in range(0, 300, 16)] for array in arrays]
    return cut[0] if len(arrays) == 1 else list(zip(*cut, strict=True))


def dataset(images):
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices((images, CLASSES)).batch(7)


FORMS = {
    "array": lambda images: images,
    "array and labels": lambda images: (images, CLASSES),
    "list": batches,
    "list with labels": lambda images: batches(images, CLASSES),
    "dataset with labels": dataset,
    "endless": lambda images: itertools.cycle(batches(images)),
    "callable": lambda images: lambda: ([image[None]] for image in images),
    "callable with names": lambda images: lambda: ({"images": image[None]} for image in images),
}


@pytest.mark.parametrize("form", FORMS)
def test_calibration_and_comparison_share_all_classes_but_no_images(images, form):
    samples = divided(FORMS[form](images), max_images=60)
    calibrating, compared = numbers(samples.calibration), numbers(samples.compared)
    assert (len(calibrating), len(compared)) == (32, 60)
    assert set(CLASSES[calibrating]) == set(CLASSES[compared]) == set(range(5))
    if form != "endless":  # it repeats its images
        assert len({*calibrating, *compared}) == 92
    targets = CLASSES[compared].tolist() if "labels" in form else None
    assert targets == (samples.compared.targets if targets is None else [*samples.compared.targets])


@pytest.mark.parametrize(
    ("quantize", "count", "parts"),
    [
        ("none", 20, (0, 0, 20)),
        ("dynamic", 2, (1, 0, 1)),
        ("dynamic", 3, (1, 0, 2)),
        ("int8", 5, (2, 0, 3)),
        ("auto", 48, (24, 12, 12)),
    ],
)
def test_half_of_few_images_calibrate_and_half_of_the_others_choose(images, quantize, count, parts):
    samples = divided(images[:count], quantize)
    found = [
        numbers(each) for each in (samples.calibration, samples.for_float_layers, samples.compared)
    ]
    assert tuple(map(len, found)) == parts
    assert sorted(itertools.chain(*found)) == list(range(count))


def test_a_single_image_is_used_twice_with_a_warning(images):
    assert numbers(divided(images[3], "none").compared) == [3]
    with pytest.warns(UserWarning, match="one image, which is used both to measure ranges and to"):
        samples = divided(images[3:4])
    assert numbers(samples.calibration) == numbers(samples.compared) == [3]


def test_without_data_noise_is_compared():
    samples = divided(None, "none")
    assert (len(samples.compared.inputs), samples.calibration) == (16, None)


@pytest.mark.parametrize("shape", [(20, 1), (20,)])
@pytest.mark.parametrize("dtype", [bool, int, np.float32])
def test_labels_may_be_those_that_keras_takes_for_one_logit(images, shape, dtype):
    targets = np.arange(20) % 2
    found = divided((images[:20], targets.reshape(shape).astype(dtype)), "none").compared.targets
    np.testing.assert_array_equal(found, targets)
    assert found.dtype == np.int64


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: (x, np.zeros(19, int)), "labels must be integers (20,), the classes of the im"),
        (lambda x: (x, np.zeros((20, 5))), "Received: float64 (20, 5); leave them out if there"),
        (lambda x: np.repeat(x, 2, axis=1), "Received: float32 (20, 32, 24, 3); use keras_vit.pre"),
        (lambda x: (x * 127 + 127).astype(np.uint8), "Received: uint8 (20, 16, 24, 3); use keras_"),
        (lambda x: np.concatenate([x, np.nan * x[:1]]), "representative_data must be finite"),
        (lambda x: 127.5 * x + 127.5, "representative_data must be preprocessed"),
        (lambda x: [127.5 * x + 127.5], "representative_data must be preprocessed"),
        (lambda x: x / 2 + 0.5, "representative_data must be preprocessed"),
        (lambda x: [], "representative_data holds no image"),
    ],
)
def test_other_data_is_refused(inputs, change, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        divided(change(inputs))


def test_images_may_be_what_another_preprocessing_gives(inputs):
    fractions = inputs / 2 + 0.5
    unit = keras_vit.Preprocessing(16, 24, mean=0, scale=255)
    found = divided(fractions, "none", preprocessing=unit).compared.inputs
    np.testing.assert_array_equal(found, fractions)


@pytest.mark.parametrize(
    "classes", [np.repeat(range(10), 30), np.tile(range(10), 30)], ids=["sorted", "in turn"]
)
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
    preprocessing = keras_vit.Preprocessing(
        16, 24, mean=(120.0, 110.0, 100.0), scale=(60.0, 50.0, 70.0)
    )
    pixels = rng.integers(0, 256, (2, 16, 24, 3), np.uint8)
    inputs = normalise(pixels, preprocessing)
    np.testing.assert_array_equal(to_pixels(inputs, preprocessing), pixels)
    assert to_pixels(inputs * 10, preprocessing).dtype == np.uint8  # clipped, not wrapped
    assert to_pixels(np.full((1, 1, 1, 3), 9.0), preprocessing).tolist() == [[[[255] * 3]]]
