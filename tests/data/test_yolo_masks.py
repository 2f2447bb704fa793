"""Folders of pictures with the text files of YOLO, as Ultralytics and Roboflow lay them out."""

import time

import numpy as np
import pytest
import yaml
from PIL import Image
from pycocotools import mask as coco_mask

from keras_vit import UsageError, data
from keras_vit.data.yolo_masks import read_names

SIZE = (20, 40)
SQUARE = "0.25 0.25 0.75 0.25 0.75 0.75 0.25 0.75"
SMALL = "0.4 0.4 0.6 0.4 0.6 0.6 0.4 0.6"
NAMES = "train: ../train/images\nval: ../valid/images\n\nnc: 2\nnames: ['cat', 'dog']\n"


@pytest.fixture
def folder(tmp_path, rng):
    """Writes pictures and texts into a folder, and returns it."""

    def folder(files, names=NAMES, size=SIZE):
        for name, content in {**files, "data.yaml": names}.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                Image.fromarray(rng.integers(0, 256, (*size, 3), np.uint8)).save(file)
            else:
                file.write_text(content)
        return tmp_path

    return folder


def opened(path):
    return data.open_source(f"masks:{path}")


def reasons(source):
    return {each.path: each.reason for each in source.skipped}


def test_roboflows_export(folder):
    path = folder(
        {
            "train/images/a_jpg.rf.1.jpg": None,
            "train/labels/a_jpg.rf.1.txt": f"1 {SQUARE}\n",
            "train/images/b.jpg": None,
            "train/labels/b.txt": "",
            "train/images/c.jpg": None,
            "valid/images/a.jpg": None,
            "valid/labels/a.txt": f"0 {SQUARE}\n\n1 {SMALL}",
            "README.roboflow.txt": "a project",
        }
    )
    source = opened(path)
    assert source.ids == (
        *("train/images/a_jpg.rf.1.jpg", "train/images/b.jpg", "train/images/c.jpg"),
        "valid/images/a.jpg",
    )
    assert source.labels == ("background", "cat", "dog")
    assert source.counts == {"background": 4, "cat": 1, "dog": 2}
    expected = np.zeros(SIZE, np.uint8)
    expected[5:15, 10:30] = 2
    np.testing.assert_array_equal(source.annotations.mask(0), expected)
    for background in (1, 2):  # an empty text, and none
        assert source.annotations.mask(background).shape == SIZE
        assert not source.annotations.mask(background).any()
    mask = source.annotations.mask(3)
    assert (mask[10, 20], mask[6, 12], mask[0, 0]) == (2, 1, 0)
    assert {name: each.tolist() for name, each in source.splits.items()} == {
        "train": [0, 1, 2],
        "validation": [3],
    }
    assert reasons(source) == {"README.roboflow.txt": "text"}
    assert data.open_source(source.locator).ids == source.ids


def test_ultralytics_layout(folder):
    path = folder(
        {
            "images/train2017/1.jpg": None,
            "labels/train2017/1.txt": f"7 {SQUARE}\n",
            "images/val2017/1.jpg": None,
            "labels/val2017/1.txt": f"0 {SMALL}\n",
        },
        "# COCO\npath: coco\ntrain: images/train2017\n\n# Classes\nnames:\n  0: person\n"
        "  # and others\n  7: traffic light # red\n\ndownload: https://example.com/a.zip\n",
    )
    source = opened(path)
    assert source.labels == ("background", "person", "traffic light")
    assert [source.annotations.mask(i).max() for i in range(2)] == [2, 1]
    assert {name: each.tolist() for name, each in source.splits.items()} == {
        "train": [0],
        "validation": [1],
    }


