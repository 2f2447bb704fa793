"""Sources of TFRecord files of `tf.train.Example`: one's own, or those of TensorFlow Datasets.

The files are read once to find the position and the class of each example, which is kept in the
cache folder. Single examples are then read at their position, so that the order of training needs
no buffer and may begin anywhere, however large the files are.

The data sources of TensorFlow Datasets 4.9 refuse TFRecord files, so a prepared data set would have
to be written anew as array_record, which exists only for Linux. It would not be faster: of 5,000
JPEGs of 128 pixels, 1,000 at random took 0.87 s, against 0.81 s here; opening them took 0.05 s,
against 1.1 s here the first time, when they are also checked, and 0.02 s from then on.
"""

from __future__ import annotations

import io
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from msgspec import Meta, Struct

from keras_vit._errors import UsageError
from keras_vit._quiet import quiet
from keras_vit.data.decoding import (
    decode_content,
    decode_values_of,
    examine_stream,
    upright_size_of,
)
from keras_vit.data.folders import SPLITS, Skipped, listed
from keras_vit.data.masks import NO_CLASS, Masks, unnamed_classes
from keras_vit.data.picture_formats import PLAIN
from keras_vit.data.picture_index import Fault, Plain, cache_file, read_cache, state_of, write_cache
from keras_vit.data.reading import changed, in_memory
from keras_vit.data.source import ClassSets, Encoded, Source, check_labels
from keras_vit.data.vtab_tasks import DERIVED

# A change of the checks or of `DERIVED` is a new format, so that all files are read again.
FORMAT = 6
_NO_CLASS = "it has no class"
_LENGTH, _CHECKSUM = 8, 4  # bytes of a record before its content
_SHARD = re.compile(r"(.+-)(\d{5})(-of-(\d{5})(?:\.tfrecord.*)?)")
_BUFFER = 2**17  # bytes that are read at once
_TOGETHER = 64  # pictures that are examined at once


class Keys(NamedTuple):
    """The names of an example's features.

    Attributes:
        image: the encoded image.
        label: its classes, integers.
        text: the names of the classes.
        derived: instead of `label`: a name in `DERIVED`, which computes the class.
        is_mask: whether `label` is a mask instead, an encoded picture of the class of each pixel.
    """

    image: str
    label: str
    text: str = ""
    derived: str = ""
    is_mask: bool = False


class Piece(NamedTuple):
    """Consecutive examples of a file; `take` is -1 for all after `skip`."""

    file: Path
    skip: int = 0
    take: int = -1


_Integer = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class _Known(NamedTuple):
    """What is known of an example: where it is in its file, its picture and its classes."""

    offset: Annotated[int, Meta(ge=0)]
    fault: Fault
    plain: Plain
    classes: list[_Integer]


class _Scan(Struct, tag_field="format", tag=FORMAT):
    """What is known of the examples of a file, and the names of the classes by their numbers."""

    size: int
    changed: _Integer
    examples: list[_Known]
    texts: dict[str, str]


class _Example(NamedTuple):
    id: str
    file: Path
    known: _Known


IMAGENET = Keys("image/encoded", "image/class/label", "image/class/text")


def tfrecords(folder: str | os.PathLike) -> Source:
    """Opens a folder of TFRecord files in the usual layout of ImageNet.

    Examples have `image/encoded`, a JPEG or PNG, `image/class/label`, one or more integers, and
    optionally `image/class/text`. Files are named `train-00000-of-00016`, or `*.tfrecord`; "train",
    and "validation" or "test" in their names declare the splits.

    Raises:
        UsageError: the folder has no such files, only some of them declare a split, a file is
            damaged, or no example can be used.
    """
    folder = Path(folder).resolve()
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    files = [file for file in files if ".tfrecord" in file.name or _SHARD.fullmatch(file.name)]
    if not files:
        raise UsageError(
            f"{folder}: expected TFRecord files, such as train-00000-of-00016 or a.tfrecord. "
            "Received: none."
        )
    _check_complete(folder, files)
    parts: dict[str, list[Piece]] = {}
    for file in files:
        parts.setdefault(_split_of(file.name), []).append(Piece(file))
    if len(parts) > 1 and "" in parts:  # or else they might be trained on and held out too
        raise UsageError(
            f"{folder}: expected train, validation or test in the name of every file or of none. "
            f"Received: none of them in {listed(piece.file.name for piece in parts[''])}; rename "
            "or move them."
        )
    if len(parts) == 1:
        parts = {"": [Piece(file) for file in files]}
    return record_source(folder.name, f"tfrecords:{folder}", parts, IMAGENET)


