"""Sources of TFRecord files of `tf.train.Example`: one's own, or those of TensorFlow Datasets.

The files are read once to find the position and the class of each example, which is kept in the
cache folder. Single examples are then read at their position, so that the order of training needs
no buffer and may begin anywhere, however large the files are.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import os
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_vit import _files, _json, _zips
from keras_vit._errors import UsageError
from keras_vit._quiet import quiet
from keras_vit.data.class_sets import ClassSets
from keras_vit.data.decoding import decode_content, examine_stream
from keras_vit.data.derived import DERIVED
from keras_vit.data.folders import SPLITS, Skipped, listed
from keras_vit.data.formats import PLAIN
from keras_vit.data.readers import Encoded
from keras_vit.data.reading import changed, states
from keras_vit.data.source import Source, check_labels
from keras_vit.weights.cache import cache_folder
from keras_vit.weights.tensors import ERRORS

# A change of the checks or of `DERIVED` is a new format, so that all files are read again.
FORMAT = 5
_NO_CLASS = "it has no class"
_HEADER, _FOOTER = struct.Struct("<QI"), struct.Struct("<I")
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
    """

    image: str
    label: str
    text: str = ""
    derived: str = ""


class Piece(NamedTuple):
    """Consecutive examples of a file; `take` is -1 for all after `skip`."""

    file: Path
    skip: int = 0
    take: int = -1


class _Scan(NamedTuple):
    """What is known of the examples of a file: arrays (n,), and the classes of all in a row."""

    offsets: np.ndarray
    formats: np.ndarray
    counts: np.ndarray  # of classes
    labels: np.ndarray
    faults: list[str]
    texts: dict[int, str]


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
) -> Source:
    """A source of examples in TFRecord files.

    Args:
        name, locator: see `Source`.
        parts: the pieces of each declared split; only "" if there are none.
        keys: the names of the features.
        labels: the names of the classes 0, 1 ...; None to take them from the examples.
        several: whether an image may have several classes, even if none here has.

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
    before = states(files)
    scans = {file: _scan(file, keys) for file in files}
    examples = {
        split: [(piece.file, i) for piece in pieces for i in _numbers(piece, scans[piece.file])]
        for split, pieces in parts.items()
    }
    classes, skipped = _classes(scans), []
    if labels is not None:
        for file, i in _check_classes(locator, examples, classes, len(labels)):
            skipped.append(Skipped(f"{file.name}#{i}", "", _NO_CLASS, is_unreadable=False))
    several = several or any(
        scans[file].counts[i] > 1 and not scans[file].faults[i]
        for part in examples.values()
        for file, i in part
    )

    def fault(file: Path, i: int) -> str:
        is_used = several or scans[file].counts[i]  # images may have none of several classes
        return scans[file].faults[i] or ("" if is_used else _NO_CLASS)

    chosen, splits = [], {}
    for split, part in examples.items():
        start = len(chosen)
        chosen += [each for each in part if not fault(*each)]
        skipped += [
            Skipped(f"{file.name}#{i}", "", fault(file, i), is_unreadable=True)
            for file, i in part
            if fault(file, i)
        ]
        splits[split] = np.arange(start, len(chosen))
    if not chosen:
        received = f"{len(skipped)}, the first is {skipped[0]}" if skipped else "no examples"
        raise UsageError(f"{locator}: expected images with classes. Received: {received}.")

    def of_all(field: str) -> np.ndarray:
        return np.array([getattr(scans[file], field)[i] for file, i in chosen], np.int64)

    offsets, of_each = of_all("offsets"), [classes[file][i] for file, i in chosen]
    numbers = np.concatenate([np.zeros(0, np.int64), *of_each])
    if labels is None:
        labels, numbers = _named(numbers, [scan.texts for scan in scans.values()])
    check_labels(labels, locator)
    multi_hot = None
    if several:
        images = np.repeat(np.arange(len(chosen)), [len(each) for each in of_each])
        multi_hot = ClassSets(images, numbers, (len(chosen), len(labels)))
    place = {file: i for i, file in enumerate(files)}
    file_of = np.array([place[file] for file, _ in chosen])
    return Source(
        name=name,
        labels=tuple(labels),
        ids=tuple(f"{file.name}#{i}" for file, i in chosen),
        targets=numbers if multi_hot is None else multi_hot.rarest,
        image=Encoded(
            decode=lambda i: _image(chosen[i][0], int(offsets[i]), keys),
            contents=_reader(files, file_of, offsets, keys),
            formats=of_all("formats").astype(np.uint8),
            fault=_fault(files, before, file_of, offsets),
        ),
        skipped=tuple(skipped),
        locator=locator,
        splits={} if "" in splits else splits,
        states=before[file_of],
        multi_hot=multi_hot,
    )


def _numbers(piece: Piece, scan: _Scan) -> range:
    """The numbers of a piece's examples in its file."""
    return range(piece.skip, len(scan.offsets) if piece.take < 0 else piece.skip + piece.take)


def _classes(scans: Mapping[Path, _Scan]) -> dict[Path, list[np.ndarray]]:
    """The classes of each example of each file."""
    return {file: np.split(scan.labels, scan.counts.cumsum()[:-1]) for file, scan in scans.items()}


