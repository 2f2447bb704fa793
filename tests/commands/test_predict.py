"""train/predict.py, as a user runs it: from a run, a bundle, weights, a published name."""

from __future__ import annotations

import json
import os
import shutil
import sys

import numpy as np
import pytest
from PIL import Image

import keras_vit
from keras_vit.data import digits
from keras_vit.specs import VARIANTS
from keras_vit.weights import find_weights
from keras_vit.weights.cache import cached_path

COMMAND = "train/predict.py"
COUNT = 4


@pytest.fixture
def pictures(tmp_path):
    """A folder of digits, one a level down, with a torn file and a file that is no picture."""
    folder = tmp_path / "pictures"
    (folder / "more").mkdir(parents=True)
    source = digits()
    for i in range(COUNT):
        name = f"more/{i}.PNG" if i == COUNT - 1 else f"{i}.png"
        Image.fromarray(source.image(i)).save(folder / name)
    (folder / "torn.jpg").write_bytes(b"\xff\xd8\xff")
    (folder / "notes.txt").write_text("not a picture")
    (folder / ".hidden.png").write_bytes(b"")
    return folder


@pytest.fixture(scope="module")
def expected(trained_run):
    """Keras' probabilities of the same digits, (count, classes)."""
    model, source = trained_run.model(), digits()
    inputs = keras_vit.preprocess([source.image(i) for i in range(COUNT)], model)
    logits = np.asarray(model(inputs, training=False), np.float64)
    powers = np.exp(logits)
    return powers / powers.sum(axis=1, keepdims=True)


def predictions(out):
    """Of a command's JSON lines: {file name: {label: probability}}."""
    records = [json.loads(line) for line in out.splitlines()]
    return {
        record["picture"].rpartition("/")[2]: {
            entry["label"]: entry["probability"] for entry in record["predictions"]
        }
        for record in records
    }


def check(out, expected, atol):
    found = predictions(out)
    assert list(found) == ["0.png", "1.png", "2.png", "3.PNG"]
    for row, probabilities in zip(expected, found.values(), strict=True):
        assert list(probabilities.values()) == sorted(probabilities.values(), reverse=True)
        actual = [probabilities[str(label)] for label in range(10)]
        np.testing.assert_allclose(actual, row, atol=atol)


def test_a_run_names_the_classes_of_pictures(invoke, trained_run, pictures, expected, tmp_path):
    arguments = ("--run", trained_run.path, pictures, "--top-k", "2")
    code, out, error = invoke(COMMAND, *arguments, cwd=tmp_path)
    assert code == 0
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


def test_a_run_and_its_weights_give_the_models_probabilities(
    invoke, trained_run, pictures, expected, tmp_path
):
    weights = trained_run.path / "weights.npz"
    for model in (("--run", trained_run.path), ("--weights", weights)):
        arguments = (*model, pictures, "--top-k", "10", "--json")
        code, out, error = invoke(COMMAND, *arguments, cwd=tmp_path)
        assert code == 0
        assert str(model[1]) in error
        check(out, expected, atol=1e-5)


@pytest.mark.slow
def test_bundles_give_the_models_probabilities(invoke, trained_run, pictures, expected, tmp_path):
    run = shutil.copytree(trained_run.path, tmp_path / "runs" / "mine")
    logits = ("--quantize", "none", "--out", "logits")
    pixels = ("--quantize", "none", "int16x8", "--out", "pixels")
    pixels += ("--input", "uint8", "--output", "probabilities")
    for options in (logits, pixels):
        code, _, error = invoke("export/to_tflite.py", "--run", run, *options, cwd=tmp_path)
        assert code == 0, error
    for bundle, atol in (
        ("logits/float32", 1e-4),
        ("logits/float32/model.tflite", 1e-4),
        ("pixels/float32", 1e-4),
        ("pixels/int16x8", 0.02),
    ):
        arguments = ("--bundle", bundle, pictures, "--top-k", "10", "--json")
        code, out, error = invoke(COMMAND, *arguments, cwd=tmp_path)
        assert code == 0, error
        check(out, expected, atol)
    for folder, message in (
        ("pixels", "Received: a folder that holds pixels/float32, pixels/int16x8; choose one."),
        (run, "expected a bundle's folder. Received: a run; export it first"),
    ):
        code, _, error = invoke(COMMAND, "--bundle", folder, pictures, cwd=tmp_path)
        assert code == 2
        assert message in error
    described = tmp_path / "logits" / "float32" / "model.json"
    content = json.loads(described.read_text())
    content["output"]["kind"] = "features"
    described.write_text(json.dumps(content))
    code, _, error = invoke(COMMAND, "--bundle", "logits/float32", pictures, cwd=tmp_path)
    assert code == 2
    assert "gives features and no classes; export it with output logits" in error
    code, _, error = invoke(COMMAND, "--run", "logits/float32", pictures, cwd=tmp_path)
    assert code == 2
    bundle = "Received: an exported bundle; a run is needed, or its weights"
    assert bundle in error
    code, _, error = invoke(COMMAND, "--weights", "logits/float32", pictures, cwd=tmp_path)
    assert code == 2
    assert bundle in error


