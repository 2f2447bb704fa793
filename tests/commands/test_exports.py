"""The commands that export, to TFLite and to a SavedModel, and that compress a run."""

import functools
import json
import re
import resource
from pathlib import Path

import numpy as np
import pytest

import keras_vit
from keras_vit import deploy
from keras_vit.data import digits
from keras_vit.deploy.compression import summary

TFLITE, SAVED_MODEL = "export/to_tflite.py", "export/to_saved_model.py"
ZERO_SHOT = "export/zero_shot.py"
WORDS = Path(__file__).parents[2] / "android_demo/testing/words/cifar10-words"
FEW = ("--images", "40", "--calibrate", "8", "--threads", "1")
SHORT = ("--duration", "4 steps", "--images", "40", "--max-drop", "40")


@pytest.fixture
def weights(fixtures):
    return fixtures / "vit_token.weights.npz"


@pytest.mark.slow
def test_a_run_becomes_bundles_that_a_recipe_makes_again(done, run, tmp_path):
    arguments = ("--run", run, *FEW, "--max-drop", "60", "--quantize")
    out, error = done(TFLITE, *arguments, "none", "float16", "auto", "int8-full")
    assert error == ""
    assert "exporting ViT-Test_8, 16 x 16, 10 classes" in out
    assert "Keras on 40 held-out images of digits" in out
    for name, images in (("float32", None), ("float16", None), ("auto", 8), ("int8-full", 8)):
        description, _ = deploy.read_bundle(run / "export" / name)
        assert (description["precision"], description["parity"]["images"]) == (name, 40)
        assert (description["calibration"] or {"images": None})["images"] == images
        assert name in out
    first, again = run / "export" / "auto", tmp_path / "again" / "auto"
    recipe = json.loads((first / "recipe.json").read_text()) | {"float_layers": ["head"]}
    (tmp_path / "kept.json").write_text(json.dumps(recipe))
    done(TFLITE, *arguments, "auto", "--recipe", "kept.json", "--out", "again")
    assert deploy.read_bundle(again)[0]["float_layers"] == ["head"]
    assert (again / "model.tflite").read_bytes() != (first / "model.tflite").read_bytes()
    assert json.loads((again / "recipe.json").read_text()) == recipe


@pytest.mark.slow
def test_weights_and_pictures_become_a_file_of_pixels(done, weights, image_folder, tmp_path):
    words = ("--weights", weights, "--data", image_folder, "--out", "bundles", *FEW)
    words += ("--quantize", "int8", "none", "--input", "uint8", "--output", "probabilities")
    out, error = done(TFLITE, *words)
    assert error == ""
    assert f"Keras on 6 images of {image_folder.name}" in out
    for name in ("float32", "int8"):
        description, golden = deploy.read_bundle(tmp_path / "bundles" / name)
        assert description["input"]["dtype"] == golden["tensor"].dtype.name == "uint8"
        assert description["output"]["kind"] == "probabilities"
        assert golden["scores"].sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.slow
def test_another_size_and_features_are_options(done, weights, tmp_path):
    words = ("--weights", weights, "--out", "bundles", "--image-size", "32", "64", *FEW)
    out, error = done(TFLITE, *words, "--output", "features", "--min-runtime", "2.9")
    assert error == ""
    assert "32 x 64" in out
    assert "Keras on 16 random images" in out
    description, _ = deploy.read_bundle(tmp_path / "bundles" / "float32")
    assert description["input"]["shape"] == [1, 32, 64, 3]
    assert description["output"]["kind"] == "features"