def test_masks_equal_those_of_pycocotools(folder, rng):
    fractions = rng.uniform(-0.2, 1.2, (8, 5, 2))
    lines = [" ".join(map(str, [i % 2, *each.ravel()])) for i, each in enumerate(fractions)]
    files = {f"images/{i}.png": None for i in range(8)}
    source = opened(folder({**files, **{f"labels/{i}.txt": x for i, x in enumerate(lines)}}))
    for i, each in enumerate(fractions):
        outline = (each * (SIZE[1], SIZE[0])).ravel().tolist()
        expected = coco_mask.decode(coco_mask.frPyObjects([outline], *SIZE))[..., 0]
        np.testing.assert_array_equal(source.annotations.mask(i), expected * (1 + i % 2))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("names: ['cat', 'dog']", {0: "cat", 1: "dog"}),
        ('names: ["cat", "driver\'s, big" ]  # two', {0: "cat", 1: "driver's, big"}),
        ("names:\n- 5\" gun \n- driver's", {0: '5" gun', 1: "driver's"}),
        ("names: [cat, hot dog,]", {0: "cat", 1: "hot dog"}),
        ("names: ['cat',\n  'dog',\n 'it''s'\n]\nnc: 3", {0: "cat", 1: "dog", 2: "it's"}),
        ("names: {0: cat, 3: 'dog'}", {0: "cat", 3: "dog"}),
        ("names:\n- cat\n- 'hot: dog'\nnc: 2", {0: "cat", 1: "hot: dog"}),
        ("names:\n  - cat\n\n  - \"dog\"", {0: "cat", 1: "dog"}),
        ("nc: 2\r\nnames: # all\r\n    1: dog\r\n    0: cat # c\r\n", {0: "cat", 1: "dog"}),
        ("names:\n  0: C#\n  1: a#b # no\n", {0: "C#", 1: "a#b"}),
    ],
)  # fmt: skip
def test_names_are_read_as_yaml_does(tmp_path, text, expected):
    file = tmp_path / "data.yaml"
    file.write_text(text)
    assert read_names(file) == expected
    found = yaml.safe_load(text)["names"]
    assert (found if isinstance(found, dict) else dict(enumerate(found))) == expected


@pytest.mark.parametrize(
    "text",
    [
        "names: cat, dog",
        "names: &a [cat]",
        "names: [cat, [dog]]",
        "names: ['cat' 'dog']",
        "names: ['cat', 'dog'",
        "names: [cat: 1, dog]",
        "names: {cat: 0}",
        "names: []",
        "names:",
        "names:\n  cat: 0",
        "names:\n  0: cat\n  0: dog",
        "names:\n  0:\n    name: cat",
        "names:\n  0: |\n    cat",
        "names:\n  - [cat]",
        "names: !!python/tuple [a]",
        "names: [\x00]",
        "names: ['" + "a" * 100_000,
        "names: [" + "'" * 100_001,
        "names: [a" + " " * 100_000 + "[]",
        "names: [0" + " " * 100_000 + ":" + " " * 100_000 + "[]",
        "names:\n- 'a'" + " " * 100_000 + "'",
    ],
)
def test_other_names_are_refused_at_once(folder, text):
    path = folder({"images/a.jpg": None, "labels/a.txt": f"0 {SQUARE}"}, text)
    start = time.monotonic()
    with pytest.raises(UsageError) as error:
        opened(path)
    assert time.monotonic() - start < 3
    assert "names" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("0 0.5 0.5 0.2 0.2", "a box, not an outline"),
        ("0", "a polygon of fewer than 3 points"),
        ("0 0.1 0.2 0.3", "a polygon with an odd number of coordinates"),
        ("0 0.1 0.2 0.3 0.4 0.5 0.6 0.7", "a polygon with an odd number of coordinates"),
        ("0 0.1 0.2", "a polygon of fewer than 3 points"),
        ("2 " + SQUARE, "an object of a class that has no name"),
        ("-1 " + SQUARE, "an object of a class that has no name"),
        ("cat " + SQUARE, "a line that is not a class and numbers"),
        ("1.0 " + SQUARE, "a line that is not a class and numbers"),
        (f"{'9' * 9999} {SQUARE}", "a line that is not a class and numbers"),
        ("0 0.1 0.1 0.5 x 0.5 0.5", "a line that is not a class and numbers"),
        (
            "0 10 10 300 10 300 200",
            "coordinates that are not fractions of the picture, such as pixels",
        ),
        ("0 0 0 1 nan 1 1", "coordinates that are not fractions of the picture, such as pixels"),
        ("0 0 0 1 inf 1 1", "coordinates that are not fractions of the picture, such as pixels"),
        ("0 0 0 1 1e999 1 1", "coordinates that are not fractions of the picture, such as pixels"),
        ("\x00\ufffd", "a line that is not a class and numbers"),
        (f"0 {SQUARE}\n" * 10_001, "more than 10,000 objects"),
        (f"0 {SQUARE}\n" * 100_000, "more than 10,000 objects"),
        ("0 " + "0 0 1 1 " * 200_000, "a polygon with too long an outline"),
    ],
)
def test_a_line_that_cannot_be_used_skips_its_picture(folder, line, reason):
    files = {"images/a.jpg": None, "images/b.jpg": None, "labels/a.txt": f"0 {SQUARE}"}
    path = folder({**files, "labels/b.txt": f"1 {SQUARE}\n{line}\n"})
    start = time.monotonic()
    source = opened(path)
    assert time.monotonic() - start < 5
    assert source.ids == ("images/a.jpg",)
    assert reasons(source) == {"images/b.jpg": reason}
    with pytest.raises(UsageError, match=f"b.jpg: {reason}"):
        data.mask_folder(path, strict=True)


