"""Export: the file says what Keras says, or there is no file."""

from __future__ import annotations

import dataclasses
import json
import resource

import numpy as np
import pytest
from PIL import Image

import keras_vit
from keras_vit import UsageError, deploy
from keras_vit._errors import RefusedError
from keras_vit._keras import keras
from keras_vit.deploy import ParityError, Runner, Verdict, compare
from keras_vit.deploy.bundle import operators, runtime_floor


@pytest.fixture
def model(small_spec, randomised):
    return randomised(keras_vit.ViT(small_spec, 5, (16, 24)))


@pytest.fixture
def inputs(rng):
    return rng.uniform(-1, 1, (20, 16, 24, 3)).astype(np.float32)


@pytest.mark.parametrize(
    ("quantize", "tolerance"), [(None, 1e-4), ("none", 1e-4), ("float16", 1e-2), ("int8", 0.1)]
)
def test_the_file_gives_keras_scores(model, inputs, tmp_path, quantize, tolerance):
    path = tmp_path / "model.tflite"
    verdict = keras_vit.export_tflite(model, path, quantize, representative_data=inputs)
    expected = model.predict(inputs, verbose=0)
    found = Runner(path).predict(inputs)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, atol=tolerance * scale)
    assert verdict.images == 20
    difference = np.abs(found - expected).max()
    assert verdict.max_difference == pytest.approx(difference, rel=0.05, abs=1e-5)


@pytest.mark.parametrize("pooling", ["gap", "map", "none"])
def test_every_pooling_exports(small_spec, randomised, inputs, tmp_path, pooling):
    spec = dataclasses.replace(small_spec, pooling=pooling, representation_dim=20, gelu="erf")
    model = randomised(keras_vit.ViT(spec, 5, (16, 24)))
    keras_vit.export_tflite(model, tmp_path / "model.tflite", representative_data=inputs)
    found = Runner(tmp_path / "model.tflite").predict(inputs[:2])
    np.testing.assert_allclose(found, model.predict(inputs[:2], verbose=0), atol=1e-4)


@pytest.mark.parametrize("kind", ["stem", "bit", "learned2d", "sincos2d", "relative"])
@pytest.mark.parametrize("quantize", ["none", "int8"])
def test_every_architecture_exports(small_spec, randomised, rng, tmp_path, kind, quantize):
    inputs = rng.uniform(-1, 1, (8, 32, 64, 3)).astype(np.float32)
    if kind == "bit":
        model = keras_vit.BiT(keras_vit.ResNetSpec((1, 1, 1, 1)), 5, (32, 64))
    elif kind == "stem":
        stem = keras_vit.ResNetStem((1, 1))
        spec = dataclasses.replace(small_spec, patch_size=1, stem=stem)
        model = keras_vit.ViT(spec, 5, (32, 64))
    else:
        spec = dataclasses.replace(small_spec, position_embedding=kind)
        model = keras_vit.ViT(spec, 5, (32, 64))
    # Exporting checks against Keras, within what the precision explains.
    keras_vit.export_tflite(
        randomised(model), tmp_path / "model.tflite", quantize, representative_data=inputs
    )
    if quantize == "none":
        found = Runner(tmp_path / "model.tflite").predict(inputs[:2])
        expected = model.predict(inputs[:2], verbose=0)
        np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())


def test_a_saved_model_that_differs_is_not_written(model, tmp_path, monkeypatch):
    from keras_vit.deploy import saved_model

    deploy.export_saved_model(model, tmp_path / "good")
    monkeypatch.setattr(saved_model, "_TOLERANCE", -1.0)
    for name in ("good", "bad"):
        with pytest.raises(RefusedError, match="of the largest score, more than"):
            deploy.export_saved_model(model, tmp_path / name)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["good"]
    assert (tmp_path / "good" / "saved_model.pb").is_file()


def test_precisions_shrink_the_file_and_keep_the_input_float(small_spec, randomised):
    spec = dataclasses.replace(small_spec, hidden_dim=192, mlp_dim=768)
    model = randomised(keras_vit.ViT(spec, 5, (16, 24)))
    sizes = {}
    for quantize in ("none", "float16", "int8"):
        content = deploy.to_tflite(model, quantize)
        sizes[quantize] = len(content)
        runner = Runner(content)
        assert runner.input["dtype"] == runner.output["dtype"] == np.float32
        assert runner.input["shape"].tolist() == [1, 16, 24, 3]
    assert 0.45 < sizes["float16"] / sizes["none"] < 0.56
    assert 0.22 < sizes["int8"] / sizes["none"] < 0.33


