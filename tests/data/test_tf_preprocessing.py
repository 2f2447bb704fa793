"""Resizing inside a TensorFlow graph gives exactly the same pixels as Pillow."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from keras_vit import Preprocessing, UsageError, preprocess
from keras_vit.data import preprocessing, tf_preprocessing

SETTINGS = Preprocessing(16, 24)


def mapped(images, settings=SETTINGS):
    """What a data set makes of one element."""
    (actual,) = tf.data.Dataset.from_tensors(images).map(lambda x: preprocess(x, settings))
    return actual


def test_bands_give_the_pixels_of_the_whole_picture(photographs, monkeypatch):
    monkeypatch.setattr(tf_preprocessing, "_BAND", 5_000)
    settings = Preprocessing(64, 48, crop=0.875, interpolation="bicubic")
    expected = np.asarray(preprocessing.resize(Image.fromarray(photographs[0]), settings))
    for count in (1, 2):
        images = tf.constant(np.stack([photographs[0]] * count))
        for actual in tf_preprocessing.resize(images, settings):
            np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_a_picture_that_becomes_much_smaller_is_summed_in_few_steps(
    rng, monkeypatch, interpolation
):
    steps, gather = [], tf.gather
    monkeypatch.setattr(tf, "gather", lambda *given: steps.append(given) or gather(*given))
    wide = rng.integers(0, 256, (64, 20_000, 3), np.uint8)
    settings = Preprocessing(2, 2, interpolation=interpolation)
    resized = tf_preprocessing.resize(tf.constant(wide[None]), settings)
    assert len(steps) < 100  # of 20,000 and more taps, for two bands of rows
    np.testing.assert_array_equal(resized[0], preprocessing.resize(Image.fromarray(wide), settings))


CROPS = [None, 0.875, 1.0, "pad"]
KINDS = [*itertools.product(("nearest", "bilinear", "bicubic"), CROPS), ("mediapipe", None)]


@pytest.mark.parametrize(("interpolation", "crop"), KINDS)
@pytest.mark.parametrize("channels", [3, 1])
def test_a_mapped_data_set_equals_preprocess_exactly(
    photographs, rng, interpolation, crop, channels
):
    scaling = {"mean": (123.675, 116.28, 103.53), "scale": (58.395, 57.12, 57.375)}
    scaling = scaling if channels == 3 else {"mean": 120.0, "scale": 57.0, "channels": 1}
    part = {"pad": True} if crop == "pad" else {"crop": crop}
    settings = Preprocessing(65, 48, interpolation=interpolation, **part, **scaling)
    # Where its height is resized first, as Pillow 13 does, the last has other pixels.
    sides = [*rng.integers(1, 130, (12, 2)), (3, 5), (333, 500), (300, 90)]
    noise = [rng.integers(0, 256, (*size, 3)).astype(np.uint8) for size in sides]
    images = [*photographs, photographs[0][40:, 11:], *noise]
    sizes = tf.TensorSpec((None, None, 3), tf.uint8)
    single = tf.data.Dataset.from_generator(lambda: iter(images), output_signature=sizes)
    single = single.map(lambda x: preprocess(x, settings), num_parallel_calls=4).batch(5)
    assert single.element_spec.shape.as_list() == [None, 65, 48, channels]
    np.testing.assert_array_equal(np.concatenate(list(single)), preprocess(images, settings))
    batch = rng.integers(0, 256, (3, 61, 47, 3)).astype(np.uint8)
    expected = preprocess(batch, settings)
    for shape, kind in (((3, 61, 47, 3), np.int32), ((None, None, None, 3), np.float32)):
        signature = [tf.TensorSpec(shape, kind)]
        run = tf.function(lambda x: preprocess(x, settings), input_signature=signature)
        np.testing.assert_array_equal(run(batch.astype(kind)), expected)


def test_images_of_the_right_size_are_only_scaled(rng):
    images = rng.uniform(0, 255, (4, 16, 24, 3)).astype(np.float32)  # as Keras resizes them
    images[0, 0, 0] = (0.5, 1.5, 254.5)
    actual = mapped(images)
    np.testing.assert_array_equal(actual, preprocess(images, SETTINGS))
    np.testing.assert_array_equal(actual, (np.rint(images) - np.float32(127.5)) / np.float32(127.5))


@pytest.mark.parametrize("shape", [(20, 30), (20, 30, 1), (20, 30, 4), (2, 20, 30, 1)])
def test_grey_and_transparent_tensors_are_treated_like_arrays(rng, shape):
    images = rng.integers(0, 256, shape).astype(np.uint8)
    expected = preprocess(images, SETTINGS)
    np.testing.assert_array_equal(mapped(images), expected if len(shape) == 4 else expected[0])


def test_strings_are_the_contents_of_files(image_folder):
    paths = sorted(map(str, image_folder.rglob("*.*")))
    expected = preprocess(paths, SETTINGS)
    contents = [tf.io.read_file(path) for path in paths]
    for inputs, each in (
        (contents[0], expected[:1]),
        (tf.stack(contents), expected),
        (tf.zeros((0,), tf.string), expected[:0]),
    ):
        actual = preprocess(inputs, SETTINGS)
        assert isinstance(actual, np.ndarray)
        np.testing.assert_array_equal(actual, each)
        symbolic = mapped(inputs)
        assert symbolic.shape == (each.shape if inputs.shape.rank else each.shape[1:])
        np.testing.assert_array_equal(symbolic, each if inputs.shape.rank else each[0])


@pytest.mark.parametrize(
    ("strings", "message"),
    [
        ("a.png", r"begins with b'a\.png'; a path must be a str of Python\.$"),
        ([b"\xff\xd8\xff\xe0 torn"], "expected the contents of a JPEG or PNG file"),
        ([["a.png"]], r"expected strings \(\) or \(n,\)\. Received: string \(1, 1\)"),
    ],
)
def test_eager_strings_other_than_pictures_are_refused(strings, message):
    with pytest.raises(UsageError, match=message):
        preprocess(tf.constant(strings), SETTINGS)


@pytest.mark.parametrize("most", [0, 1])
def test_nearly_black_floats_are_accepted(rng, most):
    pixels = rng.integers(0, most + 1, (1, 9, 11, 3))
    expected = preprocess(pixels.astype(np.uint8), SETTINGS)
    floats = pixels.astype(np.float32)
    np.testing.assert_array_equal(preprocess(floats, SETTINGS), expected)
    np.testing.assert_array_equal(mapped(floats), expected)


@pytest.mark.parametrize(
    ("level", "message"),
    [
        (0.5, "no more than 1; multiply by 255"),
        (-0.5, "pixels from 0 to 255. Received:"),
        (256, "pixels from 0 to 255. Received:"),
        (np.float32("nan"), "pixels from 0 to 255. Received:"),
    ],
)
def test_pixels_of_another_range_stop_the_graph(level, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        mapped(np.full((4, 4, 3), level))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (tf.TensorSpec(None, tf.uint8), "Received: uint8 <unknown>; if dimensions"),
        (tf.TensorSpec((None, None, None), tf.uint8), r"Received: uint8 \(None, None, None\)"),
        (tf.TensorSpec((3, 20, 30), tf.uint8), r"Received: uint8 \(3, 20, 30\)"),
        (tf.TensorSpec((20, 30, 3), tf.bool), "Received: bool"),
    ],
)
def test_tensors_of_unknown_channels_are_refused(spec, message):
    with pytest.raises(UsageError, match=message):
        tf.function(lambda x: preprocess(x, SETTINGS), autograph=False).get_concrete_function(spec)


@pytest.mark.slow
def test_a_saved_pipeline_does_not_need_python(rng, tmp_path):
    images = rng.integers(0, 256, (5, 40, 30, 3)).astype(np.uint8)
    module, signature = tf.Module(), [tf.TensorSpec((None, None, None, 3), tf.uint8)]
    module.run = tf.function(lambda x: preprocess(x, SETTINGS), input_signature=signature)
    tf.saved_model.save(module, str(tmp_path))
    assert b"PyFunc" not in (tmp_path / "saved_model.pb").read_bytes()
    loaded = tf.saved_model.load(str(tmp_path))
    np.testing.assert_array_equal(loaded.run(images), preprocess(images, SETTINGS))


def test_broken_files_of_a_batch_are_marked_and_the_others_read(photographs):
    images = [photographs[0][i:99, : 50 + i] for i in range(3)]
    good = [tf.io.encode_png(image).numpy() for image in images]
    read = tf.function(
        lambda x: tf_preprocessing.read_valid_pictures(x, SETTINGS),
        input_signature=[tf.TensorSpec((None,), tf.string)],
    )
    pixels, valid = read(tf.constant([good[0], b"", good[1], good[2][:-99], b"text", good[2]]))
    assert valid.numpy().tolist() == [True, False, True, False, False, True]
    actual = (pixels.numpy()[valid] - np.float32(127.5)) / np.float32(127.5)
    np.testing.assert_array_equal(actual, preprocess(images, SETTINGS))
    assert not pixels.numpy()[~valid.numpy()].any()
    pixels, valid = read(tf.constant([], tf.string))
    assert (pixels.shape, valid.shape) == ((0, 16, 24, 3), (0,))
    assert not read(tf.constant([b"", b"text"]))[1].numpy().any()
