"""Checkpoints of a training: an `.npz` of all variables and of the step."""

from __future__ import annotations

import functools
import random
from pathlib import Path
from typing import Any

from fuzzing.kind import Files
from fuzzing.kinds._reading import in_one_file
from fuzzing.mutations import json_text, npy, zips
from keras_vit._keras import keras
from keras_vit.training.checkpoints import Checkpoints

MEMORY = 64 << 20


def seeds(home: Path) -> list[Files]:
    checkpoints = Checkpoints(home, _learner())
    checkpoints.save(3)
    checkpoints.save(6)
    return [{path.name: path.read_bytes() for path in checkpoints.saved()}]


def mutate(rng: random.Random, files: Files) -> Files:
    return in_one_file(rng, files, {".npz": functools.partial(zips.mutated, member=_member)})


def read(folder: Path, home: Path) -> None:
    checkpoints = Checkpoints(folder, _learner())
    checkpoints.newest_step()
    checkpoints.restore()


def _member(rng: random.Random, content: bytes) -> bytes:
    """What the file is about is JSON in an array of bytes."""
    at = content.find(b"{", content.find(b"\n") + 1)
    if at < 0 or b"|u1" not in content[:at] or rng.random() < 0.2:
        return npy.mutated(rng, content)
    import numpy as np

    return npy.of(np.frombuffer(json_text.mutated(rng, content[at:]), np.uint8))


@functools.cache
def _learner() -> Any:
    learner = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    learner.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse")
    learner.optimizer.build(learner.trainable_variables)
    return learner