@pytest.mark.slow
def test_words_become_a_classifier_in_a_bundle(done, fixtures, image_folder, tmp_path):
    words = ("--weights", fixtures / "zero_shot/siglip2", "--data", image_folder, "--out", "made")
    out, error = done(ZERO_SHOT, *words, *FEW)
    assert error == ""
    names = tuple(sorted(folder.name for folder in image_folder.iterdir()))
    assert f"texts     {len(names)} labels, 1 template" in out
    bundle = deploy.open_bundle(tmp_path / "made/float16")
    assert (bundle.labels, bundle.from_logits) == (names, False)
    made = "- Head: made of the classes' names by the text tower, in `This is a photo of {}.`\n"
    assert made in (tmp_path / "made/card.md").read_text()
    (tmp_path / "others.txt").write_text("\n".join([*names, "dog"]))
    words = ("--weights", fixtures / "zero_shot/siglip2", "--data", image_folder)
    (tmp_path / "others_templates.txt").write_text("{}\na {}\n")
    others = ("--labels", "others.txt", "--templates", "others_templates.txt")
    out, error = done(ZERO_SHOT, *words, *others, "--relabel", "made", "--out", "others", *FEW)
    assert error == ""
    assert "a picture counts as wrong where a label without pictures is best" in out
    assert "float16: replacing the head" in out
    assert deploy.open_bundle(tmp_path / "others/float16").labels == (*names, "dog")
    (tmp_path / "others.txt").write_text("cat\ndog")
    others = ("--labels", "others.txt", "--relabel", "others", "--out", "others")
    out, error = done(ZERO_SHOT, *words, *others, *FEW)
    assert error == ""
    assert "accuracy  is not measured: no folder of --data is named like a label" in out
    description, _ = deploy.read_bundle(tmp_path / "others/float16")
    assert description["output"]["classes"] == 2
    assert description["zero_shot"]["templates"] == ["{}", "a {}"]
    (tmp_path / "labels.txt").write_text("\n".join(reversed(names)) + "\n\n")
    (tmp_path / "templates.txt").write_text("This is a photo of {}.")
    words = (
        "--weights",
        fixtures / "zero_shot/siglip2",
        "--labels",
        "labels.txt",
        "--out",
        "again",
    )
    words += ("--templates", "templates.txt", "--quantize", "none", "--output", "logits")
    out, error = done(ZERO_SHOT, *words, *FEW)
    assert error == ""
    again = deploy.open_bundle(tmp_path / "again/float32")
    assert (again.labels, again.from_logits) == (names[::-1], True)
    images = np.random.default_rng(0).uniform(-1, 1, (1, 32, 32, 3)).astype(np.float32)
    logits, found = again.predict(images), bundle.predict(images)
    np.testing.assert_allclose(found[:, ::-1], 1 / (1 + np.exp(-logits)), atol=2e-3)


@pytest.mark.slow
def test_bundles_of_different_templates_need_templates(refused, fixtures, tmp_path):
    description = json.loads((WORDS / "model.json").read_text())
    for name, template in (("float16", "{}"), ("dynamic", "a {}")):
        (tmp_path / "words" / name).mkdir(parents=True)
        description["zero_shot"]["templates"] = [template]
        (tmp_path / "words" / name / "model.json").write_text(json.dumps(description))
    (tmp_path / "labels.txt").write_text("cat\ndog\n")
    words = ("--weights", fixtures / "zero_shot/siglip2", "--labels", "labels.txt")
    words += ("--relabel", "words", "--out", "out", "--quantize", "float16", "dynamic")
    line = refused(ZERO_SHOT, *words)
    assert line.endswith("words: its bundles have different templates; give --templates.")


@pytest.mark.slow
def test_a_precision_that_is_refused_leaves_the_others_and_exits_with_3(
    refused, weights, image_folder, tmp_path
):
    words = ("--weights", weights, "--data", image_folder, "--out", "bundles", *FEW)
    words += ("--quantize", "int4", "none", "--min-runtime", "2.16.1")
    line = refused(TFLITE, *words, code=3)
    start, received = "to_tflite.py: int4: ", "Received: --min-runtime"
    assert line.startswith(f"{start}this precision needs LiteRT 2.1.0 or newer. {received}")
    assert {path.name for path in (tmp_path / "bundles").iterdir() if path.is_dir()} == {"float32"}
    refusals = json.loads((tmp_path / "bundles" / "table.json").read_text())["refused"]
    in_flags = refusals["int4"].replace("min_runtime", "--min-runtime")  # of the library's words
    assert in_flags == line.removeprefix(start)
    assert "## Refused" in (tmp_path / "bundles" / "card.md").read_text()


