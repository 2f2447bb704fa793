"""The pipeline: its order depends only on the seed and the step."""

import dataclasses
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from keras_vit import Preprocessing, UsageError
from keras_vit.data import InMemory, Source, digits, geometry, load, open_source, preprocessing
from keras_vit.data.pipeline import evaluation_batches, training_batches

PREPROCESSING = Preprocessing(4, 4, mean=0.0, scale=1.0)
TURNED = Image.Exif()
TURNED[0x0112] = 6


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


@pytest.fixture
def mixed(tmp_path, rng):
    """JPEG and PNG files of all kinds, among them some that only Pillow decodes."""
    colours = np.asarray(Image.effect_noise((90, 70), 60).resize((190, 170)).convert("RGB"))
    image = Image.fromarray((colours + rng.integers(0, 60, 3)).clip(0, 255).astype(np.uint8))
    deep = Image.fromarray(rng.integers(0, 2**16, (40, 50)).astype(np.uint16))
    files = {
        "0.jpg": (image, {"quality": 90}),
        "1.jpg": (image.convert("L"), {"progressive": True}),
        "2.jpg": (image.resize((600, 501)), {}),
        "3.jpg": (image, {"exif": TURNED}),
        "4.jpg": (image.convert("CMYK"), {}),
        "5.png": (image, {}),
        **{f"{i}.png": (image.convert(mode), {}) for i, mode in ((6, "P"), (7, "1"), (8, "LA"))},
        "9.png": (deep, {}),
        "9.webp": (image, {}),
    }
    return saved(tmp_path, files)


def saved(folder, files):
    """Opens a folder of two classes that have the same files: pictures, and options of `save`."""
    for label in ("a", "b"):
        (folder / label).mkdir()
        for name, (image, options) in files.items():
            image.save(folder / label / name, **options)
    return open_source(folder)


def order(batches):
    return np.concatenate([np.asarray(images)[:, 0, 0, 0] for images, _ in batches]).astype(int)


def test_every_epoch_is_a_fresh_permutation(numbered):
    chosen = [0, 1, 2, 4, 5, 7, 8]
    batches = training_batches(numbered, np.array(chosen), PREPROCESSING, 4, steps=7)
    assert len(batches) == 7
    assert batches.element_spec[0].shape.as_list() == [4, 4, 4, 3]
    seen, targets = order(batches), np.concatenate([targets for _, targets in batches])
    np.testing.assert_array_equal(seen % 2, targets)
    epochs = seen.reshape(4, 7).tolist()  # batches run across their border
    assert [sorted(epoch) for epoch in epochs] == [chosen] * 4
    assert len({*map(tuple, epochs)}) == 4
    other = training_batches(numbered, np.array(chosen), PREPROCESSING, 4, steps=7, seed=1)
    assert order(other).tolist() != seen.tolist()


def test_evaluation_runs_once_in_order_with_a_smaller_last_batch(numbered):
    chosen = np.array([3, 1, 2, 9, 5])
    batches = evaluation_batches(numbered, chosen, PREPROCESSING, 2)
    assert len(batches) == 3
    assert [len(images) for images, _ in batches] == [2, 2, 1]
    assert order(batches).tolist() == [3, 1, 2, 9, 5]
    inputs, targets = load(numbered, chosen[1:3], PREPROCESSING)
    assert inputs[:, 0, 0, 0].tolist() == [1, 2]
    assert targets.tolist() == [1, 0]


def test_no_thread_of_tf_data_can_delay_the_end_of_an_iteration(numbered):
    """The thread of its autotuning sleeps for up to a minute: Ctrl-C was seen to take 43 s."""
    training = training_batches(numbered, np.arange(10), PREPROCESSING, 4, steps=5)
    evaluation = evaluation_batches(numbered, np.arange(10), PREPROCESSING, 4)
    for batches in (training, evaluation, evaluation.map(lambda images, targets: images)):
        assert batches.options().autotune.enabled is False


