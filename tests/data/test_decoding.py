"""Pictures of all formats and modes, and small files that would cost much memory or time.

Those of very many parts are refused before Pillow reads them, whatever its version. TensorFlow's
operations decode JPEG and PNG to the same pixels, with the same limits.
"""

import io
import multiprocessing
import os
import re
import resource
import struct
import time
import warnings
import zlib
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from keras_vit import Preprocessing, UsageError, preprocess
from keras_vit.data import decoding, picture_limits, tf_preprocessing
from keras_vit.data.decoding import decode_image, examine_image
from keras_vit.data.picture_formats import true_format

SIZE = 60_000  # bytes of an EXIF block; a segment of a JPEG has no room for more
EXIF = b"Exif\0\0"
SMALL = Image.new("RGB", (8, 8))
TOO_MANY = "of more than 100,000 segments or chunks, save it again"


def saved(image, kind, **options):
    """The content of a picture's file, without losses where the format has a choice."""
    stream = io.BytesIO()
    image.save(stream, kind, **options, **({"lossless": True} if kind == "WEBP" else {}))
    return stream.getvalue()


def fault(content):
    return decoding.examine_stream(io.BytesIO(content))[0]


def decoded(content):
    return decoding.decode_content(content, "a picture")


@pytest.fixture(scope="module")
def decode():
    """Decodes with TensorFlow's operations."""
    signature = [tf.TensorSpec((), tf.string)]
    return tf.function(tf_preprocessing.decode, input_signature=signature, autograph=False)


def refused(decode, content, message=None):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        decode(content)


def segment(marker, content):
    """A segment of a JPEG."""
    return b"\xff" + marker + struct.pack(">H", len(content) + 2) + content


def chunk(name, content):
    """A chunk of a PNG."""
    checksum = zlib.crc32(name + content)
    return struct.pack(">L", len(content)) + name + content + struct.pack(">L", checksum)


def with_parts(content, parts):
    """The content of a JPEG, PNG or GIF with these parts in front of its own."""
    at = {b"\xff": 2, b"\x89": 33, b"G": 13 + (3 << (content[10] & 7) + 1)}[content[:1]]
    return content[:at] + parts + content[at:]


def test_grey_16_bit_transparent_and_print_pictures():
    wide = np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)
    actual = decoded(saved(Image.fromarray(wide), "PNG"))
    np.testing.assert_array_equal(actual[..., 0], wide >> 8)
    clear = np.zeros((4, 4, 4), np.uint8)
    clear[..., 0], clear[:2, :, 3] = 200, 255
    actual = decoded(saved(Image.fromarray(clear), "PNG"))
    assert actual[0, 0].tolist() == [200, 0, 0]
    assert actual[3, 0].tolist() == [255, 255, 255]
    clear = Image.new("RGBA", (4, 4), (200, 0, 0, 0))
    for kind in ("GIF", "WEBP", "TIFF"):
        assert (decoded(saved(clear, kind)) == 255).all(), kind
    assert (decoding.to_rgb(Image.new("LA", (4, 4), (60, 255)).convert("PA")) == 60).all()
    for kind in ("TIFF", "JPEG"):
        red, green, blue = decoded(saved(Image.new("CMYK", (4, 6), (0, 255, 255, 0)), kind))[0, 0]
        assert red > 200
        assert max(green, blue) < 60


def test_a_picture_that_claims_too_many_pixels_is_refused(decode, tmp_path):
    small, large = (struct.pack(">HH", height, 65_000) for height in (2, 65_000))
    path = tmp_path / "bomb"
    for kind, content in (
        ("PNG", saved(Image.new("1", (11_000, 11_000)), "PNG")),
        ("PNG", saved(Image.new("1", (1, 70_000)), "PNG")),  # its width would be a model's
        ("JPEG", saved(Image.new("L", (65_000, 2)), "JPEG").replace(small, large)),
    ):
        assert len(content) < 20_000
        path.write_bytes(content)
        reason = f"{kind} of more than 110,000,000 pixels, or 65,535 a side"
        assert examine_image(path)[0] == reason
        with pytest.raises(UsageError, match=f"bomb: {reason}"):
            decode_image(path)
        expected = "expected a picture of at most 110,000,000 pixels and 65,535 a side. Received"
        refused(decode, content, expected)
        with pytest.raises(UsageError, match="at most 110,000,000 pixels"):
            preprocess(tf.constant(content), Preprocessing(32, 32))


