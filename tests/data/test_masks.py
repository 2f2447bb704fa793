"""Masks move with their pictures."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from keras_vit import Preprocessing, UsageError, data
from keras_vit.data import AUGMENTATIONS, Masks, geometry
from keras_vit.data.masks import NO_CLASS, sets_of
from keras_vit.data.pipeline import _placed
from keras_vit.data.source import InMemory

STILL = [name for name, row in AUGMENTATIONS.items() if not row.moves]


def places(height, width):
    """A picture whose red and green say where a pixel is, and a mask of the same red."""
    rows, columns = np.mgrid[:height, :width]
    picture = np.stack([columns * 2, rows * 2, 0 * rows], axis=-1).astype(np.uint8)
    return picture, picture[..., 0] // 16, picture[..., 1] // 16


def source_of(pictures, masks, classes=16):
    return data.Source(
        name="places",
        labels=tuple(map(str, range(classes))),
        ids=tuple(map(str, range(len(pictures)))),
        targets=np.zeros(len(pictures), np.int64),
        image=InMemory(np.stack(pictures)),
        annotations=Masks(lambda i: masks[i], sets_of(np.stack(masks), classes)),
    )


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "mediapipe"])
@pytest.mark.parametrize("name", STILL)
@pytest.mark.parametrize("size", [(120, 90), (40, 96)], ids=["as large", "smaller"])
def test_masks_follow_their_pictures(name, interpolation, size):
    """Away from borders between two classes, the mask is what the picture's colour says."""
    picture, by_column, by_row = places(120, 90)
    preprocessing = Preprocessing(*size, interpolation=interpolation)
    for channel, mask in ((0, by_column), (1, by_row)):
        source = source_of([picture] * 24, [mask] * 24)
        augment = "crop_flip" if name == "three_augment" else name  # which changes the colours
        [(images, masks)] = data.training_batches(
            source, np.arange(24), preprocessing, 24, 1, augment
        )
        colours, masks = images.numpy()[..., channel].astype(int), masks.numpy()
        known = masks != NO_CLASS
        within = (colours % 16 > 2) & (colours % 16 < 13)
        # Beside the picture there is grey or black; a shift blends pixels at its edge.
        assert known.mean() > 0.6
        right = (colours // 16 == masks)[known & within]
        assert right.mean() > 0.995
        if AUGMENTATIONS[name].zoom or AUGMENTATIONS[name].shift:
            assert known.mean() < 0.99


@pytest.mark.parametrize("interpolation", ["bilinear", "mediapipe"])
@pytest.mark.parametrize("name", [name for name in STILL if name != "three_augment"])
def test_matrices_say_where_the_pixels_of_large_pictures_come_from(name, interpolation):
    """Pictures are reduced before they are resized; a level of the colours is 0.2 pixels here."""
    height, width = 512, 400
    rows, columns = np.mgrid[:height, :width]
    levels = np.stack([columns * 250 / (width - 1), rows * 250 / (height - 1), 0 * rows], -1)
    preprocessing = Preprocessing(32, 48, interpolation=interpolation)
    for seed in range(10):
        placed = _placed(
            geometry.of_pixels(tf.constant(np.rint(levels).astype(np.uint8))),
            AUGMENTATIONS[name],
            preprocessing,
            tf.constant([seed, 3]),
        )
        a, b, c, d, e, f = np.asarray(placed.matrix())
        y, x = np.mgrid[:32, :48]
        from_x, from_y = a * x + b * y + c, d * x + e * y + f
        within = (from_x > 8) & (from_x < width - 9) & (from_y > 8) & (from_y < height - 9)
        image = np.asarray(placed.image, float)
        assert within.sum() > 20
        assert abs((image[..., 0] * (width - 1) / 250 - from_x)[within].mean() / a) < 0.25
        assert abs((image[..., 1] * (height - 1) / 250 - from_y)[within].mean() / e) < 0.25


def test_a_mask_is_resized_as_pillow_does():
    rng = np.random.default_rng(0)
    mask = rng.integers(0, 16, (37, 53), np.uint8)
    preprocessing = Preprocessing(24, 40)
    source = source_of([np.zeros((37, 53, 3), np.uint8)], [mask])
    [(_, actual)] = data.evaluation_batches(source, np.array([0]), preprocessing, 1)
    expected = Image.fromarray(mask).resize((40, 24), Image.Resampling.NEAREST)
    np.testing.assert_array_equal(actual[0], np.asarray(expected))


@pytest.mark.parametrize(("part", "seen"), [({"crop": 0.875}, 64), ({"pad": True}, 48)])
def test_a_part_or_a_padded_whole_is_that_of_the_picture(part, seen):
    picture, mask, _ = places(120, 90)
    preprocessing = Preprocessing(64, 64, interpolation="nearest", **part)
    [(image, actual)] = data.evaluation_batches(
        source_of([picture], [mask]), np.array([0]), preprocessing, 1
    )
    [image], [actual] = image.numpy(), actual.numpy()
    assert (image[:, :seen, 0] // 16 == actual[:, :seen]).mean() > 0.95
    assert (actual[:, seen:] == 255).all()


def test_images_are_mirrored_and_cut_as_tensorflow_does():
    """What classification was trained with before stays the same, bit for bit."""
    picture = tf.constant(places(100, 90)[0])
    preprocessing = Preprocessing(60, 48)
    larger = dataclasses.replace(preprocessing, height=70, width=56)
    for seed in np.random.default_rng(0).integers(0, 2**31, (20, 2)):
        mirrored, _ = geometry.mirrored((picture, None), tf.constant(seed))
        expected = tf.image.stateless_random_flip_left_right(picture, seed)
        np.testing.assert_array_equal(mirrored, expected)
        placed = geometry.cropped_from_larger(
            geometry.of_pixels(picture), preprocessing, tf.constant(seed), 7 / 6
        )
        resized = geometry.resized(picture, larger)
        expected = tf.image.stateless_random_crop(resized, (60, 48, 3), seed)
        np.testing.assert_array_equal(placed.image, expected)


def test_scenes_have_exact_masks_and_other_digits_to_test():
    source = data.open_source("scenes")
    assert source.labels == ("background", *map(str, range(10)))
    assert {name: len(each) for name, each in source.splits.items()} == {"train": 4000, "test": 500}
    masks = np.stack([source.annotations.mask(i) for i in range(500)])
    assert [set(np.unique(mask)) for mask in masks] == [
        {*np.flatnonzero(row)} for row in source.annotations.sets[:500]
    ]
    pixels = np.stack([source.image(i) for i in range(500)]).mean(-1)
    assert pixels[masks > 0].mean() > pixels[masks == 0].mean() + 50  # digits are bright
    assert min(source.counts.values()) > 300
    again = data.open_source("scenes")
    np.testing.assert_array_equal(again.image(4499), source.image(4499))


def test_masks_must_fit_the_source():
    picture, mask, _ = places(16, 16)
    with pytest.raises(UsageError, match="of 2 images and 16 classes. Received: 1 and 16"):
        dataclasses.replace(
            source_of([picture] * 2, [mask] * 2),
            annotations=Masks(lambda i: mask, sets_of(mask[None], 16)),
        )
    with pytest.raises(UsageError, match="255 classes at most. Received: 256"):
        source_of([picture], [mask], 256)
