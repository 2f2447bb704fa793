"""Sources: the digits, and folders of pictures with all kinds of broken and unexpected files."""

import dataclasses
import json
import os
import re
import shutil
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from PIL import Image

from keras_vit import UsageError
from keras_vit.cli._printing import print_skipped
from keras_vit.data import (
    Encoded,
    InMemory,
    Skipped,
    digits,
    open_source,
    picture_index,
    skipped_summary,
)
from keras_vit.data.picture_index import FORMAT
from keras_vit.data.repeated_pictures import repeats, repeats_warning
from keras_vit.data.source import ClassSets


def test_digits_are_the_real_ones():
    source = digits()
    assert (len(source), source.labels) == (1797, tuple("0123456789"))
    assert source.targets[-9:].tolist() == [4, 8, 8, 4, 9, 0, 8, 9, 8]
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


BROKEN = {
    "empty.jpg": (b"", "empty file"),
    "phone.JPG": (b"\0\0\0\x1cftypmif1\0\0", "HEIC in a .jpg, convert to JPEG or PNG"),
    "text.jpg": (b"these are not the pixels you want", "text in a .jpg"),
    "torn.webp": (b"RIFF\x40\0\0\0WEBPVP8 1234", "broken WebP"),
    "webpage.png": (b"<html></html>", "HTML in a .png"),
}


def test_unreadable_pictures_are_skipped_and_named_or_stop_if_strict(image_folder, refused):
    for name, (content, _) in BROKEN.items():
        (image_folder / "blue" / name).write_bytes(content)
    (image_folder / "red" / "notes.txt").write_text("no picture, and none that is lost")
    source = open_source(image_folder)
    assert source.counts == {"blue": 6, "red": 6}
    assert {file.path: file.reason for file in source.skipped if file.is_unreadable} == {
        f"blue/{name}": reason for name, (_, reason) in BROKEN.items()
    }
    assert Skipped("red/notes.txt", "red", "text", is_unreadable=False) in source.skipped
    refused(image_folder, r"blue/empty.jpg: empty file \(5 unreadable in all\)", strict=True)


def expanded(names):
    """The paths of pictures: a name without an extension is a folder of two classes."""
    for name in names.split():
        yield from [name] if "." in name else (f"{name}/blue/0.png", f"{name}/red/0.png")


@pytest.fixture
def lay_out(tmp_path):
    """Makes a folder with a blue or red picture at each of the paths, each with other bytes."""

    def make(names):
        root = tmp_path / "root"
        for i, path in enumerate(expanded(names)):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8 + i, 8), "blue" if "blue" in path else "red").save(root / path)
        return root

    return make


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("", "root: expected a folder.*; there is no such folder"),
        ("blue/0.png", r"two subfolders or more.*Received: 1 \(blue\)\.$"),
        ("flowers", r"one level too high.*; pass ROOT/flowers\.$"),
        ("flowers/images", r"one level too high.*; pass ROOT/flowers/images\.$"),
        ("flowers/train", r"one level too high.*; pass ROOT/flowers/train\.$"),
        ("flowers pets", "pass ROOT/flowers, or another folder like it"),
        (
            "train val/blue/0.png val/green/0.png",
            "expected the classes of train.*validation lacks 'red'; validation adds 'green';",
        ),
        ("val test", "test, val are parts of a data set, not classes; pass ROOT/test"),
        ("train val images", "train and val are parts of a data set, images is not: move it"),
        # Two folders for one split.
        ("train val valid", "parts of a data set, not classes; pass ROOT/train"),
        ("train val valid x", "parts of a data set, not classes; pass ROOT/train"),
        # Test pictures without classes, as competitions give them.
        ("train val/0.png", "pass ROOT/train"),
        ("Test/0.png training", "pass ROOT/training"),
        ("train val/0.png x", "pass ROOT/train"),
    ],
)
def test_folders_that_are_no_class_folders_are_refused(lay_out, refused, names, message):
    root = lay_out(names)
    refused(root, message.replace("ROOT", str(root)))


def test_a_file_and_an_empty_folder_are_refused(tmp_path, refused):
    refused(tmp_path, r"two subfolders or more.*Received: 0\.$")
    (tmp_path / "file").touch()
    refused(tmp_path / "file", "file: expected a folder.*; it is a file")


@pytest.mark.parametrize("below", ["", "red/more/0.png", "red/more/0.png red/raw/0.png"])
def test_a_folder_one_level_too_low_is_refused(lay_out, refused, below):
    root = lay_out(f"blue/0.png red/0.png red/1.png red/2.png {below}")
    advice = f"pass {root} if its 2 sub"
    refused(root / "red", f"one level too low, it directly contains 3 pictures; {advice}")
    shutil.rmtree(root / "blue")
    refused(root / "red", "one level too low.*; put the pictures of each class in")