@pytest.mark.parametrize("kind", ["PNG", "GIF", "BMP", "WEBP", "TIFF", "JPEG"])
def test_no_format_claims_more_pixels_than_the_limit(monkeypatch, kind):
    monkeypatch.setattr(picture_limits, "MOST_PIXELS", 20 * 30)
    assert fault(saved(Image.new("RGB", (20, 30)), kind)) == ""
    assert fault(saved(Image.new("RGB", (20, 31)), kind)) != ""


def test_a_photograph_of_95_megapixels_is_read_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fault(saved(Image.new("1", (10_000, 9_500)), "PNG")) == ""


def test_a_jpeg_of_few_bytes_cannot_ask_for_many_passes_over_its_pixels(decode):
    content = saved(Image.new("L", (2000, 2000)), "JPEG", progressive=True)
    assert fault(content) == ""
    assert decode(content).shape == (2000, 2000, 3)
    scan = b"\xff\xda\0\x08\x01\x01\0\x01\x3f\0"
    content = content[:-2] + scan * 1000 + content[-2:]
    assert fault(content) == "JPEG of too many scans, save it as a baseline JPEG"
    refused(decode, content, "expected fewer scans")


def test_a_png_of_many_compressed_texts_is_refused(decode):
    texts = PngInfo()
    for i in range(17):
        texts.add_text(f"text {i}", "a" * 1000, zip=True)
    content = saved(Image.new("L", (9, 9)), "PNG", pnginfo=texts)
    assert fault(content) == "PNG of more than 16 compressed texts, save it without"
    refused(decode, content, "at most 16 compressed texts")


def test_a_pipe_is_no_picture(tmp_path):
    path = tmp_path / "a.png"
    os.mkfifo(path)  # opening it would wait for a writer
    assert examine_image(path)[0] == "cannot be opened (not a regular file)"
    with pytest.raises(OSError, match="not a regular file"):
        decode_image(path)


MANY = {
    "JPEG": [b"\xff\xfe\0\2", b"\xff", b"\xff\0\0", b"\xff\xd0", segment(b"\xe1", EXIF)],
    "PNG": [chunk(b"teSt", b"")],
    "GIF": [b"\x21\xff\x01a\0", b"\x21\xfe\x01a\0", b"\0", b"\x21\xff" + b"\x01a" * 9 + b"\0"],
}


@pytest.mark.parametrize(
    ("kind", "part"), [(kind, part) for kind, parts in MANY.items() for part in parts]
)
def test_a_picture_of_many_parts_is_refused(kind, part):
    content, few = saved(SMALL, kind), 9_000 if kind == "GIF" else 30_000
    assert fault(with_parts(content, part * few)) == ""
    assert fault(with_parts(content, part * 110_000)) == f"{kind} {TOO_MANY}"


def test_long_comments_of_a_gif_are_refused():
    few, many = (b"\x21\xfe" + (b"\xff" + b"a" * 255) * blocks + b"\0" for blocks in (4_000, 5_000))
    content, reason = saved(SMALL, "GIF"), "GIF with comments of 1,275,000 bytes, save it without"
    assert fault(with_parts(content, few)) == ""
    assert fault(with_parts(content, many)) == reason


