"""The pipeline: its order depends only on the seed and the step."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from PIL import Image

from keras_vit import Preprocessing, UsageError
from keras_vit.data import (
    InMemory,
    Source,
    digits,
    evaluation_batches,
    load,
    open_source,
    training_batches,
)
from keras_vit.data import preprocessing as preprocessing_module

PREPROCESSING = Preprocessing(4, 4, mean=0.0, scale=1.0)


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
def photographs(tmp_path, rng):
    """JPEG and PNG files of all kinds, among them some that only Pillow decodes."""
    colours = np.asarray(Image.effect_noise((90, 70), 60).resize((190, 170)).convert("RGB"))
    colours = (colours + rng.integers(0, 60, 3)).clip(0, 255).astype(np.uint8)
    image = Image.fromarray(colours)
    turned = Image.Exif()
    turned[0x0112] = 6
    for label in ("a", "b"):
        (tmp_path / label).mkdir()
        image.save(tmp_path / label / "0.jpg", quality=90)
        image.convert("L").save(tmp_path / label / "1.jpg", progressive=True)
        image.resize((600, 501)).save(tmp_path / label / "2.jpg")
        image.save(tmp_path / label / "3.jpg", exif=turned)
        image.convert("CMYK").save(tmp_path / label / "4.jpg")
        image.save(tmp_path / label / "5.png")
        image.convert("P").save(tmp_path / label / "6.png")
        image.convert("1").save(tmp_path / label / "7.png")
        image.convert("LA").save(tmp_path / label / "8.png")
        Image.fromarray(rng.integers(0, 2**16, (40, 50)).astype(np.uint16)).save(
            tmp_path / label / "9.png"
        )
        image.save(tmp_path / label / "9.webp")
    return open_source(tmp_path)


def order(batches):
    return np.concatenate([np.asarray(images)[:, 0, 0, 0] for images, _ in batches]).astype(int)


def test_every_epoch_is_a_fresh_permutation(numbered):
    seen = order(training_batches(numbered, np.arange(10), PREPROCESSING, 4, steps=5))
    assert len(seen) == 20  # batches run across the border of epochs
    assert sorted(seen[:10]) == sorted(seen[10:]) == list(range(10))
    assert seen[:10].tolist() != seen[10:].tolist()


@pytest.mark.slow
def test_the_seed_decides_the_order(numbered):
    first, again, other = (
        order(
            training_batches(numbered, np.arange(10), PREPROCESSING, 4, steps=5, seed=seed)
        ).tolist()
        for seed in (1, 1, 2)
    )
    assert first == again != other


def test_training_can_begin_at_any_step(image_folder):
    source = open_source(image_folder)
    preprocessing = Preprocessing(16, 16)
    settings = {"batch_size": 5, "augment": "crop_flip", "seed": 3}
    whole = list(training_batches(source, np.arange(12), preprocessing, steps=7, **settings))
    rest = list(
        training_batches(source, np.arange(12), preprocessing, steps=3, first_step=4, **settings)
    )
    for (images, targets), (again, same) in zip(whole[4:], rest, strict=True):
        np.testing.assert_array_equal(images, again)
        np.testing.assert_array_equal(targets, same)


def test_only_the_chosen_indices_come_with_their_targets(numbered):
    for images, targets in training_batches(
        numbered, np.array([1, 4, 7]), PREPROCESSING, 6, steps=2
    ):
        values = np.asarray(images)[:, 0, 0, 0]
        assert set(values) == {1, 4, 7}
        np.testing.assert_array_equal(values % 2, targets)


def test_evaluation_runs_once_in_order_with_a_smaller_last_batch(numbered):
    batches = list(evaluation_batches(numbered, np.array([3, 1, 2, 9, 5]), PREPROCESSING, 2))
    assert [len(images) for images, _ in batches] == [2, 2, 1]
    assert order(batches).tolist() == [3, 1, 2, 9, 5]


def test_length_and_shapes_are_known(numbered):
    batches = training_batches(numbered, np.arange(10), PREPROCESSING, 4, steps=5)
    assert len(batches) == 5
    assert batches.element_spec[0].shape.as_list() == [4, 4, 4, 3]
    assert len(evaluation_batches(numbered, np.arange(10), PREPROCESSING, 4)) == 3


def test_no_thread_of_tf_data_can_delay_the_end_of_an_iteration(numbered):
    """The thread of its autotuning sleeps for up to a minute: Ctrl-C was seen to take 43 s."""
    training = training_batches(numbered, np.arange(10), PREPROCESSING, 4, steps=5)
    evaluation = evaluation_batches(numbered, np.arange(10), PREPROCESSING, 4)
    for batches in (training, evaluation, evaluation.map(lambda images, targets: images)):
        assert batches.options().autotune.enabled is False


def test_load_is_evaluation_in_memory(numbered):
    inputs, targets = load(numbered, np.array([2, 7]), PREPROCESSING)
    assert inputs[:, 0, 0, 0].tolist() == [2, 7]
    assert targets.tolist() == [0, 1]


def test_evaluation_has_the_bits_of_the_models_own_preprocessing(photographs):
    assert np.bincount(photographs.image.formats).tolist() == [10, 6, 6]
    for crop, interpolation in ((None, "bilinear"), (0.875, "bicubic"), (None, "nearest")):
        preprocessing = Preprocessing(32, 24, crop=crop, interpolation=interpolation)
        batches = evaluation_batches(photographs, np.arange(22), preprocessing, 8)
        for again in (False, True):  # the second time from memory
            images = np.concatenate([np.asarray(images) for images, _ in batches])
            for i, image in enumerate(images):
                expected = preprocessing_module.resize(
                    Image.fromarray(photographs.image(i)), preprocessing
                )
                np.testing.assert_array_equal(image, expected, f"{photographs.ids[i]} {again}")


@pytest.mark.slow
def test_only_pictures_that_need_it_are_read_by_python(photographs):
    def refuse(index):
        raise AssertionError(photographs.ids[index])

    reader = dataclasses.replace(photographs.image, decode=refuse)
    source = dataclasses.replace(photographs, image=reader)
    plain = np.flatnonzero(reader.formats)
    for augment in ("none", "crop_flip"):
        list(training_batches(source, plain, Preprocessing(16, 16), 4, 3, augment))
    others = np.flatnonzero(reader.formats == 0)
    with pytest.raises(Exception, match=r"AssertionError: \w/(3.jpg|4.jpg|8.png|9.png|9.webp)"):
        list(training_batches(source, others, Preprocessing(16, 16), 4, 1))


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
def test_every_augmentation_is_repeatable_and_can_begin_at_any_step(photographs, augment):
    def batches(steps, first):
        settings = {"augment": augment, "seed": 2, "first_step": first}
        found = training_batches(
            photographs, np.arange(22), Preprocessing(24, 32), 6, steps, **settings
        )
        return [np.asarray(images) for images, _ in found]

    whole = batches(5, 0)
    assert whole[0].shape == (6, 24, 32, 3)
    assert whole[0].dtype == np.uint8
    np.testing.assert_array_equal(whole[3:], batches(2, 3))
    assert whole[0].std() > 10


@pytest.mark.parametrize("augment", ["mild_crop_flip", "resize_crop_flip", "shift"])
@pytest.mark.parametrize("size", [pytest.param(16, marks=pytest.mark.slow), 100])
def test_training_has_the_same_pixels_whatever_the_format_of_a_picture(
    tmp_path, rng, augment, size
):
    """Noise shows any difference in filters; a model could learn classes from them."""
    pixels = np.repeat(rng.integers(0, 256, (600, 640, 1)), 3, -1).astype(np.uint8)
    image, turned = Image.fromarray(pixels), Image.Exif()
    turned[0x0112] = 6
    for label in ("a", "b"):
        (tmp_path / label).mkdir()
        image.save(tmp_path / label / "0.jpg", quality=98)
        image.save(tmp_path / label / "1.png")
        image.save(tmp_path / label / "2.webp", lossless=True)
        rotated = image.transpose(Image.Transpose.ROTATE_90)
        rotated.save(tmp_path / label / "3.jpg", exif=turned, quality=98)
    files, preprocessing = open_source(tmp_path), Preprocessing(size, size)
    array = dataclasses.replace(files, image=InMemory(pixels[None].repeat(8, 0)))

    def batch(source, index):
        (images,) = (
            np.asarray(images, int)
            for images, _ in training_batches(
                source, np.array([index]), preprocessing, 8, 1, augment, seed=4
            )
        )
        return images

    jpeg, *others = (batch(files, i) for i in range(4))
    for other in (*others, batch(array, 1)):
        assert np.abs(other - jpeg).mean() < 1
    if augment != "shift":  # its black border varies more than the noise
        held_out = np.asarray(next(iter(evaluation_batches(files, [0], preprocessing, 1)))[0])
        assert jpeg.std() < 2.5 * held_out.std()


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("kind", ["file", "array"])
def test_pictures_below_twice_the_size_are_only_resized(rng, interpolation, kind):
    tf = pytest.importorskip("tensorflow", reason="TensorFlow reads the images")
    from keras_vit.data import geometry

    preprocessing = Preprocessing(24, 32, interpolation=interpolation)
    pixels = tf.constant(rng.integers(0, 256, (47, 64, 3)), tf.uint8)
    png = kind == "file"
    picture = geometry.of_png(tf.io.encode_png(pixels)) if png else geometry.of_pixels(pixels)
    for top, left, height, width in ((0, 0, 47, 64), (3, 5, 44, 59), (7, 1, 20, 30)):
        box = pixels[top : top + height, left : left + width]
        part = picture.part(tf.constant((top, left, height, width)), preprocessing.size)
        np.testing.assert_array_equal(part, box)
        values = tf.image.resize(box, preprocessing.size, interpolation)
        expected = np.floor(np.clip(values, 0, 255) + 0.5)
        np.testing.assert_array_equal(geometry.resized(part, preprocessing), expected)


def test_a_picture_of_exactly_twice_the_size_keeps_the_bits_of_a_bilinear_resize(rng):
    tf = pytest.importorskip("tensorflow", reason="TensorFlow reads the images")
    from keras_vit.data import geometry

    pixels, size = tf.constant(rng.integers(0, 256, (48, 64, 3)), tf.uint8), (24, 32)
    part = geometry.of_pixels(pixels).part(tf.constant((0, 0, 48, 64)), size)
    assert part.shape[:2] == size
    np.testing.assert_array_equal(
        geometry.resized(part, Preprocessing(*size)),
        np.floor(tf.image.resize(pixels, size) + 0.5),
    )


def one_hot(images, classes):
    import tensorflow as tf

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
    targets = np.array([0] * 9 + [1])
    source = dataclasses.replace(numbered, targets=targets)
    batches = training_batches(
        source, np.arange(10), PREPROCESSING, 50, steps=20, sampling="balanced"
    )
    seen = order(batches)
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
    tf = pytest.importorskip("tensorflow", reason="TensorFlow reads the images")
    from keras_vit.data import geometry

    rows, columns = np.mgrid[:960, :1280]
    pixels = np.stack([rows // 4, columns // 6, (rows + columns) // 10], -1).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.jpg", quality=98)
    content = tf.io.read_file(str(tmp_path / "a.jpg"))
    preprocessing = Preprocessing(48, 64)
    for box, shape in (
        ((0, 0, 960, 1280), (60, 80)),
        ((0, 0, 760, 1020), (95, 127)),
        ((200, 160, 400, 300), (100, 75)),
        ((500, 600, 100, 130), (50, 65)),
        ((900, 1200, 60, 80), (60, 80)),
    ):
        part = geometry.of_jpeg(content).part(tf.constant(box), preprocessing.size)
        assert part.shape[:2] == shape
        actual = np.asarray(geometry.resized(part, preprocessing), int)
        expected = Image.fromarray(pixels).resize(
            (64, 48), Image.Resampling.BILINEAR,
            box=(box[1], box[0], box[1] + box[3], box[0] + box[2]),
        )  # fmt: skip
        assert np.abs(actual - np.asarray(expected, int)).max() <= 4
