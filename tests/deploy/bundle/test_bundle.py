"""Bundles: their description is true, and they are written completely or not at all."""

from __future__ import annotations

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

LABELS = tuple("abcdefghij")


@pytest.fixture
def bundle(sample, tmp_path, rng):
    image = rng.integers(0, 255, (50, 40, 3)).astype(np.uint8)
    exported = sample.exported("none")

    def write(exported=exported, picture=image, folder=tmp_path / "bundle", **changes):
        about = dataclasses.replace(exported.made.about, **changes)
        made = dataclasses.replace(exported.made, about=about)
        return deploy.write_bundle(folder, dataclasses.replace(exported, made=made), picture)

    return write, tmp_path / "bundle"


def test_bundle_describes_itself(bundle, sample):
    write, folder = bundle
    exported = sample.exported("none")
    made = dataclasses.replace(exported.made, recipe={"chosen_on": "2 images"})
    exported = dataclasses.replace(exported, made=made)
    said = write(exported, parameters=123, weights_sha256="ab" * 32)
    names = ["golden.json", "labels.txt", "model.json", "model.tflite", "recipe.json"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert (folder / "labels.txt").read_text() == "".join(f"{label}\n" for label in LABELS)
    description, _ = deploy.read_bundle(folder)
    content = (folder / "model.tflite").read_bytes()
    assert description == said
    assert description["input"] | {"name": ""} == {
        **{"name": "", "shape": [1, 16, 24, 3], "dtype": "float32"},
        **(sample.model.preprocessing.to_dict() | {"channels": "RGB"}),
    }
    assert (description["input"]["mean"], description["input"]["scale"]) == (127.5, 127.5)
    assert description["output"] | {"name": ""} == {
        "name": "",
        "shape": [1, 10],
        "dtype": "float32",
        "kind": "logits",
        "classes": 10,
    }
    assert description["bytes"] == len(content)
    assert description["sha256"] == hashlib.sha256(content).hexdigest()
    assert description["operators"] == operators(content)
    assert description["versions"].keys() == description["operators"].keys()
    assert description["runtime_floor"] == "2.9.0"
    nodes = sum(description["operators"].values())
    assert description["delegation"] == {
        **{"nodes": nodes, "delegated": nodes, "partitions": 1, "undelegated": []}
    }
    assert (description["model"], description["parameters"]) == ("ViT-Test", 123)
    assert (description["precision"], description["float_layers"]) == ("float32", [])
    assert description["calibration"] is None
    assert (description["weights_sha256"], description["chosen_on"]) == ("ab" * 32, "2 images")
    assert description["parity"]["agreement"] == 1.0
    assert description["parity"]["images_from"] == "noise"
    assert description["parity"]["rewritten"] is True
    assert {"tensorflow", "ai-edge-litert", "ai-edge-quantizer"} <= description["made_with"].keys()


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


def test_golden_file_matches_the_output_of_a_correct_runner(bundle, sample):
    write, folder = bundle
    write()
    _, golden = deploy.read_bundle(folder)
    tensor = keras_vit.preprocess(golden["image"], sample.model)[0]
    np.testing.assert_array_equal(tensor, golden["tensor"])
    scores = Runner(folder / "model.tflite")(golden["tensor"][None])[0]
    np.testing.assert_allclose(scores, golden["scores"], atol=1e-5)
    expected = np.asarray(sample.model(tensor[None], training=False))[0]
    np.testing.assert_allclose(golden["scores"], expected, atol=1e-4)


def resized(image):
    """Resizes as another runner would: bilinear, the width first."""
    image, method = Image.fromarray(image), Image.Resampling.BILINEAR
    image = image.resize((24, image.height), method).resize((24, 16), method)
    return np.asarray(image, np.float64)


def test_bundle_records_mean_and_scale_of_each_channel(bundle):
    write, folder = bundle
    mean, scale = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
    write(preprocessing=keras_vit.Preprocessing(16, 24, mean=mean, scale=scale))
    description, golden = deploy.read_bundle(folder)
    tensor_info = description["input"]
    assert (tensor_info["mean"], tensor_info["scale"]) == (list(mean), list(scale))
    # As another runner would do it, from model.json and the image only.
    expected = (resized(golden["image"]) - tensor_info["mean"]) / tensor_info["scale"]
    np.testing.assert_allclose(golden["tensor"], expected, atol=1e-6)
    scores = Runner(folder / "model.tflite")(golden["tensor"][None])[0]
    np.testing.assert_allclose(scores, golden["scores"], atol=1e-5)


@pytest.mark.slow
def test_a_bundle_with_pixel_input_has_neutral_mean_and_scale(bundle, sample):
    write, folder = bundle
    resolved = resolve(sample.model, GraphOptions("uint8", "probabilities"))
    made = deploy.Converter(resolved, ["none"]).made()
    given = deploy.to_pixels(sample.images, sample.model.preprocessing)
    expected = deploy.expected_scores(resolved, given)
    write(deploy.judge_file(made, deploy.Reference(given, expected)))
    description, golden = deploy.read_bundle(folder)
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


def test_an_integer_bundle_records_scales_and_zero_points(bundle, sample):
    write, folder = bundle
    exported = sample.exported("int8-full")
    made = dataclasses.replace(
        exported.made,
        float_layers=("head",),
        calibration=sample.converter.calibration,
        recipe={"format": 1},
    )
    write(dataclasses.replace(exported, made=made))
    description, golden = deploy.read_bundle(folder)
    assert description["precision"] == "int8-full"
    assert description["float_layers"] == ["head"]
    assert json.loads((folder / "recipe.json").read_text()) == {"format": 1}
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
    images = sample.converter.calibration
    assert description["calibration"] == {
        "images": 32,
        "sha256": hashlib.sha256(images.tobytes()).hexdigest(),
    }


def test_a_bundle_over_budget_leaves_the_old_one(bundle, sample):
    write, folder = bundle
    before = write()["sha256"]
    bad = Verdict("float32", 9, 0.5, 0.0, 1.0, 1.0)
    with pytest.raises(ParityError):
        write(exported=dataclasses.replace(sample.exported("none"), verdict=bad))
    assert deploy.read_bundle(folder)[0]["sha256"] == before


def test_a_folder_that_is_not_a_bundle_is_not_replaced(bundle):
    write, folder = bundle
    folder.mkdir()
    (folder / "thesis.txt").write_text("a text")
    with pytest.raises(UsageError, match="is not empty and holds no bundle"):
        write()
    assert (folder / "thesis.txt").exists()


def test_a_large_golden_image_is_shrunk(bundle, sample, rng):
    write, folder = bundle
    write(picture=rng.integers(0, 255, (1000, 500, 3)).astype(np.uint8))
    _, golden = deploy.read_bundle(folder)
    assert golden["image"].shape == (320, 160, 3)
    tensor = keras_vit.preprocess(golden["image"], sample.model)[0]
    np.testing.assert_array_equal(tensor, golden["tensor"])


def test_a_full_disk_leaves_the_old_bundle(bundle):
    write, folder = bundle
    before = write()["sha256"]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))  # no file may grow beyond this
    try:
        with pytest.raises(OSError, match="File too large"):
            write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert deploy.read_bundle(folder)[0]["sha256"] == before
    assert [path.name for path in folder.parent.iterdir()] == ["bundle"]


