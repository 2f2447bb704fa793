"""export/to_tflite.py, as a user runs it."""

from __future__ import annotations

import json

import numpy as np
import pytest

import keras_vit
from keras_vit import deploy
from keras_vit.deploy.graph.graph_options import GraphOptions
from keras_vit.deploy.resolve import resolve

COMMAND = "export/to_tflite.py"
FEW = ("--images", "40", "--calibrate", "8", "--threads", "1")


@pytest.mark.slow
def test_a_run_becomes_bundles_that_a_recipe_makes_again(done, run, tmp_path):
    arguments = ("--run", run, *FEW, "--max-drop", "60", "--quantize")
    out, error = done(COMMAND, *arguments, "none", "float16", "auto", "int8-full")
    assert error == ""
    assert "exporting ViT-Test_8, 16 x 16, 10 classes" in out
    assert "Keras on 40 held-out images of digits" in out
    folders = {path.name for path in (run / "export").iterdir() if path.is_dir()}
    assert folders == {"float32", "float16", "auto", "int8-full"}
    for name in folders:
        description, _ = deploy.read_bundle(run / "export" / name)
        assert description["precision"] == name
        assert description["parity"]["images"] == 40
        assert description["input"]["shape"] == [1, 16, 16, 3]
        assert name in out
        images = description["calibration"] and description["calibration"]["images"]
        assert images == (None if name.startswith("float") else 8)
    first, again = run / "export" / "auto", tmp_path / "again" / "auto"
    recipe = json.loads((first / "recipe.json").read_text()) | {"float_layers": ["head"]}
    (tmp_path / "kept.json").write_text(json.dumps(recipe))
    done(COMMAND, *arguments, "auto", "--recipe", "kept.json", "--out", "again")
    assert deploy.read_bundle(again)[0]["float_layers"] == ["head"]
    assert (again / "model.tflite").read_bytes() != (first / "model.tflite").read_bytes()
    assert json.loads((again / "recipe.json").read_text()) == recipe


@pytest.mark.slow
def test_weights_and_pictures_become_a_file_of_pixels(done, fixtures, image_folder, tmp_path):
    weights = fixtures / "vit_token.weights.npz"
    arguments = ("--weights", weights, "--data", image_folder, "--out", "bundles")
    options = ("--quantize", "int8", "none", "--input", "uint8", "--output", "probabilities")
    out, error = done(COMMAND, *arguments, *options, *FEW)
    assert error == ""
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
def test_another_size_and_features_are_options(done, fixtures, tmp_path):
    weights = fixtures / "vit_token.weights.npz"
    arguments = ("--weights", weights, "--out", "bundles", "--image-size", "32", "64")
    options = ("--output", "features", "--min-runtime", "2.9")
    out, error = done(COMMAND, *arguments, *options, *FEW)
    assert error == ""
    assert "32 x 64" in out
    assert "Keras on 16 random images" in out
    description, _ = deploy.read_bundle(tmp_path / "bundles" / "float32")
    assert description["input"]["shape"] == [1, 32, 64, 3]
    assert description["output"]["kind"] == "features"


@pytest.mark.slow
def test_a_precision_that_is_refused_leaves_the_others_and_exits_with_3(
    refused, fixtures, image_folder, tmp_path
):
    weights = fixtures / "vit_token.weights.npz"
    arguments = ("--weights", weights, "--data", image_folder, "--out", "bundles", *FEW)
    options = ("--quantize", "int4", "none", "--min-runtime", "2.16.1")
    line = refused(COMMAND, *arguments, *options, code=3)
    start, received = "to_tflite.py: int4: ", "Received: --min-runtime"
    assert line.startswith(f"{start}this precision needs LiteRT 2.1.0 or newer. {received}")
    assert {path.name for path in (tmp_path / "bundles").iterdir() if path.is_dir()} == {"float32"}
    refusals = json.loads((tmp_path / "bundles" / "table.json").read_text())["refused"]
    in_flags = refusals["int4"].replace("min_runtime", "--min-runtime")  # of the library's words
    assert in_flags == line.removeprefix(start)


def test_a_head_of_zeros_proves_nothing_and_exits_with_3(refused, tiny_model, tmp_path):
    keras_vit.save_weights(keras_vit.create_model(tiny_model, 5, 16), tmp_path / "zero.npz")
    arguments = ("--weights", "zero.npz", "--model", tiny_model, "--out", "bundles")
    line = refused(COMMAND, *arguments, code=3)
    assert "Keras' scores are the same for all images" in line
    assert {path.name for path in tmp_path.iterdir()} == {"zero.npz", ".bundles.lock"}
