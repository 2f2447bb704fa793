"""Augmentations against Pillow's operations and against their published definitions in NumPy."""

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageEnhance, ImageOps
from scipy.ndimage import gaussian_filter

from keras_vit import Preprocessing, UsageError
from keras_vit.data import AUGMENTATIONS, colour, geometry, mixing, randaugment


@pytest.fixture(params=["smooth", "noise", "dark", "flat"])
def image(request, rng):
    """uint8 (40, 56, 3): a gradient, noise, few levels, or one level."""
    rows, columns = np.mgrid[:40, :56]
    kinds = {
        "smooth": np.stack([rows * 5, columns * 4, 255 - rows - columns], -1),
        "noise": rng.integers(0, 256, (40, 56, 3)),
        "dark": rng.integers(3, 40, (40, 56, 3)),
        "flat": np.full((40, 56, 3), 77),
    }
    return kinds[request.param].astype(np.uint8)


def differences(actual, expected):
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert (actual.dtype, actual.shape) == (np.uint8, expected.shape)
    return np.abs(actual.astype(int) - expected.astype(int))


EQUAL = {
    "grey": (colour.grey, lambda image: image.convert("L").convert("RGB")),
    "invert": (colour.invert, ImageOps.invert),
    "equalize": (colour.equalize, ImageOps.equalize),
    "solarize": (lambda x: colour.solarize(x, 100), lambda image: ImageOps.solarize(image, 100)),
    "posterize 4": (lambda x: colour.posterize(x, 4), lambda image: ImageOps.posterize(image, 4)),
    "posterize 8": (lambda x: colour.posterize(x, 8), lambda image: ImageOps.posterize(image, 8)),
    "solarize add": (
        lambda x: colour.solarize_add(x, 60),
        lambda image: image.point(lambda v: min(v + 60, 255) if v < 128 else v),
    ),
}


@pytest.mark.parametrize("name", EQUAL)
def test_operations_are_equal_to_pillows(image, name):
    ours, pillows = EQUAL[name]
    assert differences(ours(tf.constant(image)), pillows(Image.fromarray(image))).max() == 0


@pytest.mark.parametrize("factor", [0.1, 0.7, 1.0, 1.9])
@pytest.mark.parametrize("name", ["Color", "Contrast", "Brightness", "Sharpness"])
def test_enhancements_are_pillows_up_to_rounding(image, name, factor):
    actual = getattr(colour, name.lower())(tf.constant(image), factor)
    expected = getattr(ImageEnhance, name)(Image.fromarray(image)).enhance(factor)
    found = differences(actual, expected)
    assert found.max() <= 1
    assert (found > 0).mean() < 0.02
    if factor == 1.0:
        np.testing.assert_array_equal(actual, image)


def test_autocontrast_is_pillows_up_to_rounding(image):
    actual = colour.autocontrast(tf.constant(image))
    assert differences(actual, ImageOps.autocontrast(Image.fromarray(image))).max() <= 1
    if len(np.unique(image)) > 1:
        assert np.asarray(actual).min((0, 1)).tolist() == [0, 0, 0]
        assert np.asarray(actual).max((0, 1)).tolist() == [255, 255, 255]


@pytest.mark.parametrize("radius", [0.1, 0.8, 2.0])
def test_the_blur_is_a_gaussian(image, radius):
    actual = np.asarray(colour.gaussian_blur(tf.constant(image), radius))
    expected = gaussian_filter(image.astype(float), (radius, radius, 0), mode="nearest", radius=9)
    assert (actual.dtype, actual.shape) == (np.uint8, expected.shape)
    assert np.abs(actual - expected).max() <= 1.5