def record_source(
    name: str,
    locator: str,
    parts: Mapping[str, Sequence[Piece]],
    keys: Keys,
    labels: Sequence[str] | None = None,
    several: bool = False,
    values: Mapping[int, str] | None = None,
) -> Source:
    """A source of examples in TFRecord files.

    Args:
        name, locator: see `Source`.
        parts: the pieces of each declared split; only "" if there are none.
        keys: the names of the features.
        labels: the names of the classes 0, 1 ...; None to take them from the examples.
        several: whether an image may have several classes, even if none here has.
        values: of masks the names of their values, and pixels of others have no class; None to
            name those that occur, see `mask_folder`.

    Raises:
        UsageError: a file is missing or damaged, no example can be used, `labels` lacks a class, or
            a name has several lines.
    """
    files = sorted({piece.file for pieces in parts.values() for piece in pieces})
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise UsageError(
            f"{locator}: expected {len(files)} files. Received: {len(files) - len(missing)}, "
            f"without {listed(missing)} of {files[0].parent}; prepare the data set again."
        )
    before = np.array([state_of(file) for file in files], np.int64)
    scans = {file: _scan(file, keys) for file in files}
    found = {
        split: [each for piece in pieces for each in _examples(piece, scans[piece.file])]
        for split, pieces in parts.items()
    }
    unlabelled = [] if labels is None else _without_unlabelled_test(locator, found, len(labels))
    several = (
        several
        or keys.is_mask
        or any(
            len(each.known.classes) > 1 and not each.known.fault
            for each in itertools.chain(*found.values())
        )
    )
    chosen, split_of, unreadable = _usable(found, several)
    skipped = [Skipped(each.id, "", _NO_CLASS, is_unreadable=False) for each in unlabelled]
    skipped += unreadable
    if not chosen:
        received = f"{len(skipped)}, the first is {skipped[0]}" if skipped else "no examples"
        raise UsageError(f"{locator}: expected images with classes. Received: {received}.")
    numbers = np.array([number for each in chosen for number in each.known.classes], np.int64)
    images = np.repeat(np.arange(len(chosen)), [len(each.known.classes) for each in chosen])
    if keys.is_mask:
        labels, lookup = _of_values(numbers, values, locator)
        images, numbers = images[lookup[numbers] != NO_CLASS], lookup[numbers]
        numbers = numbers[numbers != NO_CLASS]
    elif labels is None:
        labels, numbers = _named(numbers, scans.values())
    check_labels(labels, locator)
    sets = ClassSets(images, numbers, (len(chosen), len(labels))) if several else None
    place = {file: i for i, file in enumerate(files)}
    file_of = np.array([place[each.file] for each in chosen])
    offsets = np.array([each.known.offset for each in chosen], np.int64)
    records = _Records(files, before, file_of, offsets, keys)
    return Source(
        name=name,
        labels=tuple(labels),
        ids=tuple(each.id for each in chosen),
        targets=numbers if sets is None else sets.rarest,
        image=Encoded(
            decode=records.decode,
            contents=records.contents,
            formats=np.array([PLAIN.index(each.known.plain) for each in chosen], np.uint8),
            fault=records.fault,
        ),
        skipped=tuple(skipped),
        locator=locator,
        splits={split: np.flatnonzero(split_of == split) for split in found if split},
        states=before[file_of],
        multi_hot=None if keys.is_mask else sets,
        annotations=Masks(lambda i: lookup[records.mask(i)], sets) if keys.is_mask else None,
    )


