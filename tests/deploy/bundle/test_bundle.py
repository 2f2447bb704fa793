"""Bundles: their description is true, and they are written completely or not at all."""

import base64
import dataclasses
import hashlib
import json
from unittest.mock import ANY, Mock

import numpy as np
import pytest
from PIL import Image

import keras_vit
from keras_vit import UsageError, _files, deploy
from keras_vit.deploy import ParityError, Runner, Verdict
from keras_vit.deploy.graph.graph_options import GraphOptions
from keras_vit.deploy.resolve import resolve
from keras_vit.tflite.flatbuffer import operators
from keras_vit.weights.hashing import weights_sha256
from keras_vit.weights.names import weight_names


@pytest.fixture
def write(sample, tmp_path, picture):
    """Writes a bundle into the folder "bundle", with changes of `About`: what is read from it."""

    def write(exported=None, picture=picture, **changes):
        exported = exported or sample.exported("none")
        about = dataclasses.replace(exported.made.about, **changes)
        made = dataclasses.replace(exported.made, about=about)
        exported = dataclasses.replace(exported, made=made)
        written = deploy.write_bundle(tmp_path / "bundle", exported, picture)
        description, golden = deploy.read_bundle(tmp_path / "bundle")
        assert description == written
        return description, golden

    return write


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "bundle"


