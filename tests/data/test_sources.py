"""Sources: the digits, and folders of whatever cameras and scrapers leave behind."""

from __future__ import annotations

import os
import shutil
import warnings

import numpy as np
import pytest
from PIL import Image

from keras_vit import UsageError
from keras_vit.data import digits, image_folder, open_source
from keras_vit.data.decoding import check_image, decode_image

pytestmark = pytest.mark.once


def test_digits_are_the_real_ones():
    source = digits()
    assert (len(source), source.labels) == (1797, tuple("0123456789"))
    assert np.bincount(source.targets).tolist() == [
        178, 182, 177, 183, 181, 182, 181, 179, 174, 180,
    ]  # fmt: skip
    image = source.image(0)
    assert (image.shape, image.dtype) == ((8, 8, 3), np.uint8)
    assert image[0, :, 0].tolist() == [0, 0, 80, 207, 143, 16, 0, 0]  # 0 0 5 13 9 1 0 0 of 16


def test_folder_reads_every_mode_as_rgb(image_folder):
    source = open_source(image_folder)
    assert source.labels == ("blue", "red")
    assert len(source) == 12
    assert source.ids[0] == "blue/0.jpg"
    assert not source.skipped
    for index, target in enumerate(source.targets):
        image = source.image(index)
        assert image.dtype == np.uint8
        assert image.shape[-1] == 3
        assert image.mean((0, 1)).argmax() == (2, 0)[target]


def test_grey_16_bit_and_transparent_pictures(tmp_path):
    wide = np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)
    Image.fromarray(wide).save(tmp_path / "wide.png")
    found = decode_image(tmp_path / "wide.png")
    np.testing.assert_array_equal(found[..., 0], wide >> 8)
    clear = np.zeros((4, 4, 4), np.uint8)
    clear[..., 0], clear[:2, :, 3] = 200, 255
    Image.fromarray(clear).save(tmp_path / "clear.png")
    found = decode_image(tmp_path / "clear.png")
    assert found[0, 0].tolist() == [200, 0, 0]
    assert found[3, 0].tolist() == [255, 255, 255]
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
    found = decode_image(tmp_path / "turned.jpg")
    assert found.shape == (40, 20, 3)
    assert found[:15].mean() > 250
    assert found[25:].mean() < 5


BROKEN = {
    "empty.jpg": (lambda good: b"", "the file is empty"),
    "text.jpg": (lambda good: b"these are not the pixels you want", "not a JPEG or PNG image"),
    "short.jpg": (lambda good: good[: len(good) // 2], "truncated"),
    "webpage.png": (lambda good: b"<html></html>", "not a JPEG or PNG image"),
}


@pytest.fixture(params=BROKEN)
def broken(request, image_folder):
    damage, message = BROKEN[request.param]
    good = Image.effect_noise((64, 64), 90)
    good.save(image_folder / "good.jpg")
    path = image_folder / "blue" / request.param
    path.write_bytes(damage((image_folder / "good.jpg").read_bytes()))
    return path, message


def test_unreadable_pictures_are_skipped_and_named(image_folder, broken):
    path, message = broken
    source = open_source(image_folder)
    assert len(source) == 12
    (line,) = source.skipped
    assert str(path) in line
    assert message in line


def test_strict_stops_at_unreadable_pictures(image_folder, broken):
    path, message = broken
    with pytest.raises(UsageError, match=f"{path.name}.*{message}"):
        open_source(image_folder, strict=True)


def test_truncated_png_is_found(tmp_path, rng):
    path = tmp_path / "noise.png"
    Image.fromarray(rng.integers(0, 255, (64, 64, 3)).astype(np.uint8)).save(path)
    assert check_image(path) == ""
    path.write_bytes(path.read_bytes()[:5000])
    assert check_image(path) != ""


def test_a_picture_that_claims_too_many_pixels_is_refused(tmp_path):
    path = tmp_path / "bomb.png"
    Image.new("1", (20_000, 10_000)).save(path)
    assert path.stat().st_size < 50_000
    assert "exceeds limit" in check_image(path)


def test_absent_and_empty_folders(tmp_path):
    with pytest.raises(UsageError, match="nowhere: expected a folder"):
        image_folder(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="two subfolders or more.*Received: 0"):
        image_folder(tmp_path)


def test_a_folder_one_level_too_high_is_refused(image_folder):
    with pytest.raises(UsageError, match="Received: 1; is it one level too high"):
        open_source(image_folder.parent)


def test_a_folder_of_the_users_called_digits_is_a_folder(image_folder, monkeypatch):
    own = image_folder.rename(image_folder.with_name("digits"))
    monkeypatch.chdir(own.parent)
    assert open_source("./digits").name == str(own)
    assert len(open_source("digits")) == 1797


def test_checking_leaves_no_warning_filter(image_folder):
    before = list(warnings.filters)
    for _ in range(5):
        open_source(image_folder)
    assert warnings.filters == before


def test_a_class_without_images_is_named(image_folder):
    (image_folder / "green").mkdir()
    (image_folder / "green" / "notes.txt").write_text("nothing here")
    with pytest.raises(UsageError, match=r"green holds no readable image \(.jpg, .jpeg, .png\)"):
        open_source(image_folder)


def test_a_class_name_with_a_line_break_is_refused(image_folder):
    (image_folder / "two\nlines").mkdir()
    with pytest.raises(UsageError, match="has a control character in its name"):
        open_source(image_folder)


def test_names_in_any_script_are_taken_and_bytes_that_are_no_text_are_not(image_folder):
    (image_folder / "red").rename(image_folder / "می\u200cخواهم")
    picture = (image_folder / "blue" / "0.jpg").read_bytes()
    with open(os.fsencode(image_folder / "blue") + b"/caf\xe9.jpg", "wb") as file:
        file.write(picture)
    source = open_source(image_folder)
    assert source.labels == ("blue", "می\u200cخواهم")
    (line,) = source.skipped
    assert line.endswith("its name is not readable text")
    line.encode()


def test_hidden_files_and_folders_are_passed_over(image_folder):
    (image_folder / ".cache").mkdir()
    (image_folder / "blue" / ".thumb.jpg").write_bytes(b"x")
    (image_folder / "blue" / ".checkpoints").mkdir()
    shutil.copy(image_folder / "blue" / "0.jpg", image_folder / "blue" / ".checkpoints" / "0.jpg")
    source = open_source(image_folder)
    assert (len(source), source.labels, source.skipped) == (12, ("blue", "red"), ())
