"""Files of weights that are not read, but named: HDF5, Keras, TensorFlow, NumPy, PyTorch."""

from __future__ import annotations

import io
import random
import zipfile
from pathlib import Path

import numpy as np
import tensorflow as tf

from fuzzing.kind import Files
from fuzzing.kinds import _weights
from fuzzing.kinds._reading import in_one_file, small_model
from fuzzing.mutations import npy, raw, zips

MEMORY = 64 << 20


def seeds(home: Path) -> list[Files]:
    model = small_model()
    for name in ("model.keras", "model.weights.h5"):
        (model.save if name.endswith(".keras") else model.save_weights)(home / name)
    tf.train.Checkpoint(value=tf.Variable(1.0)).write(str(home / "checkpoint"))
    pickled = io.BytesIO()
    with zipfile.ZipFile(pickled, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}q\0.")
    files = [path for path in sorted(home.iterdir()) if path.is_file()]
    return [
        *({"weights": path.read_bytes()} for path in files),
        {"weights": npy.of(np.zeros((3, 4), np.float32))},
        {"weights": pickled.getvalue()},
        {"weights": b"\x80\x02}q\0."},
    ]


def mutate(rng: random.Random, files: Files) -> Files:
    def mutated(rng: random.Random, content: bytes) -> bytes:
        known = {b"PK": zips.mutated, b"\x93N": npy.mutated}
        return known.get(content[:2], raw.mutated)(rng, content)

    return in_one_file(rng, files, {"weights": mutated})


def read(folder: Path, home: Path) -> None:
    _weights.read(folder / "weights")
