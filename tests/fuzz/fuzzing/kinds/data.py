"""Files of data: TFRecords, indices, CIFAR-10, and pictures through Pillow and TensorFlow."""

import contextlib
import functools
import hashlib
import io
import json
import os
import random
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from fuzzing.kind import Files, Kind, one_file
from fuzzing.kinds._reading import each_of, small_model
from fuzzing.mutations import images, raw, text
from keras_vit.data.cifar import cifar10
from keras_vit.data.decoding import decode_values, examine_image, upright_size
from keras_vit.data.images import read_picture
from keras_vit.data.picture_index import FORMAT, Index
from keras_vit.data.preprocessing import preprocess_image
from keras_vit.data.reading import naming_unreadable
from keras_vit.data.records import IMAGENET, Piece, cache_place, record_source
from keras_vit.data.tf_preprocessing import preprocess_files
from keras_vit.deploy.serving import export_serving
from keras_vit.specs import Preprocessing
from keras_vit.weights import augreg

_EIGHT = Preprocessing(8, 8)
_MODES = {
    "PNG": ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"), "JPEG": ("L", "RGB", "CMYK"),
    "WEBP": ("RGB", "RGBA"), "GIF": ("P",), "BMP": ("RGB",), "TIFF": ("L", "RGB", "I;16"),
}  # fmt: skip


def _made(mode: str, form: str) -> bytes:
    """A small picture of a mode in a format, with an EXIF block where the format has one."""
    stream, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = 6
    Image.linear_gradient("L").resize((7, 9)).convert(mode).save(stream, form, exif=exif)
    return stream.getvalue()


def _pictures(home: Path) -> list[Files]:
    return [{"picture": _made(mode, form)} for form, modes in _MODES.items() for mode in modes]


def _read_picture(folder: Path, home: Path) -> None:
    file = folder / "picture"
    each_of(
        lambda: examine_image(file)[0].encode(),
        lambda: preprocess_image(read_picture(file), _EIGHT),
        lambda: decode_values(file),
        lambda: upright_size(file),
    )


PICTURE = Kind(1 << 30, _pictures, one_file({"picture": images.mutated}), _read_picture)


def _served(home: Path) -> list[Files]:
    if not (home / "served").exists():
        export_serving(small_model(), home / "served")
    return [{"picture": _made(mode, form)} for form in ("PNG", "JPEG") for mode in _MODES[form]]


_loaded = functools.cache(tf.saved_model.load)


def _read_through_tensorflow(folder: Path, home: Path) -> None:
    """In one of two ways, because the limits of time and memory are for one reading."""
    content = (folder / "picture").read_bytes()
    if zlib.crc32(content) % 2:
        signatures = _loaded(str(home / "served")).signatures
        signatures["bytes"](image_bytes=tf.constant([content]))
    else:
        preprocess_files(tf.constant(content), _EIGHT)


SERVED = PICTURE._replace(seeds=_served, read=_read_through_tensorflow)


def _cifar(home: Path) -> list[Files]:
    """Records, or pictures with the classes as JSON."""
    stream = io.BytesIO()
    Image.fromarray(np.zeros((2, 1024, 3), np.uint8)).save(stream, "PNG")
    names = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
    classes = {"train_lables.json": b"[%s]" % b",".join([b"1"] * 10), "test_lables.json": b"[1, 1]"}
    return [
        {f"{name}.png": stream.getvalue() for name in names} | classes,
        {f"{name}.bin": (b"\1" + bytes(3072)) * 2 for name in names},
    ]


CIFAR = Kind(
    1 << 30,  # pictures of at most 179 million pixels are decoded
    _cifar,
    one_file({".json": text.json_value, ".png": images.mutated, ".bin": raw.mutated}),
    lambda folder, home: cifar10(folder).image(0),
)

_FILE, _CACHE = Path("a.tfrecord"), Path("cache.json")
_LISTS = {int: "int64_list", float: "float_list", bytes: "bytes_list"}
_VALUES = (
    [], [0, 1], [-1], [2**31], [2**63 - 1], [-(2**63)], [float("nan")], [b"", b""], [b"a\nb"],
    [b"\xff\xfe"], [b"\0"], [b"x" * 100_000], [b"\x1b[2J"],
)  # fmt: skip


def _records(home: Path) -> list[Files]:
    """Examples, without and with the cache of what is known of them."""
    file = home / _FILE
    file.write_bytes(b"".join(map(_framed, _examples()[:2])))
    with _found_at(home):
        _source()
        [cached] = Path(os.environ["KERAS_VIT_CACHE"], "records").iterdir()
        alone = {_FILE.name: file.read_bytes()}
        return [alone, alone | {_CACHE.name: cached.read_bytes()}]


