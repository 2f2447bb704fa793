"""Images are resized to the pixels that MediaPipe gives a model, in Python and in graphs."""

import runpy
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_vit import Preprocessing
from keras_vit.data import geometry, mediapipe, tf_preprocessing

noise = runpy.run_path(str(Path(__file__).parents[1] / "fixtures" / "noise.py"))["noise"]


@pytest.fixture(scope="module")
def recorded(fixtures):
    """What MediaPipe made of pictures, by the sizes of the picture and of the model's input."""
    with np.load(fixtures / "mediapipe.npz") as file:
        return {tuple(map(int, name.split("_"))): file[name] for name in file.files}


def test_pixels_are_those_of_mediapipe(recorded):
    assert len(recorded) == 18
    for (height, width, *size), pixels in recorded.items():
        np.testing.assert_array_equal(mediapipe.resize(noise(height, width), size), pixels)


def test_graphs_of_known_and_unknown_sizes_give_the_same_pixels(recorded, rng):
    sizes = (64, 64), (128, 384), (224, 224), (7, 512)
    pictures = {size: [*rng.integers(1, 700, (6, 2))] for size in sizes}
    for height, width, *size in recorded:
        pictures.setdefault(tuple(size), []).append((height, width))
    for size, shapes in pictures.items():
        preprocessing = Preprocessing(*size, interpolation="mediapipe")
        resize = tf.function(
            lambda x, preprocessing=preprocessing: tf_preprocessing.resize(x, preprocessing),
            autograph=False,
        )
        unknown = resize.get_concrete_function(tf.TensorSpec((None, None, None, 3), tf.uint8))
        for shape in shapes:
            image = tf.constant(noise(*shape)[None])
            expected = recorded.get((*shape, *size), mediapipe.resize(image[0].numpy(), size))
            for resized in (unknown(image), resize(image)):
                np.testing.assert_array_equal(resized[0], expected)


def test_an_image_of_the_right_size_is_unchanged():
    for size in ((32, 32), (384, 224), (1, 1), (49, 600)):
        np.testing.assert_array_equal(mediapipe.resize(noise(*size), size), noise(*size))


def test_a_random_crop_has_the_aliasing_of_the_client():
    stripes = np.zeros((256, 256, 3), np.uint8)
    stripes[:, ::2] = 255
    for name, mixed in (("mediapipe", False), ("bilinear", True)):
        preprocessing = Preprocessing(8, 8, interpolation=name)
        whole = geometry._part_for(
            geometry.of_pixels(tf.constant(stripes)), tf.constant([0, 0, 256, 256]), preprocessing
        )
        levels = np.unique(geometry.resized(whole, preprocessing))
        assert (levels.tolist() == [255]) != mixed


def test_a_shift_of_nothing_keeps_the_corners_of_the_client(monkeypatch):
    for name in ("_ANGLE", "_ZOOM", "_SHIFT"):
        monkeypatch.setattr(geometry, name, 0.0)
    image = np.linspace(0, 255, 8 * 8 * 3).reshape(8, 8, 3).astype(np.uint8)
    preprocessing = Preprocessing(32, 32, interpolation="mediapipe")
    shifted = geometry.shifted(tf.constant(image), preprocessing, tf.constant([1, 2], tf.int64))
    difference = np.abs(
        np.asarray(shifted.image, int) - mediapipe.resize(image, preprocessing.size)
    )
    assert difference.max() <= 1
