"""Folders of pictures with masks as people have them."""

import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from keras_vit import UsageError, data, training
from keras_vit.data.mask_folders import has_mask_folders, has_masks_beside
from keras_vit.data.masks import NO_CLASS

SIZE = (12, 20)


@pytest.fixture
def write(tmp_path, rng):
    """Writes a picture or a mask; returns the mask's values."""

    def write(name, values=None, **settings):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        array = rng.integers(0, 256, (*SIZE, 3), np.uint8) if values is None else values
        array.save(file) if isinstance(array, Image.Image) else Image.fromarray(array).save(
            file, **settings
        )
        return values

    return write


def mask_of(*values, size=SIZE):
    """A mask with these values in equal columns."""
    columns = np.arange(size[1]) * len(values) // size[1]
    return np.broadcast_to(np.array(values, np.uint8)[columns], size).copy()


def opened(path):
    return data.open_source(f"masks:{path}")


def reasons(source):
    return {each.path: each.reason for each in source.skipped}


@pytest.mark.parametrize(
    ("picture", "mask"),
    [
        ("images/a.jpg", "masks/a.png"),
        ("photos/x/a.jpg", "Annotations/x/a.png"),
        ("img/a.jpg", "labels/a_mask.png"),
        ("a.jpg", "a.png"),
        ("a.png", "a-mask.png"),
        ("images/a_gt.jpg", "masks/a_gt.png"),
        ("images/u\u0308.jpg", "masks/\u00fc.png"),
        ("deep/a.jpeg", "deep/a_seg.tif"),
        ("JPEGImages/a.jpg", "ground_truth/a.png"),
    ],
)
def test_a_picture_finds_its_mask(tmp_path, write, picture, mask):
    values = mask_of(0, 3, 3, 7)
    write(picture)
    write(mask, values)
    (tmp_path / "notes.txt").write_text("made on a Monday")
    source = opened(tmp_path)
    assert source.ids == (picture,)
    assert source.labels == ("background", "class 3", "class 7")
    np.testing.assert_array_equal(source.annotations.mask(0), np.digitize(values, [3, 7]))
    assert source.counts == {"background": 1, "class 3": 1, "class 7": 1}
    assert reasons(source) == {"notes.txt": "text"}
    assert data.open_source(source.locator).ids == source.ids
    assert has_mask_folders(tmp_path) == ("/" in mask and "deep" not in mask)
    assert has_masks_beside(tmp_path) == ("/" not in mask)


def test_a_palette_is_not_converted(tmp_path, write):
    values = mask_of(0, 1, 2)
    image = Image.fromarray(values, "P")
    image.putpalette(range(255, -1, -1))
    write("images/a.jpg")
    write("masks/a.png", image)
    np.testing.assert_array_equal(opened(tmp_path).annotations.mask(0), values)


def test_lines_of_labels_txt_are_the_classes(tmp_path, write):
    (tmp_path / "labels.txt").write_text("sky\nsea\nsand\n")
    write("images/a.jpg")
    write("masks/a.png", mask_of(0, 2, NO_CLASS))
    source = opened(tmp_path)
    assert source.labels == ("sky", "sea", "sand")
    assert source.counts == {"sky": 1, "sea": 0, "sand": 1}
    np.testing.assert_array_equal(source.annotations.mask(0), mask_of(0, 2, NO_CLASS))
    assert not source.skipped


def test_black_and_white_masks_have_two_classes(tmp_path, write):
    write("images/a.jpg")
    write("masks/a.png", mask_of(0, 255))
    source = opened(tmp_path)
    assert source.labels == ("background", "foreground")
    np.testing.assert_array_equal(source.annotations.mask(0), mask_of(0, 1))


def test_zero_is_no_class_in_ade20k(tmp_path, write):
    table = "Idx\tRatio\tName\n1\t0.2\twall\n2\t0.1\tbuilding, edifice\n"
    (tmp_path / "objectInfo150.txt").write_text(table)
    for split in ("training", "validation"):
        write(f"images/{split}/a.jpg")
        write(f"annotations/{split}/a.png", mask_of(0, 1, 2))
    source = opened(tmp_path)
    assert source.labels == ("wall", "building, edifice")
    assert {name: each.tolist() for name, each in source.splits.items()} == {
        "train": [0],
        "validation": [1],
    }
    np.testing.assert_array_equal(source.annotations.mask(0), mask_of(NO_CLASS, 0, 1))


