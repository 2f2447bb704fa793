"""Decoding and resizing inside a TensorFlow graph gives exactly the same pixels as Pillow."""

from __future__ import annotations

import dataclasses
import io
import struct
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from keras_vit import Preprocessing, UsageError, preprocess
from keras_vit.data import preprocessing, tf_preprocessing
from keras_vit.data.decoding import decode_image

BILINEAR = Image.Resampling.BILINEAR


@pytest.fixture(scope="module")
def photographs():
    from sklearn.datasets import load_sample_images

    return load_sample_images().images  # two, 427 x 640


@pytest.fixture(scope="module")
def decode():
    signature = [tf.TensorSpec((), tf.string)]
    return tf.function(tf_preprocessing.decode, input_signature=signature, autograph=False)


def resizing(settings):
    signature = [tf.TensorSpec((None, None, 3), tf.uint8)]
    return tf.function(
        lambda x: tf_preprocessing.resize(x[None], settings)[0],
        input_signature=signature,
        autograph=False,
    )


@pytest.mark.parametrize(
    "settings",
    [
        Preprocessing(224, 224),
        Preprocessing(224, 224, crop=0.875, interpolation="bicubic"),
        Preprocessing(300, 50, crop=0.9),
        Preprocessing(500, 600, interpolation="bicubic"),
        Preprocessing(224, 224, interpolation="nearest"),
        Preprocessing(35, 77, crop=0.8, interpolation="nearest"),
    ],
    ids=lambda settings: (
        f"{settings.height}-{settings.width}-{settings.crop}-{settings.interpolation}"
    ),
)
def test_pixels_equal_those_of_pillow_exactly(photographs, rng, settings):
    resize = resizing(settings)
    sizes = [(3, 5), (213, 320), (214, 224), (320, 640), (333, 500)]
    noise = [rng.integers(0, 256, (*size, 3)).astype(np.uint8) for size in sizes]
    for image in [*photographs, photographs[0][40:, 11:], *noise]:
        expected = np.asarray(preprocessing.resize(Image.fromarray(image), settings))
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


# File name: the picture that is saved there, and the options of `save`.
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
    actual = decode((tmp_path / name).read_bytes())
    np.testing.assert_array_equal(actual, expected)


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
        # After other segments, one of which looks like EXIF.
        picture.save(
            file, exif=exif(orientation, order), icc_profile=bytes(70_000), comment=exif(3)
        )
        expected = decode_image(file)
        assert (expected.shape == (56, 40, 3)) == (5 <= orientation <= 8)
        np.testing.assert_array_equal(decode(file.read_bytes()), expected)


def test_a_truncated_exif_block_is_ignored(decode, photographs):
    picture, plain = Image.fromarray(photographs[0][:40, :56]), io.BytesIO()
    picture.save(plain, "JPEG")
    expected = decode(plain.getvalue())
    for length in (6, 8, 13, 16, 26):
        torn = io.BytesIO()
        picture.save(torn, "JPEG", exif=exif(6)[:length])
        np.testing.assert_array_equal(decode(torn.getvalue()), expected)


