"""What several kinds share: small models, and reading in steps."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import keras_vit
from fuzzing.kind import Files
from fuzzing.worker import is_expected
from keras_vit._keras import keras

LABELS = ("cat", "dog", "horse")


def small_model(**spec: Any) -> Any:
    """A built model with a few thousand weights, none of which is zero."""
    keras.utils.set_random_seed(0)
    sizes = {"patch_size": 4, "hidden_dim": 8, "depth": 1, "num_heads": 2, "mlp_dim": 8}
    model = keras_vit.ViT(
        keras_vit.ViTSpec(**{**sizes, **spec}), len(LABELS), 8, labels=LABELS, head_bias=0.5
    )
    generator = np.random.default_rng(0)
    for variable in model.weights:
        variable.assign(generator.normal(0, 0.5, tuple(variable.shape)).astype(np.float32))
    return model


def each_of(*steps: Callable[[], Any]) -> None:
    """Takes all steps, and then raises the first error of keras_vit that one of them ended in."""
    first = None
    for step in steps:
        try:
            step()
        except Exception as error:
            if not is_expected(error):
                raise
            first = first or error
    if first is not None:
        raise first


def in_one_file(rng: random.Random, files: Files, mutations: dict[str, Callable]) -> Files:
    """The input with one file changed, or rarely without it.

    Args:
        rng: the generator.
        files: the input.
        mutations: a mutation for each end of a file's name; files with other ends stay.
    """
    names = [name for name in sorted(files) if name.endswith(tuple(mutations))]
    if not names:
        return files
    name = rng.choice(names)
    if len(files) > 1 and rng.random() < 0.02:
        return {other: content for other, content in files.items() if other != name}
    mutate = next(mutate for end, mutate in mutations.items() if name.endswith(end))
    return files | {name: mutate(rng, files[name])}
