"""Bundles: their description is true, and they are written completely or not at all."""

import base64
import dataclasses
import hashlib
import json
import multiprocessing
import os
import resource
import signal
import time

import numpy as np
import pytest
from PIL import Image

import keras_vit
from keras_vit import UsageError, deploy
from keras_vit.deploy import ParityError, Runner, Verdict
from keras_vit.deploy.graph.graph_options import GraphOptions
from keras_vit.deploy.resolve import resolve
from keras_vit.tflite.flatbuffer import operators
from keras_vit.weights.hashing import weights_sha256
from keras_vit.weights.names import weight_names


@pytest.fixture
def write(sample, tmp_path, picture):
    """Writes a bundle into the folder "bundle", with changes of `About`: what is read from it."""

    of_float = sample.exported("none")

    def write(exported=of_float, picture=picture, **changes):
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
    preprocessing = sample.model.preprocessing.to_dict() | {"channels": "RGB"}
    shape = {"name": "", "shape": [1, 16, 24, 3], "dtype": "float32"}
    assert description["input"] | {"name": ""} == shape | preprocessing
    assert (description["input"]["mean"], description["input"]["scale"]) == (127.5, 127.5)
    shape = {"name": "", "shape": [1, 10], "dtype": "float32"}
    assert description["output"] | {"name": ""} == shape | {"kind": "logits", "classes": 10}
    found = operators(content)
    nodes = sum(found.values())
    assert description["versions"].keys() == found.keys()
    assert {"tensorflow", "ai-edge-litert", "ai-edge-quantizer"} <= description["made_with"].keys()
    expected = {
        **{"model": "ViT-Test", "parameters": 123, "weights_sha256": "ab" * 32},
        **{"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()},
        **{"operators": found, "runtime_floor": "2.9.0"},
        "delegation": {"nodes": nodes, "delegated": nodes, "partitions": 1, "undelegated": []},
        **{"precision": "float32", "float_layers": [], "chosen_on": "2 images"},
        "calibration": None,
    }
    assert {name: description[name] for name in expected} == expected
    expected = {"agreement": 1.0, "images_from": "noise", "rewritten": True}
    assert {name: description["parity"][name] for name in expected} == expected


def test_the_hash_of_the_weights_is_that_of_names_shapes_and_values(small_spec):
    model = keras_vit.ViT(small_spec, 3, (16, 24))
    model.set_weights([np.full(w.shape, i, np.float32) for i, w in enumerate(model.get_weights())])
    found = weights_sha256(model)
    expected = hashlib.sha256()
    for name in weight_names(model.spec, 3, (16, 24)):
        array = np.asarray(name.variable(model))
        expected.update(f"{name.key} {array.shape}\n".encode() + array.astype("<f4").tobytes())
    assert found == expected.hexdigest() == weights_sha256(model)
    bias = model.get_layer("head").bias
    bias.assign(np.asarray(bias) + np.float32([0, 0, 1e-5]))
    assert weights_sha256(model) != found


def resized(image):
    """Resizes as another runner would: bilinear, the width first."""
    image, method = Image.fromarray(image), Image.Resampling.BILINEAR
    image = image.resize((24, image.height), method).resize((24, 16), method)
    return np.asarray(image, np.float64)


def test_golden_file_matches_a_correct_runner_with_mean_and_scale_of_each_channel(
    write, folder, sample
):
    mean, scale = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
    how = keras_vit.Preprocessing(16, 24, mean=mean, scale=scale)
    description, golden = write(preprocessing=how)
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
    tensor_info = description["input"]
    assert (tensor_info["dtype"], tensor_info["mean"], tensor_info["scale"]) == ("uint8", 0.0, 1.0)
    assert description["output"]["kind"] == "probabilities"
    assert golden["tensor"].dtype == np.uint8
    np.testing.assert_array_equal(golden["tensor"], resized(golden["image"]))
    # A runner that still applies mean and scale changes nothing.
    tensor = (golden["tensor"].astype(np.float32) - tensor_info["mean"]) / tensor_info["scale"]
    scores = Runner(folder / "model.tflite")(tensor[None])[0]
    np.testing.assert_array_equal(scores, golden["scores"])
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
    # As another runner would do it, from model.json only.
    sides = [description[side] for side in ("input", "output")]
    assert [side["dtype"] for side in sides] == ["int8", "int8"]
    (scale, zero), (step, middle) = (
        (side["quantization"]["scale"], side["quantization"]["zero_point"]) for side in sides
    )
    runner = Runner(folder / "model.tflite")
    integers = np.clip(np.rint(golden["tensor"] / scale + zero), -128, 127).astype(np.int8)
    runner.interpreter.set_tensor(runner.input["index"], integers[None])
    runner.interpreter.invoke()
    [found] = runner.interpreter.get_tensor(runner.output["index"])
    scores = (found.astype(np.float32) - middle) * step
    np.testing.assert_allclose(scores, golden["scores"], atol=1e-5)


def test_a_bundle_over_budget_leaves_the_old_one(write, folder, sample):
    before, _ = write()
    bad = Verdict("float32", 9, 0.5, 0.0, 1.0, 1.0)
    with pytest.raises(ParityError):
        write(dataclasses.replace(sample.exported("none"), verdict=bad))
    assert deploy.read_bundle(folder)[0] == before


def test_a_folder_that_is_not_a_bundle_is_not_replaced(write, folder):
    folder.mkdir()
    (folder / "thesis.txt").write_text("a text")
    with pytest.raises(UsageError, match="is not empty and holds no bundle"):
        write()
    assert (folder / "thesis.txt").exists()


def test_a_large_golden_image_is_shrunk(write, sample, rng):
    _, golden = write(picture=rng.integers(0, 255, (1000, 500, 3)).astype(np.uint8))
    assert golden["image"].shape == (320, 160, 3)
    tensor = keras_vit.preprocess(golden["image"], sample.model)[0]
    np.testing.assert_array_equal(tensor, golden["tensor"])


def test_a_full_disk_leaves_the_old_bundle(write, folder):
    before, _ = write()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))  # no file may grow beyond this
    try:
        with pytest.raises(OSError, match="File too large"):
            write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert deploy.read_bundle(folder)[0] == before
    assert [path.name for path in folder.parent.iterdir()] == ["bundle"]


