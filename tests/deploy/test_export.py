"""Export: a file is written only if its scores agree with those of Keras."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import re
from typing import ClassVar

import numpy as np
import pytest

import keras_vit
from keras_vit import UsageError, deploy
from keras_vit._errors import RefusedError
from keras_vit._keras import keras
from keras_vit.deploy import ParityError, Runner, export
from keras_vit.deploy.graph.graph_options import GraphOptions
from keras_vit.deploy.precisions import PRODUCTS
from keras_vit.deploy.resolve import resolve
from keras_vit.tflite import flatbuffer
from keras_vit.tflite.flatbuffer import operators, read_graph

SPEC = keras_vit.ViTSpec(patch_size=8, hidden_dim=48, depth=1, num_heads=3, mlp_dim=64)


@pytest.fixture
def model(trained_like):
    return trained_like(keras_vit.ViT(SPEC, 5, (16, 24)))


@pytest.fixture
def inputs(pictures):
    return pictures(20, (16, 24))


@pytest.mark.parametrize(
    ("quantize", "tolerance"),
    [
        (None, 1e-5),
        ("int8", 0.3),
        *(pytest.param(*p, marks=pytest.mark.slow) for p in (("float16", 1e-2), ("dynamic", 0.1))),
    ],
)
def test_the_scores_of_a_file_are_near_keras(model, inputs, tmp_path, quantize, tolerance):
    path = tmp_path / "model.tflite"
    verdict = keras_vit.export_tflite(model, path, quantize, representative_data=inputs)
    expected = np.asarray(model(inputs, training=False))
    found = Runner(path).predict(inputs)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, atol=tolerance * scale)
    # Ten of the 20 images measure ranges, unless nothing is quantised.
    assert (verdict.images, verdict.rewritten) == (10 if quantize in ("dynamic", "int8") else 20, 1)
    differences = np.abs(found - expected).max(axis=-1)
    assert np.median(differences) <= verdict.max_difference <= differences.max() + 1e-6


@pytest.mark.parametrize(
    ("weight", "message"), [(1e30, "scores may be at most 1.8e.19"), (1e8, "score 2 of Keras")]
)
def test_a_damaged_head_is_refused_before_anything_is_written(model, tmp_path, weight, message):
    head = model.get_layer("head")
    kernel = np.array(head.kernel)
    kernel[:, 2] = weight
    head.kernel.assign(kernel)
    with pytest.raises(ParityError, match=message):
        keras_vit.export_tflite(model, tmp_path / "model.tflite", "dynamic", max_images=3)
    assert list(tmp_path.iterdir()) == []


def test_data_may_be_a_dataset_with_labels(model, inputs, tmp_path):
    import tensorflow as tf

    targets = np.asarray(model(inputs, training=False)).argmax(-1)
    data = tf.data.Dataset.from_tensor_slices((inputs, targets)).batch(8)
    verdict = keras_vit.export_tflite(
        model, tmp_path / "m.tflite", representative_data=data, max_images=10
    )
    assert (verdict.images, verdict.accuracy, verdict.keras_accuracy) == (10, 1.0, 1.0)


@pytest.mark.slow
def test_data_may_be_a_tuple_of_images_and_labels(model, inputs, tmp_path):
    targets = np.asarray(model(inputs, training=False)).argmax(-1)
    for data, count in (((inputs, targets), 20), ([(inputs[:4], targets[:4])], 4)):
        verdict = keras_vit.export_tflite(model, tmp_path / "m.tflite", representative_data=data)
        assert (verdict.images, verdict.accuracy, verdict.keras_accuracy) == (count, 1.0, 1.0)
        assert verdict.largest_drop > 5  # so few images prove little


def test_labels_may_be_those_that_keras_takes_for_one_logit(trained_like, inputs, tmp_path):
    model = trained_like(keras_vit.ViT(SPEC, 1, (16, 24)))
    logits = np.asarray(model(inputs, training=False))
    model.get_layer("head").bias.assign(-np.median(logits, axis=0) + model.get_layer("head").bias)
    targets = np.asarray(model(inputs, training=False)) > 0
    assert 0 < targets.sum() < 20
    for labels in (targets.astype(np.float32), targets[:, 0], targets[:, 0].astype(int)):
        verdict = keras_vit.export_tflite(
            model, tmp_path / "m.tflite", representative_data=(inputs, labels)
        )
        assert (verdict.accuracy, verdict.keras_accuracy, verdict.agreement) == (1, 1, 1)


class Noted(deploy.Converter):
    """A converter that records the images that measure ranges."""

    calibrations: ClassVar[list] = []

    def __init__(self, resolved, precisions, calibration, *rest):
        self.calibrations.append(calibration)
        super().__init__(resolved, precisions, calibration, *rest)


@pytest.fixture
def used(monkeypatch):
    """Records which images an export calibrates with and which it compares."""
    Noted.calibrations.clear()
    compared = []

    def reference(resolved, images):
        compared.append(images.inputs)
        return whole(resolved, images)

    whole = export.reference_of
    monkeypatch.setattr(export, "Converter", Noted)
    monkeypatch.setattr(export, "reference_of", reference)

    def find(inputs):
        def places(images):
            return [int(np.flatnonzero((inputs == x).all(axis=(1, 2, 3)))[0]) for x in images]

        return places(Noted.calibrations[-1]), places(compared[-1])

    return find


@pytest.mark.parametrize(
    "kind",
    [
        *("labels", "endless"),
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("array", "list", "dataset")),
    ],
)
def test_calibration_and_comparison_share_all_classes_but_no_images(
    model, pictures, tmp_path, used, kind
):
    import tensorflow as tf

    inputs = pictures(300, (16, 24))
    inputs = inputs[np.asarray(model(inputs, training=False)).argmax(-1).argsort(kind="stable")]
    classes = np.asarray(model(inputs, training=False)).argmax(-1)
    batches = [inputs[i : i + 16] for i in range(0, 300, 16)]
    data = {
        "array": lambda: inputs,
        "labels": lambda: (inputs, classes),
        "list": lambda: batches,
        "dataset": lambda: tf.data.Dataset.from_tensor_slices((inputs, classes)).batch(7),
        "endless": lambda: itertools.cycle(batches),
    }[kind]()
    verdict = keras_vit.export_tflite(model, tmp_path / "m", "int8", data, max_images=60)
    calibrating, judged = used(inputs)
    assert verdict.images == len(judged) == 60
    assert len(calibrating) == 32
    frequent = np.flatnonzero(np.bincount(classes) > 20)
    assert len(frequent) > 1
    assert set(frequent) <= set(classes[calibrating])
    assert set(frequent) <= set(classes[judged])
    if kind != "endless":  # it repeats its images
        assert len({*calibrating, *judged}) == 92


@pytest.mark.parametrize(
    ("count", "calibrate", "judge"),
    [(3, 1, 2), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((2, 1, 1), (5, 2, 3)))],
)
def test_half_of_few_images_calibrate(model, inputs, tmp_path, used, count, calibrate, judge):
    keras_vit.export_tflite(model, tmp_path / "m", "dynamic", inputs[:count])
    calibrating, judged = used(inputs)
    assert (len(calibrating), len(judged)) == (calibrate, judge)
    assert len({*calibrating, *judged}) == count


@pytest.mark.slow
def test_a_single_image_is_used_twice_with_a_warning(model, inputs, tmp_path, used):
    with pytest.warns(UserWarning, match="one image, which is used both to measure ranges and to"):
        verdict = keras_vit.export_tflite(model, tmp_path / "m", "int8", inputs[:1])
    assert used(inputs) == ([0], [0])
    assert verdict.images == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (
            np.zeros(19, int),
            r"labels must be integers (20,), the classes of the images. Received: ",
        ),
        (np.zeros((20, 5)), r"Received: float64 (20, 5); leave them out if there are none"),
        (np.full(20, 5), "labels must be 0 to 4. Received: 5 to 5"),
        (np.arange(20) - 1, "labels must be 0 to 4. Received: -1 to 18"),
    ],
)
def test_labels_that_are_not_classes_are_refused(model, inputs, tmp_path, targets, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        keras_vit.export_tflite(model, tmp_path / "m", representative_data=(inputs, targets))
    assert list(tmp_path.iterdir()) == []


def test_a_bad_file_is_refused_even_with_useless_labels(model, inputs, tmp_path, spoiled):
    # With labels in a wrong order, for example, no file could lose accuracy.
    spoiled(model, "encoderblock_0")
    targets = (np.asarray(model(inputs, training=False)).argmax(-1) + 1) % 5
    message = "the int8 file must (agree with Keras on 95.0% of 10|vary between images)"
    with pytest.raises(ParityError, match=message):
        keras_vit.export_tflite(model, tmp_path / "m", "int8", (inputs, targets))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("spoil", ["model", "data"])
@pytest.mark.parametrize("quantize", [None, "dynamic", "int8"])
def test_values_that_are_not_finite_are_refused_before_the_conversion(
    model, inputs, tmp_path, spoil, quantize
):
    kind, message = UsageError, "representative_data must be finite"
    if spoil == "model":
        kind, message = ParityError, "Keras' own scores are not finite"
        kernel = model.get_layer("encoderblock_0").mlp.dense_0.kernel
        kernel.assign(np.asarray(kernel) * np.nan)
    else:
        inputs[3, 2, 1, 0] = np.nan
    with pytest.raises(kind, match=message):
        keras_vit.export_tflite(model, tmp_path / "m", quantize, inputs)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_features_have_no_classes_to_agree_on(model, inputs, tmp_path):
    path, data = tmp_path / "m.tflite", (inputs, np.zeros(20, int))
    verdict = keras_vit.export_tflite(model, path, "int8", data, output="features")
    assert (verdict.agreement, verdict.accuracy, verdict.drop) == (None, None, None)
    assert verdict.cosine > 0.97
    with pytest.raises(ParityError, match="may differ from Keras' by at most"):
        dataclasses.replace(verdict, max_difference=0.51 * verdict.scale).check()


def test_without_data_noise_is_compared(model, tmp_path):
    assert keras_vit.export_tflite(model, tmp_path / "m.tflite").images == 16


def test_int8_without_data_is_refused(model, tmp_path):
    with pytest.raises(UsageError, match="int8 needs images to measure ranges on"):
        keras_vit.export_tflite(model, tmp_path / "m.tflite", "int8")
    assert list(tmp_path.iterdir()) == []


def test_pixels_probabilities_and_float_layers_are_options(model, inputs, tmp_path):
    options = {"input": "uint8", "output": "probabilities", "float_layers": ["head"]}
    path = tmp_path / "m.tflite"
    verdict = keras_vit.export_tflite(model, path, "int8", inputs, **options)
    assert verdict.agreement >= 0.9
    pixels = deploy.to_pixels(inputs, model.preprocessing)
    found = Runner(path).predict(pixels)
    np.testing.assert_allclose(found.sum(-1), 1, atol=1e-5)
    logits = np.asarray(model(inputs, training=False))
    expected = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=0.1)
    count = operators(path.read_bytes())
    assert count["FULLY_CONNECTED"] == len(deploy.quantizable_layers(path.read_bytes()))
    floats = read_graph(path)
    kernels = {
        floats.layer(op): floats.read(op)[1].dtype
        for op in floats.operators
        if op.name == "FULLY_CONNECTED"
    }
    assert [layer for layer, dtype in kernels.items() if dtype == "float32"] == ["head"]


def test_a_file_over_its_budget_is_not_written(model, trained_like, inputs, tmp_path, monkeypatch):
    # The converter may fail silently, for example if variables are missing. Here it gets the graph
    # of another model.
    other = trained_like(keras_vit.ViT(SPEC, 5, (16, 24)))
    other.get_layer("encoderblock_0").mlp.dense_1.kernel.assign(np.zeros((64, 48)))
    wrong = deploy.Converter(resolve(other), ["none"]).float_file()
    monkeypatch.setattr(deploy.Converter, "float_file", lambda *_: wrong)
    (tmp_path / "m.tflite").write_text("the old one")
    with pytest.raises(ParityError, match=r"the float32 file.*Received"):
        keras_vit.export_tflite(model, tmp_path / "m.tflite", representative_data=inputs)
    assert (tmp_path / "m.tflite").read_text() == "the old one"
    assert len(list(tmp_path.iterdir())) == 1


def test_scores_that_never_vary_prove_nothing(inputs, tmp_path):
    fresh = keras_vit.ViT(SPEC, 5, (16, 24), head_bias=-10.0)
    with pytest.raises(ParityError, match="nothing can be compared"):
        keras_vit.export_tflite(fresh, tmp_path / "m.tflite", representative_data=inputs)
    assert not (tmp_path / "m.tflite").exists()


@pytest.mark.parametrize(
    ("change", "received"),
    [
        (lambda x: np.repeat(x, 2, axis=1), r"float32 \(20, 32, 24, 3\)"),
        (lambda x: (x * 127 + 127).astype(np.uint8), r"uint8 \(20, 16, 24, 3\)"),
    ],
)
def test_data_of_another_shape_or_type_is_refused(model, inputs, tmp_path, change, received):
    with pytest.raises(UsageError, match=f"Received: {received}; use keras_vit.preprocess"):
        keras_vit.export_tflite(model, tmp_path / "m", representative_data=change(inputs))
    with pytest.raises(UsageError, match="holds no image"):
        keras_vit.export_tflite(model, tmp_path / "m", representative_data=[])


@pytest.mark.parametrize("quantize", [None, "int8"])
def test_pixels_that_were_not_preprocessed_are_refused(model, inputs, tmp_path, quantize):
    # These would measure the ranges and judge the file, which then agrees with Keras.
    path, pixels = tmp_path / "m.tflite", 127.5 * inputs + 127.5
    for wrong in (pixels, pixels / 255, [pixels]):
        with pytest.raises(UsageError, match="representative_data must be preprocessed"):
            keras_vit.export_tflite(model, path, quantize, wrong)
    assert not path.exists()
    model.preprocessing = keras_vit.Preprocessing(16, 24, mean=0, scale=255)
    assert keras_vit.export_tflite(model, path, None, pixels / 255).agreement == 1


def test_they_are_refused_for_models_around_one_with_a_head(model, inputs, tmp_path):
    pixels, images = 127.5 * inputs + 127.5, keras.Input((16, 24, 3))
    softmax = keras.layers.Softmax()
    for around in (
        keras.Sequential([model, softmax]),
        keras.Model(images, softmax(model(images))),
        keras.Model(model.input, softmax(model.output)),
    ):
        with pytest.raises(UsageError, match="representative_data must be preprocessed"):
            keras_vit.export_tflite(around, tmp_path / "m.tflite", "int8", pixels)


def test_images_for_a_converter_must_be_preprocessed(model, inputs):
    with pytest.raises(UsageError, match="calibration images must be preprocessed"):
        deploy.to_tflite(model, "int8", 127.5 * inputs + 127.5)


def test_data_may_be_a_callable_as_for_tflites_converter(model, inputs, tmp_path):
    for item in (lambda x: [x[None]], lambda x: {"images": x[None]}):
        data = lambda item=item: map(item, inputs)  # noqa: E731
        verdict = keras_vit.export_tflite(model, tmp_path / "m.tflite", "int8", data)
        assert verdict.images == 10


@pytest.mark.parametrize("options", [{}, {"quantize": "int8"}, {"quantize": "auto"}])
def test_a_file_for_several_images_a_call_has_the_same_scores(model, inputs, tmp_path, options):
    found = []
    for batch in (1, 3):
        path = tmp_path / f"{batch}.tflite"
        keras_vit.export_tflite(model, path, representative_data=inputs, batch=batch, **options)
        found.append(Runner(path).predict(inputs))
    np.testing.assert_array_equal(*found)
    with pytest.raises(UsageError, match=r"takes \(3, 16, 24, 3\).*Received: \(1, 16, 24, 3\)"):
        Runner(path)(inputs[:1])
    with pytest.raises(UsageError, match="a GPU takes batch=1"):
        keras_vit.export_tflite(model, path, batch=2, gpu="yes")


def test_one_image_is_a_batch_of_one(model, inputs, tmp_path):
    data = inputs[0]
    assert keras_vit.export_tflite(model, tmp_path / "m", representative_data=data).images == 1


def test_a_model_without_a_head_gives_only_features(tmp_path):
    with pytest.raises(UsageError, match="only has output='features'. Received: 'logits'"):
        keras_vit.export_tflite(keras_vit.ViT(SPEC, 0, (16, 24)), tmp_path / "m.tflite")


def test_unknown_settings_are_refused(model, tmp_path):
    for arguments, message in (
        ({"quantize": "int-8"}, "unknown quantize='int-8'; did you mean int8"),
        ({"input": "jpeg"}, "input must be one of float32, uint8. Received: input='jpeg'"),
        ({"output": "labels"}, "output must be one of logits, probabilities, features. Received"),
        ({"max_images": 0}, "max_images must be a positive integer. Received: max_images=0"),
        ({"max_drop": -1}, "max_drop must not be negative. Received: max_drop=-1"),
        ({"max_drop": np.nan}, "max_drop must be a number. Received: max_drop=nan"),
        ({"float_layers": ["head"]}, "float_layers are for quantised files. Received: quantize="),
        ({"path": tmp_path}, "is a folder; name the .tflite file"),
    ):
        with pytest.raises(UsageError, match=message):
            keras_vit.export_tflite(model, **{"path": tmp_path / "m.tflite", **arguments})
    assert list(tmp_path.iterdir()) == []


def test_to_pixels_inverts_the_preprocessing(rng):
    preprocessing = keras_vit.Preprocessing(
        16, 24, mean=(120.0, 110.0, 100.0), scale=(60.0, 50.0, 70.0)
    )
    pixels = rng.integers(0, 256, (2, 16, 24, 3), np.uint8)
    inputs = keras_vit.data.preprocessing.normalise(pixels, preprocessing)
    np.testing.assert_array_equal(deploy.to_pixels(inputs, preprocessing), pixels)
    assert deploy.to_pixels(inputs * 10, preprocessing).dtype == np.uint8  # clipped, not wrapped
    assert deploy.to_pixels(np.full((1, 1, 1, 3), 9.0), preprocessing).tolist() == [[[[255] * 3]]]


def test_a_file_for_an_older_runtime_is_refused(sample):
    dynamic, int8 = sample.exported("dynamic"), sample.exported("int8")
    deploy.check(int8, min_runtime="2.9.0")
    deploy.check(dynamic, min_runtime="LiteRT 1.0")
    with pytest.raises(RefusedError, match=r"needs TFLite 2.17.0 or newer.*min_runtime=2.16.1"):
        deploy.check(dynamic, min_runtime="2.16.1")
    with pytest.raises(UsageError, match="min_runtime must be a version"):
        deploy.check(int8, min_runtime="soon")


def test_dynamic_sizes_are_refused(sample):
    resolved = resolve(sample.model, GraphOptions(batch=None))
    made = deploy.Converter(resolved, ["none"]).made()
    found = deploy.judge_file(made, deploy.Reference(sample.images, sample.expected))
    with pytest.raises(RefusedError, match="sizes that are known only at run time, the first ser"):
        deploy.check(found)


def test_runner_refuses_files_that_are_not_models(tmp_path):
    (tmp_path / "m.tflite").write_bytes(b"not a flatbuffer at all")
    with pytest.raises(UsageError, match="m.tflite is not a TFLite model"):
        Runner(tmp_path / "m.tflite")
    with pytest.raises(UsageError, match="there is no such file"):
        Runner(tmp_path / "none.tflite")


@pytest.mark.slow
def test_a_saved_model_that_differs_is_not_written(model, tmp_path, monkeypatch):
    from keras_vit.deploy.convert import saved_model

    deploy.export_saved_model(model, tmp_path / "good")
    monkeypatch.setattr(saved_model, "_TOLERANCE", -1.0)
    for name in ("good", "bad"):
        with pytest.raises(RefusedError, match="of the largest score, more than"):
            deploy.export_saved_model(model, tmp_path / name)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["good"]
    assert (tmp_path / "good" / "saved_model.pb").is_file()


@pytest.mark.slow
def test_auto_keeps_the_layers_in_float_that_its_budget_needs(sensitive, tmp_path):
    images = np.concatenate([sensitive.images, sensitive.converter.calibration])
    path = tmp_path / "m.tflite"
    with pytest.raises(ParityError, match="This file was not written. Its layers differ"):
        keras_vit.export_tflite(sensitive.model, path, "int8", images)
    verdict = keras_vit.export_tflite(sensitive.model, path, "auto", images)
    assert verdict.precision == "auto"
    graph = read_graph(path)
    kernels = {graph.layer(op): graph.read(op) for op in graph.operators if op.name in PRODUCTS}
    floats = [layer for layer, read in kernels.items() if read[1].dtype == "float32"]
    assert floats == ["encoderblock_1/mlp/dense_1"]
    # 24 of the 48 images measure ranges, 12 choose layers, and 12 are compared.
    assert verdict.images == 12
    with pytest.raises(UsageError, match="auto chooses the float layers; leave out float_layers"):
        keras_vit.export_tflite(sensitive.model, path, "auto", images, float_layers=["head"])


def test_errors_without_pictures_are_raised_before_pictures_are_read(model, tmp_path):
    def pictures():
        raise AssertionError("pictures were read")
        yield

    with pytest.raises(RefusedError, match="this precision needs LiteRT 2.1.0 or newer"):
        keras_vit.export_tflite(model, tmp_path / "m", "int4", pictures(), min_runtime="2.9")
    with pytest.raises(UsageError, match="with quantize='auto'. Received: quantize='int8'"):
        keras_vit.export_tflite(model, tmp_path / "m", "int8", pictures(), recipe="recipe.json")


def test_the_limits_of_a_file_reach_its_check(model, inputs, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(export, "check", lambda judged, *limits: seen.append(limits))
    path, limits = tmp_path / "m.tflite", {"max_drop": 7.0, "min_runtime": "2.17.0"}
    keras_vit.export_tflite(model, path, "dynamic", inputs, **limits)
    assert seen == [(7.0, "2.17.0", "no")]


def test_several_precisions_are_refused_with_the_function_that_takes_them(model, tmp_path):
    message = "Received: ['int8', 'none']; use deploy.export_bundles for several"
    with pytest.raises(UsageError, match=re.escape(message)):
        keras_vit.export_tflite(model, tmp_path / "m.tflite", ["int8", "none"])


@pytest.mark.slow
@pytest.mark.parametrize("export", [keras_vit.export_tflite, deploy.export_bundles])
def test_a_warning_about_a_single_image_names_the_callers_line(export, model, inputs, tmp_path):
    with pytest.warns(UserWarning, match="holds only one image") as warned:
        export(model, tmp_path / "out", "dynamic", inputs[:1])
    [warning] = [entry for entry in warned if "only one image" in str(entry.message)]
    assert warning.filename == __file__


@pytest.mark.slow
def test_each_file_is_parsed_once(model, inputs, tmp_path, monkeypatch):
    parsed = []
    whole = flatbuffer._read_graph

    def counted(content):
        parsed.append(bytes(flatbuffer.mapped(content)))
        return whole(content)

    monkeypatch.setattr(flatbuffer, "_read_graph", counted)
    keras_vit.export_tflite(model, tmp_path / "m.tflite", "int8", inputs, min_runtime="2.9")
    # Both the float file and the quantised file.
    assert len(parsed) == len(set(parsed)) == 2


@pytest.mark.flavours
@pytest.mark.slow
def test_two_exports_of_the_same_weights_are_the_same_bytes(sample, tmp_path):
    images = sample.images
    for quantize in ("none", "float16", "dynamic", "int8"):
        files = [tmp_path / f"{quantize}-{i}.tflite" for i in range(2)]
        for file in files:
            copy = keras_vit.ViT.from_config(sample.model.get_config())
            copy.set_weights(sample.model.get_weights())
            deploy.export_tflite(copy, file, quantize, images, output="probabilities")
        first, second = (hashlib.sha256(file.read_bytes()).hexdigest() for file in files)
        assert first == second, quantize


def test_a_model_of_many_channels_takes_float_inputs(trained_like, rng, tmp_path):
    model = trained_like(keras_vit.ViT(dataclasses.replace(SPEC, in_channels=13), 5, (16, 24)))
    inputs = rng.uniform(-1, 1, (6, 16, 24, 13)).astype(np.float32)
    keras_vit.export_tflite(model, tmp_path / "bands.tflite", representative_data=inputs)
    found = Runner(tmp_path / "bands.tflite").predict(inputs)
    np.testing.assert_allclose(found, np.asarray(model(inputs)), atol=1e-4)
    keras_vit.export_tflite(model, tmp_path / "noise.tflite")
    with pytest.raises(UsageError, match="input='uint8' needs a model whose input is made from pi"):
        keras_vit.export_tflite(model, tmp_path / "pixels.tflite", input="uint8")
    with pytest.raises(UsageError, match="a bundle is for pictures, of 1 channel or 3. Received: "):
        deploy.export_bundles(model, tmp_path / "bundles", "none")
    with pytest.raises(UsageError, match=r"reads images \(16, 24, 13\).*for \(16, 24, 3\)"):
        how = keras_vit.Preprocessing(16, 24)
        deploy.export_bundles(model, tmp_path / "bundles", "none", preprocessing=how)


@pytest.mark.parametrize("input", ["float32", "uint8"])
def test_a_grey_model_becomes_a_bundle_that_reads_pictures(trained_like, rng, tmp_path, input):
    model = trained_like(keras_vit.ViT(dataclasses.replace(SPEC, in_channels=1), 5, (16, 24)))
    pictures = [rng.integers(0, 256, (30, 50, 3)).astype(np.uint8) for _ in range(6)]
    inputs = keras_vit.preprocess(pictures, model)
    deploy.export_bundles(
        model, tmp_path, "none", representative_data=inputs, input=input, threads=()
    )
    folder = tmp_path / "float32"
    description, golden = deploy.read_bundle(folder)
    assert description["input"]["channels"] == "grey"
    assert golden["image"].shape == (16, 24, 3)  # the programs of bundles read RGB pictures
    bundle = deploy.open_bundle(folder)
    assert bundle.runner.input["shape"].tolist() == [1, 16, 24, 1]
    found = bundle.predict(keras_vit.preprocess(pictures, bundle))
    np.testing.assert_allclose(found, np.asarray(model(inputs)), atol=1e-4)
    assert deploy.check_golden(folder).passed
