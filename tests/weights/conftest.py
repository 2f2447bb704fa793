"""Fixtures for tests of weight files: a small model, its file, and a way to damage it."""

from __future__ import annotations

import numpy as np
import pytest

import keras_vit


@pytest.fixture
def model(small_spec, randomised):
    return randomised(keras_vit.ViT(small_spec, 5, 16))


@pytest.fixture
def saved(model, tmp_path):
    keras_vit.save_weights(model, tmp_path / "weights.npz")
    return tmp_path / "weights.npz"


@pytest.fixture
def rewrite():
    """Changes the dict of arrays in a `.npz` file."""

    def apply(path, change):
        arrays = dict(np.load(path))
        change(arrays)
        np.savez(path, **arrays)

    return apply