def test_vocs_lists_are_its_splits(tmp_path, write):
    for name in "abc":
        write(f"JPEGImages/{name}.jpg")
        write(f"SegmentationObject/{name}.png", mask_of(0, 1))
    for name in "ab":
        write(f"SegmentationClass/{name}.png", mask_of(0, 1, 255, 2))
    lists = tmp_path / "ImageSets" / "Segmentation"
    lists.mkdir(parents=True)
    (lists / "train.txt").write_text("b\n")
    (lists / "val.txt").write_text("a\n")
    source = opened(tmp_path)
    assert source.ids == ("JPEGImages/a.jpg", "JPEGImages/b.jpg")
    assert source.splits["train"].tolist() == [1]
    assert source.splits["validation"].tolist() == [0]
    assert reasons(source)["JPEGImages/c.jpg"] == "no mask"
    assert len(source.labels) == 21
    assert [name for name, n in source.counts.items() if n] == [
        "background",
        "aeroplane",
        "bicycle",
    ]


@pytest.mark.parametrize("file", ["labels.txt", "class_names.txt", "labelmap.txt"])
def test_own_names_in_vocs_layout_are_not_vocs(tmp_path, write, file):
    write("JPEGImages/a.jpg")
    write("SegmentationClass/a.png", mask_of(0, 1))
    (tmp_path / file).write_text("sky\nsea\n")
    expected = ("sky", "sea") if file == "labels.txt" else ("background", "class 1")
    assert opened(tmp_path).labels == expected


def test_more_classes_than_vocs_are_not_vocs(tmp_path, write):
    write("JPEGImages/a.jpg")
    write("SegmentationClass/a.png", mask_of(0, 21))
    assert opened(tmp_path).labels == ("background", "class 21")


@pytest.mark.parametrize(
    ("name", "values", "reason"),
    [
        ("masks/b.png", mask_of(0, 1, size=(6, 10)), "mask of another size than its picture"),
        (
            "masks/b.png",
            mask_of(0, 1, size=SIZE[::-1]),
            "mask of the picture before it was turned upright (EXIF); turn it too",
        ),
        ("masks/b.png", mask_of(0, 9), "value 9, which none of the 3 classes has"),
        ("masks/b.jpg", mask_of(0, 1), "JPEG changes the values of a mask, save it as PNG"),
        (
            "masks/b.png",
            np.stack([mask_of(0, 1), mask_of(0, 0), mask_of(0, 1)], -1),
            "colours instead of the numbers of classes",
        ),
        ("masks/c.png", mask_of(0, 1), "mask without a picture"),
        ("masks/b.png", mask_of(0, 1).astype(np.uint16) + 300, "mask with values above 255"),
        (
            "masks/b.tif",
            mask_of(0, 1).astype(np.float32),
            "mask of the mode F, save it with 8 bits",
        ),
    ],
)
def test_a_mask_that_cannot_be_used_is_skipped_by_name(tmp_path, write, name, values, reason):
    (tmp_path / "labels.txt").write_text("a\nb\nc\n")
    write("images/a.jpg")
    write("masks/a.png", mask_of(0, 1, 2))
    write("images/b.jpg")
    write(name, values)
    source = opened(tmp_path)
    assert source.ids == ("images/a.jpg",)
    assert reasons(source)[name] == reason
    with pytest.raises(UsageError, match="in all"):
        data.open_source(f"masks:{tmp_path}", strict=True)


def test_grey_masks_saved_as_colours_are_read(tmp_path, write):
    values = mask_of(0, 1, 2)
    write("images/a.jpg")
    write("masks/a.png", np.stack([values] * 3, -1))
    np.testing.assert_array_equal(opened(tmp_path).annotations.mask(0), values)


def test_a_mask_of_a_turned_picture_is_as_it_is_seen(tmp_path, write):
    picture = Image.fromarray(np.zeros((*SIZE[::-1], 3), np.uint8))
    exif = picture.getexif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    (tmp_path / "images").mkdir()
    picture.save(tmp_path / "images" / "a.jpg", exif=exif)
    write("masks/a.png", mask_of(0, 1))
    assert opened(tmp_path).image(0).shape[:2] == opened(tmp_path).annotations.mask(0).shape == SIZE


def test_smooth_edges_are_no_classes(tmp_path, write, rng):
    write("images/a.jpg")
    write("masks/a.png", rng.integers(0, 255, SIZE, np.uint8))
    with pytest.raises(UsageError, match="different values, as after resizing with smooth edges"):
        opened(tmp_path)


def test_a_damaged_picture_and_a_damaged_mask_are_skipped(tmp_path, write):
    for name in "abc":
        write(f"images/{name}.png")
        write(f"masks/{name}.png", mask_of(0, 1))
    for file in (tmp_path / "images" / "b.png", tmp_path / "masks" / "c.png"):
        file.write_bytes(file.read_bytes()[:45])
    source = opened(tmp_path)
    assert source.ids == ("images/a.png",)
    assert reasons(source) == {
        "images/b.png": "truncated PNG",
        "masks/c.png": "truncated PNG",
    }