def test_the_graph_is_static_and_made_of_builtins(model):
    content = deploy.to_tflite(model)
    count = operators(content)
    assert count["FULLY_CONNECTED"] == 1 + 2 * 6 + 1
    assert (count["BATCH_MATMUL"], count["SOFTMAX"], count["GELU"]) == (4, 2, 2)
    assert not {"VAR_HANDLE", "READ_VARIABLE", "SHAPE"} & count.keys()
    assert runtime_floor(content).count(".") == 2
    runner = Runner(content)
    details = runner.interpreter.get_tensor_details()
    assert all(-1 not in d["shape_signature"] for d in details)


def test_live_models_export_after_training_and_with_another_head(small_spec, tmp_path, inputs):
    trained = keras_vit.ViT(small_spec, 3, (16, 24))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    trained.compile(optimizer=keras.optimizers.SGD(0.1), loss=loss)
    trained.fit(inputs, np.arange(20) % 3, epochs=1, verbose=0)
    features = trained.inner("pre_logits").output["pre_logits"]
    headed = keras.Model(trained.input, keras.layers.Dense(2, activation="softmax")(features))
    for name, model in (("a", trained), ("b", headed)):
        keras_vit.export_tflite(model, tmp_path / name, representative_data=inputs)
        found = Runner(tmp_path / name).predict(inputs)
        np.testing.assert_allclose(found, model.predict(inputs, verbose=0), atol=1e-4)


def test_data_may_be_a_dataset_with_labels(model, inputs, tmp_path):
    import tensorflow as tf

    data = tf.data.Dataset.from_tensor_slices((inputs, np.zeros(20))).batch(8)
    verdict = keras_vit.export_tflite(
        model, tmp_path / "m.tflite", representative_data=data, max_images=10
    )
    assert verdict.images == 10


def test_without_data_noise_is_compared(model, tmp_path):
    assert keras_vit.export_tflite(model, tmp_path / "m.tflite").images == 16


def test_a_file_over_its_budget_gets_no_name(model, inputs, tmp_path, monkeypatch):
    # The converter may go wrong silently, as it does without its variables: here it loses one.
    whole = deploy.to_tflite

    def lossy(model, quantize=None):
        kernel = model.get_layer("encoderblock_1").mlp.dense_1.kernel
        before = np.asarray(kernel).copy()
        kernel.assign(np.zeros_like(before))
        content = whole(model, quantize)
        kernel.assign(before)
        return content

    monkeypatch.setattr("keras_vit.deploy.export.to_tflite", lossy)
    (tmp_path / "m.tflite").write_text("the old one")
    with pytest.raises(ParityError, match=r"float32.*nothing was written"):
        keras_vit.export_tflite(model, tmp_path / "m.tflite", representative_data=inputs)
    assert (tmp_path / "m.tflite").read_text() == "the old one"
    assert len(list(tmp_path.iterdir())) == 1


def test_scores_that_never_vary_prove_nothing(small_spec, inputs, tmp_path):
    fresh = keras_vit.ViT(small_spec, 5, (16, 24), head_bias=-10.0)
    with pytest.raises(ParityError, match="nothing can be compared"):
        keras_vit.export_tflite(fresh, tmp_path / "m.tflite", representative_data=inputs)
    assert not (tmp_path / "m.tflite").exists()


def test_scores_of_keras_that_are_not_finite_are_blamed_on_keras():
    with pytest.raises(ParityError, match="Keras' own scores are not finite"):
        compare("float32", SCORES * np.nan, SCORES).check()


@pytest.mark.parametrize(
    ("change", "received"),
    [
        (lambda x: np.repeat(x, 2, axis=1), r"float32 \(20, 32, 24, 3\)"),
        (lambda x: (x * 127 + 127).astype(np.uint8), r"uint8 \(20, 16, 24, 3\)"),
    ],
)
def test_data_that_is_not_what_the_model_takes_is_refused(
    model, inputs, tmp_path, change, received
):
    with pytest.raises(UsageError, match=f"Received: {received}; keras_vit.preprocess makes them"):
        keras_vit.export_tflite(model, tmp_path / "m", representative_data=change(inputs))
    with pytest.raises(UsageError, match="holds no image"):
        keras_vit.export_tflite(model, tmp_path / "m", representative_data=[])


def test_one_image_is_a_batch_of_one(model, inputs, tmp_path):
    data = inputs[0]
    assert keras_vit.export_tflite(model, tmp_path / "m", representative_data=data).images == 1