def _check_classes(
    locator: str,
    examples: dict[str, list[tuple[Path, int]]],
    classes: Mapping[Path, Sequence[np.ndarray]],
    count: int,
) -> list[tuple[Path, int]]:
    """Takes a test split out that is not needed and has no classes, and returns its examples.

    Raises:
        UsageError: there are other classes than 0 to `count` - 1.
    """

    def of(each: tuple[Path, int], known: bool) -> list[int]:
        file, i = each
        return [number for number in classes[file][i].tolist() if (0 <= number < count) is known]

    unlabelled = []
    if "validation" in examples and not any(of(each, True) for each in examples.get("test", ())):
        unlabelled = examples.pop("test", [])
    for file, i in (each for part in examples.values() for each in part):
        if unknown := of((file, i), False):
            raise UsageError(
                f"{locator}: expected classes from 0 to {count - 1}. Received: {unknown[0]} in "
                f"{file.name}#{i}; name splits with classes, as in tfds:NAME:train:validation."
            )
    return unlabelled


def _check_complete(folder: Path, files: Sequence[Path]) -> None:
    """Raises a `UsageError` if files are missing of those that `-of-00016` in a name counts."""
    found: dict[tuple[str, str, int], set[int]] = {}
    for match in filter(None, (_SHARD.fullmatch(file.name) for file in files)):
        start, number, end, count = match.groups()
        found.setdefault((start, end, int(count)), set()).add(int(number))
    missing = [
        f"{start}{i:05}{end}"
        for (start, end, count), numbers in found.items()
        if len(numbers) < count
        for i in range(count)
        if i not in numbers
    ]
    if missing:
        raise UsageError(
            f"{folder}: expected all files that '-of-' in their names counts. Received: "
            f"{len(files)}, without {listed(missing)}; add them, or rename the others, such as to "
            "train-0.tfrecord, to use only these."
        )


def _split_of(name: str) -> str:
    words = re.split("[^a-z]+", name.lower())
    return next((split for split, names in SPLITS.items() if set(names) & set(words)), "")


def _named(labels: np.ndarray, texts: Sequence[Mapping[int, str]]) -> tuple[list[str], np.ndarray]:
    """The names of the classes that occur, and the examples' places in them."""
    numbers, targets = np.unique(labels, return_inverse=True)
    known = {number: text for each in texts for number, text in each.items()}
    names = [known.get(int(number), str(number)) for number in numbers]
    if len(set(names)) < len(names):
        names = [str(number) for number in numbers]
    return names, targets.astype(np.int64)


def _reader(
    files: Sequence[Path], file_of: np.ndarray, offsets: np.ndarray, keys: Keys
) -> Callable[[Any], Any]:
    """A TensorFlow function from an index to the encoded image."""

    def contents(index):
        import tensorflow as tf

        with tf.init_scope(), tf.device("CPU:0"):  # outside the graph, which must not hold a copy
            names = tf.constant([os.fsencode(file) for file in files])
            at, which = tf.constant(offsets), tf.constant(file_of)
        records = tf.raw_ops.TFRecordDatasetV2(
            filenames=tf.gather(names, tf.gather(which, index))[None],
            compression_type="",
            buffer_size=_BUFFER,
            byte_offsets=tf.gather(at, index)[None],
        )
        records = tf.data.experimental.from_variant(records, tf.TensorSpec((), tf.string))
        record = records.take(1).get_single_element()
        feature = {keys.image: tf.io.FixedLenFeature((), tf.string)}
        return tf.io.parse_single_example(record, feature)[keys.image]

    return contents


def _fault(
    files: Sequence[Path], before: np.ndarray, file_of: np.ndarray, offsets: np.ndarray
) -> Callable[[str], str]:
    """`Encoded.fault`: a file that has changed, or else that with a damaged record."""

    def fault(message: str) -> str:
        if line := changed(files, before):
            return line
        # TensorFlow says at which byte of a file, but not of which file.
        for byte in map(int, re.findall(r"record at (\d+)", message)):
            for i in np.flatnonzero((offsets == byte) | (offsets == byte - _HEADER.size)):
                try:
                    with files[file_of[i]].open("rb") as stream:
                        stream.seek(offsets[i])
                        _record(stream, files[file_of[i]])
                except UsageError as error:
                    return str(error)
        return ""

    return fault


def _image(file: Path, offset: int, keys: Keys) -> np.ndarray:
    with file.open("rb") as stream:
        stream.seek(offset)
        content, _, _ = _features(_record(stream, file), keys, file)
    return decode_content(content, f"{file}, byte {offset:,}")


def _scan(file: Path, keys: Keys) -> _Scan:
    """The examples of a file, from the cache folder if the file has not changed."""
    status = file.stat()
    about = [FORMAT, os.fspath(file), status.st_size, status.st_mtime_ns]
    about += [keys.image, keys.label, keys.text]
    cached = cache_folder() / "records" / cache_name(file, keys)
    if stored := _stored(cached, about):
        return stored
    scan = _read(file, keys)
    words = [scan.faults, scan.texts]
    with contextlib.suppress(OSError, UsageError):  # without it the next run only takes longer
        cached.parent.mkdir(parents=True, exist_ok=True)
        arrays = {x: getattr(scan, x) for x in _Scan._fields[:4]}
        with _files.replacing(cached) as temporary:
            np.savez(temporary, about=_bytes(about), words=_bytes(words), **arrays)
    return scan


