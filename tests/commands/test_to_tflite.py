"""export/to_tflite.py, as a user runs it."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import keras_vit
from keras_vit import deploy
from keras_vit.deploy.graph.graph_options import GraphOptions
from keras_vit.deploy.resolve import resolve

ROOT = Path(__file__).parents[2]
COMMAND = "export/to_tflite.py"
FEW = ("--images", "40", "--calibrate", "8", "--threads", "1")


def refused(result, code):
    """What a command said on standard error, after exiting with `code`."""
    assert result[0] == code, result
    return result[2].strip().splitlines()


@pytest.mark.slow
def test_a_run_becomes_bundles_that_a_recipe_makes_again(invoke, trained_run, tmp_path):
    run = shutil.copytree(trained_run.path, tmp_path / "run")
    arguments = ("--run", run, *FEW, "--max-drop", "60")
    names = ("none", "float16", "auto", "int8-full")
    code, out, err = invoke(COMMAND, *arguments, "--quantize", *names, cwd=tmp_path)
    assert (code, err) == (0, "")
    assert "exporting ViT-Test_8, 16 x 16, 10 classes" in out
    assert "Keras on 40 held-out images of digits" in out
    folders = {path.name for path in (run / "export").iterdir() if path.is_dir()}
    assert folders == {"float32", "float16", "auto", "int8-full"}
    for name in folders:
        description, _ = deploy.read_bundle(run / "export" / name)
        assert description["precision"] == name
        assert description["parity"]["images"] == 40
        assert name in out
        images = description["calibration"] and description["calibration"]["images"]
        assert images == (None if name.startswith("float") else 8)
    assert description["input"]["shape"] == [1, 16, 16, 3]
    before = (run / "export" / "auto" / "model.tflite").read_bytes()
    recipe = tmp_path / "kept.json"
    found = json.loads((run / "export" / "auto" / "recipe.json").read_text())
    recipe.write_text(json.dumps(found | {"float_layers": ["head"]}))
    arguments = (*arguments, "--quantize", "auto", "--recipe", recipe, "--out", "again")
    assert invoke(COMMAND, *arguments, cwd=tmp_path)[0] == 0
    description, _ = deploy.read_bundle(tmp_path / "again" / "auto")
    assert description["float_layers"] == ["head"]
    assert (tmp_path / "again" / "auto" / "model.tflite").read_bytes() != before
    assert json.loads((tmp_path / "again" / "auto" / "recipe.json").read_text()) == json.loads(
        recipe.read_text()
    )


@pytest.mark.slow
def test_weights_and_pictures_become_a_file_of_pixels(invoke, fixtures, image_folder, tmp_path):
    weights = fixtures / "vit_token.weights.npz"
    arguments = ("--weights", weights, "--data", image_folder, "--out", "bundles")
    options = ("--quantize", "int8", "none", "--input", "uint8", "--output", "probabilities")
    code, out, err = invoke(COMMAND, *arguments, *options, *FEW, cwd=tmp_path)
    assert (code, err) == (0, "")
    assert f"Keras on 6 images of {image_folder.name}" in out
    model = keras_vit.model_from_weights(weights)
    for name, tolerance in (("float32", 1e-5), ("int8", 0.05)):
        description, golden = deploy.read_bundle(tmp_path / "bundles" / name)
        assert description["input"]["dtype"] == golden["tensor"].dtype.name == "uint8"
        assert description["output"]["kind"] == "probabilities"
        assert golden["scores"].sum() == pytest.approx(1, abs=1e-5)
        resolved = resolve(model, GraphOptions("uint8", "probabilities"))
        [expected] = deploy.expected_scores(resolved, golden["tensor"][None])
        np.testing.assert_allclose(golden["scores"], expected, atol=tolerance)


@pytest.mark.slow
def test_another_size_and_features_are_options(invoke, fixtures, tmp_path):
    weights = fixtures / "vit_token.weights.npz"
    arguments = ("--weights", weights, "--out", "bundles", "--image-size", "32", "64")
    options = ("--output", "features", "--min-runtime", "2.9")
    code, out, err = invoke(COMMAND, *arguments, *options, *FEW, cwd=tmp_path)
    assert (code, err) == (0, "")
    assert "32 x 64" in out
    assert "Keras on 16 random images" in out
    description, golden = deploy.read_bundle(tmp_path / "bundles" / "float32")
    assert description["input"]["shape"] == [1, 32, 64, 3]
    assert description["output"]["kind"] == "features"
    model = keras_vit.model_from_weights(weights, image_size=(32, 64))
    resolved = resolve(model, GraphOptions(output="features"))
    [expected] = deploy.expected_scores(resolved, golden["tensor"][None])
    np.testing.assert_allclose(golden["scores"], expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.slow
def test_a_precision_that_is_refused_leaves_the_others_and_exits_with_3(
    invoke, fixtures, image_folder, tmp_path
):
    weights = fixtures / "vit_token.weights.npz"
    arguments = ("--weights", weights, "--data", image_folder, "--out", "bundles", *FEW)
    options = ("--quantize", "int4", "none", "--min-runtime", "2.16.1")
    [line] = refused(invoke(COMMAND, *arguments, *options, cwd=tmp_path), 3)
    assert line.startswith("to_tflite.py: int4: this precision needs LiteRT 2.1.0 or newer. ")
    assert "Received: --min-runtime" in line
    bundles = {path.name for path in (tmp_path / "bundles").iterdir() if path.is_dir()}
    assert bundles == {"float32"}
    record = json.loads((tmp_path / "bundles" / "table.json").read_text())
    [(precision, reason)] = record["refused"].items()  # in the words of the library
    in_flags = reason.replace("min_runtime", "--min-runtime")
    assert (precision, in_flags) == ("int4", line.removeprefix("to_tflite.py: int4: "))
    assert "## Refused" in (tmp_path / "bundles" / "card.md").read_text()


def test_a_head_of_zeros_proves_nothing_and_exits_with_3(invoke, tiny_model, tmp_path):
    keras_vit.save_weights(keras_vit.create_model(tiny_model, 5, 16), tmp_path / "zero.npz")
    arguments = ("--weights", "zero.npz", "--model", tiny_model, "--out", "bundles")
    [line] = refused(invoke(COMMAND, *arguments, cwd=tmp_path), 3)
    assert "Keras' scores are the same for all images" in line
    assert {path.name for path in tmp_path.iterdir()} == {"zero.npz", ".bundles.lock"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--images", "0"], "--images must be a positive integer. Received: --images=0"),
        (["--calibrate", "0"], "--calibrate must be a positive integer. Received: --calibrate=0"),
        (["--image-size", "1", "2", "3"], "--image-size takes 1 value or 2. Received: 1 2 3"),
        (["--quantize"], "--quantize: expected at least one argument"),
        (["--quantize", "int2"], "unknown value 'int2'; did you mean int8 or int4?"),
        (["--max-drop", "-1"], "--max-drop must not be negative. Received: --max-drop=-1.0"),
        (
            ["--model", "ViT-B_16"],
            "--model is only used with --weights; a run already",
        ),
        (["--weights", "a.npz", "--run", "run"], "expected --run or --weights. Received: both"),
        (["--weights", "a.npz"], "--weights need --out, the folder to write"),
        (
            ["--weights", "a.npz", "--out", "b"],
            "a.npz: there is no such file; published weights",
        ),
        (["--run", "nowhere"], "nowhere: expected a run folder"),
        ([], "no run under"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(invoke, tmp_path, arguments, message):
    [line] = refused(invoke(COMMAND, *arguments, cwd=tmp_path), 2)
    assert message in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--quantize", "none", "int8"], "int8 needs images to measure ranges on: pass --data"),
        (
            ["--quantize", "none", "--recipe", "r.json"],
            "recipe can only be used with --quantize auto. Received: --quant",
        ),
        (["--quantize", "auto", "--recipe", "r.json"], "r.json does not exist"),
        (
            ["--min-runtime", "new"],
            "--min-runtime must be a version of TFLite such as 2.16.1, or of",
        ),
        (["--data", "nowhere"], "nowhere: expected a folder"),
        (["--image-size", "17"], "must be a multiple of patch_size=16. Received: 17 x 17"),
    ],
)
def test_a_mistake_with_weights_is_one_line_and_writes_nothing(
    invoke, fixtures, tmp_path, arguments, message
):
    weights = ("--weights", fixtures / "vit_token.weights.npz", "--out", "bundles")
    [line] = refused(invoke(COMMAND, *weights, *arguments, cwd=tmp_path), 2)
    assert message in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.soak(of="kills")
def test_killed_while_it_writes_the_old_bundle_stays(invoke, trained_run, tmp_path):
    run = shutil.copytree(trained_run.path, tmp_path / "run")
    arguments = ("--run", run, *FEW)
    assert invoke(COMMAND, *arguments, cwd=tmp_path)[0] == 0
    bundle = run / "export" / "float32"
    before = {path.name: path.read_bytes() for path in bundle.iterdir()}
    process = subprocess.Popen(
        [sys.executable, ROOT / COMMAND, *arguments], stdout=subprocess.PIPE, cwd=tmp_path
    )
    deadline = time.monotonic() + 120
    while (
        not list(bundle.parent.glob(".float32.*/float32/model.tflite"))
        and time.monotonic() < deadline
    ):
        assert process.poll() is None
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert {path.name: path.read_bytes() for path in bundle.iterdir()} == before
    deploy.read_bundle(bundle)
