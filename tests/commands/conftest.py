"""Fixtures for commands: those that succeed and that refuse, a run, published weights."""

import shutil

import pytest

import keras_vit
from keras_vit.weights.cache import cached_path


@pytest.fixture
def done(invoke, tmp_path):
    """Runs a command that must succeed: (standard output, standard error)."""

    def run(script, *arguments):
        code, out, error = invoke(script, *arguments, cwd=tmp_path)
        assert code == 0, error
        return out, error

    return run


@pytest.fixture
def refused(invoke, tmp_path):
    """Runs a command that must refuse: its one line on standard error."""

    def run(script, *arguments, code=2):
        found, _, error = invoke(script, *arguments, cwd=tmp_path)
        assert found == code, error
        (line,) = error.strip().splitlines()
        return line

    return run


@pytest.fixture
def run(trained_run, tmp_path):
    """The folder of a run that a test may change, the newest in `tmp_path`."""
    return shutil.copytree(trained_run.path, tmp_path / "runs" / "mine")


@pytest.fixture
def publish(tmp_path, monkeypatch):
    """Puts a model in the place of the download of published weights, without a network."""
    monkeypatch.setenv("KERAS_VIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("KERAS_VIT_OFFLINE", "1")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))

    def put(model, entry):
        if entry.url.startswith("hf://"):  # as the Hub's client keeps a folder
            folder = tmp_path / "hub" / f"models--{entry.name.replace('/', '--')}"
            (folder / "refs").mkdir(parents=True)
            (folder / "refs/main").write_text("0123")
            path = folder / "snapshots/0123/model.safetensors"
        else:
            path = cached_path(entry.url)
        path.parent.mkdir(parents=True, exist_ok=True)
        keras_vit.save_weights(model, path)

    return put