def test_mixed_precision_is_refused_with_the_way_out(small_spec, tmp_path):
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        mixed = keras_vit.ViT(small_spec, 5, (16, 24))
    finally:
        keras.mixed_precision.set_global_policy("float32")
    with pytest.raises(UsageError, match="Received: layers that compute in bfloat16; build it"):
        keras_vit.export_tflite(mixed, tmp_path / "m.tflite")


def test_unknown_precision_and_unknown_size_are_refused(model, tmp_path):
    with pytest.raises(UsageError, match=r"one of none, float16, int8. Received: 'int4'"):
        keras_vit.export_tflite(model, tmp_path / "m.tflite", "int4")
    inputs = keras.Input((None, None, 3))
    unsized = keras.Model(inputs, keras.layers.GlobalAveragePooling2D()(inputs))
    with pytest.raises(UsageError, match="one image input .* of known size"):
        keras_vit.export_tflite(unsized, tmp_path / "m.tflite")


SCORES = np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])


def test_verdict_counts_agreement_difference_and_accuracy():
    found = compare(
        "float32", SCORES, np.array([[1.0, 2.0, 3.5], [1.0, 2.0, 1.5]]), np.array([2, 0])
    )
    assert (found.agreement, found.max_difference, found.scale) == (0.5, 2.0, 1.0)
    assert (found.accuracy, found.keras_accuracy) == (0.5, 1.0)
    assert 0.7 < found.cosine < 0.9


def test_ties_count_as_agreement():
    zeros = np.zeros((4, 3))
    noise = np.random.default_rng(0).normal(0, 1e-9, (4, 3))
    assert compare("float32", zeros, zeros).agreement == 1
    assert compare("float32", zeros + 1, zeros + 1 + noise).agreement == 1


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_not_finite_are_refused(bad):
    found = SCORES.copy()
    found[0, 0] = bad
    with pytest.raises(ParityError, match="not finite"):
        compare("int8", SCORES, found).check()


@pytest.mark.parametrize("precision", ["float32", "float16", "int8"])
def test_the_budget_refuses_what_exceeds_it(precision):
    agreement, difference = deploy.parity.BUDGETS[precision]
    good = Verdict(precision, 100, agreement, difference * 3.0, 3.0, 1.0)
    good.check()
    with pytest.raises(ParityError, match="must agree with Keras"):
        dataclasses.replace(good, agreement=agreement - 0.011).check()
    with pytest.raises(ParityError, match="may differ from Keras"):
        dataclasses.replace(good, max_difference=difference * 3.01).check()


def test_one_near_tie_in_a_few_images_is_forgiven_but_not_in_float32():
    Verdict("int8", 10, 0.9, 0.0, 1.0, 1.0).check()
    with pytest.raises(ParityError, match="97.0% of 10 images. Received: 80.0%"):
        Verdict("int8", 10, 0.8, 0.0, 1.0, 1.0).check()
    with pytest.raises(ParityError, match="100.0% of 10 images. Received: 90.0%"):
        Verdict("float32", 10, 0.9, 0.0, 1.0, 1.0).check()


def test_runner_refuses_what_is_no_model(tmp_path):
    (tmp_path / "m.tflite").write_bytes(b"not a flatbuffer at all")
    with pytest.raises(UsageError, match="m.tflite is not a TFLite model"):
        Runner(tmp_path / "m.tflite")
    with pytest.raises(UsageError, match="there is no such file"):
        Runner(tmp_path / "none.tflite")


def test_latency_is_measured_for_each(model):
    contents = {name: deploy.to_tflite(model, name) for name in ("none", "int8")}
    found = deploy.latencies(contents, rounds=3)
    assert found.keys() == contents.keys()
    assert all(0 < ms < 1000 for ms in found.values())


@pytest.fixture(scope="module")
def converted():
    """A model's bytes, its verdict and the model, for all tests of the bundle."""
    generator = np.random.default_rng(0)
    model = keras_vit.ViT(keras_vit.ViTSpec(8, 48, 2, 3, 112), 5, (16, 24))
    model.get_layer("head").kernel.assign(generator.normal(size=(48, 5)).astype(np.float32))
    inputs = generator.uniform(-1, 1, (20, 16, 24, 3)).astype(np.float32)
    content = deploy.to_tflite(model)
    scores = Runner(content).predict(inputs)
    return content, compare("float32", model.predict(inputs, verbose=0), scores), model


@pytest.fixture
def bundle(converted, tmp_path, rng):
    content, verdict, model = converted
    image = rng.integers(0, 255, (50, 40, 3)).astype(np.uint8)

    def write(folder=tmp_path / "bundle", **changes):
        arguments = {
            "content": content,
            "verdict": verdict,
            "labels": tuple("abcde"),
            "preprocessing": model.preprocessing,
            "golden_image": image,
            "model_name": "ViT-Test",
            "parity_images": "noise",
        }
        return deploy.write_bundle(folder, **{**arguments, **changes})

    return write, tmp_path / "bundle"


