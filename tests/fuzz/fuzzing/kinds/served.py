"""Pictures through TensorFlow, in the signature "bytes" of a SavedModel."""

from __future__ import annotations

import functools
import random
import zlib
from pathlib import Path
from typing import Any

import tensorflow as tf

from fuzzing.kind import Files
from fuzzing.kinds._reading import in_one_file, small_model
from fuzzing.kinds.picture import made
from fuzzing.mutations import images
from keras_vit.data.tf_preprocessing import preprocess_files
from keras_vit.deploy.serving import export_serving
from keras_vit.specs import Preprocessing

MEMORY = 1 << 30
_MODES = (
    ("PNG", "L"),
    ("PNG", "P"),
    ("PNG", "RGBA"),
    ("PNG", "RGB"),
    ("JPEG", "L"),
    ("JPEG", "RGB"),
)


def seeds(home: Path) -> list[Files]:
    if not (home / "served").exists():
        export_serving(small_model(), home / "served")
    return [{"picture": made(mode, form)} for form, mode in _MODES]


def mutate(rng: random.Random, files: Files) -> Files:
    return in_one_file(rng, files, {"picture": images.mutated})


def read(folder: Path, home: Path) -> None:
    content = (folder / "picture").read_bytes()
    # In one of two ways, because the limits of time and memory are for one reading.
    if zlib.crc32(content) % 2:
        _served(home / "served").signatures["bytes"](image_bytes=tf.constant([content]))
    else:
        preprocess_files(tf.constant(content), Preprocessing(8, 8))


@functools.cache
def _served(folder: Path) -> Any:
    return tf.saved_model.load(str(folder))