def test_evaluation_has_the_bits_of_the_models_own_preprocessing(mixed):
    assert np.bincount(mixed.image.formats).tolist() == [10, 6, 6]
    decode = mock.Mock(wraps=mixed.image.decode)
    source = dataclasses.replace(mixed, image=dataclasses.replace(mixed.image, decode=decode))
    for crop, interpolation in ((None, "bilinear"), (0.875, "bicubic"), (None, "nearest")):
        settings = Preprocessing(32, 24, crop=crop, interpolation=interpolation)
        batches = evaluation_batches(source, np.arange(22), settings, 8)
        for again in (False, True):  # the second time from memory
            images = np.concatenate([images for images, _ in batches])
            for i, image in enumerate(images):
                expected = preprocessing.resize(Image.fromarray(mixed.image(i)), settings)
                np.testing.assert_array_equal(image, expected, f"{mixed.ids[i]} {again}")
    by_python = {mixed.ids[i][2:] for ((i,), _) in decode.call_args_list}
    assert by_python == {"3.jpg", "4.jpg", "8.png", "9.png", "9.webp"}


@pytest.mark.parametrize(
    "augment",
    [
        "randaugment_2_10",
        *(
            pytest.param(augment, marks=pytest.mark.slow)
            for augment in ("none", "shift", "crop_flip", "three_augment")
        ),
    ],
)
def test_every_augmentation_is_repeatable_and_can_begin_at_any_step(mixed, augment):
    def batches(steps, first):
        settings = {"augment": augment, "seed": 2, "first_step": first}
        size = Preprocessing(24, 32)
        found = training_batches(mixed, np.arange(22), size, 6, steps, **settings)
        return map(np.stack, zip(*found, strict=True))

    images, targets = batches(5, 0)
    assert images.shape == (5, 6, 24, 32, 3)
    assert images.dtype == np.uint8
    assert images[0].std() > 10
    again, same = batches(2, 3)
    np.testing.assert_array_equal(images[3:], again)
    np.testing.assert_array_equal(targets[3:], same)


@pytest.mark.parametrize("augment", ["mild_crop_flip", "resize_crop_flip", "shift"])
@pytest.mark.parametrize("size", [pytest.param(16, marks=pytest.mark.slow), 100])
def test_training_has_the_same_pixels_whatever_the_format_of_a_picture(
    tmp_path, rng, augment, size
):
    """Noise shows any difference in filters; a model could learn classes from them."""
    pixels = np.repeat(rng.integers(0, 256, (600, 640, 1)), 3, -1).astype(np.uint8)
    image = Image.fromarray(pixels)
    rotated = image.transpose(Image.Transpose.ROTATE_90)
    pictures = {
        "0.jpg": (image, {"quality": 98}),
        "1.png": (image, {}),
        "2.webp": (image, {"lossless": True}),
        "3.jpg": (rotated, {"exif": TURNED, "quality": 98}),
    }
    files, settings = saved(tmp_path, pictures), Preprocessing(size, size)
    array = dataclasses.replace(files, image=InMemory(pixels[None].repeat(8, 0)))

    def batch(source, index):
        batches = training_batches(source, np.array([index]), settings, 8, 1, augment, seed=4)
        return np.asarray(next(iter(batches))[0], int)

    jpeg, *others = (batch(files, i) for i in range(4))
    for other in (*others, batch(array, 1)):
        assert np.abs(other - jpeg).mean() < 1
    if augment != "shift":  # its black border varies more than the noise
        held_out = np.asarray(next(iter(evaluation_batches(files, [0], settings, 1)))[0])
        assert jpeg.std() < 2.5 * held_out.std()


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("kind", ["file", "array"])
def test_pictures_below_twice_the_size_are_only_resized(rng, interpolation, kind):
    settings = Preprocessing(24, 32, interpolation=interpolation)
    pixels = tf.constant(rng.integers(0, 256, (47, 64, 3)), tf.uint8)
    png = kind == "file"
    picture = geometry.of_png(tf.io.encode_png(pixels)) if png else geometry.of_pixels(pixels)
    for top, left, height, width in ((0, 0, 47, 64), (3, 5, 44, 59), (7, 1, 20, 30)):
        box = pixels[top : top + height, left : left + width]
        part = picture.part(tf.constant((top, left, height, width)), settings.size)
        np.testing.assert_array_equal(part, box)
        values = tf.image.resize(box, settings.size, interpolation)
        expected = np.floor(np.clip(values, 0, 255) + 0.5)
        np.testing.assert_array_equal(geometry.resized(part, settings), expected)