def test_nothing_to_learn_from_is_one_line(tmp_path, write):
    write("a.jpg")
    with pytest.raises(UsageError, match="such as images/a.jpg and masks/a.png. Received: a.jpg"):
        opened(tmp_path)
    assert not has_mask_folders(tmp_path)
    assert not has_masks_beside(tmp_path)
    with pytest.raises(UsageError, match="expected a folder"):
        opened(tmp_path / "absent")


def test_masks_are_read_again_only_after_a_change(tmp_path, write, monkeypatch):
    write("images/a.jpg")
    write("masks/a.png", mask_of(0, 1))
    opened(tmp_path)
    read = []
    monkeypatch.setattr("keras_vit.data.mask_index._examined", lambda file: read.append(file))
    opened(tmp_path)
    assert not read
    monkeypatch.undo()
    write("masks/a.png", mask_of(0, 1, 2))
    assert len(opened(tmp_path).labels) == 3


@pytest.mark.parametrize("bits", [2, 4])
def test_grey_of_few_bits_is_not_spread(tmp_path, write, bits):
    """Pillow reads such pictures as levels from 0 to 255, and cannot write them."""
    values = mask_of(0, 1, 3)
    per_byte = 8 // bits
    packed = np.zeros((SIZE[0], SIZE[1] // per_byte), np.uint8)
    for i in range(per_byte):
        packed |= values[:, i::per_byte] << (8 - bits * (i + 1))
    rows = b"".join(b"\0" + row.tobytes() for row in packed)
    header = struct.pack(">IIBBBBB", SIZE[1], SIZE[0], bits, 0, 0, 0, 0)
    write("images/a.jpg")
    (tmp_path / "masks").mkdir()
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    (tmp_path / "masks" / "a.png").write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + b"".join(
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
            for kind, body in chunks
        )
    )
    source = opened(tmp_path)
    assert source.labels == ("background", "class 1", "class 3")
    np.testing.assert_array_equal(source.annotations.mask(0), np.digitize(values, [1, 3]))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("sky\n\nsea\n", "expected a name in each line, the first for value 0. Received: none in"),
        ("sky\nsea\nsea\n", "expected other names in each line. Received: 'sea' twice"),
        ("sky\n", "expected the names of 2 to 255 classes. Received: 1"),
    ],
)
def test_lines_that_do_not_name_values_are_refused(tmp_path, write, names, message):
    (tmp_path / "labels.txt").write_text(names)
    write("images/a.jpg")
    write("masks/a.png", mask_of(0, 1))
    with pytest.raises(UsageError, match=message):
        opened(tmp_path)


def test_how_many_pixels_have_no_class_is_said(tmp_path, write):
    """Two programs have written these masks: what is 255 in one is 1 in the other."""
    for name, values in (("a", mask_of(0, 255)), ("b", mask_of(0, 1))):
        write(f"images/{name}.jpg")
        write(f"masks/{name}.png", values)
    note = opened(tmp_path).annotations.note
    assert note == "50.0% of the pixels of 1 masks have the value 255, which is no class"


def test_masks_without_a_class_teach_nothing(tmp_path, write):
    for name in "ab":
        write(f"images/{name}.jpg")
        write(f"masks/{name}.png", mask_of(255))
    with pytest.raises(UsageError, match="expected masks with classes. Received: none; 100.0% of"):
        opened(tmp_path)
    (tmp_path / "labels.txt").write_text("sky\nsea\n")
    settings = training.Recipe(task="segmentation", image_size=32, batch_size=2, augment="none")
    with pytest.raises(UsageError, match="classes or more in the masks. Received: none; 100.0% of"):
        training.train("ViT_Pico4", opened(tmp_path), settings, tmp_path.with_name("run"))


def test_pictures_in_no_split_are_named(tmp_path, write):
    for folder in ("train/", "val/", ""):
        write(f"{folder}images/{folder[:1]}a.jpg")
        write(f"{folder}masks/{folder[:1]}a.png", mask_of(0, 1 + len(folder)))
    source = opened(tmp_path)
    assert source.ids == ("train/images/ta.jpg", "val/images/va.jpg")
    assert reasons(source) == {"images/a.jpg": "in no split"}
    np.testing.assert_array_equal(source.annotations.mask(1), np.digitize(mask_of(0, 5), [5]) * 2)


def test_classes_may_have_the_names_of_such_folders(tmp_path, write):
    """They hold pictures, not masks."""
    for name in ("photos/1.png", "labels/1.png"):
        write(name)
    assert not has_mask_folders(tmp_path)
