"""train/predict.py, as a user runs it: from a run, a bundle, weights, a published name."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import keras_vit
from keras_vit.cli import _predictions
from keras_vit.data import digits
from keras_vit.variant_specs import VARIANTS
from keras_vit.weights import find_weights

COMMAND = "train/predict.py"
COUNT = 4


@pytest.fixture
def pictures(tmp_path):
    """A folder of digits, one a level down, with a torn file and a file that is no picture."""
    folder = tmp_path / "pictures"
    (folder / "more").mkdir(parents=True)
    for i, name in enumerate(("0.png", "1.png", "2.png", "more/3.PNG")):
        Image.fromarray(digits().image(i)).save(folder / name)
    (folder / "torn.jpg").write_bytes(b"\xff\xd8\xff")
    (folder / "notes.txt").write_text("not a picture")
    (folder / ".hidden.png").write_bytes(b"")
    return folder


@pytest.fixture(scope="module")
def expected(trained_run):
    """Keras' probabilities of the same digits, (count, classes)."""
    model, source = trained_run.model(), digits()
    inputs = keras_vit.preprocess([source.image(i) for i in range(COUNT)], model)
    powers = np.exp(np.asarray(model(inputs, training=False), np.float64))
    return powers / powers.sum(axis=1, keepdims=True)


def predictions(out):
    """Of a command's JSON lines: {file name: {label: probability}}."""
    return {
        record["picture"].rpartition("/")[2]: {
            entry["label"]: entry["probability"] for entry in record["predictions"]
        }
        for record in map(json.loads, out.splitlines())
    }


def check(out, expected, atol):
    found = predictions(out)
    assert list(found) == ["0.png", "1.png", "2.png", "3.PNG"]
    for row, probabilities in zip(expected, found.values(), strict=True):
        assert list(probabilities.values()) == sorted(probabilities.values(), reverse=True)
        actual = [probabilities[str(label)] for label in range(10)]
        np.testing.assert_allclose(actual, row, atol=atol)


def test_a_run_names_the_classes_of_pictures(done, trained_run, pictures, expected):
    out, error = done(COMMAND, "--run", trained_run.path, pictures, "--top-k", "2")
    (line,) = error.splitlines()
    assert line.startswith(f"skipped {pictures}/torn.jpg: ")
    first, *blocks, following = out.strip().split("\n\n")
    assert f"export/to_tflite.py --run {trained_run.path} --quantize float16 int8" in following
    assert first.startswith(f"run {trained_run.path}: ViT-Test_8, 16 x 16 pixels, 10 classes, ")
    assert len(blocks) == COUNT
    name, *lines = blocks[0].splitlines()
    assert name == str(pictures / "0.png")
    best = np.argsort(-expected[0])[:2]
    assert lines == [f"  {expected[0][i]:6.1%}  {i}" for i in best]


def test_a_run_and_its_weights_give_the_models_probabilities(done, trained_run, pictures, expected):
    weights = trained_run.path / "weights.npz"
    for model in (("--run", trained_run.path), ("--weights", weights)):
        out, error = done(COMMAND, *model, pictures, "--top-k", "10", "--json")
        assert str(model[1]) in error
        check(out, expected, atol=1e-5)


@pytest.mark.slow
def test_bundles_give_the_models_probabilities(done, refused, run, pictures, expected, tmp_path):
    logits = ("--quantize", "none", "--out", "logits")
    pixels = ("--quantize", "none", "int16x8", "--out", "pixels")
    pixels += ("--input", "uint8", "--output", "probabilities")
    for options in (logits, pixels):
        done("export/to_tflite.py", "--run", run, *options)
    for bundle, atol in (
        ("logits/float32", 1e-4),
        ("logits/float32/model.tflite", 1e-4),
        ("pixels/float32", 1e-4),
        ("pixels/int16x8", 0.02),
    ):
        out, _ = done(COMMAND, "--bundle", bundle, pictures, "--top-k", "10", "--json")
        check(out, expected, atol)
    line = refused(COMMAND, "--bundle", "pixels", pictures)
    assert "Received: a folder that holds pixels/float32, pixels/int16x8; choose one." in line
    line = refused(COMMAND, "--bundle", run, pictures)
    assert "expected a bundle's folder. Received: a run; export it first" in line
    described = tmp_path / "logits" / "float32" / "model.json"
    content = json.loads(described.read_text())
    content["output"]["kind"] = "masks"
    described.write_text(json.dumps(content))
    line = refused(COMMAND, "--bundle", "logits/float32", pictures)
    kinds = "logits, probabilities, features, feature_map, scores, class_map"
    assert f"$.output.kind must be one of {kinds}. Received: 'masks'" in line


