"""Other labels for the files of a zero-shot classifier, without another conversion."""

import dataclasses
import json
import re
import shutil

import numpy as np
import pytest

import keras_vit
from keras_vit import deploy
from keras_vit.deploy.bundle.folder import check_bundles_in

LABELS, OTHERS = ["cat", "hot_dog", "emu"], ["a tree", "cat", "a house", "a tram", "two dogs"]
PRECISIONS = ["none", "float16", "dynamic", "int8"]


@pytest.fixture(scope="module")
def words(fixtures):
    """Makes a classifier of labels from the weights of a family."""
    return lambda family, labels: keras_vit.zero_shot_model(
        fixtures / "zero_shot" / family, labels, ["a photo of a {}.", "a {}"]
    )


@pytest.fixture
def images(words, pictures):
    pixels = np.rint(127.5 * pictures(16, (32, 32)) + 127.5).astype(np.uint8)
    return lambda model: keras_vit.preprocess(pixels, model)


def exported(model, folder, images, quantize, **options):
    options = {"output": "probabilities", "threads": ()} | options
    bundles = deploy.export_bundles(model, folder, quantize, images, **options)
    assert bundles.refused == {}
    return bundles.written


def read_json(path):
    return json.loads(path.read_text())


@pytest.mark.parametrize("family", ["clip", "siglip"])
def test_a_relabelled_bundle_is_that_of_a_conversion(family, words, images, tmp_path):
    old, new = words(family, LABELS), words(family, OTHERS)
    for model, folder in ((old, "old"), (new, "converted")):
        exported(model, tmp_path / folder, images(model), PRECISIONS)
    exported(new, tmp_path / "new", images(new), PRECISIONS, relabel=tmp_path / "old")
    for name in ("float32", "float16", "dynamic", "int8"):
        found, expected = tmp_path / "new" / name, tmp_path / "converted" / name
        for file in ("model.tflite", "labels.txt"):
            assert (found / file).read_bytes() == (expected / file).read_bytes(), (name, file)
        assert read_json(found / "model.json") == read_json(expected / "model.json")


def test_the_folder_may_be_the_same(words, images, tmp_path):
    old, new = words("siglip", LABELS), words("siglip", OTHERS)
    exported(old, tmp_path, images(old), ["int8"])
    before = read_json(tmp_path / "int8/model.json")
    [after] = exported(new, tmp_path, images(new), ["int8"], relabel=tmp_path).values()
    assert after == read_json(tmp_path / "int8/model.json")
    assert after["calibration"] == before["calibration"]
    assert after["float_layers"] == before["float_layers"] == ["head"]
    assert deploy.open_bundle(tmp_path / "int8").labels == tuple(OTHERS)
    assert deploy.check_golden(tmp_path / "int8").passed


def test_layers_that_auto_chose_stay_in_float(words, images, tmp_path):
    old, new = words("clip", LABELS), words("clip", OTHERS)
    exported(old, tmp_path, images(old), ["auto"])
    before = read_json(tmp_path / "auto/model.json"), read_json(tmp_path / "auto/recipe.json")
    [after] = exported(new, tmp_path, images(new), ["auto"], relabel=tmp_path).values()
    assert after["float_layers"] == before[0]["float_layers"]
    assert after["chosen_on"] == before[0]["chosen_on"]
    assert read_json(tmp_path / "auto/recipe.json") == before[1]


def test_files_for_npus_are_converted_again(words, images, tmp_path):
    old, new = words("siglip", LABELS), words("siglip", OTHERS)
    exported(old, tmp_path, images(old), ["none", "int16x8"])
    shutil.copytree(tmp_path / "int16x8", tmp_path / "int8-full")
    options = {"output": "probabilities", "relabel": tmp_path, "threads": ()}
    names = ["int16x8", "int8-full", "none"]
    bundles = deploy.export_bundles(new, tmp_path, names, images(new), **options)
    assert list(bundles.written) == ["float32"]
    for name in ("int16x8", "int8-full"):
        assert bundles.refused[name].startswith("how NPUs round is measured on the float file")


def scale_a_norm(model):
    gamma = model.get_layer("encoder_norm").gamma
    gamma.assign(gamma * np.linspace(0.5, 2, gamma.shape[0], dtype=np.float32))