def test_geometric_operations_are_pillows_affine_transforms(rng):
    rows, columns = np.mgrid[:48, :64]
    image = np.stack([rows * 5, columns * 3, rows + columns], -1).astype(np.uint8)
    picture = Image.fromarray(image)
    how = {"resample": Image.Resampling.NEAREST, "fillcolor": (128,) * 3}

    def affine(*matrix):
        return picture.transform((64, 48), Image.Transform.AFFINE, matrix, **how)

    expected = {
        "Rotate": lambda sign: picture.rotate(sign * 30, **how),
        "ShearX": lambda sign: affine(1, sign * 0.3, 0, 0, 1, 0),
        "ShearY": lambda sign: affine(1, 0, 0, sign * 0.3, 1, 0),
        "TranslateX": lambda sign: affine(1, 0, sign * 100 * 64 / 224, 0, 1, 0),
        "TranslateY": lambda sign: affine(1, 0, 0, 0, 1, sign * 100 * 48 / 224),
    }
    for name, transform in expected.items():
        signs = set()
        for seed in range(8):
            actual = randaugment.OPERATIONS[name](tf.constant(image), 1.0, tf.constant([seed, 1]))
            # Rounding to the nearest pixel may differ by one pixel at some places.
            close = [(differences(actual, transform(sign)) <= 6).mean() for sign in (1, -1)]
            assert max(close) > 0.94, (name, close)
            signs.add(int(np.argmax(close)))
        assert signs == {0, 1}, name


def test_randaugment_has_the_published_levels(rng):
    image = rng.integers(0, 256, (224, 224, 3)).astype(np.uint8)

    def apply(name, level):
        operation = randaugment.OPERATIONS[name]
        return np.asarray(operation(tf.constant(image), level, tf.constant([1, 2])))

    # At magnitude 10: half of the bits, no solarisation, factor 1.9, +110, a square of 80.
    for name, level, expected in (
        ("Posterize", 1.0, image & 0xF0),
        ("Posterize", 0.0, 0 * image),
        ("Solarize", 1.0, image),
        ("Solarize", 0.0, 255 - image),
        ("Brightness", 1.0, colour.brightness(image, 1.9)),
        ("SolarizeAdd", 1.0, colour.solarize_add(image, 110)),
    ):
        np.testing.assert_array_equal(apply(name, level), expected, name)
    grey = (apply("Cutout", 1.0) == 128).all(-1)
    assert grey.any(0).sum() <= 80 >= grey.any(1).sum()
    assert grey.sum() > 40 * 40  # at least a quarter remains inside


def test_randaugment_draws_all_16_operations_equally_often(monkeypatch):
    for number, name in enumerate(list(randaugment.OPERATIONS)):
        constant = lambda x, level, seed, n=number, **_: tf.ones_like(x) * n  # noqa: E731
        monkeypatch.setitem(randaugment.OPERATIONS, name, constant)
    image = tf.zeros((1, 1, 3), tf.uint8)
    drawn = tf.data.Dataset.range(1600).map(
        lambda i: randaugment.rand_augment(image, tf.stack([i, 0]), 1, 10)[0, 0, 0]
    )
    drawn = np.bincount(list(drawn.as_numpy_iterator()), minlength=16)
    assert drawn.min() > 60  # of 100 expected
    assert drawn.max() < 140


def test_deits_randaugment_has_no_cutout_and_moves_by_a_tenth(monkeypatch):
    deit = AUGMENTATIONS["randaugment_deit"].pixels
    assert (deit.keywords["layers"], deit.keywords["magnitude"]) == (2, 9)
    for name in randaugment.OPERATIONS.keys() - {"TranslateX", "TranslateY"}:
        level = 200 if name == "Cutout" else None
        changed = lambda x, *_, n=level: x if n is None else tf.ones_like(x) * n  # noqa: E731
        monkeypatch.setitem(randaugment.OPERATIONS, name, changed)
    image = np.random.default_rng(0).integers(0, 128, (224, 224, 3)).astype(np.uint8)
    moves = {(9, 0), (-9, 0), (0, 9), (0, -9)}
    seen = set()
    for seed in range(60):
        result = np.asarray(deit(tf.constant(image), tf.constant([seed, 0])))
        assert not (result == 200).all()
        for move in moves:
            back = np.roll(result, move, (0, 1))
            seen |= {move} if (back == image)[20:-20, 20:-20].all() else set()
    assert seen == moves