class _Records(NamedTuple):
    """Where the chosen examples are; only arrays are kept of what is known of a million examples.

    Attributes:
        files, states: all files, and the `state_of` each when they were opened.
        file_of, offsets: for each example the place of its file in `files`, and its own in the
            file.
        keys: the names of the features.
    """

    files: Sequence[Path]
    states: np.ndarray
    file_of: np.ndarray
    offsets: np.ndarray
    keys: Keys

    def decode(self, index: int) -> np.ndarray:
        """See `Encoded`."""
        record, file = self._read(index)
        content, _, _ = _features(record, self.keys, file)
        return decode_content(content, f"{file}, byte {self.offsets[index]:,}")

    def mask(self, index: int) -> np.ndarray:
        """The values of the mask of an example, uint8 (height, width)."""
        record, file = self._read(index)
        content = _mask_content(record, self.keys, file)
        return decode_values_of(content, f"{file}, byte {self.offsets[index]:,}")

    def contents(self, index: Any) -> Any:
        """See `Encoded`."""
        import tensorflow as tf

        names = in_memory([os.fsencode(file) for file in self.files])
        records = tf.raw_ops.TFRecordDatasetV2(
            filenames=tf.gather(names, tf.gather(in_memory(self.file_of), index))[None],
            compression_type="",
            buffer_size=_BUFFER,
            byte_offsets=tf.gather(in_memory(self.offsets), index)[None],
        )
        records = tf.data.experimental.from_variant(records, tf.TensorSpec((), tf.string))
        record = records.take(1).get_single_element()
        feature = {self.keys.image: tf.io.FixedLenFeature((), tf.string)}
        return tf.io.parse_single_example(record, feature)[self.keys.image]

    def fault(self, message: str) -> str:
        """See `Encoded`: a file that has changed, or else one with a damaged record."""
        if line := changed(self.files, self.states):
            return line
        # TensorFlow says at which byte of a file, but not of which file.
        for byte in map(int, re.findall(r"record at (\d+)", message)):
            for i in np.flatnonzero(np.isin(self.offsets, (byte, byte - _LENGTH - _CHECKSUM))):
                try:
                    self._read(i)
                except UsageError as error:
                    return str(error)
        return ""

    def _read(self, index: int) -> tuple[bytes, Path]:
        """The record of an example, and its file."""
        file = self.files[self.file_of[index]]
        with file.open("rb") as stream:
            stream.seek(self.offsets[index])
            return _record(stream, file), file


def _examples(piece: Piece, scan: _Scan) -> list[_Example]:
    count = len(scan.examples)
    end = count if piece.take < 0 else piece.skip + piece.take
    if end > count:
        raise UsageError(
            f"{piece.file}: expected {end:,} examples. Received: {count:,}; prepare the data set "
            "again."
        )
    name, numbers = piece.file.name, range(piece.skip, end)
    return [_Example(f"{name}#{i}", piece.file, scan.examples[i]) for i in numbers]


def _without_unlabelled_test(
    locator: str, found: dict[str, list[_Example]], count: int
) -> list[_Example]:
    """Takes a test split out that is not needed and has no classes, and returns its examples.

    Raises:
        UsageError: there are other classes than 0 to `count` - 1.
    """
    known, unlabelled = range(count), []
    tested = (number for each in found.get("test", ()) for number in each.known.classes)
    if "validation" in found and not any(number in known for number in tested):
        unlabelled = found.pop("test", [])
    for each in itertools.chain(*found.values()):
        if unknown := [number for number in each.known.classes if number not in known]:
            raise UsageError(
                f"{locator}: expected classes from 0 to {count - 1}. Received: {unknown[0]} in "
                f"{each.id}; name splits with classes, as in tfds:NAME:train:validation."
            )
    return unlabelled


