"""What several kinds share: small models, and reading in steps."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import keras_vit
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


known_model = functools.cache(small_model)  # with the weights that were read last


def each_of(*steps: Callable[[], Any]) -> None:
    """Takes all steps, and then raises the first error of keras_vit that one of them ended in."""
    errors = []
    for step in steps:
        try:
            step()
        except Exception as error:
            if not is_expected(error):
                raise
            errors.append(error)
    if errors:
        raise errors[0]