@pytest.mark.parametrize(
    ("command", "left"),
    [(TFLITE, {".out.lock"}), pytest.param(SAVED_MODEL, set(), marks=pytest.mark.slow)],
)
def test_a_head_of_zeros_proves_nothing_and_exits_with_3(
    refused, tiny_model, tmp_path, command, left
):
    keras_vit.save_weights(keras_vit.create_model(tiny_model, 5, 16), tmp_path / "zero.npz")
    words = ("--weights", "zero.npz", "--model", tiny_model, "--out", "out")
    assert "Keras' scores are the same for all images" in refused(command, *words, code=3)
    assert {path.name for path in tmp_path.iterdir()} == {"zero.npz", *left}


def serve(folder, images):
    import tensorflow as tf

    return tf.saved_model.load(str(folder)).signatures["serving_default"](images=images)


@pytest.mark.slow
def test_the_newest_run_becomes_a_saved_model_in_it_of_another_size(done, run):
    options = ("--images", "20", "--top-k", "3", "--image-size", "16", "24")
    out, error = done(SAVED_MODEL, *options)
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
def test_a_file_of_weights_becomes_a_saved_model(done, weights, image_folder, tmp_path):
    out, error = done(SAVED_MODEL, "--weights", weights, "--out", "served", "--data", image_folder)
    assert error == ""
    assert f"with Keras on images of {image_folder.name}" in out
    pixels = np.zeros((1, 48, 48, 3), np.uint8)
    model = keras_vit.model_from_weights(weights)
    logits = serve(tmp_path / "served", pixels)["logits"]
    np.testing.assert_allclose(logits, model(keras_vit.preprocess(pixels, model)), atol=1e-5)


@pytest.mark.soak(of="kills")
def test_a_full_disk_is_one_line_and_leaves_the_old_saved_model(command, trained_run, tmp_path):
    old = tmp_path / "served" / "saved_model.pb"
    old.parent.mkdir()
    old.write_text("the old one")
    limited = functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, (20_000, 20_000))
    words = ("--run", trained_run.path, "--out", "served", "--images", "5")
    result = command(SAVED_MODEL, *words, cwd=tmp_path, check=2, preexec_fn=limited)
    (line,) = result.stderr.splitlines()
    assert "File too large" in line
    assert not any(word in line for word in ("{{", "[Op:", "unfinished", "tempstate"))
    assert old.read_text() == "the old one"
    assert sorted(tmp_path.rglob("*")) == [old.parent, old]


@pytest.mark.soak(of="compression")
def test_a_run_is_compressed_compared_and_bundled(command, trained_run, tmp_path):
    arguments = ("--run", trained_run.path, "--method", "qat", "--out", "small")
    result = command("export/compress.py", *arguments, *SHORT, cwd=tmp_path, check=0)
    assert result.stderr == ""
    assert "    step 4/4: loss " in result.stdout
    description, golden = deploy.read_bundle(tmp_path / "small/qat-int4")
    assert description["precision"] == "int4"
    content = (tmp_path / "small/qat-int4/model.tflite").read_bytes()
    scores = deploy.Runner(content)(golden["tensor"][None])[0]
    np.testing.assert_allclose(scores, golden["scores"], atol=1e-4)
    table = json.loads((tmp_path / "small/table.json").read_text())
    rows = {row["name"]: row for row in table["rows"]}
    assert [*rows] == ["none-float32", "none-int4", "qat-int4"]
    row = rows["qat-int4"]
    assert row["bytes"] == len(content)
    assert row["deflated"] == summary(content)["deflated"] < rows["none-float32"]["deflated"]
    assert row["deflated_ratio"] == row["deflated"] / rows["none-float32"]["deflated"]
    assert table.keys() == {"format", "machine", "images", "rows", "refused"}
    assert (table["format"], table["images"], table["refused"]) == (1, 40, {})
    assert (row["precision"], row["sha256"]) == ("int4", description["sha256"])
    assert row["weights_sha256"] == description["weights_sha256"]
    assert row["weights_sha256"] != rows["none-int4"]["weights_sha256"]
    assert (rows["none-int4"]["compression"]["settings"], row["measured"]) == (None, None)
    kernels = row["compression"]["kernels"]
    assert {kernel["layer"] for kernel in kernels} >= {"head", "encoderblock_0/mlp/dense_1"}
    assert re.search(rf"qat-int4 +{row['accuracy']:.2%} ", result.stdout)
    assert result.stdout.endswith("export/run.py --bundle small/qat-int4 --verify\n")
