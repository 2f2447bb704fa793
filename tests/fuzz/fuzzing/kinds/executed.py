"""Bundles whose `.tflite` file is damaged although model.json has its hash, run as commands do."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path

import numpy as np

from fuzzing.kind import Files
from fuzzing.kinds.bundle import _ASSETS
from fuzzing.mutations import tflite
from keras_vit.deploy.bundle.opened import open_bundle

MEMORY = 2 << 30  # LiteRT takes what a file asks for


def seeds(home: Path) -> list[Files]:
    folders = [_ASSETS.with_name(name) for name in ("digits-int8", "digits-float16")]
    return [{path.name: path.read_bytes() for path in sorted(each.iterdir())} for each in folders]


def mutate(rng: random.Random, files: Files) -> Files:
    content = tflite.mutated(rng, files["model.tflite"])
    about = json.loads(files["model.json"]) | {"sha256": hashlib.sha256(content).hexdigest()}
    return files | {"model.tflite": content, "model.json": json.dumps(about).encode()}


def read(folder: Path, home: Path) -> None:
    bundle = open_bundle(folder, trusted=False)
    bundle.predict(np.zeros((1, *bundle.preprocessing.size, 3), np.float32))