def _usable(
    found: Mapping[str, Sequence[_Example]], several: bool
) -> tuple[list[_Example], np.ndarray, list[Skipped]]:
    """The examples with a picture and a class, the split of each, and the others."""
    chosen, split_of, others = [], [], []
    for split, each in ((split, each) for split, part in found.items() for each in part):
        is_used = several or each.known.classes  # images may have none of several classes
        if fault := each.known.fault or ("" if is_used else _NO_CLASS):
            others.append(Skipped(each.id, "", fault, is_unreadable=True))
        else:
            chosen.append(each)
            split_of.append(split)
    return chosen, np.array(split_of), others


def _check_complete(folder: Path, files: Sequence[Path]) -> None:
    """Raises a `UsageError` if files are missing of those that `-of-00016` in a name counts."""
    names = {file.name for file in files}
    sets = {match.group(1, 3, 4) for name in names if (match := _SHARD.fullmatch(name))}
    expected = {f"{start}{i:05}{end}" for start, end, count in sets for i in range(int(count))}
    missing = sorted(expected - names)
    if missing:
        raise UsageError(
            f"{folder}: expected all files that '-of-' in their names counts. Received: "
            f"{len(files)}, without {listed(missing)}; add them, or rename the others, such as to "
            "train-0.tfrecord, to use only these."
        )


def _split_of(name: str) -> str:
    words = re.split("[^a-z]+", name.lower())
    return next((split for split, names in SPLITS.items() if set(names) & set(words)), "")


def _named(labels: np.ndarray, scans: Iterable[_Scan]) -> tuple[list[str], np.ndarray]:
    """The names of the classes that occur, and the examples' places in them."""
    numbers, targets = np.unique(labels, return_inverse=True)
    known = {number: text for scan in scans for number, text in scan.texts.items()}
    names = [known.get(str(number), str(number)) for number in numbers]
    if len(set(names)) < len(names):
        names = [str(number) for number in numbers]
    return names, targets.astype(np.int64)


def _of_values(
    occurring: np.ndarray, values: Mapping[int, str] | None, locator: str
) -> tuple[tuple[str, ...], np.ndarray]:
    """The names of the classes of masks, and the class of each value, uint8 (256,)."""
    if values is None:
        found = unnamed_classes(occurring.tolist(), locator, "use masks whose values are classes")
    else:
        found = {value: (i, name) for i, (value, name) in enumerate(values.items())}
    lookup = np.full(NO_CLASS + 1, NO_CLASS, np.uint8)
    for value, (number, _) in found.items():
        lookup[value] = number
    return tuple(name for _, name in found.values()), lookup


def _scan(file: Path, keys: Keys) -> _Scan:
    """The examples of a file, from the cache folder if the file has not changed."""
    state, cached = state_of(file), cache_place(file, keys)
    scan = read_cache(cached, _Scan)
    is_of_file = scan is not None and (scan.size, scan.changed) == state
    if is_of_file and all(each.offset < scan.size for each in scan.examples):
        return scan
    scan = _read(file, state, keys)
    write_cache(cached, scan)
    return scan


def cache_place(file: Path, keys: Keys) -> Path:
    """Where a file's scan is kept; several tasks may read a file, each with its own classes."""
    return cache_file("records", os.fsencode(file) + repr(tuple(keys)).encode())


def _read(file: Path, state: tuple[int, int], keys: Keys) -> _Scan:
    scan, records = _Scan(*state, [], {}), _records(file)
    with ThreadPoolExecutor() as pool:
        while some := [*itertools.islice(records, _TOGETHER)]:
            with quiet():  # libtiff writes errors to standard error without the name of the file
                found = list(pool.map(lambda each: _examined(each[1], keys, file), some))
            for (offset, _), (*picture, classes, names) in zip(some, found, strict=True):
                scan.examples.append(_Known(offset, *picture, classes))
                if len(names) == len(classes):  # or it is unknown which name belongs to which
                    for label, text in zip(classes, names, strict=True):
                        scan.texts.setdefault(str(label), text)
    return scan