@pytest.mark.parametrize(
    "folders",
    [
        {"train": "train", "validation": "val"},
        {"train": "training", "test": "Test"},
        {"train": "train", "validation": "valid", "test": "test"},
    ],
)
def test_folders_declare_splits(lay_out, refused, folders):
    root = lay_out(" ".join(folders.values()))
    (root / "readme.txt").write_text("a data set")
    (root / "flat").mkdir()
    source = open_source(root)
    assert source.labels == ("blue", "red")
    found = {name: [source.ids[i] for i in places] for name, places in source.splits.items()}
    assert found == {name: [*expanded(folder)] for name, folder in folders.items()}
    for i, target in enumerate(source.targets):
        assert source.image(i)[0, 0].argmax() == (2, 0)[target]
    beside = ["flat: outside the splits", "readme.txt: outside the splits"]
    assert [str(each) for each in source.skipped] == beside
    torn = f"{folders['train']}/red/9.jpg"
    (root / torn).write_bytes(b"\xff\xd8\xff")
    assert skipped_summary(open_source(root))[0] == f"{torn}: broken JPEG"
    refused(root, f"{torn}: broken JPEG", strict=True)


@pytest.mark.parametrize(
    ("names", "counts"),
    [
        ("blue/0.png train/0.png", {"blue": 1, "train": 1}),
        ("blue/a/0.png green/a/0.png red/a/0.png", {"blue": 1, "green": 1, "red": 1}),
        (
            "blue/a/0.png green/a/0.png red/a/0.png red/b/0.png red/c/0.png",
            {"blue": 1, "green": 1, "red": 3},
        ),
    ],
    ids=["a class called train", "pictures that lie deeper", "several subfolders of one class"],
)
def test_unusual_class_folders_are_read(lay_out, names, counts):
    source = open_source(lay_out(names))
    assert source.counts == counts
    assert source.ids == tuple(names.split())


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


def test_all_problems_of_the_classes_are_listed_at_once(image_folder, refused, monkeypatch):
    (image_folder / "torn").mkdir()
    (image_folder / "torn" / "a.jpg").write_bytes(b"\xff\xd8\xff")
    refused(image_folder, r"no readable picture in torn \(1 broken JPEG\)")
    shutil.rmtree(image_folder / "torn")
    monkeypatch.setattr(picture_index, "examine_image", None)  # the rest is known before decoding
    for name in ("green", "two\nlines", "phone", *"abc"):
        (image_folder / name).mkdir()
    (image_folder / "green" / "notes.txt").write_text("nothing here")
    for i in range(3):
        (image_folder / "phone" / f"{i}.jpg").write_bytes(b"\0\0\0\x18ftypheic")
    fault = "control characters or bytes that are not UTF-8 in the name of 'two\\nlines'; no "
    fault += "readable picture in a, b, c and 3 more (add pictures or remove the folder)."
    refused(image_folder, f"^{re.escape(f'{image_folder}: {fault}')}$")
    for name in "abc":
        (image_folder / name).rmdir()
    refused(image_folder, r"green \(1 text\), phone \(3 HEIC in a .jpg, convert")


def test_names_in_any_script_are_accepted_and_invalid_utf8_is_not(image_folder):
    (image_folder / "red").rename(image_folder / "می\u200cخواهم")
    picture = (image_folder / "blue" / "0.jpg").read_bytes()
    with open(os.fsencode(image_folder / "blue") + b"/caf\xe9.jpg", "wb") as file:
        file.write(picture)
    source = open_source(image_folder)
    assert source.labels == ("blue", "می\u200cخواهم")
    assert skipped_summary(source) == ["blue/caf\\udce9.jpg: its name is not readable text"]


def test_skipped_files_are_counted_and_named(image_folder):
    blue, picture = image_folder / "blue", (image_folder / "blue" / "0.jpg").read_bytes()
    (image_folder / ".cache").mkdir()
    (blue / ".checkpoints").mkdir()
    contents = {
        ".DS_Store": b"", "labels.csv": b"a,b", "blue/.thumb.jpg": picture,
        "blue/.checkpoints/0.jpg": picture, "blue/Thumbs.db": b"\xd0\xcf\x11\xe0",
        "blue/0.jpg.bak": picture,
    }  # fmt: skip
    contents |= {f"red/{i}.png": b"\0\0\0\x18ftypavif" for i in range(94)}
    for name, content in contents.items():
        (image_folder / name).write_bytes(content)
    (blue / "gone.jpg").symlink_to("nowhere.jpg")
    (blue / "linked").symlink_to(image_folder / "red")
    (blue / "linked.jpg").symlink_to("0.jpg")
    os.mkfifo(blue / "pipe.jpg")
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


