"""Preprocessing and augmentation: sizes, ranges, geometry, determinism."""

import json
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import keras_vit
from keras_vit import Preprocessing, UsageError
from keras_vit._keras import keras
from keras_vit.cli._predictions import Predictor, print_predictions
from keras_vit.data import preprocess, preprocess_image
from keras_vit.data.decoding import decode_image
from keras_vit.data.luma_and_crop import shown_size
from keras_vit.data.preprocessing import normalise, resize


def test_each_channel_has_its_mean_and_scale(rng):
    image = rng.integers(0, 256, (5, 7, 3)).astype(np.uint8)
    preprocessing = Preprocessing(5, 7, mean=MEAN, scale=(58.395, 57.12, 57.375))
    expected = (image / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    actual = preprocess(image, preprocessing)[0]
    assert actual.dtype == np.float32
    np.testing.assert_allclose(actual, expected, atol=1e-6)
    # One number is three equal ones.
    three = Preprocessing(5, 7, mean=(127.5,) * 3, scale=127.5)
    np.testing.assert_array_equal(preprocess(image, three), preprocess(image, Preprocessing(5, 7)))


def test_a_model_of_one_channel_gets_the_luma_of_pillow(rng):
    image = rng.integers(0, 256, (40, 30, 3)).astype(np.uint8)
    inputs = preprocess(image, Preprocessing(40, 30, mean=0, scale=1, channels=1))
    assert (inputs.shape, inputs.dtype) == ((1, 40, 30, 1), np.float32)
    np.testing.assert_array_equal(inputs[0, ..., 0], Image.fromarray(image).convert("L"))
    # It is resized in colour before.
    small = resize(Image.fromarray(image), Preprocessing(16, 24)).convert("L")
    inputs = preprocess(image, Preprocessing(16, 24, mean=0, scale=1, channels=1))
    np.testing.assert_array_equal(inputs[0, ..., 0], small)
    # RGB whose channels are equal is that grey, and so are pixels that are grey already.
    greys = np.arange(256, dtype=np.uint8)[:, None, None]
    levels = Preprocessing(256, 1, channels=1)
    expected = (greys - np.float32(127.5)) / np.float32(127.5)
    np.testing.assert_array_equal(preprocess(greys.repeat(3, -1), levels)[0], expected)
    np.testing.assert_array_equal(normalise(greys, levels), expected)


def test_other_objects_than_models_for_pictures_are_refused():
    model = keras_vit.ViT_Pico4(2, in_channels=4)
    with pytest.raises(UsageError, match="1 channel .grey. or 3 .RGB.*ViT-Pico_4 with in_chann"):
        preprocess(np.zeros((4, 4, 3), np.uint8), model)
    with pytest.raises(UsageError, match="expected a keras_vit model.*Received: str"):
        preprocess(np.zeros((4, 4, 3), np.uint8), "ViT-B_16")


def test_channels_survive_json_and_a_saved_model(small_spec, tmp_path):
    preprocessing = Preprocessing(16, 24, mean=[1, 2.5, 3], scale=(4, 5, 6))
    assert (preprocessing.mean, preprocessing.scale) == ((1, 2.5, 3), (4, 5, 6))
    fields = preprocessing.to_dict()
    assert fields == json.loads(json.dumps(fields))
    again = Preprocessing.from_dict(fields)
    assert again == preprocessing
    assert hash(again) == hash(preprocessing)
    keras_vit.ViT(small_spec, 2, (16, 24), preprocessing=preprocessing).save(tmp_path / "m.keras")
    assert keras.models.load_model(tmp_path / "m.keras").preprocessing == preprocessing


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mean": (1, 2)}, r"mean must be a number or three. Received: mean=\(1, 2\)."),
        ({"mean": [1, 2, "3"]}, "mean must be a number. Received: mean='3'."),
        ({"mean": "127.5"}, "mean must be a number. Received: mean='127.5'."),
        ({"mean": (0, 0, float("nan"))}, "mean must be a number. Received: mean=nan."),
        ({"scale": (1, 0, 1)}, r"positive, at least 1e-30. Received: scale=\(1, 0, 1\)."),
        ({"scale": -1.0}, "scale must be positive, at least 1e-30. Received: scale=-1.0."),
    ],
)
def test_invalid_means_and_scales_are_refused(change, message):
    with pytest.raises(UsageError, match=message):
        Preprocessing(5, 7, **change)


def test_accepts_one_image_a_batch_and_a_list_of_sizes(rng, small_spec):
    model = keras_vit.ViT(small_spec, 2, (16, 24))
    image = rng.integers(0, 255, (50, 40, 3)).astype(np.uint8)
    one = preprocess(image, model)
    assert one.shape == (1, 16, 24, 3)
    np.testing.assert_array_equal(preprocess(np.stack([image] * 2), model)[1], one[0])
    assert preprocess([image, image[:20]], model).shape == (2, 16, 24, 3)
    assert preprocess([], model).shape == (0, 16, 24, 3)


MEAN = (123.675, 116.28, 103.53)
PREPROCESSING = Preprocessing(16, 24, crop=0.9, mean=MEAN, scale=(58.4, 57.1, 57.4))