def test_bundle_describes_itself(bundle):
    write, folder = bundle
    write()
    assert sorted(path.name for path in folder.iterdir()) == [
        "golden.json",
        "labels.txt",
        "model.json",
        "model.tflite",
    ]
    description = deploy.read_bundle(folder)[0]
    assert description["input"]["shape"] == [1, 16, 24, 3]
    assert (description["input"]["mean"], description["input"]["scale"]) == (127.5, 127.5)
    assert description["output"] | {"name": ""} == {
        "name": "",
        "shape": [1, 5],
        "dtype": "float32",
        "kind": "logits",
        "classes": 5,
    }
    assert description["parity"]["agreement"] == 1.0
    assert (folder / "labels.txt").read_text() == "a\nb\nc\nd\ne\n"


def test_golden_file_tells_a_runner_that_it_is_right(bundle, converted):
    write, folder = bundle
    model = converted[2]
    write()
    _, golden = deploy.read_bundle(folder)
    tensor = keras_vit.preprocess(golden["image"], model)[0]
    np.testing.assert_array_equal(tensor, golden["tensor"])
    scores = Runner(folder / "model.tflite")(golden["tensor"][None])[0]
    np.testing.assert_allclose(scores, golden["scores"], atol=1e-5)
    np.testing.assert_allclose(
        golden["scores"], model.predict(tensor[None], verbose=0)[0], atol=1e-4
    )


def test_bundle_tells_each_channels_mean_and_scale(bundle):
    write, folder = bundle
    mean, scale = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
    write(preprocessing=keras_vit.Preprocessing(16, 24, mean=mean, scale=scale))
    description, golden = deploy.read_bundle(folder)
    told = description["input"]
    assert (told["mean"], told["scale"]) == (list(mean), list(scale))
    # As another runner would: from model.json and the image alone.
    pixels = Image.fromarray(golden["image"]).resize((24, 16), Image.Resampling.BILINEAR)
    expected = (np.asarray(pixels, np.float64) - told["mean"]) / told["scale"]
    np.testing.assert_allclose(golden["tensor"], expected, atol=1e-6)
    scores = Runner(folder / "model.tflite")(golden["tensor"][None])[0]
    np.testing.assert_allclose(scores, golden["scores"], atol=1e-5)


def test_a_bundle_over_budget_leaves_the_old_one(bundle):
    write, folder = bundle
    before = write()["sha256"]
    bad = Verdict("float32", 9, 0.5, 0.0, 1.0, 1.0)
    with pytest.raises(ParityError):
        write(verdict=bad)
    assert deploy.read_bundle(folder)[0]["sha256"] == before


def test_a_strangers_folder_is_not_replaced(bundle):
    write, folder = bundle
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="is not empty and holds no bundle"):
        write()
    assert (folder / "thesis.txt").exists()


def test_a_large_golden_image_is_shrunk(bundle, converted, rng):
    write, folder = bundle
    write(golden_image=rng.integers(0, 255, (1000, 500, 3)).astype(np.uint8))
    _, golden = deploy.read_bundle(folder)
    assert golden["image"].shape == (320, 160, 3)
    tensor = keras_vit.preprocess(golden["image"], converted[2])[0]
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


@pytest.mark.parametrize(
    "change", [{"dtype": "object"}, {"shape": [10**12]}, {"base64": "*"}, {"shape": "4"}]
)
def test_a_golden_file_that_contradicts_itself_is_refused(bundle, change):
    write, folder = bundle
    write()
    golden = json.loads((folder / "golden.json").read_text())
    golden["tensor"] |= change
    (folder / "golden.json").write_text(json.dumps(golden))
    with pytest.raises(UsageError, match="fit each other"):
        deploy.read_bundle(folder)


def test_reading_refuses_a_tampered_or_newer_bundle(bundle):
    write, folder = bundle
    write()
    content = bytearray((folder / "model.tflite").read_bytes())
    content[-1] ^= 1
    (folder / "model.tflite").write_bytes(content)
    with pytest.raises(UsageError, match=r"is not the file that model.json describes"):
        deploy.read_bundle(folder)
    (folder / "model.tflite").unlink()
    with pytest.raises(UsageError, match=r"model.tflite missing"):
        deploy.read_bundle(folder)
    description = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps(description | {"format": 2}))
    with pytest.raises(UsageError, match=r"expected format 1. Received: 2"):
        deploy.read_bundle(folder)
