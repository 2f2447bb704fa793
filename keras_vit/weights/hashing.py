"""Hashes of weights, which are the same in every flavour of Keras and on every backend."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from keras_vit.weights.names import weight_names

_CHUNK = 1 << 20


def weights_sha256(model: Any) -> str:
    """A hash of a built model's weights: their official keys, shapes and float32 values, in order.

    Only one weight is in memory at a time.
    """
    names = weight_names(model.spec, model.num_classes, model.image_size)
    return sha256_of((name.key, name.variable(model)) for name in names)


def sha256_of(variables: Iterable[tuple[str, Any]]) -> str:
    """The hash of variables and their keys."""
    digest = hashlib.sha256()
    for key, variable in variables:
        array = np.ascontiguousarray(variable, "<f4")
        digest.update(f"{key} {array.shape}\n".encode())
        digest.update(array.data)
    return digest.hexdigest()


def sha256_of_file(path: Path) -> str:
    """The hash of a file's content."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