@pytest.mark.soak(of="kills")
def test_a_kill_at_any_moment_leaves_the_old_bundle_or_the_new_one(write, folder, sample):
    def write_forever():
        while True:
            for exported in versions:
                write(exported)

    versions = (sample.exported("none"), sample.exported("int8"))
    known = {write(exported)[0]["sha256"] for exported in versions}
    generator, written = np.random.default_rng(0), folder / "model.json"
    for _ in range(20):
        before = written.stat().st_mtime_ns
        process = multiprocessing.get_context("fork").Process(target=write_forever)
        process.start()
        deadline = time.monotonic() + 20
        while written.stat().st_mtime_ns == before and time.monotonic() < deadline:
            time.sleep(0.001)  # until the first bundle is written
        time.sleep(generator.uniform(0, 0.05))
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert process.exitcode == -signal.SIGKILL
        assert written.stat().st_mtime_ns != before
        description, golden = deploy.read_bundle(folder)  # checks that the files belong together
        assert description["sha256"] in known
        content = (folder / "model.tflite").read_bytes()
        assert len(content) == description["bytes"]
        assert golden["scores"].shape == (10,)
        names = {"golden.json", "labels.txt", "model.json", "model.tflite"}
        assert {path.name for path in folder.iterdir()} == names


@pytest.mark.parametrize(
    "change", [{"dtype": "object"}, {"shape": [10**12]}, {"base64": "*"}, {"shape": "4"}]
)
def test_an_inconsistent_golden_file_is_refused(bundle, change):
    golden = json.loads((bundle / "golden.json").read_text())
    golden["tensor"] |= change
    (bundle / "golden.json").write_text(json.dumps(golden))
    with pytest.raises(UsageError, match=r"golden.json: (expected .* fit each other|\$.tensor)"):
        deploy.read_bundle(bundle)


def test_reading_refuses_a_tampered_or_newer_bundle(bundle):
    content = bytearray((bundle / "model.tflite").read_bytes())
    content[-1] ^= 1
    (bundle / "model.tflite").write_bytes(content)
    with pytest.raises(UsageError, match=r"is not the file that model.json describes"):
        deploy.read_bundle(bundle)
    (bundle / "model.tflite").unlink()
    with pytest.raises(UsageError, match=r"model.tflite is missing"):
        deploy.read_bundle(bundle)
    description = json.loads((bundle / "model.json").read_text())
    (bundle / "model.json").write_text(json.dumps(description | {"format": 2}))
    with pytest.raises(UsageError, match=r"expected format 1. Received: 2"):
        deploy.read_bundle(bundle)