def test_paths_and_pillow_images_are_decoded_as_in_training(image_folder):
    files = sorted(image_folder.rglob("*.*"))
    names, opened, decoded = ([*map(f, files)] for f in (str, Image.open, decode_image))
    expected = np.stack([preprocess_image(pixels, PREPROCESSING) for pixels in decoded])
    mixed = [files[0], names[1], opened[2], *decoded[3:]]
    for images in (files, names, np.array(names), iter(files), opened, decoded, mixed):
        np.testing.assert_array_equal(preprocess(images, PREPROCESSING), expected)
    for one in (files[0], names[0], opened[0]):
        np.testing.assert_array_equal(preprocess(one, PREPROCESSING), expected[:1])


def test_grey_and_transparent_arrays_are_treated_like_files(tmp_path, rng):
    grey = rng.integers(0, 256, (30, 40)).astype(np.uint8)
    clear = rng.integers(0, 256, (30, 40, 4)).astype(np.uint8)
    for pixels, shapes in ((grey, (grey, grey[..., None])), (clear, (clear,))):
        Image.fromarray(pixels).save(tmp_path / "a.png")
        expected = preprocess(tmp_path / "a.png", PREPROCESSING)
        for image in shapes:
            np.testing.assert_array_equal(preprocess(image, PREPROCESSING), expected)
            np.testing.assert_array_equal(preprocess([image], PREPROCESSING), expected)
        np.testing.assert_array_equal(preprocess(shapes[-1][None], PREPROCESSING), expected)


def test_numbers_of_any_type_and_library_are_rounded_levels(rng):
    pixels = rng.integers(0, 256, (2, 20, 30, 3)).astype(np.uint8)
    expected = preprocess(pixels, PREPROCESSING)
    # torch's tensors on a GPU with gradients have no `__array__`.
    of_torch = SimpleNamespace(detach=lambda: SimpleNamespace(cpu=lambda: pixels))
    kinds = (np.int64, np.int32, np.uint16, np.float16, np.float32, np.float64)
    arrays = [pixels.astype(kind) for kind in kinds]
    for batch in (*arrays, tf.constant(pixels), of_torch, keras.ops.array(pixels)):
        actual = preprocess(batch, PREPROCESSING)
        assert isinstance(actual, np.ndarray)
        np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(preprocess([tf.constant(pixels[0])], PREPROCESSING), expected[:1])
    halves = np.full((4, 4, 3), 2.5, np.float32)  # to the even level
    for pixels, level in ((halves, 2), (halves + 1, 4), (0 * halves, 0)):
        expected = preprocess(np.full((4, 4, 3), level, np.uint8), PREPROCESSING)
        np.testing.assert_array_equal(preprocess(pixels, PREPROCESSING), expected)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.full((4, 4, 3), 0.5), "Received: float64 from 0.5 to 0.5; multiply by 255."),
        (np.linspace(0, 1, 96, dtype="f").reshape(2, 4, 4, 3), "multiply by 255"),
        (np.array(b"a.png"), "expected a path, .* Received: bytes"),
        (np.linspace(-1, 1, 48).reshape(4, 4, 3), "Received: float64 from -1 to 1."),
        (np.full((4, 4, 3), np.nan), "Received: float64 from nan to nan"),
        (np.full((4, 4), 60_000, np.uint16), "Received: uint16 from 60000 to 60000"),
        (np.zeros((4, 4, 3), bool), "from 0 to 255. Received: bool"),
        (np.zeros((3, 4, 5), np.uint8), r"Received: uint8 \(3, 4, 5\); channels come last"),
        (np.zeros((60, 28, 28), np.uint8), r"a batch of grey images needs them too"),
        (np.zeros((4, 0, 3), np.uint8), r"expected an image with pixels. .* \(4, 0, 3\)"),
        (np.zeros((1, 1, 4, 4, 3), np.uint8), r"\(1, 1, 4, 4, 3\)"),
        ([np.zeros((1, 4, 4, 3), np.uint8)], r"expected a list of single .* \(1, 4, 4, 3\)"),
        ({"images": 3}, "a list of these. Received: dict"),
        (b"\xff\xd8\xff", "Received: bytes"),
        (7, "Received: int"),
        ([[0, 1], [2, 3]], "Received: a list of list"),
        (keras.Input((4, 4, 3)), "Received: KerasTensor"),
        ("nowhere.jpg", "nowhere.jpg: No such file or directory"),
        (Path(__file__).parent, "expected a picture; keras_vit.data.image_folder reads folders"),
        ([Path(__file__)], "test_preprocessing.py: text."),
        (Image.new("F", (4, 4)), "Pillow's mode F"),
    ],
)
def test_other_objects_than_images_are_refused_in_one_line(images, message):
    with pytest.raises(UsageError, match=message) as raised:
        preprocess(images, Preprocessing(2, 2))
    assert len(str(raised.value).splitlines()) == 1