@pytest.mark.parametrize("image", ["smooth", "noise"], indirect=True)
def test_three_augment_makes_one_of_three_changes(image):
    seen, expected = np.zeros(3, int), (colour.grey(image), colour.solarize(image))
    for seed in range(30):
        result = np.asarray(colour.three_augment(tf.constant(image), tf.constant([seed, 0]), 0.0))
        matches = [differences(result, each).max() <= 1 for each in expected]
        seen[matches.index(True) if any(matches) else 2] += 1
    assert seen.min() >= 4


def test_the_colour_jitter_stays_in_its_range():
    image = tf.fill((4, 4, 3), tf.constant(100, tf.uint8))  # contrast and saturation do nothing
    jittered = [colour.color_jitter(image, tf.constant([seed, 3]), 0.3) for seed in range(40)]
    levels = [int(each[0, 0, 0]) for each in jittered]
    assert 68 <= min(levels) < 80
    assert 120 < max(levels) <= 130


def test_the_inception_crop_has_the_published_areas_and_aspects():
    rows, columns = np.mgrid[:200, :256]
    pixels = tf.constant(np.stack([rows, columns, 0 * rows], -1).astype(np.uint8))
    boxes = []

    def part(box, size):
        boxes.append(np.asarray(box))
        return pixels

    picture = geometry.Picture(tf.constant([200, 256]), lambda: pixels, part)
    for smallest in (0.05, 0.5):
        boxes.clear()
        for seed in range(200):
            geometry.cropped(picture, Preprocessing(8, 8), tf.constant([seed, 5]), smallest)
        top, left, height, width = np.transpose(boxes)
        assert min(*top, *left) >= 0
        assert max(top + height) <= 200
        assert max(left + width) <= 256
        areas, aspects = height * width / (200 * 256), width / height
        whole = areas == 1  # no box was found
        assert areas.min() >= smallest * 0.95
        assert areas.min() < smallest * 1.4
        assert 0.72 < aspects[~whole].min() < 0.8
        assert 1.25 < aspects[~whole].max() < 1.38
        assert whole.mean() < 0.05


def test_a_part_of_the_larger_picture_is_taken_at_every_place_equally_often(rng):
    pixels = rng.integers(0, 256, (30, 40, 3), np.uint8)
    margin = AUGMENTATIONS["resize_crop_flip"].margin
    larger = np.asarray(geometry.levels(tf.image.resize(pixels, (28, 28))))
    places = []
    for seed in range(500):
        part = geometry.cropped_from_larger(
            geometry.of_pixels(tf.constant(pixels)), Preprocessing(24, 24), (seed, 7), margin
        ).image
        found = [
            (top, left)
            for top, left in np.ndindex(5, 5)
            if np.array_equal(larger[top : top + 24, left : left + 24], part)
        ]
        places += found
        assert len(found) == 1
    counts = np.unique(places, axis=0, return_counts=True)[1]
    assert len(counts) == 25
    assert 5 <= counts.min() <= counts.max() <= 40  # 20 expected, deviation 4.4


@pytest.mark.parametrize("size", [(8, 8), (12, 20)])
def test_shift_gives_the_same_pixels_as_pillow(rng, size):
    pixels = rng.integers(0, 256, (8, 10, 3)).astype(np.uint8)
    (height, width), (new_height, new_width) = pixels.shape[:2], size
    for seed in range(20):
        draws = np.asarray(tf.random.stateless_uniform((4,), [seed, 0], -1.0, 1.0), float)
        angle, zoom = np.radians(10 * draws[0]), 1 + 0.1 * draws[1]
        a, b = np.array([np.cos(angle), -np.sin(angle)]) / zoom * [width, height] / [*size[::-1]]
        d, e = np.array([np.sin(angle), np.cos(angle)]) / zoom * [width, height] / [*size[::-1]]
        c = width * (0.5 + 0.12 * draws[2]) - a * new_width / 2 - b * new_height / 2
        f = height * (0.5 + 0.12 * draws[3]) - d * new_width / 2 - e * new_height / 2
        expected = Image.fromarray(pixels).transform(
            size[::-1], Image.Transform.AFFINE, (a, b, c, d, e, f), Image.Resampling.BILINEAR
        )
        shifted = geometry.shifted(tf.constant(pixels), Preprocessing(*size), (seed, 0))
        assert differences(shifted.image, expected).max() <= 1