def test_a_feature_map_names_no_class(refused, done, pictures):
    bundle = Path(__file__).parents[2] / "android_demo/testing/feature_maps/digits-map"
    line = refused(COMMAND, "--bundle", bundle, pictures)
    assert "gives a feature map, which names no class; look at it on a page, made by: " in line
    out, _ = done("export/run.py", "--bundle", bundle, "--verify")
    assert ("class" in out, "features differ by" in out) == (False, True)


@pytest.mark.parametrize(
    ("probability", "text"), [(0, "0.0%"), (1e-9, "<0.1%"), (4.9e-4, "<0.1%"), (6e-4, "0.1%")]
)
def test_a_small_probability_is_no_zero(probability, text):
    assert _predictions._shown("1.png", {"predictions": [("cat", probability)]}, False).split() == [
        "1.png", text, "cat",
    ]  # fmt: skip


def test_published_weights_name_imagenets_classes(done, publish, pictures, monkeypatch):
    spec = keras_vit.ViTSpec(patch_size=16, hidden_dim=24, depth=1, num_heads=2, mlp_dim=32)
    monkeypatch.setitem(VARIANTS, "ViT-B_16", spec)
    publish(keras_vit.ViT(spec, 1000, 384), find_weights("ViT-B_16", "augreg"))
    arguments = ("--weights", "augreg", "--model", "ViT_B16", pictures / "0.png", "--top-k", "1")
    out, error = done(COMMAND, *arguments)
    assert "0.1%  tench, Tinca_tinca" in out
    assert error == (
        "warning: the head is all zeros, so every class is equally probable; train it first.\n"
    )


@pytest.mark.parametrize(
    ("classes", "labels", "answers"),
    [
        (1, ("daisy",), {"daisy", "not daisy"}),
        (1, None, {"class 1", "not class 1"}),
        (3, None, {"class 0", "class 1", "class 2"}),
    ],
)
def test_answers_are_named_or_numbered(
    done, pictures, tiny_model, randomised, tmp_path, classes, labels, answers
):
    model = keras_vit.create_model(tiny_model, classes, 16, labels=labels)
    keras_vit.save_weights(randomised(model), tmp_path / "a.npz")
    out, error = done(COMMAND, "--weights", "a.npz", pictures / "0.png", "--json")
    assert set(predictions(out)["0.png"]) == answers
    assert f"16 x 16 pixels, {len(answers)} classes\n" in error


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_names_that_are_not_utf8_are_printed(done, trained_run, pictures, options):
    os.rename(pictures / "0.png", os.fsencode(pictures) + b"/caf\xe9.png")
    os.rename(pictures / "torn.jpg", os.fsencode(pictures) + b"/torn\xe9.jpg")
    sys.stdout.reconfigure(errors="strict")
    out, error = done(COMMAND, "--run", trained_run.path, "pictures", *options)
    assert ("caf\\\\udce9.png" if options else "caf\\udce9.png") in out
    assert "skipped pictures/torn\\udce9.jpg: " in error


def test_it_fails_if_no_picture_can_be_read(invoke, trained_run, pictures):
    arguments = ("--run", trained_run.path, "torn.jpg", "gone.jpg")
    code, _, error = invoke(COMMAND, *arguments, cwd=pictures)
    torn, gone, last = error.splitlines()
    assert torn.startswith("skipped torn.jpg: ")
    assert gone == "skipped gone.jpg: there is no such file."
    assert (code, last) == (2, "predict.py: no picture could be read.")
