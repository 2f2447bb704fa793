"""Preprocessing and augmentation: sizes, ranges, geometry, determinism."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

import keras_vit
from keras_vit import Preprocessing, UsageError
from keras_vit._keras import keras
from keras_vit.data import (
    AUGMENTATIONS,
    digits,
    evaluation_batches,
    preprocess,
    training_batches,
)
from keras_vit.data.augmentation import _random_box
from keras_vit.data.preprocessing import resize

pytestmark = pytest.mark.once


def test_values_are_scaled_to_minus_one_and_one():
    image = np.zeros((2, 2, 3), np.uint8)
    image[0] = 255
    found = preprocess(image, Preprocessing(2, 2))
    assert (found.shape, found.dtype) == ((1, 2, 2, 3), np.float32)
    assert (found[0, 0] == 1).all()
    assert (found[0, 1] == -1).all()


def test_each_channel_has_its_mean_and_scale(rng):
    image = rng.integers(0, 256, (5, 7, 3)).astype(np.uint8)
    how = Preprocessing(5, 7, mean=(123.675, 116.28, 103.53), scale=(58.395, 57.12, 57.375))
    expected = np.empty((5, 7, 3))
    expected[..., 0] = (image[..., 0] / 255 - 0.485) / 0.229
    expected[..., 1] = (image[..., 1] / 255 - 0.456) / 0.224
    expected[..., 2] = (image[..., 2] / 255 - 0.406) / 0.225
    found = preprocess(image, how)[0]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_one_number_is_the_same_as_three_alike(rng):
    image = rng.integers(0, 256, (9, 7, 3)).astype(np.uint8)
    three = Preprocessing(5, 7, mean=(127.5,) * 3, scale=127.5)
    np.testing.assert_array_equal(preprocess(image, three), preprocess(image, Preprocessing(5, 7)))


def test_channels_survive_json():
    how = Preprocessing(5, 7, mean=[1, 2.5, 3], scale=(4, 5, 6))
    assert (how.mean, how.scale) == ((1, 2.5, 3), (4, 5, 6))
    fields = how.to_dict()
    assert fields == json.loads(json.dumps(fields))
    again = Preprocessing.from_dict(fields)
    assert again == how
    assert hash(again) == hash(how)


def test_channels_survive_a_saved_model(small_spec, tmp_path):
    how = Preprocessing(16, 24, mean=(1.0, 2.5, 3.0), scale=(4.0, 5.0, 6.0))
    keras_vit.ViT(small_spec, 2, (16, 24), how).save(tmp_path / "m.keras")
    assert keras.models.load_model(tmp_path / "m.keras").preprocessing == how


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mean": (1, 2)}, r"mean must be a number or three. Received: mean=\(1, 2\)."),
        ({"mean": [1, 2, "3"]}, "mean must be a number. Received: mean='3'."),
        ({"mean": "127.5"}, "mean must be a number. Received: mean='127.5'."),
        ({"mean": (0, 0, float("nan"))}, "mean must be a number. Received: mean=nan."),
        ({"scale": (1, 0, 1)}, r"scale must be positive. Received: scale=\(1, 0, 1\)."),
        ({"scale": -1.0}, "scale must be positive. Received: scale=-1.0."),
    ],
)
def test_means_and_scales_that_are_none_are_refused(change, message):
    with pytest.raises(UsageError, match=message):
        Preprocessing(5, 7, **change)


def test_takes_one_image_a_batch_and_a_list_of_sizes(rng, small_spec):
    model = keras_vit.ViT(small_spec, 2, (16, 24))
    image = rng.integers(0, 255, (50, 40, 3)).astype(np.uint8)
    one = keras_vit.preprocess(image, model)
    assert one.shape == (1, 16, 24, 3)
    np.testing.assert_array_equal(keras_vit.preprocess(np.stack([image] * 2), model)[1], one[0])
    mixed = keras_vit.preprocess([image, image[:20]], model)
    assert mixed.shape == (2, 16, 24, 3)
    assert keras_vit.preprocess([], model).shape == (0, 16, 24, 3)


def test_refuses_what_is_not_a_uint8_rgb_image():
    with pytest.raises(UsageError, match=r"expected a uint8 image.*Received: float32 \(4, 4, 3\)"):
        preprocess(np.zeros((4, 4, 3), np.float32), Preprocessing(2, 2))
    with pytest.raises(UsageError, match=r"Received: uint8 \(4, 4, 1\)"):
        preprocess(np.zeros((4, 4, 1), np.uint8), Preprocessing(2, 2))
    with pytest.raises(UsageError, match="expected a keras_vit model.*Received: str"):
        preprocess(np.zeros((4, 4, 3), np.uint8), "ViT-B_16")


def test_without_a_crop_the_whole_image_is_stretched():
    image = np.zeros((10, 40, 3), np.uint8)
    image[:, 20:] = 255
    found = preprocess(image, Preprocessing(8, 8, interpolation="nearest"))[0, ..., 0]
    np.testing.assert_array_equal(found, np.repeat([[-1] * 4 + [1] * 4], 8, axis=0))


def test_the_width_is_resized_before_the_height_whatever_pillow_does(rng):
    image = Image.fromarray(rng.integers(0, 256, (300, 90, 3)).astype(np.uint8))
    expected = image.resize((64, 300), Image.Resampling.BILINEAR)
    expected = expected.resize((64, 48), Image.Resampling.BILINEAR)
    np.testing.assert_array_equal(resize(image, Preprocessing(48, 64)), expected)


@pytest.mark.parametrize("size", [(333, 500), (7, 3), (1000, 17)])
def test_a_crop_of_one_stays_inside_the_image(size):
    image = Image.fromarray(np.zeros((*size, 3), np.uint8))
    for side in (48, 224, 225):
        assert resize(image, Preprocessing(side, side, crop=1.0)).size == (side, side)


def test_crop_takes_the_centre_as_resizing_and_cutting_does(rng):
    # big_vision: the short side to 256, then the central 224.
    smooth = Image.fromarray(rng.integers(0, 255, (6, 8, 3)).astype(np.uint8))
    image = smooth.resize((512, 384), Image.Resampling.BICUBIC)
    found = preprocess(np.asarray(image), Preprocessing(224, 224, crop=224 / 256))[0]
    resized = image.resize((round(512 * 256 / 384), 256), Image.Resampling.BILINEAR)
    left, top = (resized.width - 224) // 2, 16
    expected = np.asarray(resized.crop((left, top, left + 224, top + 224))) / 127.5 - 1
    assert np.abs(found - expected).mean() < 0.01


def test_crop_keeps_the_aspect_of_a_wide_model():
    image = np.zeros((100, 100, 3), np.uint8)
    image[:25], image[75:] = 255, 255  # outside a central box of 100 x 50
    assert (preprocess(image, Preprocessing(8, 16, crop=1.0, interpolation="nearest")) == -1).all()


def test_training_and_evaluation_normalise_each_channel():
    # "none" augments nothing: both pipelines give what `preprocess` gives.
    how = Preprocessing(8, 8, mean=(10.0, 20.0, 30.0), scale=(2.0, 3.0, 4.0))
    source, chosen = digits(), np.arange(4)
    expected = preprocess([source.image(i) for i in chosen], how)
    (found, _), *_ = evaluation_batches(source, chosen, how, 4)
    np.testing.assert_array_equal(np.asarray(found), expected)
    (shuffled, _), *_ = training_batches(source, chosen, how, 4, 1)
    np.testing.assert_array_equal(np.sort(shuffled, axis=0), np.sort(expected, axis=0))


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_augmentations_give_the_models_size_and_repeat_under_a_seed(name, rng):
    image = Image.fromarray(rng.integers(0, 255, (40, 30, 3)).astype(np.uint8))
    how = Preprocessing(16, 24)
    first, again, other = (
        np.asarray(AUGMENTATIONS[name](image, how, np.random.default_rng(seed)))
        for seed in (1, 1, 2)
    )
    assert (first.shape, first.dtype) == ((16, 24, 3), np.uint8)
    np.testing.assert_array_equal(first, again)
    assert (name == "none") == np.array_equal(first, other)


def test_shift_keeps_the_picture_in_place_on_average():
    image = Image.new("L", (32, 32))
    image.paste(255, (12, 12, 20, 20))
    image = image.convert("RGB")
    generator = np.random.default_rng(0)
    how = Preprocessing(64, 64)
    found = [np.asarray(AUGMENTATIONS["shift"](image, how, generator)) for _ in range(300)]
    mean = np.stack(found)[..., 0].mean(0)
    centre = [(mean.sum(axis) * np.arange(64)).sum() / mean.sum() for axis in (0, 1)]
    np.testing.assert_allclose(centre, 31.5, atol=1.0)
    spread = [np.argmax(f[..., 0].max(0) > 128) for f in found]
    assert min(spread) < 20  # moved left by more than 10% of the side
    assert max(spread) > 28


def test_random_boxes_stay_inside_and_keep_to_the_area_and_aspect():
    generator = np.random.default_rng(0)
    for _ in range(300):
        left, top, width, height = _random_box((300, 200), generator, 0.05)
        assert 0 <= left <= 300 - width
        assert 0 <= top <= 200 - height
        assert 0.04 < width * height / 60_000 <= 1
        assert 0.7 < width / height < 1.4


def test_a_sliver_falls_back_to_the_whole_image():
    assert _random_box((1000, 1), np.random.default_rng(0), 0.9) == (0, 0, 1000, 1)


def test_crop_flip_flips_half_the_time():
    image = Image.linear_gradient("L").rotate(90).convert("RGB")  # dark to bright along x
    generator = np.random.default_rng(0)
    how = Preprocessing(8, 8)
    flips = 0
    for _ in range(200):
        found = np.asarray(AUGMENTATIONS["mild_crop_flip"](image, how, generator)).astype(int)
        flips += found[4, 0, 0] > found[4, 7, 0]
    assert 70 < flips < 130