@functools.cache
def _examples() -> list[bytes]:
    """Two good ones, and others of which a feature has other values."""
    good = {IMAGENET.image: [_made("RGB", "PNG")], IMAGENET.label: [0], IMAGENET.text: [b"a"]}
    other = {IMAGENET.image: [_made("RGB", "JPEG")], IMAGENET.label: [1], IMAGENET.text: [b"b"]}
    odd = [_example(good | {name: values}) for name in good for values in _VALUES]
    return [_example(good), _example(other), *odd, b""]


def _example(features: dict[str, list]) -> bytes:
    example = tf.train.Example()
    for name, values in features.items():
        feature = example.features.feature[name]
        for value in values:
            getattr(feature, _LISTS[type(value)]).value.append(value)
    return example.SerializeToString(deterministic=True)


def _framed(record: bytes) -> bytes:
    """A record with its length and checksums."""
    length = struct.pack("<Q", len(record))
    return length + _masked(length) + record + _masked(record)


def _masked(data: bytes) -> bytes:
    value = google_crc32c.value(data)
    return struct.pack("<I", ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _records_mutated(rng: random.Random, content: bytes) -> bytes:
    """Another length, or other records; their checksums are right."""
    records, start, action = [], 0, rng.randrange(7)
    while start + 16 <= len(content):  # whatever the checksums are
        size = int.from_bytes(content[start : start + 8], "little")
        records.append(content[start + 12 : start + 12 + size])
        start += 16 + size
    if action == 0 or not records:
        return raw.mutated(rng, content)
    if action == 1:
        length = struct.pack("<Q", rng.choice(raw.NUMBERS))
        return content + length + _masked(length) + rng.randbytes(rng.choice((0, 4, 100)))
    return b"".join(map(_framed, raw.in_parts(rng, records, _other_example, _examples())))


def _other_example(rng: random.Random, record: bytes) -> bytes:
    """Another picture, or other bytes."""
    example = tf.train.Example.FromString(record)
    pictures = example.features.feature[IMAGENET.image].bytes_list.value
    if rng.random() < 0.3 or not pictures:
        return raw.mutated(rng, record)
    pictures[0] = images.mutated(rng, pictures[0])
    return example.SerializeToString()


def _source() -> Any:
    return record_source("records", "records", {"": [Piece(_FILE)]}, IMAGENET)


def _read_records(folder: Path, home: Path) -> None:
    with _found_at(folder):
        source = _source()
        source.image(0)
        with naming_unreadable(source):  # as in training
            source.image.contents(tf.constant(len(source) - 1, tf.int64))


@contextlib.contextmanager
def _found_at(folder: Path) -> Iterator[None]:
    """The cache is that of the file in this folder: of its relative path, its size and its time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("KERAS_VIT_CACHE", str(folder / "cache"))
        if _FILE.exists():
            os.utime(_FILE, ns=(10**18, 10**18))
        if _CACHE.exists():
            cached = cache_place(_FILE, IMAGENET)
            cached.parent.mkdir(parents=True)
            cached.write_bytes(_CACHE.read_bytes())
        yield


RECORDS = Kind(
    1 << 30,  # a picture as large as the limit: 252 MiB for 36 million pixels
    _records,
    one_file({_FILE.name: _records_mutated, _CACHE.name: text.json_value}),
    _read_records,
)

_PICTURE = Path("a.png")
_INDEX = f"cache/pictures/{hashlib.sha256(os.fsencode(Path('.'))).hexdigest()[:32]}.json"
_ROW = {
    "name": "S/16", "ds": "i21k", "adapt_ds": "imagenet2012", "adapt_resolution": "224",
    "adapt_final_val": "0.8", "adapt_filename": (
        "S_16-i21k-300ep-lr_0.001-aug_light1-wd_0.1-do_0.0-sd_0.0--imagenet2012-steps_20k-lr_0.01"
        "-res_224"
    ),
}  # fmt: skip


def _index(home: Path) -> list[Files]:
    """What is known of a folder's pictures, and AugReg's index.csv."""
    about = {"format": FORMAT, "folder": ".", "files": {"a.png": [3, 10**18, "", "PNG"]}}
    columns = list(augreg.IndexRow.__annotations__)
    row = ",".join(_ROW.get(name, "") for name in columns)
    return [
        {_PICTURE.name: b"abc", _INDEX: json.dumps(about).encode()},
        {"index.csv": "\n".join([",".join(columns), *[row] * 3]).encode()},
    ]


def _read_index(folder: Path, home: Path) -> None:
    csv = folder / "index.csv"
    each_of(
        lambda: csv.exists() and augreg.best(augreg.read_index(csv), "S/16"),
        lambda: (folder / _PICTURE).exists() and _examine(folder),
    )


def _examine(folder: Path) -> None:
    with _found_at(folder):
        os.utime(_PICTURE, ns=(10**18, 10**18))
        index = Index(Path("."))
        index.check_format(_PICTURE)
        for entry in index.examine([_PICTURE]).values():
            f"{entry.fault}{entry.plain}".encode()


INDEX = Kind(
    64 << 20, _index, one_file({".json": text.json_value, ".csv": text.lines}), _read_index
)