@pytest.mark.parametrize(("compression", "bits"), [(1, 8), (2, 4)])
def test_a_bmp_of_few_bytes_cannot_ask_for_many_pixels_in_runs(compression, bits):
    runs = b"\1\0\0\0" * 200  # rows of one pixel, the rest is filled
    for size, expected in (
        ((300, 200), ""),
        ((65_535, 200), "compressed BMP of more than 10,000,000 pixels, save it as PNG"),
    ):
        header = struct.pack("<IiiHHIIiiII", 40, *size, 1, bits, compression, len(runs), 0, 0, 0, 0)
        at = 14 + len(header) + 4 * 2**bits
        start = b"BM" + struct.pack("<IHHI", at + len(runs), 0, 0, at)
        assert fault(start + header + bytes(4 * 2**bits) + runs) == expected


def test_threads_decode_at_once_only_what_fits_together():
    room, taken = picture_limits.Room(100), []

    def decode(pixels):
        with room.taken(pixels):
            taken.append(pixels)
            time.sleep(0.002)
            together = sum(taken)
            taken.remove(pixels)
        return together

    with ThreadPoolExecutor(8) as pool:
        together = [*pool.map(decode, [40, 60, 500, 30] * 6)]
    assert max(total for total in together if total < 500) <= 100
    assert max(together) == 500  # a larger one is alone


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def memory_of_decoding(path, by, number):
    """The bytes that it takes in a process in which nothing was decoded before."""
    read = tf.function(lambda x: tf_preprocessing.read_valid_pictures(x, Preprocessing(32, 32)))
    read(tf.constant([b""]))
    before = peak()
    if by == "Pillow":
        decode_image(path)
    else:
        assert read(tf.constant([path.read_bytes()] * number))[1].numpy().all()
    return peak() - before


@pytest.mark.soak(of="fuzz")
@pytest.mark.parametrize(("by", "number"), [("Pillow", 1), ("TensorFlow", 1), ("TensorFlow", 3)])
def test_decoding_needs_the_memory_that_is_stated(tmp_path, by, number):
    Image.new("RGBA", (8000, 8000), (1, 2, 3, 4)).save(tmp_path / "a.png", compress_level=1)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        taken = pool.submit(memory_of_decoding, tmp_path / "a.png", by, number).result()
    assert taken < {"Pillow": 10, "TensorFlow": 12}[by] * 8000 * 8000


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"])
@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".gif", ".bmp", ".tiff"])
def test_every_format_is_read_under_any_extension(tmp_path, rng, kind, suffix):
    grey, path = rng.integers(0, 256, (9, 13), np.uint8), tmp_path / f"a{suffix}"
    path.write_bytes(saved(Image.fromarray(grey), kind))
    assert examine_image(path)[0] == ""
    expected = Image.open(path).convert("RGB") if kind == "JPEG" else grey[..., None].repeat(3, -1)
    np.testing.assert_array_equal(decode_image(path), expected)


@pytest.mark.parametrize("kind", ["GIF", "TIFF", "WEBP"])
def test_the_first_frame_and_the_first_page_are_read(kind):
    red, blue = (Image.new("RGB", (8, 6), colour) for colour in ("red", "blue"))
    content = saved(red, kind, save_all=True, append_images=[blue])
    assert Image.open(io.BytesIO(content)).n_frames == 2
    assert (decoded(content) == (255, 0, 0)).all()