def test_an_incomplete_picture_is_an_invalid_argument(decode, photographs):
    contents = [b"", b"GIF89a and so on", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n" + bytes(40)]
    for kind in ("JPEG", "PNG", "BMP", "GIF"):
        file = io.BytesIO()
        Image.fromarray(photographs[0][:99, :99]).save(file, kind)
        whole = kind in ("BMP", "GIF")  # other formats are refused as they are in training
        contents.append(file.getvalue() if whole else file.getvalue()[:-2000])
    for content in contents:
        with pytest.raises(tf.errors.InvalidArgumentError):
            decode(content)


def jpeg_of(size, **options):
    file = io.BytesIO()
    Image.new("L", size).save(file, "JPEG", **options)
    return file.getvalue()


def png_of(size, **options):
    file = io.BytesIO()
    Image.new("1", size).save(file, "PNG", **options)
    return file.getvalue()


@pytest.mark.parametrize("segment", [b"\xff", b"\xff\xfe\0\2"], ids=["fill bytes", "comments"])
def test_the_search_for_the_rotation_ends_whatever_the_segments(decode, segment):
    content = jpeg_of((40, 30))

    def padded(times):
        return decode(content[:2] + segment * times + content[2:])

    np.testing.assert_array_equal(padded(900), decode(content))
    with pytest.raises(tf.errors.InvalidArgumentError, match="at most 1,024 segments"):
        padded(20_000)


@pytest.mark.parametrize(
    "content",
    [png_of((11_000, 11_000)), png_of((1, 70_000)), jpeg_of((65_000, 2)).replace(
        struct.pack(">HH", 2, 65_000), struct.pack(">HH", 65_000, 65_000)
    )],
    ids=["png", "thin", "jpeg"],
)  # fmt: skip
def test_pixels_are_counted_before_decoding(decode, content):
    assert len(content) < 20_000
    expected = "expected a picture of at most 110,000,000 pixels and 65,535 a side. Received"
    with pytest.raises(tf.errors.InvalidArgumentError, match=expected):
        decode(content)
    with pytest.raises(UsageError, match="at most 110,000,000 pixels"):
        preprocess(tf.constant(content), Preprocessing(32, 32))


def test_a_jpeg_of_few_bytes_cannot_ask_for_many_passes_over_its_pixels(decode):
    content = jpeg_of((2000, 2000), progressive=True)
    assert decode(content).shape == (2000, 2000, 3)
    scan = b"\xff\xda\0\x08\x01\x01\0\x01\x3f\0"
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected fewer scans"):
        decode(content[:-2] + scan * 1000 + content[-2:])


def test_a_png_of_many_compressed_texts_is_refused(decode):
    texts = PngInfo()
    for i in range(17):
        texts.add_text(f"text {i}", "a" * 1000, zip=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="at most 16 compressed texts"):
        decode(png_of((9, 9), pnginfo=texts))


def test_bands_give_the_pixels_of_the_whole_picture(photographs, tmp_path, monkeypatch):
    monkeypatch.setattr(tf_preprocessing, "_BAND", 5_000)
    settings = Preprocessing(64, 48, crop=0.875, interpolation="bicubic")
    transparent(Image.fromarray(photographs[0])).save(tmp_path / "a.png")
    image = decode_image(tmp_path / "a.png")
    content = (tmp_path / "a.png").read_bytes()
    np.testing.assert_array_equal(tf_preprocessing.decode(tf.constant(content)), image)
    expected = np.asarray(preprocessing.resize(Image.fromarray(image), settings))
    for images in (image[None], np.stack([image, image])):
        for actual in tf_preprocessing.resize(tf.constant(images), settings):
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


@pytest.mark.soak(of="fuzz")
@pytest.mark.parametrize("number", [1, 3])
def test_reading_needs_the_memory_that_is_stated(tmp_path, number):
    Image.new("RGBA", (8000, 8000), (1, 2, 3, 4)).save(tmp_path / "a.png", compress_level=1)
    code = (
        "import resource, sys; import tensorflow as tf; from keras_vit import Preprocessing\n"
        "from keras_vit.data.tf_preprocessing import read_valid_pictures\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024\n"
        "read = tf.function(lambda x: read_valid_pictures(x, Preprocessing(32, 32)))\n"
        "content = open(sys.argv[1], 'rb').read(); read(tf.constant([b'']))\n"
        "before = peak(); _, valid = read(tf.constant([content] * int(sys.argv[2])))\n"
        "assert valid.numpy().all(); print(peak() - before)"
    )
    command = [sys.executable, "-c", code, tmp_path / "a.png", str(number)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert int(done.stdout) < 12 * 8000 * 8000


@pytest.mark.slow
def test_a_batch_may_contain_pictures_of_any_size(photographs, tmp_path):
    settings = Preprocessing(32, 48, crop=0.875)
    contents, expected = [], []
    for name, size in (("a.jpg", (640, 427)), ("b.png", (7, 5)), ("c.jpg", (48, 32))):
        Image.fromarray(photographs[0]).resize(size).save(tmp_path / name)
        contents.append((tmp_path / name).read_bytes())
        picture = Image.fromarray(decode_image(tmp_path / name))
        expected.append(np.asarray(preprocessing.resize(picture, settings)))
    read = tf.function(
        lambda x: tf_preprocessing.read_pictures(x, settings),
        input_signature=[tf.TensorSpec((None,), tf.string)],
    )
    np.testing.assert_array_equal(read(tf.constant(contents)), expected)
    assert read(tf.constant([], tf.string)).shape == (0, 32, 48, 3)


CROPS = {"nearest": (None, 0.875, 1.0), "mediapipe": (None,)}
CROPS["bilinear"] = CROPS["bicubic"] = CROPS["nearest"]
ALL_SETTINGS = {
    f"{interpolation}-{crop}": Preprocessing(
        33, 48, crop, interpolation, mean=(123.675, 116.28, 103.53), scale=(58.395, 57.12, 57.375)
    )
    for interpolation, crops in CROPS.items()
    for crop in crops
}


@pytest.mark.parametrize("settings", ALL_SETTINGS.values(), ids=ALL_SETTINGS)
def test_a_mapped_data_set_equals_preprocess_exactly(rng, settings):
    images = [
        rng.integers(0, 256, (*rng.integers(1, 130, 2), 3)).astype(np.uint8) for _ in range(12)
    ]
    sizes = tf.TensorSpec((None, None, 3), tf.uint8)
    single = tf.data.Dataset.from_generator(lambda: iter(images), output_signature=sizes)
    single = single.map(lambda x: preprocess(x, settings), num_parallel_calls=4).batch(5)
    assert single.element_spec.shape.as_list() == [None, 33, 48, 3]
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
    (actual,) = tf.data.Dataset.from_tensors(images).map(lambda x: preprocess(x, SETTINGS))
    np.testing.assert_array_equal(actual, preprocess(images, SETTINGS))
    np.testing.assert_array_equal(actual, (np.rint(images) - np.float32(127.5)) / np.float32(127.5))


SETTINGS = Preprocessing(16, 24)


def test_grey_is_that_of_preprocess_exactly(rng, photographs, tmp_path):
    settings = dataclasses.replace(SETTINGS, mean=120.0, scale=57.0, channels=1)
    images = rng.integers(0, 256, (3, 61, 47, 3)).astype(np.uint8)
    (actual,) = tf.data.Dataset.from_tensors(images).map(lambda x: preprocess(x, settings))
    assert actual.shape == (3, 16, 24, 1)
    np.testing.assert_array_equal(actual, preprocess(images, settings))
    Image.fromarray(photographs[0]).save(tmp_path / "photograph.png")
    content = tf.io.read_file(str(tmp_path / "photograph.png"))
    np.testing.assert_array_equal(
        preprocess(content, settings), preprocess(photographs[:1], settings)
    )


@pytest.mark.parametrize("shape", [(20, 30), (20, 30, 1), (20, 30, 4), (2, 20, 30, 1)])
def test_grey_and_transparent_tensors_are_treated_like_arrays(rng, shape):
    images = rng.integers(0, 256, shape).astype(np.uint8)
    (actual,) = tf.data.Dataset.from_tensors(images).map(lambda x: preprocess(x, SETTINGS))
    expected = preprocess(images, SETTINGS)
    np.testing.assert_array_equal(actual, expected if len(shape) == 4 else expected[0])


def test_files_are_decoded_in_the_graph(photographs, tmp_path):
    paths = []
    for orientation in range(1, 9):
        paths.append(str(tmp_path / f"{orientation}.jpg"))
        Image.fromarray(photographs[0][:80, :100]).save(paths[-1], exif=exif(orientation))
    expected = preprocess(paths, SETTINGS)
    single = tf.data.Dataset.from_tensor_slices(paths).map(
        lambda path: preprocess(tf.io.read_file(path), SETTINGS)
    )
    np.testing.assert_array_equal(list(single), expected)
    batches = tf.data.Dataset.from_tensor_slices(paths).map(tf.io.read_file).batch(8)
    (actual,) = batches.map(lambda contents: preprocess(contents, SETTINGS))
    np.testing.assert_array_equal(actual, expected)


def test_eager_strings_are_the_contents_of_files(image_folder):
    paths = sorted(str(path) for path in image_folder.rglob("*.*"))[:3]
    contents = [tf.io.read_file(path) for path in paths]
    for inputs, expected in (
        (contents[0], preprocess(paths[0], SETTINGS)),
        (tf.stack(contents), preprocess(paths, SETTINGS)),
        (tf.zeros((0,), tf.string), preprocess([], SETTINGS)),
    ):
        actual = preprocess(inputs, SETTINGS)
        assert isinstance(actual, np.ndarray)
        np.testing.assert_array_equal(actual, expected)


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
    (actual,) = tf.data.Dataset.from_tensors(floats).map(lambda x: preprocess(x, SETTINGS))
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    ("pixels", "message"),
    [
        (np.full((4, 4, 3), 0.5), "no more than 1; multiply by 255"),
        (np.full((4, 4, 3), -0.5), "pixels from 0 to 255. Received:"),
        (np.full((4, 4, 3), 256), "pixels from 0 to 255. Received:"),
        (np.full((4, 4, 3), np.nan, np.float32), "pixels from 0 to 255. Received:"),
    ],
)
def test_pixels_of_another_range_stop_the_graph(pixels, message):
    data = tf.data.Dataset.from_tensors(pixels).map(lambda x: preprocess(x, SETTINGS))
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        list(data)


def test_black_floats_are_black():
    (actual,) = tf.data.Dataset.from_tensors(np.zeros((4, 4, 3))).map(
        lambda x: preprocess(x, SETTINGS)
    )
    assert (actual.numpy() == -1).all()


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
def test_a_saved_pipeline_does_not_need_keras_vit(rng, tmp_path):
    images = rng.integers(0, 256, (5, 40, 30, 3)).astype(np.uint8)
    module = tf.Module()
    signature = [tf.TensorSpec((None, None, None, 3), tf.uint8)]
    module.run = tf.function(lambda x: preprocess(x, SETTINGS), input_signature=signature)
    tf.saved_model.save(module, str(tmp_path))
    np.save(tmp_path / "images.npy", images)
    program = (
        "import sys; sys.modules['keras_vit'] = sys.modules['PIL'] = None\n"
        "import numpy as np, tensorflow as tf\n"
        "images = np.load(f'{sys.argv[1]}/images.npy')\n"
        "data = tf.data.Dataset.from_tensors(images).map(tf.saved_model.load(sys.argv[1]).run)\n"
        "np.save(f'{sys.argv[1]}/found.npy', next(iter(data)))"
    )
    subprocess.run([sys.executable, "-I", "-c", program, tmp_path], check=True, timeout=120)
    np.testing.assert_array_equal(np.load(tmp_path / "found.npy"), preprocess(images, SETTINGS))


def test_broken_files_of_a_batch_are_marked_and_the_others_read(photographs, tmp_path):
    paths = [tmp_path / f"{i}.png" for i in range(3)]
    for i, path in enumerate(paths):
        Image.fromarray(photographs[0][i:99, : 50 + i]).save(path)
    good = [path.read_bytes() for path in paths]
    read = tf.function(
        lambda x: tf_preprocessing.read_valid_pictures(x, SETTINGS),
        input_signature=[tf.TensorSpec((None,), tf.string)],
    )
    pixels, valid = read(tf.constant([good[0], b"", good[1], good[2][:-99], b"text", good[2]]))
    assert valid.numpy().tolist() == [True, False, True, False, False, True]
    actual = (pixels.numpy()[valid] - np.float32(127.5)) / np.float32(127.5)
    np.testing.assert_array_equal(actual, preprocess(paths, SETTINGS))
    assert not pixels.numpy()[~valid.numpy()].any()
    pixels, valid = read(tf.constant([], tf.string))
    assert (pixels.shape, valid.shape) == ((0, 16, 24, 3), (0,))
    assert not read(tf.constant([b"", b"text"]))[1].numpy().any()
