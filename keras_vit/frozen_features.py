"""What the head of a model reads, for the images of a source; and a file that keeps it."""

from __future__ import annotations

import contextlib
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
from keras_vit.data import Source
from keras_vit.data.preprocessing import normalise
from keras_vit.data.reading import naming_unreadable
from keras_vit.data.source import InMemory


def features_of(
    model: Any,
    source: Source,
    indices: np.ndarray,
    batch_size: int = 64,
    report: Callable[[int], None] = lambda done: None,
    body: Any = None,
    whole: bool = False,
) -> np.ndarray:
    """The input of the head for each image, float32 (n, channels).

    Of a model whose head reads every token (pooling "none", or a dense head) it is the mean of the
    tokens.

    Args:
        model: a keras_vit model.
        source: the images.
        indices: the indices of the images, (n,).
        batch_size: images that are computed at a time.
        report: called after each batch with the number of images that are done.
        body: the result of `body_of`, which is compiled only once if it is used again.
        whole: return every token of such a model, (n, tokens, channels).
    """
    body = body_of(model) if body is None else body
    found: list[np.ndarray] = []
    for inputs in input_batches(model, source, indices, batch_size):
        output = np.asarray(body.predict_on_batch(inputs), np.float32)
        found.append(output.mean(1) if output.ndim == 3 and not whole else output)
        report(sum(map(len, found)))
    return np.concatenate(found)


def kept_features(
    model: Any,
    source: Source,
    indices: np.ndarray,
    file: Path | None,
    batch_size: int = 64,
    report: Callable[[int], None] = lambda done: None,
    whole: bool = False,
) -> np.ndarray:
    """`features_of`, from a file that has those of the same weights, preprocessing and images.

    Images are the same if their names are, and the pixels in memory or the size and time of change
    of their files. A source with neither `pixels` nor `states` does not show that its images have
    changed. If the file cannot be written, they are not kept.

    Args:
        model, source, indices, batch_size, report, whole: see `features_of`.
        file: the file, which otherwise gets them; None for none.
    """
    if file is None:
        return features_of(model, source, indices, batch_size, report, whole=whole)
    body = body_of(model)
    key = f"{_key(model, body, source, indices)}{' whole' if whole else ''}"
    known = _read(file, key)
    if known is not None:
        return known
    found = features_of(model, source, indices, batch_size, report, body, whole)
    with contextlib.suppress(OSError, UsageError):  # a full disk, a folder that is not ours
        file.parent.mkdir(parents=True, exist_ok=True)
        with _files.replacing(file) as temporary, temporary.open("wb") as stream:
            np.savez(stream, key=np.frombuffer(key.encode(), np.uint8), features=found)
    return found


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
    for inputs, _ in batches_of(model, source, indices, batch_size):
        yield inputs


def batches_of(
    model: Any, source: Source, indices: np.ndarray, batch_size: int
) -> Iterator[tuple[np.ndarray, Any]]:
    """`input_batches`, each with the images' classes or what is annotated in them."""
    batches = data.evaluation_batches(source, indices, model.preprocessing, batch_size)
    with naming_unreadable(source):
        for images, targets in batches:
            yield normalise(images, model.preprocessing), targets


def _key(model: Any, body: Any, source: Source, indices: np.ndarray) -> str:
    """A hash of what features depend on."""
    dtype = model.layers[1].compute_dtype
    digest = hashlib.sha256(f"{model.spec} {dtype} {model.preprocessing}\n".encode())
    for weight in body.weights:
        digest.update(np.ascontiguousarray(weight).data)
    digest.update("\n".join([source.locator, *(source.ids[i] for i in indices)]).encode())
    if source.states is not None:
        digest.update(np.ascontiguousarray(source.states[indices]).data)
    if isinstance(source.image, InMemory):
        digest.update(np.ascontiguousarray(source.image.pixels[indices]).data)
    return digest.hexdigest()


def _read(file: Path, key: str) -> np.ndarray | None:
    """The features in a file; None if there are none, or if they are of other images or weights."""
    try:
        _files.check_stored(file)
        with np.load(file, allow_pickle=False) as arrays:
            return arrays["features"] if arrays["key"].tobytes() == key.encode() else None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