@pytest.mark.soak(of="kills")
def test_a_kill_at_any_moment_leaves_the_old_bundle_or_the_new_one(bundle, sample):
    write, folder = bundle
    versions = (sample.exported("none"), sample.exported("int8"))
    for exported in versions:
        write(exported=exported)
    known = {hashlib.sha256(exported.content.read_bytes()).hexdigest() for exported in versions}
    generator, written = np.random.default_rng(0), folder / "model.json"
    for _ in range(20):
        before = written.stat().st_mtime_ns
        process = multiprocessing.get_context("fork").Process(
            target=_write_forever, args=(write, versions)
        )
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
        assert sorted(path.name for path in folder.iterdir()) == [
            *("golden.json", "labels.txt", "model.json", "model.tflite")
        ]


def _write_forever(write, versions):
    while True:
        for exported in versions:
            write(exported=exported)


@pytest.mark.parametrize(
    "change", [{"dtype": "object"}, {"shape": [10**12]}, {"base64": "*"}, {"shape": "4"}]
)
def test_an_inconsistent_golden_file_is_refused(bundle, change):
    write, folder = bundle
    write()
    golden = json.loads((folder / "golden.json").read_text())
    golden["tensor"] |= change
    (folder / "golden.json").write_text(json.dumps(golden))
    with pytest.raises(UsageError, match=r"golden.json: (expected .* fit each other|\$.tensor)"):
        deploy.read_bundle(folder)


def test_golden_arrays_are_little_endian_bytes(bundle):
    write, folder = bundle
    write()
    entry = json.loads((folder / "golden.json").read_text())["scores"]
    raw = base64.b64decode(entry["base64"])
    assert (entry["dtype"], entry["shape"], len(raw)) == ("float32", [10], 40)
    _, golden = deploy.read_bundle(folder)
    np.testing.assert_array_equal(np.frombuffer(raw, "<f4"), golden["scores"])


def test_reading_refuses_a_tampered_or_newer_bundle(bundle):
    write, folder = bundle
    write()
    content = bytearray((folder / "model.tflite").read_bytes())
    content[-1] ^= 1
    (folder / "model.tflite").write_bytes(content)
    with pytest.raises(UsageError, match=r"is not the file that model.json describes"):
        deploy.read_bundle(folder)
    (folder / "model.tflite").unlink()
    with pytest.raises(UsageError, match=r"model.tflite is missing"):
        deploy.read_bundle(folder)
    description = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps(description | {"format": 2}))
    with pytest.raises(UsageError, match=r"expected format 1. Received: 2"):
        deploy.read_bundle(folder)
