"""Decoding and resizing inside a TensorFlow graph: Pillow's pixels, to the last digit."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from keras_vit import Preprocessing
from keras_vit.data import preprocessing
from keras_vit.data.decoding import decode_image
from keras_vit.deploy import pictures

pytestmark = pytest.mark.once

BILINEAR = Image.Resampling.BILINEAR


@pytest.fixture(scope="module")
def photographs():
    from sklearn.datasets import load_sample_images

    return load_sample_images().images  # two, 427 x 640


@pytest.fixture(scope="module")
def decode():
    signature = [tf.TensorSpec((), tf.string)]
    return tf.function(pictures.decode, input_signature=signature, autograph=False)


def resizing(how):
    signature = [tf.TensorSpec((None, None, 3), tf.uint8)]
    return tf.function(
        lambda x: pictures.resize(x, how), input_signature=signature, autograph=False
    )


@pytest.mark.parametrize(
    "how",
    [
        Preprocessing(224, 224),
        Preprocessing(224, 224, crop=0.875, interpolation="bicubic"),
        Preprocessing(300, 50, crop=0.9),
        Preprocessing(500, 600, interpolation="bicubic"),
        Preprocessing(224, 224, interpolation="nearest"),
        Preprocessing(35, 77, crop=0.8, interpolation="nearest"),
    ],
    ids=lambda how: f"{how.height}-{how.width}-{how.crop}-{how.interpolation}",
)
def test_pixels_are_pillows_to_the_last_digit(photographs, rng, how):
    resize = resizing(how)
    sizes = [(3, 5), (213, 320), (214, 224), (320, 640), (333, 500)]
    noise = [rng.integers(0, 256, (*size, 3)).astype(np.uint8) for size in sizes]
    for image in [*photographs, photographs[0][40:, 11:], *noise]:
        expected = np.asarray(preprocessing.resize(Image.fromarray(image), how))
        np.testing.assert_array_equal(resize(image), expected)


def test_the_width_is_resized_before_the_height(rng):
    image = rng.integers(0, 256, (300, 90, 3)).astype(np.uint8)  # where Pillow 13 does otherwise
    expected = Image.fromarray(image).resize((64, 300), BILINEAR).resize((64, 48), BILINEAR)
    np.testing.assert_array_equal(resizing(Preprocessing(48, 64))(image), np.asarray(expected))


def transparent(image):
    alpha = np.random.default_rng(0).integers(0, 256, (image.height, image.width))
    return Image.fromarray(np.dstack([image, alpha]).astype(np.uint8))


def deep(image):
    return Image.fromarray(np.asarray(image.convert("L")).astype(np.uint16) * 257 - 100)


# name: the picture that is saved under it, and how.
FILES = {
    "plain.jpg": (lambda x: x, {}),
    "fine.jpg": (lambda x: x, {"quality": 97, "subsampling": 0}),
    "progressive.jpg": (lambda x: x, {"quality": 50, "progressive": True, "subsampling": 1}),
    "grey.jpg": (lambda x: x.convert("L"), {}),
    "print.jpg": (lambda x: x.convert("CMYK"), {}),
    "plain.png": (lambda x: x, {}),
    "colour_key.png": (lambda x: x, {"transparency": (255, 255, 255)}),
    "grey.png": (lambda x: x.convert("L"), {}),
    "16_bits.png": (deep, {}),
    "rgba.png": (transparent, {}),
    "grey_alpha.png": (lambda x: transparent(x).convert("LA"), {}),
    "1_bit.png": (lambda x: x.convert("1"), {}),
    "palette.png": (lambda x: x.quantize(256), {}),
    "palette_alpha.png": (lambda x: x.quantize(256), {"transparency": bytes(range(256))}),
    "palette_of_16.png": (lambda x: x.quantize(16), {}),
    "palette_of_16_alpha.png": (lambda x: x.quantize(16), {"transparency": bytes(range(16))}),
}


@pytest.mark.parametrize("name", FILES)
def test_every_mode_is_decoded_as_in_training(decode, photographs, tmp_path, name):
    convert, options = FILES[name]
    convert(Image.fromarray(photographs[1][:211, :303])).save(tmp_path / name, **options)
    expected = decode_image(tmp_path / name)
    found = decode((tmp_path / name).read_bytes())
    np.testing.assert_array_equal(found, expected)


def test_deep_colours_are_cut_to_8_bits(decode, rng, tmp_path):
    colours = rng.integers(0, 65536, (9, 13, 4)).astype(np.uint16)
    for channels in (3, 4):
        content = tf.io.encode_png(colours[..., :channels]).numpy()
        (tmp_path / "deep.png").write_bytes(content)
        np.testing.assert_array_equal(decode(content), decode_image(tmp_path / "deep.png"))


def exif(orientation, order=">"):
    """An EXIF block of two entries; "<" is little endian."""
    header = (b"MM\0*" if order == ">" else b"II*\0") + struct.pack(f"{order}IH", 8, 2)
    maker = struct.pack(f"{order}HHI", 0x010F, 2, 4) + b"abc\0"
    turned = struct.pack(f"{order}HHIHH", 0x0112, 3, 1, orientation, 0)
    return b"Exif\0\0" + header + maker + turned + bytes(4)


@pytest.mark.parametrize("order", "<>")
def test_a_cameras_rotation_is_applied(decode, photographs, tmp_path, order):
    picture = Image.fromarray(photographs[0][:40, :56])
    for orientation in range(10):
        file = tmp_path / f"{orientation}.jpg"
        # After other segments, one of which looks like it.
        picture.save(
            file, exif=exif(orientation, order), icc_profile=bytes(70_000), comment=exif(3)
        )
        expected = decode_image(file)
        assert (expected.shape == (56, 40, 3)) == (5 <= orientation <= 8)
        np.testing.assert_array_equal(decode(file.read_bytes()), expected)


def test_a_torn_exif_block_is_passed_over(decode, photographs):
    picture, plain = Image.fromarray(photographs[0][:40, :56]), io.BytesIO()
    picture.save(plain, "JPEG")
    expected = decode(plain.getvalue())
    for length in (6, 8, 13, 16, 26):
        torn = io.BytesIO()
        picture.save(torn, "JPEG", exif=exif(6)[:length])
        np.testing.assert_array_equal(decode(torn.getvalue()), expected)


def test_what_is_no_whole_picture_is_an_invalid_argument(decode, photographs):
    contents = [b"", b"GIF89a and so on", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n" + bytes(40)]
    for kind in ("JPEG", "PNG", "BMP", "GIF"):
        file = io.BytesIO()
        Image.fromarray(photographs[0][:99, :99]).save(file, kind)
        whole = kind in ("BMP", "GIF")  # other formats are refused as they are in training
        contents.append(file.getvalue() if whole else file.getvalue()[:-2000])
    for content in contents:
        with pytest.raises(tf.errors.InvalidArgumentError):
            decode(content)


def test_a_batch_holds_pictures_of_any_size(photographs, tmp_path):
    how = Preprocessing(32, 48, crop=0.875)
    contents, expected = [], []
    for name, size in (("a.jpg", (640, 427)), ("b.png", (7, 5)), ("c.jpg", (48, 32))):
        Image.fromarray(photographs[0]).resize(size).save(tmp_path / name)
        contents.append((tmp_path / name).read_bytes())
        picture = Image.fromarray(decode_image(tmp_path / name))
        expected.append(np.asarray(preprocessing.resize(picture, how)))
    read = tf.function(
        lambda x: pictures.read_pictures(x, how),
        input_signature=[tf.TensorSpec((None,), tf.string)],
    )
    np.testing.assert_array_equal(read(tf.constant(contents)), expected)
    assert read(tf.constant([], tf.string)).shape == (0, 32, 48, 3)
