"""Sources: the digits, and folders of pictures with all kinds of broken and unexpected files."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import time
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image, ImageOps
from PIL.PngImagePlugin import PngInfo

from keras_vit import UsageError
from keras_vit.cli._printing import print_skipped
from keras_vit.data import (
    Encoded,
    InMemory,
    Skipped,
    decoding,
    digits,
    image_folder,
    index,
    limits,
    open_source,
    skipped_summary,
)
from keras_vit.data.decoding import decode_image, examine_image
from keras_vit.data.formats import true_format
from keras_vit.data.index import FORMAT
from keras_vit.data.limits import Room


def test_digits_are_the_real_ones():
    source = digits()
    assert (len(source), source.labels) == (1797, tuple("0123456789"))
    assert np.bincount(source.targets).tolist() == [
        178, 182, 177, 183, 181, 182, 181, 179, 174, 180,
    ]  # fmt: skip
    image = source.image(0)
    assert (image.shape, image.dtype) == ((8, 8, 3), np.uint8)
    assert image[0, :, 0].tolist() == [0, 0, 80, 207, 143, 16, 0, 0]  # 0 0 5 13 9 1 0 0 of 16


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"targets": 1}, "targets must be from 0 to 9, places in labels. Received: 1 to 10."),
        ({"targets": -1}, "targets must be from 0 to 9, .*Received: -1 to 8."),
        ({"targets": 0.0}, r"targets must be integers \(1797,\).*Received: float64 \(1797,\)."),
        ({"labels": ("a", "b")}, "targets must be from 0 to 1, .*Received: 0 to 9."),
        ({"ids": ("a", "b")}, r"targets must be integers \(2,\).*Received: int64 \(1797,\)."),
        ({"ids": ("a", "b", "a")}, "ids must all be different. Received: 'a' 2 times."),
        ({"ids": (1, 2)}, "ids must be strings. Received: int."),
        ({"image": InMemory(np.zeros((1797, 8, 8), np.uint8))}, "pixels must be .*1797, height"),
        ({"image": InMemory(np.zeros((1797, 8, 8, 3)))}, "pixels must be .*Received: float64"),
        ({"image": InMemory(np.zeros((9, 8, 8, 3), np.uint8))}, "pixels .*Received: uint8 .9, 8"),
        ({"image": Encoded(id, id, np.full(1797, 3))}, "formats must be from 0 to 2, .*3 to 3."),
        ({"image": Encoded(id, id, np.zeros(5, int))}, r"formats must be integers \(1797,\)"),
        ({"multi_hot": np.ones((1797, 9), int)}, r"multi_hot must be integers \(1797, 10\)"),
        ({"multi_hot": np.full((1797, 10), 2)}, "multi_hot must be from 0 to 1, .*2 to 2."),
        ({"states": np.zeros((1797, 1), int)}, r"states must be \(1797, 2\)"),
        ({"splits": {"val": np.arange(2)}}, "among train, validation, test. Received: 'val'."),
        ({"splits": {"test": np.array([1797])}}, r"splits\['test'\] must be from 0 to 1796"),
    ],
)
def test_a_source_whose_parts_do_not_fit_together_is_refused(changes, message):
    source = digits()
    if np.isscalar(changes.get("targets")):
        changes = {"targets": source.targets + changes["targets"]}
    with pytest.raises(UsageError, match=f"^the source digits: .*{message}"):
        dataclasses.replace(source, **changes)


def test_folder_reads_every_mode_as_rgb(image_folder):
    source = open_source(image_folder)
    assert source.labels == ("blue", "red")
    assert len(source) == 12
    assert source.ids[0] == "blue/0.jpg"
    assert not source.skipped
    for i, target in enumerate(source.targets):
        image = source.image(i)
        assert image.dtype == np.uint8
        assert image.shape[-1] == 3
        assert image.mean((0, 1)).argmax() == (2, 0)[target]


def test_grey_16_bit_and_transparent_pictures(tmp_path):
    wide = np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)
    Image.fromarray(wide).save(tmp_path / "wide.png")
    actual = decode_image(tmp_path / "wide.png")
    np.testing.assert_array_equal(actual[..., 0], wide >> 8)
    clear = np.zeros((4, 4, 4), np.uint8)
    clear[..., 0], clear[:2, :, 3] = 200, 255
    Image.fromarray(clear).save(tmp_path / "clear.png")
    actual = decode_image(tmp_path / "clear.png")
    assert actual[0, 0].tolist() == [200, 0, 0]
    assert actual[3, 0].tolist() == [255, 255, 255]
    Image.fromarray(clear[..., 0]).save(tmp_path / "grey.jpg")
    assert decode_image(tmp_path / "grey.jpg").shape == (4, 4, 3)
    Image.new("CMYK", (4, 6), (0, 255, 255, 0)).save(tmp_path / "print.jpg")
    assert decode_image(tmp_path / "print.jpg")[0, 0, 0] > 200


def test_the_cameras_rotation_is_applied(tmp_path):
    pixels = np.zeros((20, 40, 3), np.uint8)
    pixels[:, :20] = 255  # the left half is white
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees clockwise to view
    Image.fromarray(pixels).save(tmp_path / "turned.jpg", exif=exif, quality=95)
    actual = decode_image(tmp_path / "turned.jpg")
    assert actual.shape == (40, 20, 3)
    assert actual[:15].mean() > 250
    assert actual[25:].mean() < 5


BROKEN = {
    "empty.jpg": (lambda good: b"", "empty file"),
    "text.jpg": (lambda good: b"these are not the pixels you want", "text in a .jpg"),
    "short.jpg": (lambda good: good[: len(good) // 2], "truncated JPEG"),
    "torn.webp": (lambda good: b"RIFF\x40\0\0\0WEBPVP8 1234", "broken WebP"),
    "webpage.png": (lambda good: b"<html></html>", "HTML in a .png"),
    "phone.JPG": (
        lambda good: b"\0\0\0\x1cftypmif1\0\0\0\0mif1heic1234",
        "HEIC in a .jpg, convert to JPEG or PNG",
    ),
}


@pytest.fixture(params=BROKEN)
def broken(request, image_folder):
    damage, message = BROKEN[request.param]
    good = io.BytesIO()
    Image.effect_noise((64, 64), 90).save(good, "JPEG")
    path = image_folder / "blue" / request.param
    path.write_bytes(damage(good.getvalue()))
    return path, message


def test_unreadable_pictures_are_skipped_and_named(image_folder, broken):
    path, message = broken
    source = open_source(image_folder)
    assert len(source) == 12
    assert skipped_summary(source) == [f"blue/{path.name}: {message}"]
    assert source.skipped == (Skipped(f"blue/{path.name}", "blue", message, is_unreadable=True),)


def test_strict_stops_at_unreadable_pictures(image_folder, broken):
    path, message = broken
    (image_folder / "red" / "notes.txt").write_text("no picture, and none that is lost")
    with pytest.raises(UsageError, match=rf"{path.name}: {message} \(1 unreadable in all\)"):
        open_source(image_folder, strict=True)


def test_truncated_png_is_found(tmp_path, rng):
    path = tmp_path / "noise.png"
    Image.fromarray(rng.integers(0, 255, (64, 64, 3)).astype(np.uint8)).save(path)
    assert examine_image(path)[0] == ""
    path.write_bytes(path.read_bytes()[:5000])
    assert examine_image(path)[0] != ""


def test_a_picture_that_claims_too_many_pixels_is_refused(tmp_path):
    path = tmp_path / "bomb.png"
    Image.new("1", (20_000, 10_000)).save(path)
    assert path.stat().st_size < 50_000
    reason = "PNG of more than 110,000,000 pixels, or 65,535 a side"
    assert examine_image(path)[0] == reason
    with pytest.raises(UsageError, match=reason):
        decode_image(path)
    Image.new("1", (1, 70_000)).save(path)  # its width would be resized to a model's
    assert examine_image(path)[0] == reason


@pytest.mark.parametrize("suffix", [".png", ".gif", ".bmp", ".webp", ".tif", ".jpg"])
def test_no_format_claims_more_pixels_than_the_limit(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(limits, "MOST_PIXELS", 20 * 30)
    for size, fits in (((20, 30), True), ((20, 31), False)):
        path = tmp_path / f"{size[1]}{suffix}"
        Image.new("RGB", size).save(path)
        assert (examine_image(path)[0] == "") is fits


def test_a_photograph_of_95_megapixels_is_read_without_a_warning(tmp_path):
    path = tmp_path / "large.png"
    Image.new("1", (10_000, 9_500)).save(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert examine_image(path)[0] == ""


def test_a_jpeg_of_few_bytes_cannot_ask_for_many_passes_over_its_pixels(tmp_path):
    path = tmp_path / "scans.jpg"
    Image.new("L", (2000, 2000)).save(path, progressive=True)
    whole = path.read_bytes()
    assert examine_image(path)[0] == ""
    path.write_bytes(whole[:-2] + b"\xff\xda\0\x08\x01\x01\0\x01\x3f\0" * 1000 + whole[-2:])
    assert examine_image(path)[0] == "JPEG of too many scans, save it as a baseline JPEG"


def test_a_png_of_many_compressed_texts_is_refused(tmp_path):
    path, texts = tmp_path / "texts.png", PngInfo()
    for i in range(17):
        texts.add_text(f"text {i}", "a" * 1000, zip=True)
    Image.new("L", (9, 9)).save(path, pnginfo=texts)
    assert examine_image(path)[0] == "PNG of more than 16 compressed texts, save it without"


def test_a_pipe_is_no_picture(tmp_path):
    path = tmp_path / "a.png"
    os.mkfifo(path)  # opening it would wait for a writer
    assert examine_image(path)[0] == "cannot be opened (not a regular file)"
    with pytest.raises(OSError, match="not a regular file"):
        decode_image(path)


def test_a_header_of_many_parts_is_refused(tmp_path):
    path = tmp_path / "parts"
    for kind, at, parts in (
        (
            "JPEG",
            2,
            (b"\xff\xfe\0\2", b"\xff", b"\xff\0\0", b"\xff\xd0", b"\xff\xe1\0\x08Exif\0\0"),
        ),
        ("PNG", 33, (b"\0\0\0\0teSt" + zlib.crc32(b"teSt").to_bytes(4, "big"),)),
    ):
        Image.new("L", (9, 9)).save(path, kind)
        whole = path.read_bytes()
        for part in parts:
            path.write_bytes(whole[:at] + part * 30_000 + whole[at:])
            assert examine_image(path)[0] == ""
            path.write_bytes(whole[:at] + part * 100_000 + whole[at:])
            fault = f"{kind} of more than 100,000 segments or chunks, save it again"
            assert examine_image(path)[0] == fault


@pytest.mark.parametrize(("compression", "bits"), [(1, 8), (2, 4)])
def test_a_bmp_of_few_bytes_cannot_ask_for_many_pixels_in_runs(tmp_path, compression, bits):
    path, runs = tmp_path / "runs.bmp", b"\1\0\0\0" * 200  # rows of one pixel, the rest is filled
    for size, fault in (
        ((300, 200), ""),
        ((65_535, 200), "compressed BMP of more than 10,000,000 pixels, save it as PNG"),
    ):
        header = struct.pack("<IiiHHIIiiII", 40, *size, 1, bits, compression, len(runs), 0, 0, 0, 0)
        at = 14 + len(header) + 4 * 2**bits
        start = b"BM" + struct.pack("<IHHI", at + len(runs), 0, 0, at)
        path.write_bytes(start + header + bytes(4 * 2**bits) + runs)
        assert examine_image(path)[0] == fault


def test_the_strips_of_a_tiff_cannot_paint_the_same_pixels_many_times(tmp_path):
    path = tmp_path / "strips.tif"
    for strips, fault in ((2, ""), (20, "TIFF of too many strips or tiles, save it again")):
        tags = {256: 8, 257: 8, 258: 8, 259: 1, 262: 1, 277: 1, 278: 4}  # 8 x 8 grey, 4 rows each
        entries = [struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items()]
        end = 8 + 32 + 4 * strips
        entries.insert(5, struct.pack("<HHII", 273, 4, strips, 40))
        directory = struct.pack("<H", len(entries)) + b"".join(entries) + bytes(4)
        start = b"II*\0" + struct.pack("<I", end) + bytes(32)  # the pixels of all strips
        path.write_bytes(start + struct.pack("<I", 8) * strips + directory)
        assert examine_image(path)[0] == fault


def test_threads_decode_at_once_only_what_fits_together():
    room, together = Room(100), []
    taken = []

    def decode(pixels):
        with room.taken(pixels):
            taken.append(pixels)
            together.append(sum(taken))
            time.sleep(0.002)
            taken.remove(pixels)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(decode, [40, 60, 500, 30] * 6))
    assert len(together) == 24
    assert max(total for total in together if total < 500) <= 100
    assert max(together) == 500  # a larger one is alone


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "I;16"])
def test_bands_give_the_pixels_of_the_whole_picture(rng, monkeypatch, mode):
    levels = rng.integers(0, 256, (37, 23, 4)).astype(np.uint8)
    image = Image.fromarray(levels)
    if mode == "I;16":
        image = Image.fromarray(levels[..., 0].astype(np.uint16) * 257)
    elif mode == "P":
        image = image.convert("RGB").quantize(50)
        image.info["transparency"] = bytes(range(50))
    else:
        image = image.convert("LA").convert("PA") if mode == "PA" else image.convert(mode)
    assert image.mode == mode
    for orientation in range(10):
        image.getexif()[0x0112] = orientation
        monkeypatch.setattr(decoding, "_BAND", 2**20)
        whole = decoding.to_rgb(image)
        monkeypatch.setattr(decoding, "_BAND", 100)
        np.testing.assert_array_equal(decoding.to_rgb(image), whole)
        upright = ImageOps.exif_transpose(image).size
        assert whole.shape == (*upright[::-1], 3)


@pytest.mark.soak(of="fuzz")
def test_decoding_needs_the_memory_that_is_stated(tmp_path):
    Image.new("RGBA", (8000, 8000), (1, 2, 3, 4)).save(tmp_path / "a.png", compress_level=1)
    code = (
        "import resource, sys; from pathlib import Path; from PIL import Image\n"
        "from keras_vit.data.decoding import decode_image\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024\n"
        "before = peak(); image = decode_image(Path(sys.argv[1])); print(peak() - before)"
    )
    command = [sys.executable, "-c", code, tmp_path / "a.png"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert int(done.stdout) < 10 * 8000 * 8000


def test_absent_and_empty_folders(tmp_path):
    with pytest.raises(UsageError, match="nowhere: expected a folder.*; there is no such folder"):
        image_folder(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="two subfolders or more.*Received: 0"):
        image_folder(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="file: expected a folder.*; it is a file"):
        image_folder(tmp_path / "file")


def test_a_single_class_is_refused(image_folder):
    shutil.rmtree(image_folder / "red")
    with pytest.raises(UsageError, match=r"two subfolders or more.*Received: 1 \(blue\)\.$"):
        open_source(image_folder)


def moved(folder, *places):
    """Copies a folder to several places under a new root."""
    root = folder.parent / "root"
    for place in places:
        shutil.copytree(folder, root / place)
    return root


def test_a_folder_one_level_too_high_is_refused_and_the_right_one_named(image_folder):
    for place in ("flowers", "flowers/images", "flowers/train"):
        root = moved(image_folder, place)
        with pytest.raises(UsageError, match=f"one level too high.*; pass {root / place}\\.$"):
            open_source(root)
        shutil.rmtree(root)
    root = moved(image_folder, "flowers", "pets")
    with pytest.raises(UsageError, match=f"pass {root}/flowers, or another folder like it"):
        open_source(root)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("train", "val"), {"train": 12, "validation": 12}),
        (("Test", "training"), {"train": 12, "test": 12}),
        (("train", "valid", "test"), {"train": 12, "validation": 12, "test": 12}),
    ],
)
def test_folders_declare_splits(image_folder, parts, expected):
    root = moved(image_folder, *parts)
    (root / "readme.txt").write_text("a data set")
    (root / "flat").mkdir()
    source = open_source(root)
    assert {name: len(indices) for name, indices in source.splits.items()} == expected
    assert source.labels == ("blue", "red")
    folder = {"train": parts[0] if parts[0].startswith("train") else parts[1]}
    train = [source.ids[i] for i in source.splits["train"]]
    assert train[0] == f"{folder['train']}/blue/0.jpg"
    assert all(name.startswith(folder["train"]) for name in train)
    for i, target in enumerate(source.targets):
        assert source.image(i).mean((0, 1)).argmax() == (2, 0)[target]
    assert [str(each) for each in source.skipped] == [
        "flat: outside the splits", "readme.txt: outside the splits",
    ]  # fmt: skip
    (root / parts[0] / "red" / "9.jpg").write_bytes(b"\xff\xd8\xff")
    assert skipped_summary(open_source(root))[0] == f"{parts[0]}/red/9.jpg: broken JPEG"
    with pytest.raises(UsageError, match=f"{parts[0]}/red/9.jpg: broken JPEG"):
        open_source(root, strict=True)


def test_splits_with_different_classes_are_refused_with_the_difference(image_folder):
    root = moved(image_folder, "train", "val")
    (root / "val" / "red").rename(root / "val" / "green")
    with pytest.raises(
        UsageError, match="expected the classes of train.*validation lacks 'red'; validation adds '"
    ):
        open_source(root)


def test_folders_of_splits_without_one_for_training_are_refused(image_folder):
    root = moved(image_folder, "val", "test")
    match = f"test, val are parts of a data set, not classes; pass {root / 'test'}"
    with pytest.raises(UsageError, match=match):
        open_source(root)


def test_a_folder_beside_declared_splits_is_named(image_folder):
    root = moved(image_folder, "train", "val", "images")
    with pytest.raises(UsageError, match="train and val are parts of a data set, images is not: m"):
        open_source(root)
    (root / "images").rename(root.parent / "elsewhere")
    assert list(open_source(root).splits) == ["train", "validation"]


@pytest.mark.parametrize("parts", [("train", "val"), ("Test", "training"), ("train", "val", "x")])
def test_folders_named_like_splits_are_not_classes(image_folder, parts):
    root = moved(image_folder, *parts, "valid")
    train = next(part for part in parts if part.startswith("train"))
    if "val" in parts:  # two folders for one split
        match = f"parts of a data set, not classes; pass {root / train}"
        with pytest.raises(UsageError, match=match):
            open_source(root)
    shutil.rmtree(root / "valid")
    # Test pictures without classes, as competitions give them.
    other = next(part for part in parts if part != train)
    for file in list((root / other).rglob("*.*")):
        file.rename(root / other / f"{file.parent.name}-{file.name}")
    with pytest.raises(UsageError, match=f"pass {root / train}"):
        open_source(root)


def test_a_class_may_be_called_train(image_folder):
    (image_folder / "red").rename(image_folder / "train")
    assert open_source(image_folder).counts == {"blue": 6, "train": 6}


def test_a_folder_one_level_too_low_is_refused(image_folder):
    too_low = (
        f"one level too low, it directly contains 6 pictures; pass {image_folder} if its 2 sub"
    )
    for names in ([], ["more"], ["more", "raw"]):
        for name in names:
            (image_folder / "red" / name).mkdir(exist_ok=True)
            shutil.copy(image_folder / "red" / "0.jpg", image_folder / "red" / name)
        with pytest.raises(UsageError, match=too_low):
            open_source(image_folder / "red")
    shutil.rmtree(image_folder / "blue")
    with pytest.raises(UsageError, match="one level too low.*; put the pictures of each class in"):
        open_source(image_folder / "red")


def test_pictures_may_lie_deeper_in_a_class(image_folder):
    for label in ("blue", "red"):  # as Tiny ImageNet has it
        (image_folder / label).rename(image_folder.parent / "images")
        (image_folder / label).mkdir()
        (image_folder.parent / "images").rename(image_folder / label / "images")
    shutil.copytree(image_folder / "red", image_folder / "green")
    for part in ("first", "second"):  # of one class
        shutil.copytree(image_folder / "red" / "images", image_folder / "red" / part)
    source = open_source(image_folder)
    assert source.counts == {"blue": 6, "green": 6, "red": 18}
    assert source.ids[0] == "blue/images/0.jpg"


def test_a_folder_of_the_users_called_digits_is_a_folder(image_folder, monkeypatch):
    own = image_folder.rename(image_folder.with_name("digits"))
    monkeypatch.chdir(own.parent)
    source = open_source("./digits")
    assert (source.name, source.locator) == ("digits", str(own))
    assert len(open_source("digits")) == 1797


def test_checking_leaves_no_warning_filter(image_folder):
    before = list(warnings.filters)
    for _ in range(5):
        open_source(image_folder)
    assert warnings.filters == before


def test_all_problems_of_the_classes_are_listed_at_once_before_decoding(image_folder, monkeypatch):
    monkeypatch.setattr(index, "examine_image", None)
    for name in ("green", "two\nlines", "phone", *"abc"):
        (image_folder / name).mkdir()
    (image_folder / "green" / "notes.txt").write_text("nothing here")
    for i in range(3):
        (image_folder / "phone" / f"{i}.jpg").write_bytes(b"\0\0\0\x18ftypheic")
    with pytest.raises(UsageError) as raised:
        open_source(image_folder)
    (line,) = str(raised.value).splitlines()
    assert line == (
        f"{image_folder}: control characters or bytes that are not UTF-8 in the name of "
        "'two\\nlines'; no readable picture in a, b, c and 3 more, add pictures or remove the "
        "folder."
    )
    for name in "abc":
        (image_folder / name).rmdir()
    with pytest.raises(UsageError, match=r"green \(1 text\), phone \(3 HEIC in a .jpg, convert"):
        open_source(image_folder)


def test_a_class_with_only_broken_pictures_is_named(image_folder):
    (image_folder / "torn").mkdir()
    (image_folder / "torn" / "a.jpg").write_bytes(b"\xff\xd8\xff")
    with pytest.raises(UsageError, match=r"no readable picture in torn \(1 broken JPEG\)"):
        open_source(image_folder)


def test_names_in_any_script_are_accepted_and_invalid_utf8_is_not(image_folder):
    (image_folder / "red").rename(image_folder / "می\u200cخواهم")
    picture = (image_folder / "blue" / "0.jpg").read_bytes()
    with open(os.fsencode(image_folder / "blue") + b"/caf\xe9.jpg", "wb") as file:
        file.write(picture)
    source = open_source(image_folder)
    assert source.labels == ("blue", "می\u200cخواهم")
    (line,) = skipped_summary(source)
    assert line == "blue/caf\\udce9.jpg: its name is not readable text"


def test_skipped_files_are_counted_and_named(image_folder):
    (image_folder / ".cache").mkdir()
    (image_folder / "labels.csv").write_text("a,b")
    blue, picture = image_folder / "blue", (image_folder / "blue" / "0.jpg").read_bytes()
    (blue / ".thumb.jpg").write_bytes(picture)
    (blue / ".checkpoints").mkdir()
    (blue / ".checkpoints" / "0.jpg").write_bytes(picture)
    (blue / "Thumbs.db").write_bytes(b"\xd0\xcf\x11\xe0")
    (blue / "0.jpg.bak").write_bytes(picture)
    (blue / "gone.jpg").symlink_to("nowhere.jpg")
    (blue / "linked").symlink_to(image_folder / "red")
    (blue / "linked.jpg").symlink_to("0.jpg")
    os.mkfifo(blue / "pipe.jpg")
    for i in range(94):
        (image_folder / "red" / f"{i}.png").write_bytes(b"\0\0\0\x18ftypavif")
    source = open_source(image_folder)
    assert source.counts == {"blue": 7, "red": 1}  # five of red are overwritten
    assert skipped_summary(source) == [
        "94 files, AVIF in a .png, convert to JPEG or PNG: 94 in red (0.png, 1.png, 10.png and "
        "91 more)",
        "blue/gone.jpg: broken link",
        "blue/pipe.jpg: not a regular file",
        "blue/linked: link to a folder, not followed",
        "labels.csv: outside the class folders",
        "blue/0.jpg.bak: picture without a picture's extension (.jpg, .jpeg ...)",
        "3 files, hidden: 3 in blue (.checkpoints, .thumb.jpg, Thumbs.db)",
        "102 of 110 files in all",
    ]


def test_skipped_files_are_listed_once(image_folder, capsys):
    def printed():
        print_skipped(open_source(image_folder))
        return capsys.readouterr().err

    assert printed() == ""
    for name in ("broken.jpg", "empty.jpg"):
        (image_folder / "blue" / name).write_bytes(b"")
        assert f"skipped blue/{name}: empty file\n" in printed()
    assert printed() == "skipped 2 files, as before\n"
    # A class without pictures is said together with them.
    (image_folder / "green").mkdir()
    with pytest.raises(UsageError, match=r"in green, add .*; skipped too: blue/broken\.jpg: empty"):
        open_source(image_folder)
    (image_folder / "green").rmdir()
    (image_folder / "blue" / "empty.jpg").unlink()
    assert printed() == "skipped blue/broken.jpg: empty file\n"


def test_many_classes_and_reasons_stay_few_lines(image_folder):
    for label in "abcdefgh":
        shutil.copytree(image_folder / "red", image_folder / label)
        for i in range(20):
            (image_folder / label / f"{'long name ' * 20}{i}.jpg").write_bytes(b"")
    (line,) = skipped_summary(open_source(image_folder))
    assert line.startswith("160 files, empty file: 20 in a (")
    assert line.endswith(" and 5 more")
    assert len(line) < 600


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"])
@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".gif", ".bmp", ".tiff"])
def test_every_format_is_read_under_any_extension(tmp_path, rng, kind, suffix):
    grey = rng.integers(0, 256, (9, 13)).astype(np.uint8)
    image = Image.fromarray(grey)
    image.save(tmp_path / f"a{suffix}", kind, **({"lossless": True} if kind == "WEBP" else {}))
    assert examine_image(tmp_path / f"a{suffix}")[0] == ""
    actual = decode_image(tmp_path / f"a{suffix}")
    if kind == "JPEG":
        np.testing.assert_array_equal(actual, Image.open(tmp_path / f"a{suffix}").convert("RGB"))
    else:
        np.testing.assert_array_equal(actual, np.repeat(grey[..., None], 3, -1))


def test_the_first_frame_and_the_first_page_are_read(tmp_path, rng):
    frames = [Image.new("RGB", (8, 6), colour) for colour in ("red", "blue")]
    for name in ("a.gif", "a.tif", "a.webp"):
        options = {"lossless": True} if name == "a.webp" else {}
        frames[0].save(tmp_path / name, save_all=True, append_images=frames[1:], **options)
        assert Image.open(tmp_path / name).n_frames == 2
        assert (decode_image(tmp_path / name) == (255, 0, 0)).all()


def test_transparent_gif_and_webp_are_blended_with_white(tmp_path):
    clear = Image.new("RGBA", (4, 4), (200, 0, 0, 0))
    for name in ("a.gif", "a.webp", "a.tif"):
        clear.save(tmp_path / name)
        assert (decode_image(tmp_path / name) == 255).all()


@pytest.mark.parametrize("kind", ["TIFF", "WEBP", "PNG"])
def test_every_orientation_is_applied_once(tmp_path, rng, kind):
    pixels = rng.integers(0, 256, (4, 6, 3)).astype(np.uint8)
    turned = {
        1: pixels, 2: pixels[:, ::-1], 3: pixels[::-1, ::-1], 4: pixels[::-1],
        5: pixels.swapaxes(0, 1), 6: np.rot90(pixels, -1), 7: np.rot90(pixels, 2).swapaxes(0, 1),
        8: np.rot90(pixels),
    }  # fmt: skip
    for orientation, expected in turned.items():
        exif = Image.Exif()
        exif[0x0112] = orientation
        options = {"lossless": True} if kind == "WEBP" else {}
        Image.fromarray(pixels).save(tmp_path / "a", kind, exif=exif, **options)
        np.testing.assert_array_equal(decode_image(tmp_path / "a"), expected)


def tiff(bits, photometric, values):
    """A little-endian TIFF of one strip of grey."""
    tags = [
        (256, 3, 1, 4), (257, 3, 1, 1), (258, 3, 1, bits), (259, 3, 1, 1),
        (262, 3, 1, photometric), (273, 4, 1, 8), (277, 3, 1, 1), (278, 3, 1, 1),
        (279, 4, 1, len(values)),
    ]  # fmt: skip
    directory = struct.pack("<H", len(tags)) + b"".join(struct.pack("<HHII", *t) for t in tags)
    return b"II*\0" + struct.pack("<I", 8 + len(values)) + values + directory + bytes(4)


@pytest.mark.parametrize(
    ("bits", "photometric", "values", "expected"),
    [
        (16, 1, b"\0\x00\0\x40\0\x80\xff\xff", [0, 64, 128, 255]),
        (16, 0, b"\0\x00\0\x40\0\x80\xff\xff", [255, 191, 127, 0]),
        (12, 1, b"\x00\x04\x00\x80\x0f\xff", [0, 64, 128, 255]),
    ],
)
def test_deep_grey_tiff_is_scaled(tmp_path, bits, photometric, values, expected):
    (tmp_path / "a.tif").write_bytes(tiff(bits, photometric, values))
    assert decode_image(tmp_path / "a.tif")[0, :, 0].tolist() == expected


def test_print_colours_are_converted(tmp_path):
    for name in ("a.tif", "a.jpg"):
        Image.new("CMYK", (4, 6), (0, 255, 255, 0)).save(tmp_path / name)
        red, green, blue = decode_image(tmp_path / name)[0, 0].tolist()
        assert red > 200
        assert max(green, blue) < 60


@pytest.mark.parametrize(
    ("image", "options", "fault"),
    [
        (Image.new("F", (4, 4)), {}, "TIFF of Pillow's mode F, convert to 8 bits a colour"),
        (Image.new("I", (4, 4)), {}, "TIFF of Pillow's mode I, convert to 8 bits a colour"),
        (Image.new("LAB", (4, 4)), {}, "TIFF of Pillow's mode LAB, convert to 8 bits a colour"),
        (
            Image.new("RGB", (4, 4)),
            {"compression": "lzma"},
            "TIFF with lzma compression, save it without",
        ),
    ],
)
def test_unsupported_pixel_modes_are_refused_by_name(tmp_path, image, options, fault):
    image.save(tmp_path / "a.tif", **options)
    assert examine_image(tmp_path / "a.tif")[0] == fault
    with pytest.raises(UsageError, match=f"a.tif: {fault}."):
        decode_image(tmp_path / "a.tif")


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


def test_pictures_are_checked_again_only_when_they_change(image_folder, monkeypatch):
    (image_folder / "red" / "torn.png").write_bytes((image_folder / "red/1.png").read_bytes()[:99])
    before = open_source(image_folder)
    seen = []

    def examine(path):
        seen.append(path.name)
        return real(path)

    real = index.examine_image
    monkeypatch.setattr(index, "examine_image", examine)
    monkeypatch.setattr(index, "check_format", lambda path: seen.append(f"format of {path.name}"))
    again = open_source(image_folder)
    assert not seen
    assert (again.ids, again.skipped) == (before.ids, before.skipped)
    np.testing.assert_array_equal(again.image.formats, before.image.formats)
    os.utime(image_folder / "red" / "0.jpg", ns=(5, 5))
    monkeypatch.undo()
    monkeypatch.setattr(index, "examine_image", examine)
    (image_folder / "blue" / "0.jpg").write_bytes(b"\xff\xd8\xff")
    assert len(open_source(image_folder)) == len(before) - 1
    assert sorted(seen) == ["0.jpg", "0.jpg"]


def test_a_damaged_or_unwritable_index_is_no_error(image_folder, monkeypatch, tmp_path):
    monkeypatch.setenv("KERAS_VIT_CACHE", str(tmp_path / "cache"))
    open_source(image_folder)
    (file,) = (tmp_path / "cache" / "pictures").iterdir()
    short = {"format": FORMAT, "folder": "", "files": {"red/0.jpg": [1]}}
    for content in ("{", json.dumps(short), "[]"):
        file.write_text(content)
        assert len(open_source(image_folder)) == 12
    monkeypatch.setenv("KERAS_VIT_CACHE", str(image_folder / "red" / "0.jpg"))  # a file
    assert len(open_source(image_folder)) == 12


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("digits:3", "nothing may follow the name digits. Received: 'digits:3'; use 'digits'."),
        ("tfds", "tfds needs what to open. Received: 'tfds'; use 'tfds:NAME'."),
        ("tfrecords", "use 'tfrecords:FOLDER'"),
        ("digit", "there is no such folder, did you mean digits?"),
    ],
)
def test_a_source_is_named_with_what_it_needs(data, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        open_source(data)


def test_hidden_files_beside_the_class_folders_are_not_listed(image_folder):
    before = open_source(image_folder).skipped
    (image_folder / ".DS_Store").write_bytes(b"")
    (image_folder / "notes.txt").write_bytes(b"")
    added = {str(each) for each in open_source(image_folder).skipped} - {*map(str, before)}
    assert added == {"notes.txt: outside the class folders"}