@pytest.mark.parametrize("band", [decoding._BAND, 12])
@pytest.mark.parametrize("kind", ["JPEG", "TIFF", "WEBP", "PNG"])
def test_every_orientation_is_applied_once(rng, monkeypatch, kind, band):
    image = Image.fromarray(rng.integers(0, 256, (5, 6, 3), np.uint8))
    pixels = decoded(saved(image, kind))
    monkeypatch.setattr(decoding, "_BAND", band)
    upright = [
        pixels, pixels, pixels[:, ::-1], pixels[::-1, ::-1], pixels[::-1],
        pixels.swapaxes(0, 1), np.rot90(pixels, -1), np.rot90(pixels, 2).swapaxes(0, 1),
        np.rot90(pixels), pixels,
    ]  # fmt: skip
    for orientation, expected in enumerate(upright):  # those from 1 to 8 exist
        turned = Image.Exif()
        turned[0x0112] = orientation
        actual = decoded(saved(image, kind, exif=turned))
        np.testing.assert_array_equal(actual, expected, f"{orientation}")


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
def test_every_mode_has_the_same_pixels_by_tensorflow_and_in_bands(
    decode, photographs, monkeypatch, name
):
    convert, options = FILES[name]
    kind = "JPEG" if name.endswith("jpg") else "PNG"
    content = saved(convert(Image.fromarray(photographs[1][:211, :303])), kind, **options)
    expected = decoded(content)
    np.testing.assert_array_equal(decode(content), expected)
    monkeypatch.setattr(decoding, "_BAND", 5_000)
    np.testing.assert_array_equal(decoded(content), expected)


def test_deep_colours_are_cut_to_8_bits(decode, rng):
    colours = rng.integers(0, 65536, (9, 13, 4)).astype(np.uint16)
    for channels in (3, 4):
        content = tf.io.encode_png(colours[..., :channels]).numpy()
        np.testing.assert_array_equal(decode(content), decoded(content))


def exif(orientation, order=">"):
    """An EXIF block of two entries; "<" is little endian."""
    tags = Image.Exif()
    tags.endian = order
    tags[0x010F], tags[0x0112] = "abc", orientation
    return tags.tobytes()


@pytest.mark.parametrize("order", "<>")
def test_tensorflow_applies_a_cameras_rotation(decode, photographs, order):
    picture = Image.fromarray(photographs[0][:40, :56])
    for orientation in range(10):
        # After other segments, one of which looks like EXIF.
        others = {"icc_profile": bytes(70_000), "comment": exif(3)}
        content = saved(picture, "JPEG", exif=exif(orientation, order), **others)
        expected = decoded(content)
        assert (expected.shape == (56, 40, 3)) == (5 <= orientation <= 8)
        np.testing.assert_array_equal(decode(content), expected)


def test_a_truncated_exif_block_is_ignored(decode, photographs):
    picture = Image.fromarray(photographs[0][:40, :56])
    expected = decode(saved(picture, "JPEG"))
    for length in (6, 8, 13, 16, 26):
        torn = saved(picture, "JPEG", exif=exif(6)[:length])
        np.testing.assert_array_equal(decode(torn), expected)


def test_an_incomplete_picture_is_found(decode, photographs):
    picture, png = Image.fromarray(photographs[0][:211, :303]), b"\x89PNG\r\n\x1a\n" + bytes(40)
    for content, expected in (
        (b"", "not a picture that can be read"),
        (b"\xff\xd8\xff", "broken JPEG"),
        (png, "broken PNG"),
        (saved(picture, "JPEG")[:-2000], "truncated JPEG"),
        (saved(picture, "PNG")[:-2000], "(truncated|broken) PNG"),
        (b"GIF89a and so on", "broken GIF"),
        (saved(picture, "GIF"), ""),  # TensorFlow reads JPEG and PNG only
        (saved(picture, "BMP"), ""),
    ):
        assert re.fullmatch(expected, fault(content))
        refused(decode, content)


@pytest.mark.parametrize("part", [b"\xff", b"\xff\xfe\0\2"], ids=["fill bytes", "comments"])
def test_the_search_for_the_rotation_ends_whatever_the_segments(decode, part):
    content = saved(Image.new("L", (40, 30)), "JPEG")
    np.testing.assert_array_equal(decode(with_parts(content, part * 900)), decode(content))
    refused(decode, with_parts(content, part * 20_000), "at most 1,024 segments")


