"""Galleries: pictures with their features in a bundle, which other pictures are compared with.

The folder `gallery` of a bundle holds gallery.json; vectors.bin, little-endian float32 (pictures,
features), each of length 1; and a thumbnail of each picture, 0.jpg, 1.jpg ...
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta, Struct

from keras_vit import _files
from keras_vit._errors import UsageError
from keras_vit._json import Amount, Lines, Positive
from keras_vit.neighbours import NEIGHBOURS, TEMPERATURE, class_means, nearest, shares, unit

FOLDER = "gallery"
FORMAT = 1
MOST_PICTURES = 100_000
_INDEX = "index the pictures again, with keras-vit index"


class Vote(Struct):
    """How pictures name a class.

    Attributes:
        of: "pictures": the nearest pictures that have a class vote, each with its vote divided by
            the number of pictures of its class. "means": the mean of each class's vectors counts
            as one picture, and all classes vote.
        neighbours: how many pictures vote.
        temperature: a vote is exp(cosine / temperature), before it is divided.
    """

    of: Literal["pictures", "means"]
    neighbours: Amount = NEIGHBOURS
    temperature: Positive = TEMPERATURE


@dataclasses.dataclass(frozen=True)
class Gallery:
    """Pictures with their features.

    Attributes:
        names: of the pictures.
        classes: names of classes; none if pictures have no classes.
        targets: the class of each picture, int64 (n,); -1 for none.
        vectors: features, float32 (n, features), each of length 1.
        vote: how pictures name a class.
    """

    names: tuple[str, ...]
    classes: tuple[str, ...]
    targets: np.ndarray
    vectors: np.ndarray
    vote: Vote = dataclasses.field(default_factory=lambda: Vote("means"))

    def similar(self, features: np.ndarray, count: int = 5) -> list[list[tuple[str, float]]]:
        """The most similar pictures of each row of features (m, features), with their cosines."""
        cosines, near = nearest(_double(features), _double(self.vectors), count)
        return [
            [(self.names[i], float(cosine)) for i, cosine in zip(*row, strict=True)]
            for row in zip(near, cosines, strict=True)
        ]

    def named(self, features: np.ndarray, count: int = 5) -> list[list[tuple[str, float]]]:
        """The classes with the most votes for each row of features, with their parts of them."""
        if not self.classes:
            return [[] for _ in features]
        votes = self.shares(features)
        best = np.argsort(-votes, axis=1, kind="stable")[:, :count]
        return [
            [(self.classes[i], float(row[i])) for i in places if row[i] > 0]
            for row, places in zip(votes, best, strict=True)
        ]

    def shares(self, features: np.ndarray) -> np.ndarray:
        """The part of the votes that each class gets, (m, classes), for features (m, features)."""
        known = self.targets >= 0
        vectors, targets = _double(self.vectors[known]), self.targets[known]
        count, classes = self.vote.neighbours, len(self.classes)
        if self.vote.of == "means":
            vectors, targets = class_means(vectors, targets, classes), np.arange(classes)
            count = classes
        cosines, near = nearest(_double(features), vectors, count)
        sizes = np.bincount(targets)[targets[near]]
        return shares(cosines, targets[near], classes, self.vote.temperature, sizes)


def write_gallery(folder: Path, sha256: str, gallery: Gallery, thumbnails: Sequence[bytes]) -> None:
    """Writes the gallery of a bundle; an older one is replaced.

    Args:
        folder: the bundle's folder.
        sha256: the hash of its model.tflite.
        gallery: the gallery.
        thumbnails: a small JPEG of each picture.
    """
    with _files.replacing_folder(folder / FOLDER) as temporary:
        for i, thumbnail in enumerate(thumbnails):
            (temporary / f"{i}.jpg").write_bytes(thumbnail)
        gallery.vectors.astype("<f4").tofile(temporary / "vectors.bin")
        content = {
            "format": FORMAT,
            "sha256": sha256,
            "features": gallery.vectors.shape[1],
            "classes": list(gallery.classes),
            "vote": {name: getattr(gallery.vote, name) for name in Vote.__struct_fields__},
            "pictures": [
                {"name": name, "target": None if target < 0 else target}
                for name, target in zip(gallery.names, gallery.targets.tolist(), strict=True)
            ],
        }
        _files.write_json(temporary / "gallery.json", content)


def read_gallery(folder: Path, description: dict[str, Any]) -> Gallery | None:
    """The gallery of a bundle; None if it has none.

    Args:
        folder: the bundle's folder.
        description: its model.json.

    Raises:
        UsageError: it is incomplete, or of another model.tflite.
    """
    file, features = folder / FOLDER / "gallery.json", description["output"]["shape"][-1]
    if not file.exists():
        return None
    found = _files.read_record(file, _Gallery, format=FORMAT, most_bytes=_MOST_BYTES)
    if (found.sha256, found.features) != (description["sha256"], features):
        raise UsageError(f"{file} is of another model.tflite than the one beside it; {_INDEX}.")
    targets = np.array([-1 if p.target is None else p.target for p in found.pictures], np.int64)
    if targets.max() >= len(found.classes):
        raise UsageError(
            f"{file}: expected targets below {len(found.classes)}, the number of classes. "
            f"Received: {targets.max()}; {_INDEX}."
        )
    if len(np.unique(targets[targets >= 0])) < len(found.classes):
        raise UsageError(f"{file}: a class has no pictures; {_INDEX}.")
    if len(set(found.classes)) < len(found.classes):
        raise UsageError(f"{file}: a class is there twice; {_INDEX}.")
    names = tuple(picture.name for picture in found.pictures)
    vectors = _read_vectors(folder / FOLDER / "vectors.bin", (len(names), features))
    return Gallery(names, tuple(found.classes), targets, vectors, found.vote)


def gallery_files(folder: Path, gallery: Gallery | None) -> list[str]:
    """The files of a bundle's gallery, relative to its folder; none without one.

    Raises:
        UsageError: a thumbnail is missing, or is a link: a stranger's may lead to any file.
    """
    if gallery is None:
        return []
    thumbnails = [f"{FOLDER}/{i}.jpg" for i in range(len(gallery.names))]
    for name in thumbnails:
        if not (folder / name).is_file() or (folder / name).is_symlink():
            raise UsageError(f"{folder / name} is missing, or a link; {_INDEX}.")
    return [f"{FOLDER}/gallery.json", f"{FOLDER}/vectors.bin", *thumbnails]


# A name of a hundred letters takes about 150 bytes.
_MOST_BYTES = 64 << 20


class _Picture(Struct):
    name: str
    target: int | None = None


class _Gallery(Struct):
    """gallery.json."""

    sha256: str
    features: Amount
    classes: Lines
    vote: Vote
    pictures: Annotated[list[_Picture], Meta(min_length=1, max_length=MOST_PICTURES)]


def _read_vectors(file: Path, shape: tuple[int, int]) -> np.ndarray:
    expected = 4 * shape[0] * shape[1]
    received = file.stat().st_size if file.is_file() else 0
    if received != expected:
        raise UsageError(
            f"{file}: expected {expected:,} bytes, {shape[0]:,} vectors of {shape[1]:,} features. "
            f"Received: {received:,}; {_INDEX}."
        )
    vectors = np.fromfile(file, "<f4").reshape(shape)
    lengths = np.linalg.norm(vectors, axis=1)
    if not (np.abs(lengths - 1) < 1e-3).all():
        raise UsageError(f"{file}: expected vectors of length 1. Received: others; {_INDEX}.")
    return vectors


def _double(features: np.ndarray) -> np.ndarray:
    return unit(np.asarray(features, np.float64))