def test_a_picture_of_exactly_twice_the_size_keeps_the_bits_of_a_bilinear_resize(rng):
    pixels, size = tf.constant(rng.integers(0, 256, (48, 64, 3)), tf.uint8), (24, 32)
    part = geometry.of_pixels(pixels).part(tf.constant((0, 0, 48, 64)), size)
    assert part.shape[:2] == size
    expected = np.floor(tf.image.resize(pixels, size) + 0.5)
    np.testing.assert_array_equal(geometry.resized(part, Preprocessing(*size)), expected)


def one_hot(images, classes):
    return tf.one_hot(classes, 2)


@pytest.mark.parametrize(
    "more",
    [
        {"sampling": "all"},
        {"sampling": "balanced"},
        {"targets": one_hot, "mixup": 0.8, "cutmix": 1.0, "erase": 0.5},
    ],
)
def test_the_shards_together_are_the_whole_batch(numbered, more):
    def batches(shard):
        settings = {"augment": "crop_flip", "first_step": 2, "shard": shard, **more}
        return list(training_batches(numbered, np.arange(10), PREPROCESSING, 6, 3, **settings))

    shards = [batches((i, 3)) for i in range(3)]
    assert shards[0][0][0].shape == (2, 4, 4, 3)
    for step, (images, classes) in enumerate(batches((0, 1))):
        for whole, part in ((images, 0), (classes, 1)):
            joined = np.concatenate([np.asarray(shard[step][part]) for shard in shards])
            np.testing.assert_array_equal(whole, joined)
    with pytest.raises(UsageError, match="batch_size must be a multiple of the 4 shards.*6"):
        batches((0, 4))


def test_balanced_sampling_draws_every_class_equally_often(numbered):
    source = dataclasses.replace(numbered, targets=np.array([0] * 9 + [1]))
    settings = {"batch_size": 50, "steps": 20, "sampling": "balanced"}
    seen = order(training_batches(source, np.arange(10), PREPROCESSING, **settings))
    assert 450 < (seen == 9).sum() < 550
    counts = np.bincount(seen, minlength=10)[:9]
    assert counts.min() > 30  # of 56 expected


def test_the_order_is_a_random_permutation():
    source = digits()
    indices = np.arange(len(source))
    numbered = dataclasses.replace(source, targets=indices, labels=tuple(map(str, indices)))
    batches = training_batches(numbered, indices, Preprocessing(8, 8), 1797, steps=3)
    epochs = [np.asarray(places) for _, places in batches]
    for places in epochs:
        assert sorted(places) == indices.tolist()
        # Neither a rotation nor a few blocks: neighbours are far apart.
        assert np.median(np.abs(np.diff(places))) > 400
        assert abs(np.corrcoef(places, indices)[0, 1]) < 0.1
    assert abs(np.corrcoef(epochs[0], epochs[1])[0, 1]) < 0.1


def test_a_small_box_of_a_large_jpeg_is_the_right_part(tmp_path):
    """The decoder gives a smaller picture where the box is much larger than the input."""
    rows, columns = np.mgrid[:960, :1280]
    pixels = np.stack([rows // 4, columns // 6, (rows + columns) // 10], -1).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.jpg", quality=98)
    content = tf.io.read_file(str(tmp_path / "a.jpg"))
    for box, shape in (
        ((0, 0, 960, 1280), (60, 80)),
        ((0, 0, 760, 1020), (95, 127)),
        ((200, 160, 400, 300), (100, 75)),
        ((500, 600, 100, 130), (50, 65)),
        ((900, 1200, 60, 80), (60, 80)),
    ):
        part = geometry.of_jpeg(content).part(tf.constant(box), (48, 64))
        assert part.shape[:2] == shape
        actual = np.asarray(geometry.resized(part, Preprocessing(48, 64)), int)
        top, left, height, width = box
        edges = (left, top, left + width, top + height)
        expected = Image.fromarray(pixels).resize((64, 48), Image.Resampling.BILINEAR, edges)
        assert np.abs(actual - np.asarray(expected, int)).max() <= 4