@pytest.fixture
def batch(rng):
    images = rng.integers(0, 256, (5, 16, 24, 3)).astype(np.uint8)
    return tf.constant(images), tf.one_hot([0, 1, 2, 3, 1], 4)


def test_mixup_blends_each_image_with_the_one_before_it(batch):
    pixels, rows = (np.asarray(each, np.float32) for each in batch)
    weights = []
    for seed in range(100):
        mixed, labels = mixing.mix(*batch, [seed, 0], mixup=0.2, cutmix=0.0)
        assert mixed.dtype == labels.dtype == tf.float32
        weight = float(labels[0, 1])
        expected = weight * pixels[1:] + (1 - weight) * pixels[:-1]
        np.testing.assert_allclose(mixed, expected, rtol=0, atol=1e-3)
        expected = weight * rows[1:] + (1 - weight) * rows[:-1]
        np.testing.assert_allclose(labels, expected, atol=1e-6)
        weights.append(weight)
    draws = np.random.default_rng(0).beta(0.2, 0.2, 100_000)
    expected = np.maximum(draws, 1 - draws)
    assert min(weights) >= 0.5
    assert abs(np.mean(weights) - expected.mean()) < 0.05
    with pytest.raises(UsageError, match="must be float32.* Received: int64"):
        mixing.mix(batch[0], tf.argmax(rows, -1), [0, 0], mixup=0.2, cutmix=0.0)


def test_cutmix_replaces_a_box_and_weights_the_targets_by_its_area(batch):
    images, targets = batch
    pixels, areas = np.asarray(images, np.float32), []
    mix = tf.function(lambda seed: mixing.mix(images, targets, seed, mixup=0.0, cutmix=1.0))
    for seed in range(200):
        mixed, labels = mix(tf.constant([seed, 0]))
        is_own = (np.asarray(mixed) == pixels[1:]).all(-1)
        is_partner = (np.asarray(mixed) == pixels[:-1]).all(-1) & (pixels[:-1] != pixels[1:]).any(3)
        assert (is_partner | is_own).all()
        box = is_partner.any(0)
        area = box.mean()
        assert box.sum() == box.any(1).sum() * box.any(0).sum()
        np.testing.assert_allclose(labels[0], [area, 1 - area, 0, 0], atol=1e-6)
        areas.append(area)
    assert np.max(areas) > 0.6
    assert 0.2 < np.mean(areas) < 0.45  # a half, less what lies outside


def test_both_mixes_switch_between_batches(batch):
    mixed = [np.asarray(mixing.mix(*batch, [seed, 0], 0.8, 1.0)[0]) for seed in range(40)]
    cut = np.mean([(levels % 1 == 0).all() for levels in mixed])
    assert 0.25 < cut < 0.75


def test_random_erasing_has_the_published_sizes_and_frequency():
    image = tf.zeros((60, 80, 3), tf.uint8)
    areas, aspects = [], []
    erased = tf.function(lambda seed: mixing.erased(image, seed, 0.4))
    for seed in range(300):
        changed = (np.asarray(erased(tf.constant([seed, 0]))) > 0).any(-1)
        if not changed.any():
            continue
        rows, columns = np.flatnonzero(changed.any(1)), np.flatnonzero(changed.any(0))
        height, width = np.ptp(rows) + 1, np.ptp(columns) + 1
        assert changed.sum() > 0.99 * height * width
        areas.append(height * width / 4800)
        aspects.append(height / width)
    assert 90 < len(areas) < 150  # of 120 expected
    assert 0.015 < min(areas) < 0.05
    assert 0.28 < max(areas) < 0.36
    assert 0.28 < min(aspects) < 0.6
    assert 1.8 < max(aspects) < 3.5
