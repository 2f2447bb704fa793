"""TFRecord files of examples, and the cache of what is known of them."""

from __future__ import annotations

import contextlib
import io
import os
import random
from pathlib import Path

import numpy as np
import tensorflow as tf
from PIL import Image

from fuzzing.kind import Files
from fuzzing.kinds._reading import in_one_file
from fuzzing.mutations import images, json_text, records
from keras_vit.data import records as library
from keras_vit.data.reading import naming_unreadable
from keras_vit.data.records import IMAGENET, Piece, record_source

MEMORY = 1 << 30  # a picture as large as the limit, see `picture`: 252 MiB for 36 million pixels
_FILE, _CACHE = Path("a.tfrecord"), Path("cache.json")


def seeds(home: Path) -> list[Files]:
    file = home / _FILE
    file.write_bytes(b"".join(records.framed(_example(i)) for i in range(3)))
    with _found_at(home):
        _source()
        [cached] = Path(os.environ["KERAS_VIT_CACHE"], "records").iterdir()
        return [{_FILE.name: file.read_bytes()},
                {_FILE.name: file.read_bytes(), _CACHE.name: cached.read_bytes()}]  # fmt: skip


def mutate(rng: random.Random, files: Files) -> Files:
    def file(rng, content):
        return records.mutated(rng, content, images.mutated)

    return in_one_file(rng, files, {_CACHE.name: json_text.mutated} if _CACHE.name in files else
                       {_FILE.name: file})  # fmt: skip


def read(folder: Path, home: Path) -> None:
    with _found_at(folder):
        source = _source()
        source.image(0)
        with naming_unreadable(source):  # as in a training
            source.image.contents(tf.constant(len(source) - 1, tf.int64))


def _source():
    return record_source("records", "records", {"": [Piece(_FILE)]}, IMAGENET)


@contextlib.contextmanager
def _found_at(folder: Path):
    """The cache is that of the file in this folder: of its relative path, its size and its time."""
    before = os.getcwd(), os.environ.get("KERAS_VIT_CACHE")
    os.chdir(folder)
    os.environ["KERAS_VIT_CACHE"] = str(folder / "cache")
    try:
        if _FILE.exists():
            os.utime(_FILE, ns=(10**18, 10**18))
        if _CACHE.exists():
            cached = library.cache_place(_FILE, IMAGENET)
            cached.parent.mkdir(parents=True)
            cached.write_bytes(_CACHE.read_bytes())
        yield
    finally:
        os.chdir(before[0])
        os.environ.pop("KERAS_VIT_CACHE")
        if before[1] is not None:
            os.environ["KERAS_VIT_CACHE"] = before[1]


def _example(i: int) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.full((9, 7, 3), 40 * i, np.uint8)).save(stream, ("PNG", "JPEG")[i % 2])
    features = {
        IMAGENET.image: tf.train.Feature(bytes_list=tf.train.BytesList(value=[stream.getvalue()])),
        IMAGENET.label: tf.train.Feature(int64_list=tf.train.Int64List(value=[i])),
        IMAGENET.text: tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"class %d" % i])),
    }
    example = tf.train.Example(features=tf.train.Features(feature=features))
    return example.SerializeToString(deterministic=True)
