"""Pictures that are both in the training part and in another one."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from keras_vit.data import open_source, repeats, repeats_warning
from keras_vit.data.sources import digits


@pytest.fixture
def divided(image_folder, rng):
    """A folder whose parts have no picture in common."""
    root = image_folder.parent / "root"
    shutil.copytree(image_folder, root / "train")
    for label in ("blue", "red"):
        for part in ("val", "test"):
            (root / part / label).mkdir(parents=True)
            for i in range(2):
                pixels = rng.integers(0, 256, (20, 20, 3)).astype(np.uint8)
                Image.fromarray(pixels).save(root / part / label / f"{i}.png")
    return root


def test_pictures_of_other_parts_that_are_in_train_are_counted(divided):
    assert repeats_warning(open_source(divided)) is None
    shutil.copy(divided / "train/red/1.png", divided / "val/blue/copy.png")  # of any class
    shutil.copy(divided / "train/red/2.png", divided / "val/red/9.png")
    shutil.copy(divided / "train/red/1.png", divided / "test/red/8.png")
    shutil.copy(divided / "val/red/0.png", divided / "test/red/9.png")  # neither is trained on
    assert repeats_warning(open_source(divided)).startswith(
        "2 of 6 pictures of validation and 1 of 6 pictures of test are also in train, the first is "
        "val/blue/copy.png: what is measured on them is the accuracy on training images;"
    )


def test_data_without_declared_folders_is_not_checked(image_folder):
    shutil.copy(image_folder / "red/1.png", image_folder / "blue/copy.png")
    assert repeats_warning(open_source(image_folder)) is None
    assert repeats_warning(digits()) is None


def test_only_files_of_one_size_and_end_are_read_as_a_whole(tmp_path, monkeypatch):
    contents = {
        "same": b"a" * 9000, "beginning": b"b" + b"a" * 8999, "end": b"a" * 8999 + b"b",
        "size": b"a" * 8000,
    }  # fmt: skip
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "train").write_bytes(contents["same"])
    read = []
    original = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda file: read.append(file.name) or original(file))
    others = [tmp_path / name for name in contents]
    assert repeats.repeats([tmp_path / "train"], others) == [tmp_path / "same"]
    assert sorted(read) == ["beginning", "same", "train"]