def test_skipped_files_are_listed_once(image_folder, refused, capsys):
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
    refused(image_folder, r"in green \(add .*; skipped too: blue/broken\.jpg: empty")
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


def test_pictures_are_checked_again_only_when_they_change(image_folder, monkeypatch):
    (image_folder / "red" / "torn.png").write_bytes((image_folder / "red/1.png").read_bytes()[:99])
    before = open_source(image_folder)
    for name in ("examine_image", "check_format"):
        monkeypatch.setattr(picture_index, name, mock.Mock(wraps=getattr(picture_index, name)))
    again = open_source(image_folder)
    assert not picture_index.examine_image.called
    assert not picture_index.check_format.called
    assert (again.ids, again.skipped) == (before.ids, before.skipped)
    np.testing.assert_array_equal(again.image.formats, before.image.formats)
    os.utime(image_folder / "red" / "0.jpg", ns=(5, 5))
    (image_folder / "blue" / "0.jpg").write_bytes(b"\xff\xd8\xff")
    assert len(open_source(image_folder)) == len(before) - 1
    seen = [file.name for ((file,), _) in picture_index.examine_image.call_args_list]
    assert seen == ["0.jpg", "0.jpg"]


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
def test_a_source_is_named_with_what_it_needs(refused, data, message):
    refused(data, re.escape(message))


def test_pictures_of_other_parts_that_are_in_train_are_counted(lay_out):
    root = lay_out("train val test")
    assert repeats_warning(open_source(root)) is None
    shutil.copy(root / "train/red/0.png", root / "val/blue/copy.png")  # of any class
    shutil.copy(root / "train/blue/0.png", root / "val/red/9.png")
    shutil.copy(root / "train/red/0.png", root / "test/red/8.png")
    shutil.copy(root / "val/red/0.png", root / "test/red/9.png")  # neither is trained on
    assert repeats_warning(open_source(root)).startswith(
        "2 of 4 pictures of validation and 1 of 4 pictures of test are also in train, the first is "
        "val/blue/copy.png: what is measured on them is the accuracy on training images;"
    )


def test_data_without_declared_folders_is_not_checked(image_folder):
    shutil.copy(image_folder / "red/1.png", image_folder / "blue/copy.png")
    assert repeats_warning(open_source(image_folder)) is None
    assert repeats_warning(digits()) is None


def test_only_files_of_one_size_and_end_are_read_as_a_whole(tmp_path):
    contents = {
        "same": b"a" * 9000, "beginning": b"b" + b"a" * 8999, "end": b"a" * 8999 + b"b",
        "size": b"a" * 8000, "train": b"a" * 9000,
    }  # fmt: skip
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    *others, train = (tmp_path / name for name in contents)
    with mock.patch.object(Path, "read_bytes", autospec=True, side_effect=Path.read_bytes) as read:
        assert repeats([train], others) == [tmp_path / "same"]
    seen = [file.name for ((file,), _) in read.call_args_list]
    assert sorted(seen) == ["beginning", "same", "train"]


def test_rows_equal_those_of_a_whole_array(rng):
    rows = (rng.uniform(size=(50, 7)) < 0.2).astype(np.uint8)
    assert not rows.any(-1).all()
    repeated = ClassSets(*np.tile(np.nonzero(rows), 2), rows.shape)  # each class counts once
    for sets in (ClassSets.of_rows(rows), repeated):
        for key in (slice(None), slice(3, 9), 5, -1, np.array([4, 4, 0]), [7, 1], rows[:, 0] == 1):
            np.testing.assert_array_equal(sets[key], rows[key])
        np.testing.assert_array_equal(np.asarray(sets), rows)
        assert (len(sets), sets.shape, sets[2].dtype) == (50, (50, 7), np.uint8)
        np.testing.assert_array_equal(sets.counts, rows.sum(0))


def test_the_rarest_class_of_an_image_is_the_first_of_equals(rng):
    rows = (rng.uniform(size=(200, 30)) < 0.1).astype(np.uint8)
    counts = rows.sum(axis=0, dtype=np.int64)
    expected = np.where(rows, counts, len(rows) + 1).argmin(axis=1)
    np.testing.assert_array_equal(ClassSets.of_rows(rows).rarest, expected)
