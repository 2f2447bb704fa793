"""What every source of labelled images is: a `Source`, and how the input pipeline may read it."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from keras_vit._checks import LONGEST_LABEL, is_label
from keras_vit._errors import UsageError, shown
from keras_vit.data.folders import SPLITS, Skipped, listed
from keras_vit.data.picture_formats import PLAIN
from keras_vit.labels import answers_of


@dataclasses.dataclass(frozen=True)
class Source:
    """Labelled images with random access.

    Attributes:
        name: its name in reports: "digits", or the last part of a folder's path.
        labels: the class names, in the order of the logits.
        ids: a stable name for each example, each another one.
        targets: the class of each example, int64 (n,). Of an image with several classes it is the
            rarest one, by which splits and parts are stratified; images with none of several
            classes are among those of class 0.
        image: a function of an index that returns the image, uint8 (height, width, 3); it is
            called from many threads. `InMemory` and `Encoded` are such functions, which the input
            pipeline reads much faster than one in Python. `Vectors` returns features instead.
        splits: the indices of each declared split, int64, by its name: "train", "validation" and
            "test"; empty if the source declares none. `split_source` needs train and another one.
        states: if the images are in files: the size and the time of change in nanoseconds of the
            file of each example when the source was opened, int64 (n, 2). Caches compare them.
        multi_hot: if an image may have several classes, or none: 1 for each of them, as integers
            (n, classes) or `ClassSets`, which an array becomes.
        annotations: what is annotated in each image, such as the class of each pixel.
        skipped: the skipped files, each with the reason; see `skipped_summary`.
        skipped_before: whether the same files were skipped when it was opened the last time.
        locator: the argument of `open_source` that opens it again: a name in `SOURCES`, with
            what belongs to it, or a folder's absolute path. Default: the name.

    Raises:
        UsageError: the attributes do not fit together: other numbers of examples, targets that are
            no places of `labels`, two examples with the same id.
    """

    name: str
    labels: tuple[str, ...]
    ids: tuple[str, ...]
    targets: np.ndarray
    image: Callable[[int], np.ndarray]
    skipped: tuple[Skipped, ...] = ()
    skipped_before: bool = False
    locator: str = ""
    splits: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    states: np.ndarray | None = None
    multi_hot: ClassSets | np.ndarray | None = None
    annotations: Annotations | None = None

    def __post_init__(self):
        object.__setattr__(self, "locator", self.locator or self.name)
        try:
            _check(self)
        except UsageError as error:
            raise UsageError(f"the source {self.locator}: {error}") from None
        if isinstance(self.multi_hot, np.ndarray):
            object.__setattr__(self, "multi_hot", ClassSets.of_rows(self.multi_hot))

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def task(self) -> str:
        """What its images can teach: "classification", or the task of their annotations."""
        return "classification" if self.annotations is None else self.annotations.task

    @property
    def sets(self) -> ClassSets | None:
        """The classes of each image, if it may have several; None if each has one."""
        return self.multi_hot if self.annotations is None else self.annotations.sets

    @property
    def counts(self) -> dict[str, int]:
        """The number of images in each class, in the order of `labels`."""
        if self.sets is not None:
            counts = self.sets.counts
        else:
            counts = np.bincount(self.targets, minlength=len(self.labels))
        return dict(zip(self.labels, counts.tolist(), strict=True))


class Annotations(Protocol):
    """What is annotated in each image of a source: `Masks`, for example.

    Attributes:
        task: the task that learns it, a name in `TASKS` of `recipe.py`.
        sets: the classes that occur in each image.
        note: what a user should know of them, in words; or "".
    """

    task: str
    sets: ClassSets
    note: str

    def check(self, count: int, classes: int) -> None:
        """Raises a `UsageError` unless these are annotations of `count` images and `classes`."""

    def renumbered(self, order: np.ndarray, classes: int) -> Annotations:
        """The same, where class i is the class `order[i]` of so many."""

    def moved(self, index: Any, matrix: Any, size: tuple[int, int]) -> Any:
        """What is annotated in an image, where it is after the image was moved.

        Args:
            index: the image's, a TensorFlow int64 ().
            matrix: where each pixel comes from, see `geometry.Placed`; or a function of height and
                width of the picture, int32 (2,), that returns it.
            size: height and width of the moved image.
        """


@dataclasses.dataclass(frozen=True)
class InMemory:
    """Images in memory.

    Attributes:
        pixels: all images, uint8 (n, height, width, 3).
    """

    pixels: np.ndarray

    def __call__(self, index: int) -> np.ndarray:
        """The image, uint8 (height, width, 3)."""
        return self.pixels[index]

    def check(self, count: int) -> None:
        """Raises a `UsageError` unless these are `count` images."""
        shape = (count, *self.pixels.shape[1:3], 3)
        if self.pixels.dtype != np.uint8 or self.pixels.shape != shape:
            raise UsageError(
                f"pixels must be uint8 ({count}, height, width, 3), an image for each of the ids. "
                f"Received: {self.pixels.dtype} {self.pixels.shape}."
            )


@dataclasses.dataclass(frozen=True)
class Encoded:
    """Images in encoded files, or in records of files.

    Attributes:
        decode: a function of an index that returns the image, uint8 (height, width, 3); it is
            called from many threads.
        contents: a TensorFlow function of an index, int64 (), that returns the encoded image, a
            string.
        formats: the place of each image's format in `picture_formats.PLAIN`, uint8 (n,). TensorFlow
            decodes plain JPEG and PNG files to the same pixels as `decode`.
        fault: a function of TensorFlow's message that returns a line about a file that was damaged
            or replaced since the source was opened, or ""; it is called only after an image could
            not be read.
    """

    decode: Callable[[int], np.ndarray]
    contents: Callable[[Any], Any]
    formats: np.ndarray
    fault: Callable[[str], str] = lambda message: ""

    def __call__(self, index: int) -> np.ndarray:
        """The image, uint8 (height, width, 3)."""
        return self.decode(index)

    def check(self, count: int) -> None:
        """Raises a `UsageError` unless these are `count` images."""
        check_integers("formats", self.formats, (count,), len(PLAIN), "places in PLAIN")


@dataclasses.dataclass(frozen=True)
class Vectors:
    """What a model made of the images, in their place.

    Attributes:
        values: float32 (n, channels) or (n, tokens, channels), a row for each of the ids.
    """

    values: np.ndarray

    def __call__(self, index: int) -> np.ndarray:
        """The row of an image, float32 (channels,) or (tokens, channels)."""
        return self.values[index]

    def check(self, count: int) -> None:
        """Raises a `UsageError` unless these are `count` rows."""
        shape = self.values.shape
        if self.values.dtype != np.float32 or len(shape) not in (2, 3) or shape[0] != count:
            raise UsageError(
                f"values must be float32 ({count}, channels), a row for each of the ids. "
                f"Received: {self.values.dtype} {self.values.shape}."
            )


class ClassSets:
    """Rows of 0 and 1, uint8 (n, classes), that are made when they are needed.

    All rows together may be thousands of times larger than the list of the classes.

    `sets[key]` has the rows that NumPy's indexing selects, `np.asarray(sets)` all of them.

    Args:
        images: the image of each entry, integers (entries,).
        numbers: the class of each entry; repeated ones count once.
        shape: the numbers of images and of classes.

    Attributes:
        numbers: the classes of all images in a row, int64.
        starts: where those of each image begin, and their number, int64 (n + 1,).
    """

    def __init__(self, images: np.ndarray, numbers: np.ndarray, shape: tuple[int, int]):
        count, classes = self.shape = shape
        entries = np.unique(np.asarray(images, np.int64) * classes + numbers)
        self._images, self.numbers = np.divmod(entries, max(classes, 1))
        self.starts = np.searchsorted(self._images, np.arange(count + 1))

    @classmethod
    def of_rows(cls, rows: np.ndarray) -> ClassSets:
        """From 0 and 1 for each image and class (n, classes)."""
        return cls(*np.nonzero(rows), rows.shape)

    def renumbered(self, order: np.ndarray, classes: int) -> ClassSets:
        """The same, where class i is the class `order[i]` of so many."""
        return ClassSets(self._images, order[self.numbers], (len(self), classes))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> np.ndarray:
        chosen = np.arange(len(self))[key]
        places = np.atleast_1d(chosen)
        rows = np.zeros((len(places), self.shape[1]), np.uint8)
        for row, place in zip(rows, places, strict=True):
            row[self.numbers[self.starts[place] : self.starts[place + 1]]] = 1
        return rows if np.ndim(chosen) else rows[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[:].astype(dtype or np.uint8, copy=False)

    @property
    def counts(self) -> np.ndarray:
        """The number of images of each class, int64 (classes,)."""
        return np.bincount(self.numbers, minlength=self.shape[1])

    @property
    def rarest(self) -> np.ndarray:
        """The rarest class of each image, the first of several, or 0 without any; int64 (n,)."""
        order = np.lexsort((self.numbers, self.counts[self.numbers], self._images))
        images, first = np.unique(self._images, return_index=True)
        rarest = np.zeros(len(self), np.int64)
        rarest[images] = self.numbers[order[first]]
        return rarest


def as_answered(source: Source, labels: Sequence[str] | None) -> Source:
    """The source with the classes of a model of one logit: "not daisy", which are all others, and
    "daisy". Every other source is returned as it is.

    Args:
        source: images with a class each; with several, it is returned as it is.
        labels: the labels of the model; it is only changed if one of its classes is the only label.
    """
    is_of_one = labels is not None and len(labels) == 1 and labels[0] in source.labels
    if not is_of_one or source.multi_hot is not None:
        return source
    targets = (source.targets == source.labels.index(labels[0])).astype(np.int64)
    return dataclasses.replace(source, labels=answers_of(labels), targets=targets)


def in_order_of(source: Source, labels: Sequence[str]) -> Source:
    """The source with the labels of a model, if all of its classes are among them.

    Every other source is returned as it is, also one whose examples have several classes.
    """
    places = {label: i for i, label in enumerate(labels)}
    if len(places) < len(labels) or not places.keys() >= set(source.labels):
        return source
    if source.multi_hot is not None:
        return source
    order = np.array([places[label] for label in source.labels], np.int64)
    annotations = source.annotations and source.annotations.renumbered(order, len(labels))
    targets = order[source.targets]
    return dataclasses.replace(
        source, labels=tuple(labels), targets=targets, annotations=annotations
    )


def check_labels(labels: Iterable[str], place: str) -> None:
    """Raises a `UsageError` for class names that are not one line, see `is_label`."""
    broken = [shown(label) for label in labels if not is_label(label)]
    if broken:
        raise UsageError(
            f"{place}: expected names of classes of at most {LONGEST_LABEL:,} characters, without "
            f"control characters and line breaks. Received: {listed(broken)}; rename them."
        )


def check_integers(field: str, values: Any, shape: tuple[int, ...], end: int, meaning: str) -> None:
    """Raises a `UsageError` unless `values` is an array of this shape of integers 0 to `end` - 1.

    Args:
        field, meaning: what the message calls the values, and an integer of them.
        values, shape, end: what is checked.
    """
    if not isinstance(values, np.ndarray):
        raise UsageError(f"{field} must be a NumPy array. Received: {type(values).__name__}.")
    if values.dtype.kind not in "iu" or values.shape != shape:
        raise UsageError(
            f"{field} must be integers {shape}, {meaning} for each example. "
            f"Received: {values.dtype} {values.shape}."
        )
    if values.size and not 0 <= values.min() <= values.max() < end:
        raise UsageError(
            f"{field} must be from 0 to {end - 1}, {meaning}. "
            f"Received: {values.min()} to {values.max()}."
        )


def _check(source: Source) -> None:
    """The checks take tenths of a second for a million examples."""
    count, classes = len(source.ids), len(source.labels)
    _check_ids(source.ids)
    check_integers("targets", source.targets, (count,), classes, "places in labels")
    if source.multi_hot is not None and not isinstance(source.multi_hot, ClassSets):
        check_integers("multi_hot", source.multi_hot, (count, classes), 2, "1 for its classes")
    if isinstance(source.image, InMemory | Encoded | Vectors):
        source.image.check(count)
    if source.annotations is not None:
        source.annotations.check(count, classes)
    if source.states is not None and source.states.shape != (count, 2):
        raise UsageError(
            f"states must be ({count}, 2), size and time of change for each example. "
            f"Received: {source.states.shape}."
        )
    for name, indices in source.splits.items():
        if name not in SPLITS:
            raise UsageError(f"splits must be among {', '.join(SPLITS)}. Received: {name!r}.")
        check_integers(f"splits[{name!r}]", indices, (np.size(indices),), count, "indices of ids")


def _check_ids(ids: tuple[str, ...]) -> None:
    kinds = [kind.__name__ for kind in set(map(type, ids)) if not issubclass(kind, str)]
    if kinds:
        raise UsageError(f"ids must be strings. Received: {listed(sorted(kinds))}.")
    if len(set(ids)) < len(ids):  # runs know their images by their ids
        name, count = collections.Counter(ids).most_common(1)[0]
        raise UsageError(f"ids must all be different. Received: {name!r} {count} times.")
