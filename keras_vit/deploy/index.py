"""Makes a gallery of pictures: features by a bundle's file, and how well they name classes."""

from __future__ import annotations

import dataclasses
import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from keras_vit._checks import LONGEST_LABEL, is_label, label_names
from keras_vit._errors import RefusedError, UsageError
from keras_vit._files import check_replaceable
from keras_vit.data.decoding import printable
from keras_vit.data.images import find_pictures, read_picture
from keras_vit.data.preprocessing import preprocess
from keras_vit.deploy.bundle.gallery import FOLDER, MOST_PICTURES, Gallery, Vote, write_gallery
from keras_vit.deploy.bundle.opened_bundle import OpenedBundle
from keras_vit.neighbours import NEIGHBOURS, nearest, shares, unit

_SIDE = 160  # of a thumbnail, at most
_MOST_MEASURED = 2_000


@dataclasses.dataclass(frozen=True)
class ToIndex:
    """A picture file of a gallery.

    Attributes:
        path: the file.
        name: what it is called in the gallery.
        label: its class; None if it has none.
    """

    path: Path
    name: str
    label: str | None


def index_pictures(
    bundle: OpenedBundle,
    pictures: Sequence[ToIndex],
    report: Callable[[int, int], None] = lambda done, count: None,
    on_skipped: Callable[[str], None] = lambda line: None,
) -> tuple[Gallery, dict[str, float] | None]:
    """Writes pictures with their features as the gallery of a bundle.

    Classes are named by nearest pictures or by class means, whichever is right more often.

    Args:
        bundle: a bundle of features.
        pictures: the result of `pictures_to_index`.
        report: called with the number of pictures that are done, and of all.
        on_skipped: called with a line about each picture that cannot be read.

    Returns:
        The gallery, and its `accuracies`.

    Raises:
        UsageError: the bundle gives no vector for a picture, no picture could be read, or the
            folder gallery in the bundle holds something else.
        RefusedError: features are not finite.
    """
    bundle.check_features()
    check_replaceable(bundle.folder / FOLDER, FOLDER)
    read: list[tuple[ToIndex, np.ndarray, bytes]] = []
    for done, picture in enumerate(pictures, 1):
        try:
            image = read_picture(picture.path)
            read.append((picture, _vector(bundle, image, picture.name), _thumbnail(image)))
        except UsageError as error:
            on_skipped(str(error))
        report(done, len(pictures))
    if not read:
        raise UsageError("no picture could be read.")
    kept, vectors, thumbnails = zip(*read, strict=True)
    gallery = _gallery_of(kept, np.stack(vectors))
    found = accuracies(gallery)
    of = "pictures" if found and found["pictures"] > found["means"] else "means"
    gallery = dataclasses.replace(gallery, vote=Vote(of))
    write_gallery(bundle.folder, bundle.sha256, gallery, thumbnails)
    vars(bundle).pop("gallery", None)  # the bundle has kept the older one
    return gallery, found


def pictures_to_index(paths: Sequence[str | os.PathLike], classes: bool = True) -> list[ToIndex]:
    """The pictures in files and folders, each with its class.

    A picture's class is the name of its folder; where only one folder is given, pictures in that
    folder itself have none. A file that is found twice is taken once, and the small pictures of
    galleries are left out.

    Args:
        paths: files, and folders that are searched.
        classes: whether folders are classes.

    Raises:
        UsageError: a folder contains no pictures, or there are too many.
    """
    found: dict[Path, ToIndex] = {}
    for path in map(Path, paths):
        folder = path if path.is_dir() else path.parent
        top = Path(folder.resolve().name if len(paths) > 1 else "")
        for file in find_pictures([path]):
            name = top / file.relative_to(folder)
            label = name.parent.name if classes else ""
            if not (file.parent / "gallery.json").exists():
                each = ToIndex(file, _line(name.as_posix()), label or None)
                found.setdefault(file.resolve(), each)
    if len(found) > MOST_PICTURES:
        raise UsageError(
            f"a gallery has at most {MOST_PICTURES:,} pictures. Received: {len(found):,}."
        )
    label_names(sorted({each.label for each in found.values()} - {None}))
    return list(found.values())


def _vector(bundle: OpenedBundle, image: np.ndarray, name: str) -> np.ndarray:
    [vector] = bundle.predict(preprocess(image, bundle))
    if not (np.isfinite(vector).all() and vector.any()):
        raise RefusedError(f"the features of {name} are zeros or not finite.")
    return vector


def _gallery_of(pictures: Sequence[ToIndex], vectors: np.ndarray) -> Gallery:
    """The gallery of pictures with these features (n, features)."""
    classes = sorted({each.label for each in pictures} - {None})
    places = {label: i for i, label in enumerate(classes)}
    targets = np.array([places.get(each.label, -1) for each in pictures], np.int64)
    vectors = unit(vectors.astype(np.float64)).astype(np.float32)
    return Gallery(tuple(each.name for each in pictures), tuple(classes), targets, vectors)


def accuracies(gallery: Gallery) -> dict[str, float] | None:
    """How often the others name the class of a picture: by "pictures" and by "means".

    At most 2,000 pictures are named, drawn at random; those that are alone in their class are not.

    Returns:
        The means of the classes' fractions; None without two classes of two pictures.
    """
    known = np.random.default_rng(0).permutation(np.flatnonzero(gallery.targets >= 0))
    vectors, targets = gallery.vectors[known].astype(np.float64), gallery.targets[known]
    counts = np.bincount(targets, minlength=1)
    if (counts > 1).sum() < 2:
        return None
    few = slice(_MOST_MEASURED)
    queries, named = vectors[few], targets[few]
    cosines, near = nearest(queries, vectors, NEIGHBOURS, themselves=True)
    sizes = counts[targets[near]] - (targets[near] == named[:, None])
    by_pictures = shares(cosines, targets[near], len(counts), sizes=sizes).argmax(1)
    sums = np.zeros((len(counts), vectors.shape[1]))
    np.add.at(sums, targets, vectors)
    cosines, without = queries @ unit(sums).T, unit(sums[named] - queries)
    cosines[np.arange(len(named)), named] = (queries * without).sum(1)
    judged = [named == target for target in np.unique(named) if counts[target] > 1]
    return {
        of: float(np.mean([(found == named)[each].mean() for each in judged]))
        for of, found in (("pictures", by_pictures), ("means", cosines.argmax(1)))
    }


def _thumbnail(image: np.ndarray) -> bytes:
    small = Image.fromarray(image)
    small.thumbnail((_SIDE, _SIDE))
    small.save(content := io.BytesIO(), "JPEG", quality=85)
    return content.getvalue()


def _line(name: str) -> str:
    """The name of a file as a line of text."""
    name = printable(name)
    escaped = name if is_label(name) else name.encode("unicode_escape").decode()
    return escaped[-LONGEST_LABEL:]