def test_published_weights_name_imagenets_classes(invoke, pictures, monkeypatch, tmp_path):
    monkeypatch.setenv("KERAS_VIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("KERAS_VIT_OFFLINE", "1")
    spec = keras_vit.ViTSpec(patch_size=16, hidden_dim=24, depth=1, num_heads=2, mlp_dim=32)
    monkeypatch.setitem(VARIANTS, "ViT-B_16", spec)
    path = cached_path(find_weights("ViT-B_16", "augreg").url)
    path.parent.mkdir(parents=True)
    keras_vit.save_weights(keras_vit.ViT(spec, 1000, 384), path)
    arguments = ("--weights", "augreg", "--model", "ViT_B16", pictures / "0.png", "--top-k", "1")
    code, out, error = invoke(COMMAND, *arguments, cwd=tmp_path)
    assert code == 0, error
    assert "0.1%  tench, Tinca_tinca" in out
    assert error == (
        "warning: the head is all zeros, so every class is equally probable; train it first.\n"
    )


def test_one_logit_answers_with_its_class_or_not(
    invoke, pictures, tiny_model, randomised, tmp_path
):
    model = randomised(keras_vit.create_model(tiny_model, 1, 16))
    for labels, answers in (
        (("daisy",), {"daisy", "not daisy"}),
        (None, {"class 1", "not class 1"}),
    ):
        named = keras_vit.create_model(tiny_model, 1, 16, labels=labels)
        named.set_weights(model.get_weights())
        keras_vit.save_weights(named, tmp_path / "a.npz")
        arguments = ("--weights", "a.npz", pictures / "0.png", "--json")
        _, out, error = invoke(COMMAND, *arguments, cwd=tmp_path)
        assert set(predictions(out)["0.png"]) == answers
        assert "16 x 16 pixels, 2 classes\n" in error


def test_classes_without_names_are_numbered(invoke, pictures, tiny_model, randomised, tmp_path):
    keras_vit.save_weights(
        randomised(keras_vit.create_model(tiny_model, 3, 16)), tmp_path / "a.npz"
    )
    arguments = ("--weights", "a.npz", pictures / "0.png", "--json")
    _, out, _ = invoke(COMMAND, *arguments, cwd=tmp_path)
    assert set(predictions(out)["0.png"]) == {"class 0", "class 1", "class 2"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "train/predict.py photo.jpg"),
        (["0.png"], "no run under "),
        (["--run", "no", "0.png"], "no: expected a run folder; there is no such folder."),
        (
            ["--run", "run", "--bundle", "b", "0.png"],
            "expected one of --run, --bundle and --weights",
        ),
        (["--model", "ViT_B16", "0.png"], "--model is only used with --weights"),
        (["--weights", "augreg", "0.png"], "published weights need --model, such as ViT_B16"),
        (["--bundle", "more", "0.png"], "more: expected a bundle's folder. Received: something"),
        (["--weights", "run", "0.png"], "run is a run; use --run run."),
        (
            ["--run", "run/spec.json", "0.png"],
            "spec.json: expected a run folder. Received: a file; pass ",
        ),
        (["--top-k", "0", "0.png"], "--top-k must be a positive integer"),
        (["--run", "run", "empty"], "empty contains no pictures (.jpg"),
    ],
)
def test_a_mistake_is_one_line(invoke, pictures, arguments, message):
    (pictures / "empty").mkdir()
    (pictures / "run").mkdir()
    (pictures / "run" / "spec.json").write_text("{}")
    code, out, error = invoke(COMMAND, *arguments, cwd=pictures)
    assert (code, out) == (2, "")
    (line,) = error.splitlines()
    assert message in line


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_names_that_are_not_utf8_are_printed(invoke, trained_run, pictures, options):
    os.rename(pictures / "0.png", os.fsencode(pictures) + b"/caf\xe9.png")
    os.rename(pictures / "torn.jpg", os.fsencode(pictures) + b"/torn\xe9.jpg")
    sys.stdout.reconfigure(errors="strict")
    code, out, error = invoke(COMMAND, "--run", trained_run.path, ".", *options, cwd=pictures)
    assert code == 0
    assert ("caf\\\\udce9.png" if options else "caf\\udce9.png") in out
    assert "skipped torn\\udce9.jpg: " in error


def test_it_fails_if_no_picture_can_be_read(invoke, trained_run, pictures):
    arguments = ("--run", trained_run.path, "torn.jpg", "gone.jpg")
    code, _, error = invoke(COMMAND, *arguments, cwd=pictures)
    torn, gone, last = error.splitlines()
    assert torn.startswith("skipped torn.jpg: ")
    assert gone == "skipped gone.jpg: there is no such file."
    assert (code, last) == (2, "predict.py: no picture could be read.")
