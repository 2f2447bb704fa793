"""export/to_saved_model.py, as a user runs it."""

from __future__ import annotations

import json
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import keras_vit
from keras_vit.data import digits

ROOT = Path(__file__).parents[2]
COMMAND = "export/to_saved_model.py"


def serve(folder, images):
    import tensorflow as tf

    return tf.saved_model.load(str(folder)).signatures["serving_default"](images=images)


def described(folder):
    return json.loads((folder / "assets.extra" / "model.json").read_text())


@pytest.mark.slow
def test_the_newest_run_is_exported_into_it_and_its_size_can_change(invoke, trained_run, tmp_path):
    run = shutil.copytree(trained_run.path, tmp_path / "runs" / "digits")
    options = ("--images", "20", "--top-k", "3", "--image-size", "16", "24")
    code, out, err = invoke(COMMAND, *options, cwd=tmp_path)
    assert (code, err) == (0, "")
    assert "16 x 24, 10 classes" in out
    assert "with Keras on held-out images of digits" in out
    assert "pixels   of 16 PNG files equal those of keras_vit.preprocess" in out
    folder = run / "export" / "saved_model"
    assert described(folder)["parity"]["images"] == 20
    assert (folder / "assets.extra" / "labels.txt").read_text() == (run / "labels.txt").read_text()
    model = keras_vit.model_from_weights(run / "weights.npz", image_size=(16, 24))
    inputs = keras_vit.preprocess(digits().image(7), model)
    found = serve(folder, np.rint(inputs * 127.5 + 127.5).astype(np.uint8))
    expected = keras_vit.decode_predictions(np.asarray(model(inputs)), model, top=3)[0]
    assert [label.decode() for label in found["labels"].numpy()[0]] == [
        name for name, _ in expected
    ]


@pytest.mark.slow
def test_a_file_of_weights_is_exported(invoke, fixtures, image_folder, tmp_path):
    weights = fixtures / "vit_token.weights.npz"
    arguments = ("--weights", weights, "--out", "served", "--data", image_folder)
    code, out, err = invoke(COMMAND, *arguments, cwd=tmp_path)
    assert (code, err) == (0, "")
    assert f"with Keras on images of {image_folder.name}" in out
    pixels = np.zeros((1, 48, 48, 3), np.uint8)
    model = keras_vit.model_from_weights(weights)
    logits = serve(tmp_path / "served", pixels)["logits"]
    np.testing.assert_allclose(logits, model(keras_vit.preprocess(pixels, model)), atol=1e-5)


@pytest.mark.slow
def test_a_head_of_zeros_proves_nothing_and_exits_with_3(invoke, tiny_model, tmp_path):
    keras_vit.save_weights(keras_vit.create_model(tiny_model, 5, 16), tmp_path / "zero.npz")
    arguments = ("--weights", "zero.npz", "--model", tiny_model, "--out", "served")
    code, _, err = invoke(COMMAND, *arguments, cwd=tmp_path)
    assert (code, len(err.splitlines())) == (3, 1)
    assert "Keras' scores are the same for all images" in err
    assert [path.name for path in tmp_path.iterdir()] == ["zero.npz"]


@pytest.mark.soak(of="kills")
def test_a_full_disk_is_one_line_without_tensorflows_names(invoke, trained_run, tmp_path):
    _, hard = before = resource.getrlimit(resource.RLIMIT_FSIZE)
    arguments = ("--run", trained_run.path, "--out", tmp_path / "served", "--images", "5")
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
        code, _, err = invoke(COMMAND, *arguments, cwd=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (code, len(err.splitlines())) == (2, 1)
    assert "File too large" in err
    assert not any(word in err for word in ("{{", "[Op:", "unfinished", "tempstate"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--top-k", "0"], "--top-k must be a positive integer. Received: --top-k=0"),
        (["--images", "0"], "--images must be a positive integer. Received: --images=0"),
        (["--image-size", "1", "2", "3"], "--image-size takes 1 value or 2. Received: 1 2 3"),
        (
            ["--image-size", "-8"],
            "--image-size must be a positive integer. Received: ",
        ),
        (["--model", "ViT-B_16"], "--model is only used with --weights"),
        (["--weights", "a.npz", "--run", "run"], "expected --run or --weights. Received: both"),
        (["--weights", "a.npz"], "--weights need --out, the folder to write"),
        (
            ["--weights", "a.npz", "--out", "b"],
            "a.npz: there is no such file; published weights",
        ),
        (["--weights", "augreg", "--model", "ViT-B_61", "--out", "b"], "did you mean ViT-B_16?"),
        (["--run", "nowhere"], "nowhere: expected a run folder"),
        ([], "no run under"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(invoke, tmp_path, arguments, message):
    code, _, err = invoke(COMMAND, *arguments, cwd=tmp_path)
    assert (code, len(err.splitlines())) == (2, 1)
    assert message in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.soak(of="kills")
def test_after_a_kill_the_old_saved_model_is_complete(trained_run, tmp_path):
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "saved_model.pb").write_text("the old one")
    arguments = ["--run", trained_run.path, "--out", folder]
    process = subprocess.Popen([sys.executable, ROOT / COMMAND, *arguments], stdout=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while (
        not list(tmp_path.glob(".served.*/served/saved_model.pb")) and time.monotonic() < deadline
    ):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert (folder / "saved_model.pb").read_text() == "the old one"
    assert [path.name for path in folder.iterdir()] == ["saved_model.pb"]