def test_a_file_is_judged_again(words, images, tmp_path):
    """A file with other weights than its description says is not written again."""
    old, new = words("siglip", LABELS), words("siglip", OTHERS)
    exported(old, tmp_path, images(old), ["none"])
    scale_a_norm(old)
    exported(old, tmp_path / "wrong", images(old), ["none"])
    shutil.copy(tmp_path / "wrong/float32/model.tflite", tmp_path / "float32")
    change(tmp_path, "sha256", read_json(tmp_path / "wrong/float32/model.json")["sha256"])
    bundles = deploy.export_bundles(
        new, tmp_path, ["none"], images(new), output="probabilities", relabel=tmp_path, threads=()
    )
    assert "This file was not written." in bundles.refused["float32"]
    assert deploy.open_bundle(tmp_path / "float32").labels == tuple(LABELS)


def of_other_weights(fixtures, tmp_path):
    model = keras_vit.zero_shot_model(fixtures / "zero_shot/clip", OTHERS)
    kernel = model.get_layer("encoderblock_0").mlp.dense_0.kernel
    kernel.assign(kernel * np.float32(1.0001))
    return model, {}


def of_other_pixels(fixtures, tmp_path):
    model = keras_vit.zero_shot_model(fixtures / "zero_shot/clip", OTHERS)
    changed = dataclasses.replace(model.preprocessing, scale=60.0)
    return model, {"preprocessing": changed}


def of_another_size(fixtures, tmp_path):
    return keras_vit.zero_shot_model(fixtures / "zero_shot/clip", OTHERS, image_size=40), {}


def of_another_activation(fixtures, tmp_path):
    shutil.copytree(fixtures / "zero_shot/clip", tmp_path / "clip")
    config = read_json(tmp_path / "clip/config.json")
    config["vision_config"]["hidden_act"] = "gelu"
    (tmp_path / "clip/config.json").write_text(json.dumps(config))
    return keras_vit.zero_shot_model(tmp_path / "clip", OTHERS), {}


@pytest.mark.parametrize(
    "other", [of_other_weights, of_other_pixels, of_another_size, of_another_activation]
)
def test_bundles_of_another_tower_are_refused(other, words, images, fixtures, tmp_path):
    old = words("clip", LABELS)
    exported(old, tmp_path / "old", images(old), ["none"])
    model, options = other(fixtures, tmp_path)
    options |= {"output": "probabilities", "relabel": tmp_path / "old", "threads": ()}
    with pytest.raises(keras_vit.UsageError, match="float32 is of another image tower"):
        deploy.export_bundles(model, tmp_path / "new", ["none"], **options)


@pytest.mark.parametrize(
    ("folder", "received"),
    [
        ("gone", "none of this name."),
        ("empty", "one without bundles."),
        ("words", "one with dynamic, int8."),
        ("words/int8", "a bundle; give the folder that holds it."),
    ],
)
def test_a_folder_without_the_bundle_says_what_it_is(folder, received, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    for name in ("int8", "dynamic"):
        (tmp_path / "words" / name).mkdir(parents=True)
        (tmp_path / "words" / name / "model.json").touch()
    check_bundles_in("words", ["int8", "dynamic"])
    line = f"{folder}: expected a folder with the bundle float16. Received: {received}"
    with pytest.raises(keras_vit.UsageError, match=f"^{re.escape(line)}$"):
        check_bundles_in(folder, ["float16"])


def of_another_precision(folder):
    change(folder, "precision", "dynamic")


def of_a_trained_head(folder):
    change(folder, "zero_shot", None)


def change(folder, key, value):
    path = folder / "float32/model.json"
    path.write_text(json.dumps(read_json(path) | {key: value}))


def without_a_file(folder):
    shutil.rmtree(folder / "float32")


def another_file(folder):
    (folder / "float32/model.tflite").write_bytes(b"\x1c\0\0\0TFL3")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (of_another_precision, "float32: expected float32. Received: dynamic"),
        (of_a_trained_head, "float32: its labels were trained"),
        (without_a_file, "float32/model.json does not exist"),
        (another_file, "is not the file that model.json describes"),
        (lambda folder: {"output": "logits"}, "and output='logits'. Received: float32 and prob"),
        (lambda folder: {"input": "uint8"}, "input='uint8' and .* Received: float32 and prob"),
        (lambda folder: {"rewrite": False}, "a model of zero_shot_model, and its rewrites"),
        (lambda folder: {"quantize": "auto", "recipe": "r.json"}, "the files that relabel changes"),
    ],
)
def test_bundles_that_cannot_have_the_labels_are_refused(damage, message, words, images, tmp_path):
    old, new = words("clip", LABELS), words("clip", OTHERS)
    exported(old, tmp_path, images(old), ["none"])
    options = {"quantize": "none", "output": "probabilities", "threads": ()}
    options |= damage(tmp_path) or {}
    with pytest.raises(keras_vit.UsageError, match=message):
        deploy.export_bundles(new, tmp_path / "new", relabel=tmp_path, **options)
    assert not (tmp_path / "new/float32").exists()
