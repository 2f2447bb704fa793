"""Frozen features: what the head of a model reads, for the images of a source."""

from __future__ import annotations

import dataclasses
import hashlib
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from keras_vit import _files, data
from keras_vit._checks import reads_pictures
from keras_vit._errors import UsageError
from keras_vit._keras import keras
from keras_vit.data import Source, Split
from keras_vit.data.preprocessing import normalise
from keras_vit.data.reading import naming_unreadable
from keras_vit.data.source import InMemory
from keras_vit.weights.hashing import weights_sha256

Report = Callable[[int, int], None]  # of the number of images done, and of all


@dataclasses.dataclass(frozen=True)
class Features:
    """The features and the classes of training and test images, for probes.

    Attributes:
        train, test: float32 (n, channels).
        train_targets, test_targets: classes from 0, int64 (n,).
    """

    train: np.ndarray
    train_targets: np.ndarray
    test: np.ndarray
    test_targets: np.ndarray


def features_of(
    model: Any,
    source: Source,
    indices: np.ndarray,
    batch_size: int = 64,
    report: Callable[[int], None] = lambda done: None,
    body: Any = None,
) -> np.ndarray:
    """The input of the head for each image, float32 (n, channels).

    Of a model whose head reads every token (pooling "none") it is the mean of the tokens.

    Args:
        model: a keras_vit model.
        source: the images.
        indices: the indices of the images, (n,).
        batch_size: images that are computed at a time.
        report: called after each batch with the number of images that are done.
        body: the result of `body_of`, which is compiled only once if it is used again.
    """
    body = body_of(model) if body is None else body
    found: list[np.ndarray] = []
    for inputs in input_batches(model, source, indices, batch_size):
        output = np.asarray(body.predict_on_batch(inputs), np.float32)
        found.append(output.mean(1) if output.ndim == 3 else output)  # (b, channels)
        report(sum(map(len, found)))
    return np.concatenate(found)


def body_of(model: Any) -> Any:
    """The Keras model from inputs to features.

    Raises:
        UsageError: the model's inputs are not made from pictures.
    """
    reads_pictures(model)
    return keras.Model(model.input, model.features)


def input_batches(
    model: Any, source: Source, indices: np.ndarray, batch_size: int
) -> Iterator[np.ndarray]:
    """The images as a model reads them, float32 (b, height, width, channels), a batch at a time."""
    with naming_unreadable(source):
        for images, _ in data.evaluation_batches(source, indices, model.preprocessing, batch_size):
            yield normalise(images, model.preprocessing)


def split_features(
    model: Any,
    source: Source,
    split: Split,
    batch_size: int = 64,
    cache: Path | None = None,
    report: Report = lambda done, total: None,
) -> Features:
    """The features of a split's training images and of its held-out images, as test images.

    Args:
        model: a keras_vit model.
        source: the images, each with one class.
        split: which of them are for training, and which to test on.
        batch_size: images that are computed at a time.
        cache: a file that keeps the features; nothing is computed if it has those of the same
            weights, preprocessing and images. Images are the same if their names and classes are,
            and the pixels in memory or the size and time of change of their files. A source with
            neither `pixels` nor `states` does not show that its images have changed.
        report: called after each batch.

    Raises:
        UsageError: see `check_can_probe`.
    """
    check_can_probe(source)
    key = _key(model, source, split)
    if cache is not None and (known := _read(cache, key)):
        return known
    indices, count = np.concatenate([split.train, split.held_out]), len(split.train)
    total = len(indices)
    features = features_of(model, source, indices, batch_size, lambda done: report(done, total))
    targets = source.targets[indices].astype(np.int64)
    found = Features(features[:count], targets[:count], features[count:], targets[count:])
    if cache is not None:
        _write(cache, key, found)
    return found


def check_can_probe(source: Source) -> None:
    """Raises a `UsageError` unless each image has one of two classes or more."""
    several = source.multi_hot is not None
    if several or len(source.labels) < 2:
        raise UsageError(
            f"probes need images with one of two or more classes each. Received: {source.locator}, "
            f"whose images have {'several classes' if several else 'one class only'}."
        )


def _key(model: Any, source: Source, split: Split) -> str:
    """A hash of what features depend on."""
    digest = hashlib.sha256(f"{weights_sha256(model)} {model.preprocessing}\n".encode())
    digest.update(f"{model.spec} {source.locator}\n".encode())
    for indices in (split.train, split.held_out):
        digest.update("\n".join(source.ids[i] for i in indices).encode())
        digest.update(source.targets[indices].astype("<i8").tobytes())
        if source.states is not None:
            digest.update(np.ascontiguousarray(source.states[indices]).data)
        if isinstance(source.image, InMemory):
            digest.update(np.ascontiguousarray(source.image.pixels[indices]).data)
    return digest.hexdigest()


def _write(path: Path, key: str, features: Features) -> None:
    with _files.replacing(path) as temporary, temporary.open("wb") as stream:
        np.savez(stream, key=np.frombuffer(key.encode(), np.uint8), **vars(features))


def _read(path: Path, key: str) -> Features | None:
    """The features in a file; None if there are none, or if they are of other images or weights."""
    try:
        _files.check_stored(path)
        with np.load(path, allow_pickle=False) as file:
            names = [each.name for each in dataclasses.fields(Features)]
            is_same = file["key"].tobytes() == key.encode()
            return Features(**{name: file[name] for name in names}) if is_same else None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
