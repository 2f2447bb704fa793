"""train/look_inside.py, as a user runs it: from a run or weights, with its data or own pictures."""

import json

import numpy as np
import pytest
from PIL import Image

import keras_vit
from keras_vit import evaluation, runs

COMMAND = "train/look_inside.py"
SPEC = keras_vit.ViTSpec(8, 24, 1, 3, 32)


@pytest.fixture
def photos(tmp_path, rng):
    """A folder with two pictures and a torn file."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in ("a.png", "b.jpg"):
        Image.fromarray(rng.integers(0, 255, (20, 30, 3), np.uint8)).save(folder / name)
    (folder / "torn.jpg").write_bytes(b"\xff\xd8\xff")
    return folder


def numbers(folder):
    return json.loads((folder / "inspection.json").read_text())


def test_a_run_is_inspected_on_its_held_out_images(done, run):
    out, error = done(COMMAND, "--images", "40", "--show", "2")  # without --run: the newest
    assert error == ""
    assert out.splitlines()[1:] == [
        "looking at 2 pictures",
        "attention of 40 of 40 images",
        "classifying 359 images",
        "page: runs/mine/inspection/index.html",
    ]
    found = numbers(run / "inspection")
    assert found["attention_distance"]["images"] == 40
    accuracy = runs.open_run(run).metrics()[-1]["val_accuracy"]
    assert found["errors"]["accuracy"] == pytest.approx(accuracy, abs=1e-6)
    assert len({caption.partition(";")[0] for caption in found["captions"]}) == 2
    assert "held out from training" in (run / "inspection" / "index.html").read_text()


def test_own_pictures_at_another_size(done, invoke, trained_run, photos, tmp_path):
    words = ("--run", trained_run.path, "--image-size", "24", "32", "--out", "new", "--images", "5")
    _, error = done(COMMAND, photos, *words, "--judge", "20")
    (line,) = error.splitlines()
    assert line.startswith(f"skipped {photos}/torn.jpg: ")
    found = numbers(tmp_path / "new")
    assert found["image_size"] == [24, 32]
    assert [caption.partition(";")[0] for caption in found["captions"]] == ["a.png", "b.jpg"]
    assert sum(each["support"] for each in found["errors"]["classes"]) == 20
    model = keras_vit.model_from_weights(trained_run.path / "weights.npz", image_size=(24, 32))
    source, run = trained_run.source(), trained_run
    chosen = np.random.default_rng(0).permutation(run.images(source))[:5]
    images = [source.image(int(i)) for i in chosen]
    distance = evaluation.inspect_model(model, images=images).distance
    np.testing.assert_allclose(found["attention_distance"]["blocks"], distance, atol=1e-6)
    code, _, error = invoke(COMMAND, photos / "torn.jpg", *words, cwd=tmp_path)
    assert (code, error.splitlines()[-1]) == (2, "look_inside.py: no picture could be read.")


def test_weights_with_data_own_pictures_or_nothing(
    done, image_folder, photos, randomised, tmp_path
):
    model = keras_vit.ViT(SPEC, 2, (16, 24), labels=("blue", "red"))
    keras_vit.save_weights(model, tmp_path / "untrained.npz")
    keras_vit.save_weights(randomised(model), tmp_path / "a.npz")
    model = keras_vit.ViT(SPEC, 3, (16, 24), labels=("blue", "green", "red"))
    keras_vit.save_weights(randomised(model), tmp_path / "other.npz")
    two = (photos / "a.png", photos / "b.jpg")
    for words, message, shown, errors in (
        (("a.npz", "--data", image_folder, "--show", "2"), "", 2, True),
        (("untrained.npz", "--data", image_folder, "--show", "2"), "", 2, False),
        (("other.npz", "--data", image_folder, "--show", "1"), "", 1, False),
        (("a.npz", *two, "--show", "1"), "--show shows more", 1, False),
        (("a.npz",), "warning: no pictures were given, so only what needs none", 0, False),
    ):
        assert message in done(COMMAND, "--weights", *words, "--out", "out")[1]
        found = numbers(tmp_path / "out")
        assert (len(found["captions"]), "errors" in found) == (shown, errors)
        assert ("attention_distance" in found) == bool(shown)


def test_one_logit_is_shown_with_its_two_answers(done, image_folder, randomised, tmp_path):
    model = randomised(keras_vit.ViT(SPEC, 1, (16, 24), labels=("blue",)))
    keras_vit.save_weights(model, tmp_path / "a.npz")
    done(COMMAND, "--weights", "a.npz", "--data", image_folder, "--out", "out", "--show", "12")
    found = numbers(tmp_path / "out")
    assert [each["label"] for each in found["errors"]["classes"]] == ["not blue", "blue"]
    paths = [str(path) for path in sorted(image_folder.glob("*/*"))]
    logits = model.predict(keras_vit.preprocess(paths, model))
    assert found["errors"]["accuracy"] == ((logits > 0) == (np.arange(12) < 6)[:, None]).mean()
    answers = [caption.partition("says ")[2] for caption in found["captions"]]
    assert {*answers} == {("not blue", "blue")[i] for i in (logits > 0).astype(int).ravel()}
