"""export/to_saved_model.py, as a user runs it."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import keras_vit
from keras_vit.data import digits

COMMAND = "export/to_saved_model.py"


def serve(folder, images):
    import tensorflow as tf

    return tf.saved_model.load(str(folder)).signatures["serving_default"](images=images)


@pytest.mark.slow
def test_the_newest_run_is_exported_into_it_and_its_size_can_change(done, run):
    options = ("--images", "20", "--top-k", "3", "--image-size", "16", "24")
    out, error = done(COMMAND, *options)
    assert error == ""
    assert "16 x 24, 10 classes" in out
    assert "with Keras on held-out images of digits" in out
    assert "pixels   of 16 PNG files equal those of keras_vit.preprocess" in out
    folder = run / "export" / "saved_model"
    described = json.loads((folder / "assets.extra" / "model.json").read_text())
    assert described["parity"]["images"] == 20
    assert (folder / "assets.extra" / "labels.txt").read_text() == (run / "labels.txt").read_text()
    model = keras_vit.model_from_weights(run / "weights.npz", image_size=(16, 24))
    inputs = keras_vit.preprocess(digits().image(7), model)
    found = serve(folder, np.rint(inputs * 127.5 + 127.5).astype(np.uint8))
    expected = keras_vit.decode_predictions(np.asarray(model(inputs)), model, top=3)[0]
    names = [label.decode() for label in found["labels"].numpy()[0]]
    assert names == [name for name, _ in expected]


@pytest.mark.slow
def test_a_file_of_weights_is_exported(done, fixtures, image_folder, tmp_path):
    weights = fixtures / "vit_token.weights.npz"
    out, error = done(COMMAND, "--weights", weights, "--out", "served", "--data", image_folder)
    assert error == ""
    assert f"with Keras on images of {image_folder.name}" in out
    pixels = np.zeros((1, 48, 48, 3), np.uint8)
    model = keras_vit.model_from_weights(weights)
    logits = serve(tmp_path / "served", pixels)["logits"]
    np.testing.assert_allclose(logits, model(keras_vit.preprocess(pixels, model)), atol=1e-5)


@pytest.mark.slow
def test_a_head_of_zeros_proves_nothing_and_exits_with_3(refused, tiny_model, tmp_path):
    keras_vit.save_weights(keras_vit.create_model(tiny_model, 5, 16), tmp_path / "zero.npz")
    arguments = ("--weights", "zero.npz", "--model", tiny_model, "--out", "served")
    line = refused(COMMAND, *arguments, code=3)
    assert "Keras' scores are the same for all images" in line
    assert [path.name for path in tmp_path.iterdir()] == ["zero.npz"]


@pytest.mark.soak(of="kills")
def test_a_full_disk_is_one_line_without_tensorflows_names(refused, trained_run, tmp_path):
    _, hard = before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
        line = refused(COMMAND, "--run", trained_run.path, "--out", "served", "--images", "5")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "File too large" in line
    assert not any(word in line for word in ("{{", "[Op:", "unfinished", "tempstate"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.soak(of="kills")
def test_after_a_kill_the_old_saved_model_is_complete(trained_run, tmp_path):
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "saved_model.pb").write_text("the old one")
    program = Path(__file__).parents[2] / COMMAND
    words = [sys.executable, program, "--run", trained_run.path, "--out", folder]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 120
        while not list(tmp_path.glob(".served.*/served/saved_model.pb")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.kill()
    assert (folder / "saved_model.pb").read_text() == "the old one"
    assert [path.name for path in folder.iterdir()] == ["saved_model.pb"]