def test_bundle_describes_itself(write, folder, sample):
    exported = sample.exported("none")
    made = dataclasses.replace(exported.made, recipe={"chosen_on": "2 images"})
    exported = dataclasses.replace(exported, made=made)
    description, _ = write(exported, parameters=123, weights_sha256="ab" * 32)
    names = {"golden.json", "labels.txt", "model.json", "model.tflite", "recipe.json"}
    assert {path.name for path in folder.iterdir()} == names
    assert (folder / "labels.txt").read_text().split("\n") == [*"abcdefghij", ""]
    content = (folder / "model.tflite").read_bytes()
    preprocessing = {"channels": "RGB", "mean": 127.5, "scale": 127.5}
    preprocessing = sample.model.preprocessing.to_dict() | preprocessing
    del preprocessing["pad"]
    found, tensor = operators(content), {"name": ANY, "dtype": "float32"}
    nodes = sum(found.values())
    assert description["versions"].keys() == found.keys()
    assert {"tensorflow", "ai-edge-litert", "ai-edge-quantizer"} <= description["made_with"].keys()
    parity = {"agreement": 1.0, "images_from": "noise", "rewritten": True}
    assert description == description | {
        **{"model": "ViT-Test", "parameters": 123, "weights_sha256": "ab" * 32},
        **{"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()},
        "input": tensor | {"shape": [1, 16, 24, 3], **preprocessing},
        "output": tensor
        | {"shape": [1, 10], "kind": "logits", "classes": 10}
        | {"activation": "softmax", "exclusive": True},
        **{"operators": found, "runtime_floor": "2.9.0"},
        "delegation": {"nodes": nodes, "delegated": nodes, "partitions": 1, "undelegated": []},
        **{"precision": "float32", "float_layers": [], "chosen_on": "2 images"},
        **{"calibration": None, "parity": description["parity"] | parity},
    }


def test_the_hash_of_the_weights_is_that_of_names_shapes_and_values(small_spec):
    model = keras_vit.ViT(small_spec, 3, (16, 24))
    found = weights_sha256(model)
    expected = hashlib.sha256()
    for name in weight_names(model.spec, 3, (16, 24)):
        array = np.asarray(name.variable(model))
        expected.update(f"{name.key} {array.shape}\n".encode() + array.astype("<f4").tobytes())
    assert found == expected.hexdigest() == weights_sha256(model)
    model.get_layer("head").bias.assign([0, 0, 1e-5])
    assert weights_sha256(model) != found


def resized(image):
    """Resizes as another runner would: bilinear, the width first."""
    image, method = Image.fromarray(image), Image.Resampling.BILINEAR
    image = image.resize((24, image.height), method).resize((24, 16), method)
    return np.asarray(image, np.float64)


def test_a_correct_runner_finds_what_the_golden_file_has(write, folder, sample):
    mean, scale = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
    preprocessing = keras_vit.Preprocessing(16, 24, mean=mean, scale=scale)
    description, golden = write(preprocessing=preprocessing)
    found = description["input"]
    assert (found["mean"], found["scale"]) == (list(mean), list(scale))
    # As another runner would do it, from model.json and the image only.
    expected = (resized(golden["image"]) - found["mean"]) / found["scale"]
    np.testing.assert_allclose(golden["tensor"], expected, atol=1e-6)
    tensor = golden["tensor"][None]
    [scores] = Runner(folder / "model.tflite")(tensor)
    np.testing.assert_allclose(scores, golden["scores"], atol=1e-5)
    [expected] = np.asarray(sample.model(tensor, training=False))
    np.testing.assert_allclose(golden["scores"], expected, atol=1e-4)
    entry = json.loads((folder / "golden.json").read_text())["scores"]
    assert (entry["dtype"], entry["shape"]) == ("float32", [10])
    assert base64.b64decode(entry["base64"]) == golden["scores"].astype("<f4").tobytes()


@pytest.mark.slow
def test_a_bundle_with_pixel_input_has_neutral_mean_and_scale(write, folder, sample):
    resolved = resolve(sample.model, GraphOptions("uint8", "probabilities"))
    pixels = deploy.to_pixels(sample.images, sample.model.preprocessing)
    reference = deploy.Reference(pixels, deploy.expected_scores(resolved, pixels))
    made = deploy.Converter(resolved, ["none"]).made()
    description, golden = write(deploy.judge_file(made, reference))
    found = description["input"]
    assert (found["dtype"], found["mean"], found["scale"]) == ("uint8", 0.0, 1.0)
    assert description["output"]["kind"] == "probabilities"
    assert golden["tensor"].dtype == np.uint8
    np.testing.assert_array_equal(golden["tensor"], resized(golden["image"]))
    [expected] = deploy.expected_scores(resolved, golden["tensor"][None])
    np.testing.assert_allclose(golden["scores"], expected, atol=1e-5)
    check = deploy.check_golden(folder)
    assert (check.passed, check.tensor, check.kernels[0].difference) == (True, 0, 0)


def test_an_integer_bundle_records_scales_and_zero_points(write, folder, sample):
    exported = sample.exported("int8-full")
    images = sample.converter.calibration
    changes = {"float_layers": ("head",), "calibration": images, "recipe": {"format": 1}}
    made = dataclasses.replace(exported.made, **changes)
    description, golden = write(dataclasses.replace(exported, made=made))
    assert json.loads((folder / "recipe.json").read_text()) == {"format": 1}
    assert (description["precision"], description["float_layers"]) == ("int8-full", ["head"])
    sha256 = hashlib.sha256(images.tobytes()).hexdigest()
    assert description["calibration"] == {"images": 32, "sha256": sha256}
    tolerance = json.loads((folder / "golden.json").read_text())["tolerance"]
    assert tolerance["scores_half_precision"] >= 2 * tolerance["scores"]  # for NPUs
    # As another runner would do it, from model.json only.
    taken, given = description["input"], description["output"]
    assert taken["dtype"] == given["dtype"] == "int8"
    scale, zero = taken["quantization"]["scale"], taken["quantization"]["zero_point"]
    step, middle = given["quantization"]["scale"], given["quantization"]["zero_point"]
    runner = Runner(folder / "model.tflite")
    integers = np.clip(np.rint(golden["tensor"] / scale + zero), -128, 127).astype(np.int8)
    runner.interpreter.set_tensor(runner.input["index"], integers[None])
    runner.interpreter.invoke()
    [found] = runner.interpreter.get_tensor(runner.output["index"])
    scores = (found.astype(np.float32) - middle) * step
    np.testing.assert_allclose(scores, golden["scores"], atol=1e-5)


def test_a_folder_that_is_not_a_bundle_is_not_replaced(write, folder):
    folder.mkdir()
    (folder / "thesis.txt").write_text("a text")
    with pytest.raises(UsageError, match="is not empty and holds no bundle"):
        write()
    assert (folder / "thesis.txt").exists()


def test_records_of_phones_survive_another_export(write, folder):
    write()
    (folder / "phones").mkdir()
    (folder / "phones/a.json").write_text("{}")
    (folder / "notes.txt").touch()
    write()
    assert (folder / "phones/a.json").read_text() == "{}"
    assert not (folder / "notes.txt").exists()


def test_a_large_golden_image_is_shrunk(write, sample, rng):
    _, golden = write(picture=rng.integers(0, 255, (1000, 500, 3)).astype(np.uint8))
    assert golden["image"].shape == (320, 160, 3)
    tensor = keras_vit.preprocess(golden["image"], sample.model)[0]
    np.testing.assert_array_equal(tensor, golden["tensor"])


def test_a_bad_file_or_a_failed_write_leaves_the_old_bundle(write, folder, sample, monkeypatch):
    before, _ = write()
    bad = Verdict("float32", 9, 0.5, 0.0, 1.0, 1.0)
    with pytest.raises(ParityError):
        write(dataclasses.replace(sample.exported("int8"), verdict=bad))
    assert deploy.read_bundle(folder)[0] == before
    # The last file is model.json.
    monkeypatch.setattr(_files, "write_json", Mock(side_effect=[None, OSError("disk full")]))
    with pytest.raises(OSError, match="disk full"):
        write(sample.exported("int8"))
    assert deploy.read_bundle(folder)[0] == before
    assert [path.name for path in folder.parent.iterdir()] == ["bundle"]