def test_only_one_picture_of_many_is_in_memory_at_its_own_size(tmp_path):
    pictures = [tmp_path / f"{i}.png" for i in range(12)]
    for picture in pictures:
        Image.new("RGB", (1000, 1000)).save(picture)
    model = SimpleNamespace(preprocessing=PREPROCESSING, labels=("a", "b"))
    predictor = Predictor("", model, lambda inputs: np.zeros((len(inputs), 2), np.float32))
    for read in (
        lambda: preprocess(pictures, PREPROCESSING),
        lambda: print_predictions(predictor, pictures, 1, as_json=False),
    ):
        tracemalloc.start()
        read()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 6 * 1000 * 1000 * 3


def test_a_truncated_file_is_named_also_as_a_pillow_image(tmp_path, rng):
    path = tmp_path / "torn.png"
    Image.fromarray(rng.integers(0, 256, (40, 40, 3)).astype(np.uint8)).save(path)
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(UsageError, match=r"torn.png: (truncated|broken) PNG\.$"):
        preprocess(path, PREPROCESSING)
    with pytest.raises(UsageError, match="expected a complete Pillow image. Received: .*truncated"):
        preprocess(Image.open(path), PREPROCESSING)


def test_without_a_crop_the_whole_image_is_stretched():
    image = np.zeros((10, 40, 3), np.uint8)
    image[:, 20:] = 255
    actual = preprocess(image, Preprocessing(8, 8, interpolation="nearest"))[0, ..., 0]
    np.testing.assert_array_equal(actual, np.repeat([[-1] * 4 + [1] * 4], 8, axis=0))


@pytest.mark.parametrize("size", [(333, 500), (7, 3), (1000, 17)])
def test_a_crop_of_one_stays_inside_the_image(size):
    image = Image.fromarray(np.zeros((*size, 3), np.uint8))
    for side in (48, 224, 225):
        assert resize(image, Preprocessing(side, side, crop=1.0)).size == (side, side)


@pytest.mark.parametrize("edge", [224, 256, 249])
@pytest.mark.parametrize("size", [(384, 511), (500, 333), (375, 375), (97, 1203)])
def test_a_crop_is_that_of_resizing_to_whole_pixels_and_cutting_at_whole_pixels(size, edge, rng):
    # As transformers, torchvision and big_vision do it: the short side to `edge`, then the middle.
    image = Image.fromarray(rng.integers(0, 256, (*size, 3), np.uint8))
    settings = Preprocessing(224, 224, 224 / edge, "bicubic")
    actual = np.asarray(resize(image, settings)).astype(int)
    short = min(size)
    height, width = (edge * side // short for side in size)
    whole = image.resize((width, size[0]), Image.Resampling.BICUBIC)
    whole = whole.resize((width, height), Image.Resampling.BICUBIC)
    left, top = (width - 224) // 2, (height - 224) // 2
    expected = np.asarray(whole.crop((left, top, left + 224, top + 224))).astype(int)
    # The box is in single precision in Pillow, which may turn the rounding of a level.
    assert np.abs(actual - expected).max() <= 1
    assert (actual != expected).mean() < 0.01


def test_crop_keeps_the_aspect_of_a_wide_model():
    image = np.zeros((100, 100, 3), np.uint8)
    image[:25], image[75:] = 255, 255  # outside a central box of 100 x 50
    assert (preprocess(image, Preprocessing(8, 16, crop=1.0, interpolation="nearest")) == -1).all()


# Of transformers 5.24's `get_size_with_aspect_ratio`, whose longer side may lack a pixel.
@pytest.mark.parametrize(
    ("size", "side", "expected"),
    [
        ((500, 333), 640, (640, 426)),
        ((3024, 4032), 640, (480, 640)),
        ((99, 100), 640, (634, 640)),
        ((500, 500), 640, (640, 640)),
        ((2000, 7), 640, (640, 2)),
        ((375, 1242), 640, (193, 640)),
        ((2676, 1562), 224, (223, 131)),
        ((99, 112), 1280, (1131, 1279)),
        ((4000, 1), 96, (96, 1)),
    ],
)
def test_a_padded_image_keeps_its_proportions(size, side, expected):
    settings = Preprocessing(side, side, pad=True)
    assert shown_size(size, settings) == expected
    image = np.full((*size, 3), 200, np.uint8)
    padded = np.asarray(resize(Image.fromarray(image), settings))
    assert padded.shape == (side, side, 3)
    rows, columns = expected
    assert (padded[:rows, :columns] == 200).all()
    assert not padded[rows:].any()
    assert not padded[:, columns:].any()


def test_a_padded_input_need_not_be_a_square():
    assert shown_size((100, 300), Preprocessing(64, 96, pad=True)) == (32, 96)
    assert shown_size((300, 100), Preprocessing(64, 96, pad=True)) == (64, 21)


@pytest.mark.parametrize("other", [{"crop": 1.0}, {"interpolation": "mediapipe"}])
def test_a_padded_image_is_neither_cut_nor_resized_as_by_mediapipe(other):
    with pytest.raises(UsageError, match="pad=True is for the whole image"):
        Preprocessing(8, 8, pad=True, **other)
