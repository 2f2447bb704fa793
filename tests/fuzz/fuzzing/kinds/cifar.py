"""CIFAR-10's files: records, or pictures with the classes as JSON."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path

import numpy as np
from PIL import Image

from fuzzing.kind import Files
from fuzzing.kinds._reading import in_one_file
from fuzzing.mutations import images, json_text, raw
from keras_vit.data.cifar import cifar10

MEMORY = 1 << 30  # pictures of at most 179 million pixels are decoded
_NAMES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")


def seeds(home: Path) -> list[Files]:
    stream = io.BytesIO()
    Image.fromarray(np.zeros((2, 1024, 3), np.uint8)).save(stream, "PNG")
    classes = {
        f"{split}_lables.json": json.dumps([1] * count).encode()
        for split, count in (("train", 10), ("test", 2))
    }
    return [
        {f"{name}.png": stream.getvalue() for name in _NAMES} | classes,
        {f"{name}.bin": (b"\1" + bytes(3072)) * 2 for name in _NAMES},
    ]


def mutate(rng: random.Random, files: Files) -> Files:
    mutations = {".json": json_text.mutated, ".png": images.mutated, ".bin": raw.mutated}
    return in_one_file(rng, files, mutations)


def read(folder: Path, home: Path) -> None:
    source = cifar10(folder)
    source.image(0)