def cache_name(file: Path, keys: Keys) -> str:
    """The name of a file's scan; several tasks may read a file, each with its own classes."""
    return f"{hashlib.sha256(os.fsencode(file) + repr(tuple(keys)).encode()).hexdigest()[:32]}.npz"


def _stored(cached: Path, about: list[Any]) -> _Scan | None:
    """What the cache folder has of a file; None if it is absent, of another file or damaged."""
    with contextlib.suppress(*ERRORS, AttributeError):
        _zips.check_stored(cached)
        with np.load(cached, allow_pickle=False) as stored:
            if _json.parse(stored["about"].tobytes(), str(cached)) != about:
                return None
            faults, texts = _json.parse(stored["words"].tobytes(), str(cached))
            texts = {int(number): text for number, text in texts.items()}
            scan = _Scan(*(stored[x] for x in _Scan._fields[:4]), faults, texts)
        count = len(scan.offsets)
        lengths = [len(each) for each in (scan.formats, scan.counts, faults)]
        are_integers = all(x.dtype == np.int64 and x.ndim == 1 for x in scan[:4])
        if not are_integers or lengths != [count] * 3 or scan.counts.sum() != len(scan.labels):
            return None
        _, _, size, *_ = about
        if ((scan.offsets >= 0) & (scan.offsets < size)).all():
            return scan
    return None


def _read(file: Path, keys: Keys) -> _Scan:
    offsets, formats, counts, labels, faults, texts = [], [], [], [], [], {}
    records = _records(file)
    with ThreadPoolExecutor() as pool:
        while some := [
            (offset, *_features(record, keys, file))
            for offset, record in itertools.islice(records, _TOGETHER)
        ]:
            with quiet():  # libtiff writes errors to standard error without the name of the file
                contents = [io.BytesIO(content) for _, content, _, _ in some]
                examined = list(pool.map(examine_stream, contents))
            for (offset, _, classes, names), (fault, plain) in zip(some, examined, strict=True):
                offsets.append(offset)
                formats.append(PLAIN.index(plain))
                counts.append(len(classes))
                labels += classes
                faults.append(fault)
                if len(names) == len(classes):  # or it is unknown which name belongs to which
                    for label, text in zip(classes, names, strict=True):
                        texts.setdefault(label, text)
    arrays = (np.array(values, np.int64) for values in (offsets, formats, counts, labels))
    return _Scan(*arrays, faults, texts)


def _records(file: Path) -> Iterator[tuple[int, bytes]]:
    """All records of a file, each with its position."""
    with file.open("rb") as stream:
        end = os.fstat(stream.fileno()).st_size
        while (offset := stream.tell()) < end:
            yield offset, _record(stream, file)


def _record(stream: io.BufferedIOBase, file: Path) -> bytes:
    """The record at the position of a file: its length, its content and two checksums."""
    import google_crc32c

    def is_intact(data: bytes, checksum: int) -> bool:
        value = google_crc32c.value(data)
        return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF == checksum

    header = stream.read(_HEADER.size)
    if len(header) == _HEADER.size:
        length, checksum = _HEADER.unpack(header)
        remaining = os.fstat(stream.fileno()).st_size - stream.tell()
        if is_intact(header[:8], checksum):
            content, footer = stream.read(min(length, remaining)), stream.read(_FOOTER.size)
            if len(footer) == _FOOTER.size and is_intact(content, *_FOOTER.unpack(footer)):
                return content
    raise UsageError(
        f"{file}: expected an uncompressed TFRecord file. Received: a damaged record before byte "
        f"{stream.tell():,}; write the file again."
    )


def _features(record: bytes, keys: Keys, file: Path) -> tuple[bytes, list[int], list[str]]:
    """The encoded image, the classes and their names of an example."""
    import tensorflow as tf

    try:
        features = tf.train.Example.FromString(record).features.feature
    except Exception as error:  # protobuf's own error
        raise UsageError(f"{file}: expected records of tf.train.Example.") from error
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


def _derived(name: str, features: Mapping[str, Any], file: Path) -> int:
    """The class that `DERIVED` computes from the features of an example."""
    needed, label, classes = DERIVED[name]
    lists = [(features[key].int64_list.value, features[key].float_list.value) for key in needed]
    try:
        number = label(*(np.array(integers or numbers) for integers, numbers in lists))
        if not 0 <= number < len(classes):
            raise ValueError(f"class {number} of {len(classes)}")
        return number
    except (ValueError, IndexError, OverflowError) as error:
        raise UsageError(
            f"{file}: expected values of {', '.join(needed)} for {name}. Received: {error}."
        ) from None


def _bytes(value: Any) -> np.ndarray:
    return np.frombuffer(json.dumps(value).encode(), np.uint8)