def _examined(record: bytes, keys: Keys, file: Path) -> tuple[str, str, list[int], list[str]]:
    """What is known of an example: see `examine_stream`, its classes and their names."""
    content, classes, names = _features(record, keys, file)
    fault, plain = examine_stream(io.BytesIO(content))
    if keys.is_mask and not fault:
        try:
            mask = decode_values_of(_mask_content(record, keys, file), "mask")
        except UsageError as error:
            return str(error).removesuffix("."), plain, [], []
        classes = np.flatnonzero(np.bincount(mask.ravel())).tolist()
        if mask.shape != upright_size_of(content, "picture"):
            fault = "mask of another size than its picture"
    return fault, plain, classes, names


def _records(file: Path) -> Iterator[tuple[int, bytes]]:
    """All records of a file, each with its position."""
    with file.open("rb") as stream:
        end = os.fstat(stream.fileno()).st_size
        while (offset := stream.tell()) < end:
            yield offset, _record(stream, file)


def _record(stream: io.BufferedIOBase, file: Path) -> bytes:
    """The record at the position of a file: its length and its content."""
    length = _checked(stream, _LENGTH)
    if length is not None:
        size = os.fstat(stream.fileno()).st_size  # a damaged record may claim any length
        content = _checked(stream, min(int.from_bytes(length, "little"), size))
        if content is not None:
            return content
    raise UsageError(
        f"{file}: expected an uncompressed TFRecord file. Received: a damaged record before byte "
        f"{stream.tell():,}; write the file again."
    )


def _checked(stream: io.BufferedIOBase, size: int) -> bytes | None:
    """The next bytes of a file, if the checksum after them is right."""
    import google_crc32c

    content, checksum = stream.read(size), stream.read(_CHECKSUM)
    value = google_crc32c.value(content)
    masked = ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return content if checksum == masked.to_bytes(_CHECKSUM, "little") else None


def _features(record: bytes, keys: Keys, file: Path) -> tuple[bytes, list[int], list[str]]:
    """The encoded image, the classes and their names of an example."""
    features = _example(record, file)
    names = sorted(features)  # before reading others, which adds them
    images = features[keys.image].bytes_list.value
    needed = DERIVED[keys.derived].features if keys.derived else (keys.label,)
    if len(images) != 1 or not {*needed} <= {*names}:
        raise UsageError(
            f"{file}: expected one {keys.image} and {', '.join(needed)} in each example. "
            f"Received: {listed(names)}."
        )
    if keys.derived:
        labels = [_derived(keys.derived, features, file)]
    else:
        labels = features[keys.label].int64_list.value
    texts = features[keys.text].bytes_list.value if keys.text else ()
    return images[0], list(labels), [text.decode("utf-8", "replace") for text in texts]


def _mask_content(record: bytes, keys: Keys, file: Path) -> bytes:
    masks = _example(record, file)[keys.label].bytes_list.value
    if len(masks) != 1:
        raise UsageError(
            f"{file}: expected one {keys.label} in each example. Received: {len(masks)}."
        )
    return masks[0]


def _example(record: bytes, file: Path) -> Mapping[str, Any]:
    """The features of an example."""
    import tensorflow as tf

    try:
        return tf.train.Example.FromString(record).features.feature
    except Exception as error:  # protobuf's own error
        raise UsageError(f"{file}: expected records of tf.train.Example.") from error


def _derived(name: str, features: Mapping[str, Any], file: Path) -> int:
    """The class that `DERIVED` computes from the features of an example."""
    needed, label, classes = DERIVED[name]
    values = [features[key].int64_list.value or features[key].float_list.value for key in needed]
    try:
        number = label(*map(np.array, values))
        if not 0 <= number < len(classes):
            raise ValueError(f"class {number} of {len(classes)}")
        return number
    except (ValueError, IndexError, OverflowError) as error:
        raise UsageError(
            f"{file}: expected values of {', '.join(needed)} for {name}. Received: {error}."
        ) from None