def test_bands_of_tensorflow_give_the_pixels_of_the_whole_picture(photographs, monkeypatch):
    content = saved(transparent(Image.fromarray(photographs[0])), "PNG")
    monkeypatch.setattr(tf_preprocessing, "_BAND", 5_000)
    np.testing.assert_array_equal(tf_preprocessing.decode(tf.constant(content)), decoded(content))


@pytest.mark.parametrize("mode", ["F", "I", "LAB", "RGB"])
def test_unsupported_pixel_modes_are_refused_by_name(mode):
    compression = "lzma" if mode == "RGB" else None
    content = saved(Image.new(mode, (4, 4)), "TIFF", compression=compression)
    reason = f"of Pillow's mode {mode}, convert to 8 bits a colour"
    reason = f"TIFF {'with lzma compression, save it without' if compression else reason}"
    assert fault(content) == reason
    with pytest.raises(UsageError, match=f"a picture: {reason}."):
        decoded(content)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "HEIC"),
        (b"\0\0\0\x1cftypmif1\0\0\0\0mif1avifmiaf", "AVIF"),
        (b"\0\0\0\x18ftypisom\0\0\0\0mp42", "video"),
        (b"\xff\x0a\xfa\x1f", "JPEG XL"),
        (b"\0\0\0\x0cjP  \r\n\x87\n", "JPEG 2000"),
        (b"II*\0\x10\0\0\0CR\x02\0", "camera raw"),
        (b"\n <!DOCTYPE HTML>", "HTML"),
        (b"<?xml version='1.0'?>\n<svg>", "SVG"),
        (b"RIFF\0\0\0\0WAVE", "unknown format"),
        ("grüße\n".encode(), "text"),
        (bytes(20), "unknown format"),
    ],
)
def test_the_format_is_detected_from_the_first_bytes(header, expected):
    assert true_format(header) == expected


def directory(tags, order="<", big=False):
    """A TIFF's header and directory with tags (number, type, count, value), as long as `SIZE`."""
    magic = {"<": b"II", ">": b"MM"}[order]
    if big:
        head = magic + struct.pack(f"{order}HHHQQ", 43, 8, 0, 16, len(tags))
    else:
        head = magic + struct.pack(f"{order}HLH", 42, 8, len(tags))
    entry = struct.Struct(order + ("HHQQ" if big else "HHLL"))
    content = head + b"".join(entry.pack(*tag) for tag in tags) + bytes(8)
    return content + bytes(SIZE - len(content))


@pytest.mark.parametrize(
    ("bits", "photometric", "values", "expected"),
    [
        (16, 1, b"\0\x00\0\x40\0\x80\xff\xff", [0, 64, 128, 255]),
        (16, 0, b"\0\x00\0\x40\0\x80\xff\xff", [255, 191, 127, 0]),
        (12, 1, b"\x00\x04\x00\x80\x0f\xff", [0, 64, 128, 255]),
    ],
)
def test_deep_grey_tiff_is_scaled(bits, photometric, values, expected):
    tags = [
        (256, 3, 1, 4), (257, 3, 1, 1), (258, 3, 1, bits), (259, 3, 1, 1), (262, 3, 1, photometric),
        (273, 4, 1, SIZE), (277, 3, 1, 1), (278, 3, 1, 1), (279, 4, 1, len(values)),
    ]  # fmt: skip
    assert decoded(directory(tags) + values)[0, :, 0].tolist() == expected


def test_the_strips_of_a_tiff_cannot_paint_the_same_pixels_many_times():
    for strips, expected in ((2, ""), (20, "TIFF of too many strips or tiles, save it again")):
        tags = {256: 8, 257: 8, 258: 8, 259: 1, 262: 1, 277: 1, 278: 4}  # 8 x 8 grey, 4 rows each
        entries = [(tag, 4, 1, value) for tag, value in tags.items()]
        entries.insert(5, (273, 4, strips, SIZE))
        assert fault(directory(entries) + struct.pack("<L", 8) * strips) == expected


