"""Pictures of very many parts are refused before Pillow reads them, whatever its version."""

from __future__ import annotations

import io
import struct
import zlib

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from keras_vit._errors import UsageError
from keras_vit.data.decoding import decode_image, examine_image, to_rgb

SIZE = 60_000  # bytes of an EXIF block; a segment of a JPEG has no room for more
EXIF = b"Exif\0\0"


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


def picture(kind, **options):
    stream = io.BytesIO()
    Image.new("P" if kind == "GIF" else "RGB", (8, 8)).save(stream, kind, **options)
    return stream.getvalue()


def with_exif(kind, block):
    if kind == "text of a PNG":
        texts = PngInfo()
        texts.add_text("Raw profile type exif", f"\nexif\n {len(block)}\n{block.hex()}", zip=True)
        return picture("PNG", pnginfo=texts)
    if kind == "JPEG in two parts":
        whole = picture("JPEG")
        parts = block[: SIZE // 2], block[SIZE // 2 :]
        segments = [EXIF + part for part in parts]
        segments = [b"\xff\xe1" + struct.pack(">H", len(each) + 2) + each for each in segments]
        return whole[:2] + b"".join(segments) + whole[2:]
    if kind.endswith(" of three prefixes"):
        return with_exif(kind.split()[0], EXIF * 2 + block)
    return picture(kind, exif=EXIF + block)


KINDS = [
    "JPEG", "JPEG in two parts", "JPEG of three prefixes", "PNG", "PNG of three prefixes",
    "text of a PNG", "WEBP",
]  # fmt: skip
OVERLAPPING = [(1000 + i, 7, SIZE - 1, 0) for i in range(500)]


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("kind", KINDS)
def test_an_exif_block_whose_tags_overlap_is_refused(tmp_path, kind, order):
    path = tmp_path / "a"
    path.write_bytes(with_exif(kind, directory(OVERLAPPING, order)))
    fault = examine_image(path)[0]
    assert fault.endswith(" with an EXIF block whose tags overlap, save it again")
    with pytest.raises(UsageError, match="whose tags overlap"):
        decode_image(path)


@pytest.mark.filterwarnings("ignore:Tag data larger than file")
@pytest.mark.parametrize("kind", [kind for kind in KINDS if "three" not in kind])
@pytest.mark.parametrize("count", [1, 9])
def test_an_exif_block_with_damaged_tags_is_read(tmp_path, kind, count):
    beyond = [(1000 + i, 7, 2**31, SIZE - 100) for i in range(count)]
    path = tmp_path / "a"
    path.write_bytes(with_exif(kind, directory([(0x0112, 3, 1, 6), *beyond])))
    assert examine_image(path)[0] == ""


def test_the_list_of_several_pictures_in_a_jpeg_is_checked(tmp_path):
    path, whole = tmp_path / "a.jpg", picture("JPEG")
    segment = b"MPF\0" + directory(OVERLAPPING)
    segment = b"\xff\xe2" + struct.pack(">H", len(segment) + 2) + segment
    path.write_bytes(whole[:2] + segment + whole[2:])
    assert examine_image(path)[0] == "JPEG of several pictures whose tags overlap, save it again"


def test_a_jpeg_of_several_pictures_is_read(tmp_path):
    path = tmp_path / "a.jpg"
    both = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    both[0].save(path, "MPO", save_all=True, append_images=both[1:])
    assert examine_image(path)[0] == ""


def test_an_opened_image_is_checked_too():
    image = Image.open(io.BytesIO(with_exif("PNG", directory(OVERLAPPING))))
    with pytest.raises(UsageError, match="whose tags overlap"):
        to_rgb(image)


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("big", [False, True])
def test_a_tiff_whose_tags_overlap_is_refused(tmp_path, order, big):
    path = tmp_path / "a.tif"
    path.write_bytes(directory([(256, 4, 1, 8), (257, 4, 1, 8), *OVERLAPPING], order, big))
    assert examine_image(path)[0] == "TIFF whose tags overlap, save it again"


def test_a_tag_of_very_many_numbers_is_refused(tmp_path):
    path = tmp_path / "a.tif"
    resolution = 282, 5, 300_000, 100  # Pillow makes a fraction of each
    path.write_bytes(directory([resolution]) + bytes(8 * 300_000))
    assert examine_image(path)[0] == "TIFF with a tag of 300,000 numbers, save it again"


def test_a_directory_of_very_many_tags_is_refused(tmp_path):
    path = tmp_path / "a.tif"
    content = directory([], big=True)
    path.write_bytes(content[:16] + struct.pack("<Q", 2**60) + content[24:])
    assert examine_image(path)[0] == "TIFF of more than 100,000 segments or chunks, save it again"


def test_a_gif_of_many_blocks_is_refused(tmp_path):
    path, whole = tmp_path / "a.gif", picture("GIF")
    at = 13 + (3 << (whole[10] & 7) + 1)
    fault = "GIF of more than 100,000 segments or chunks, save it again"
    for block in (
        b"\x21\xff\x01a\0",
        b"\x21\xfe\x01a\0",
        b"\0",
        b"\x21\xff" + b"\x01a" * 9 + b"\0",
    ):
        path.write_bytes(whole[:at] + block * 9_000 + whole[at:])
        assert examine_image(path)[0] == ""
        path.write_bytes(whole[:at] + block * 110_000 + whole[at:])
        assert examine_image(path)[0] == fault


def test_long_comments_of_a_gif_are_refused(tmp_path):
    path, whole = tmp_path / "a.gif", picture("GIF")
    at = 13 + (3 << (whole[10] & 7) + 1)
    for blocks, fault in ((4_000, ""), (5_000, "GIF with comments of 1,275,000 bytes, save it")):
        comment = b"\x21\xfe" + (b"\xff" + b"a" * 255) * blocks + b"\0"
        path.write_bytes(whole[:at] + comment + whole[at:])
        assert examine_image(path)[0].startswith(fault)
        assert bool(examine_image(path)[0]) == bool(fault)


def test_what_pillow_writes_passes(tmp_path):
    path = tmp_path / "a.tif"
    for mode in ("1", "L", "P", "RGB", "RGBA", "CMYK", "I;16"):
        for options in ({}, {"compression": "tiff_lzw"}, {"big_tiff": True}):
            Image.new(mode, (700, 900)).save(path, **options)
            assert examine_image(path)[0] == ""


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
def test_a_header_that_leads_out_of_the_file_is_a_broken_picture(tmp_path):
    path = tmp_path / "a.tif"
    for place in (10**6, 2**32 - 1):
        path.write_bytes(b"II*\0" + struct.pack("<L", place) + bytes(100))
        assert examine_image(path)[0] == "broken TIFF"
    whole = picture("PNG")
    chunk = b"eXIf" + b"II+\0\x08\0\0\0" + b"\xff" * 8 + bytes(100)
    chunk = struct.pack(">L", len(chunk) - 4) + chunk + struct.pack(">L", zlib.crc32(chunk))
    path.write_bytes(whole[:33] + chunk + whole[33:])
    assert examine_image(path)[0] in ("", "broken PNG")
