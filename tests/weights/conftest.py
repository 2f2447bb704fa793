"""Fixtures for tests of weight files: a small model, its file, and a folder of a hub."""

import json
import shutil

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
def hub_folder(fixtures, tmp_path):
    """Makes a folder as of a hub from a reference file, with changes of its config."""

    def make(name, **changes):
        shutil.copy(fixtures / f"{name}.safetensors", tmp_path / "model.safetensors")
        config = json.loads((fixtures / f"{name}.config.json").read_text())
        (tmp_path / "config.json").write_text(json.dumps(config | changes))
        return tmp_path

    return make