def with_exif(kind, block):
    if kind == "text of a PNG":
        texts = PngInfo()
        texts.add_text("Raw profile type exif", f"\nexif\n {len(block)}\n{block.hex()}", zip=True)
        return saved(SMALL, "PNG", pnginfo=texts)
    if kind == "JPEG in two parts":
        parts = block[: SIZE // 2], block[SIZE // 2 :]
        segments = b"".join(segment(b"\xe1", EXIF + part) for part in parts)
        return with_parts(saved(SMALL, "JPEG"), segments)
    if kind.endswith(" of three prefixes"):
        return with_exif(kind.split()[0], EXIF * 2 + block)
    return saved(SMALL, kind, exif=EXIF + block)


KINDS = [
    "JPEG", "JPEG in two parts", "JPEG of three prefixes", "PNG", "PNG of three prefixes",
    "text of a PNG", "WEBP",
]  # fmt: skip
OVERLAPPING = [(1000 + i, 7, SIZE - 1, 0) for i in range(500)]


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("kind", KINDS)
def test_an_exif_block_whose_tags_overlap_is_refused(kind, order):
    content = with_exif(kind, directory(OVERLAPPING, order))
    assert fault(content).endswith(" with an EXIF block whose tags overlap, save it again")
    for read in (decoded, lambda x: decoding.to_rgb(Image.open(io.BytesIO(x)))):
        with pytest.raises(UsageError, match="whose tags overlap"):
            read(content)


@pytest.mark.filterwarnings("ignore:Tag data larger than file")
@pytest.mark.parametrize("kind", [kind for kind in KINDS if "three" not in kind])
@pytest.mark.parametrize("count", [1, 9])
def test_an_exif_block_with_damaged_tags_is_read(kind, count):
    beyond = [(1000 + i, 7, 2**31, SIZE - 100) for i in range(count)]
    assert fault(with_exif(kind, directory([(0x0112, 3, 1, 6), *beyond]))) == ""


def test_the_list_of_several_pictures_in_a_jpeg_is_checked():
    assert fault(saved(SMALL, "MPO", save_all=True, append_images=[SMALL])) == ""
    content = with_parts(saved(SMALL, "JPEG"), segment(b"\xe2", b"MPF\0" + directory(OVERLAPPING)))
    assert fault(content) == "JPEG of several pictures whose tags overlap, save it again"


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("big", [False, True])
def test_a_tiff_whose_tags_overlap_is_refused(order, big):
    content = directory([(256, 4, 1, 8), (257, 4, 1, 8), *OVERLAPPING], order, big)
    assert fault(content) == "TIFF whose tags overlap, save it again"


def test_a_tag_of_very_many_numbers_and_very_many_tags_are_refused():
    resolution = 282, 5, 300_000, 100  # Pillow makes a fraction of each
    content = directory([resolution]) + bytes(8 * 300_000)
    assert fault(content) == "TIFF with a tag of 300,000 numbers, save it again"
    content = directory([], big=True)
    assert fault(content[:16] + struct.pack("<Q", 2**60) + content[24:]) == f"TIFF {TOO_MANY}"


def test_what_pillow_writes_passes():
    for mode in ("1", "L", "P", "RGB", "RGBA", "CMYK", "I;16"):
        for options in ({}, {"compression": "tiff_lzw"}, {"big_tiff": True}):
            assert fault(saved(Image.new(mode, (700, 900)), "TIFF", **options)) == ""


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
def test_a_header_that_leads_out_of_the_file_is_a_broken_picture():
    for place in (10**6, 2**32 - 1):
        assert fault(b"II*\0" + struct.pack("<L", place) + bytes(100)) == "broken TIFF"
    exif = chunk(b"eXIf", b"II+\0\x08\0\0\0" + b"\xff" * 8 + bytes(100))
    assert fault(with_parts(saved(SMALL, "PNG"), exif)) in ("", "broken PNG")