def test_what_has_no_counterpart_is_named(folder):
    path = folder(
        {
            "images/a.jpg": None,
            "labels/a.txt": f"0 {SQUARE}",
            "images/b.jpg": None,
            "images/b.png": None,
            "labels/b.txt": f"0 {SQUARE}",
            "labels/gone.txt": f"0 {SQUARE}",
            "others/c.jpg": None,
            "test/images/d.jpg": None,
            "images/broken.png": "\x89PNG",
        }
    )
    source = opened(path)
    assert source.ids == ("images/a.jpg",)
    found = reasons(source)
    assert found.pop("images/broken.png")
    assert found == {
        "images/b.jpg": "several pictures of this name",
        "images/b.png": "several pictures of this name",
        "labels/gone.txt": "text without a picture",
        "others/c.jpg": "not in a folder images",
        "test/images/d.jpg": "without a folder labels",
    }


def test_boxes_alone_are_one_line(folder):
    path = folder({"images/a.jpg": None, "labels/a.txt": "0 0.5 0.5 0.2 0.2"})
    with pytest.raises(UsageError, match=r"Received: images/a.jpg: a box, not an outline"):
        opened(path)


def test_a_picture_is_as_it_is_seen(folder):
    path = folder({"labels/a.txt": "0 0 0 1 0 1 0.5 0 0.5", "images/b.jpg": None})
    picture = Image.fromarray(np.zeros((*SIZE, 3), np.uint8))
    exif = picture.getexif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    picture.save(path / "images" / "a.jpg", exif=exif)
    mask = opened(path).annotations.mask(0)
    assert mask.shape == SIZE[::-1]
    assert mask[:20].all()
    assert not mask[20:].any()


def test_a_category_named_background_is_the_background(folder):
    files = {"images/a.jpg": None, "labels/a.txt": f"1 {SQUARE}\n2 {SMALL}"}
    source = opened(folder(files, "names: [a, background, b]"))
    assert source.labels == ("background", "a", "b")
    assert {*np.unique(source.annotations.mask(0))} == {0, 2}


def test_without_texts_or_names_it_is_no_yolo(folder):
    path = folder({"images/a.jpg": None, "masks/b.txt": "0"})
    with pytest.raises(UsageError, match="such as images/a.jpg and masks/a.png"):
        opened(path)
    path = folder({"labels/a.txt": f"0 {SQUARE}"}, "classes: [cat]")
    with pytest.raises(UsageError, match="such as images/a.jpg and masks/a.png"):
        opened(path)
