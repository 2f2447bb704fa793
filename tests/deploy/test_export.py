"""Export: a file is written only if its scores agree with those of Keras."""

import dataclasses
import inspect
import re
from unittest.mock import Mock

import numpy as np
import pytest

import keras_vit
from keras_vit import UsageError, deploy
from keras_vit._errors import RefusedError
from keras_vit.deploy import ParityError, Runner, export_stages
from keras_vit.deploy.export_options import ExportOptions
from keras_vit.deploy.graph.graph_options import GraphOptions
from keras_vit.deploy.resolve import resolve
from keras_vit.tflite import flatbuffer
from keras_vit.tflite.flatbuffer import operators

MEDIAPIPE = {"client": "mediapipe"}
SPEC = keras_vit.ViTSpec(patch_size=8, hidden_dim=48, depth=1, num_heads=3, mlp_dim=64)


@pytest.fixture
def model(trained_like):
    return trained_like(keras_vit.ViT(SPEC, 5, (16, 24)))


@pytest.fixture
def path(tmp_path):
    """A file in an empty folder."""
    return tmp_path / "model.tflite"


def test_the_keywords_of_an_export_are_its_options():
    functions = keras_vit.export_tflite, deploy.export_bundles
    keywords = {name for function in functions for name in inspect.signature(function).parameters}
    own = {"model", "path", "folder", "golden", "representative_data", "threads"}  # used there
    assert keywords - own == {field.name for field in dataclasses.fields(ExportOptions)}


@pytest.mark.parametrize(
    ("quantize", "tolerance"),
    [
        (None, 1e-5),
        ("int8", 0.3),
        *(pytest.param(*p, marks=pytest.mark.slow) for p in (("float16", 1e-2), ("dynamic", 0.1))),
    ],
)
def test_the_scores_of_a_file_are_near_keras(model, inputs, path, quantize, tolerance):
    expected = np.asarray(model(inputs, training=False))
    data = inputs, expected.argmax(-1)
    verdict = keras_vit.export_tflite(model, path, quantize, data, max_images=15)
    found = Runner(path).predict(inputs)
    np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(expected).max())
    # Ten of the 20 images measure ranges, unless nothing is quantised.
    assert (verdict.images, verdict.rewritten) == (10 if quantize in ("dynamic", "int8") else 15, 1)
    assert (verdict.keras_accuracy, verdict.accuracy) == (1, verdict.agreement)
    differences = np.abs(found - expected).max(axis=-1)
    assert np.median(differences) <= verdict.max_difference <= differences.max() + 1e-6


@pytest.mark.parametrize(
    ("classes", "weight", "message"),
    [
        (2, 1e30, "scores may be at most 1.8e.19"),
        (2, 1e8, "score 2 of Keras"),
        (2, np.nan, "Keras' own scores are not finite"),
        (slice(None), 0, "nothing can be compared"),
    ],
)
def test_a_damaged_head_is_refused_before_anything_is_written(
    model, path, classes, weight, message
):
    head = model.get_layer("head")
    kernel = np.array(head.kernel)
    kernel[:, classes] = weight
    head.kernel.assign(kernel)
    head.bias.assign(np.zeros(5))
    with pytest.raises(ParityError, match=message):
        keras_vit.export_tflite(model, path, "dynamic", max_images=3)
    assert list(path.parent.iterdir()) == []


def test_labels_that_are_not_classes_are_refused(rng):
    scores = rng.normal(0, 1, (20, 5))
    with pytest.raises(UsageError, match="labels must be 0 to 4. Received: -1 to 3"):
        deploy.compare("float32", scores, scores, np.arange(20) % 5 - 1)


def test_a_bad_file_is_refused_even_with_useless_labels(model, inputs, path, spoiled):
    # With labels in a wrong order, for example, no file could lose accuracy.
    spoiled(model, "encoderblock_0")
    targets = (np.asarray(model(inputs, training=False)).argmax(-1) + 1) % 5
    message = "the int8 file must (agree with Keras on 95.0% of 10|vary between images)"
    with pytest.raises(ParityError, match=message):
        keras_vit.export_tflite(model, path, "int8", (inputs, targets))
    assert list(path.parent.iterdir()) == []


@pytest.mark.slow
def test_features_have_no_classes_to_agree_on(model, inputs, path):
    data = inputs, np.zeros(20, int)
    verdict = keras_vit.export_tflite(model, path, "int8", data, output="features")
    assert (verdict.agreement, verdict.accuracy, verdict.drop) == (None, None, None)
    assert verdict.cosine > 0.97
    with pytest.raises(ParityError, match="may differ from Keras' by at most"):
        dataclasses.replace(verdict, max_difference=0.51 * verdict.scale).check()


def test_pixels_probabilities_and_float_layers_are_options(model, inputs, path, kernel_types):
    options = {"input": "uint8", "output": "probabilities", "float_layers": ["head"]}
    verdict = keras_vit.export_tflite(model, path, "int8", inputs, **options)
    assert verdict.agreement >= 0.9
    found = Runner(path).predict(deploy.to_pixels(inputs, model.preprocessing))
    np.testing.assert_allclose(found.sum(-1), 1, atol=1e-5)
    logits = np.asarray(model(inputs, training=False))
    expected = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=0.1)
    count = operators(path.read_bytes())
    assert count["FULLY_CONNECTED"] == len(deploy.quantizable_layers(path.read_bytes()))
    kernels = kernel_types(path)
    assert [layer for layer, dtype in kernels.items() if dtype == "float32"] == ["head"]


def test_a_file_over_its_budget_is_not_written(model, randomised, inputs, path, monkeypatch):
    # The converter may fail silently, for example if variables are missing. Here it gets the graph
    # of another model.
    other = resolve(randomised(keras_vit.ViT(SPEC, 5, (16, 24))))
    wrong = deploy.Converter(other, ["none"]).float_file()
    monkeypatch.setattr(deploy.Converter, "float_file", lambda *_: wrong)
    path.write_text("the old one")
    with pytest.raises(ParityError, match=r"the float32 file.*Received"):
        keras_vit.export_tflite(model, path, representative_data=inputs)
    assert path.read_text() == "the old one"
    assert len(list(path.parent.iterdir())) == 1


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"quantize": "int-8"}, "unknown quantize='int-8'; did you mean int8"),
        ({"quantize": ["int8", "none"]}, "['int8', 'none']; use deploy.export_bundles for several"),
        ({"quantize": "int8"}, "int8 needs images to measure ranges on"),
        ({"input": "jpeg"}, "input must be one of float32, uint8. Received: input='jpeg'"),
        ({"output": "labels"}, "feature_map, scores, class_map. Received"),
        ({"max_images": 0}, "max_images must be a positive integer. Received: max_images=0"),
        ({"max_drop": -1}, "max_drop must not be negative. Received: max_drop=-1"),
        ({"max_drop": np.nan}, "max_drop must be a number. Received: max_drop=nan"),
        ({"float_layers": ["head"]}, "float_layers are for quantised files. Received: quantize="),
        ({"quantize": "auto", "float_layers": ["head"]}, "auto chooses the float layers; leave"),
        ({"path": "."}, "is a folder; name the .tflite file"),
        ({"batch": 2, "gpu": "yes"}, "a GPU takes batch=1"),
        ({"client": "mediapip"}, "unknown client='mediapip'; did you mean mediapipe"),
        (
            MEDIAPIPE | {"output": "logits"},
            "needs output='probabilities' for classification or 'scores' for segmentation. "
            "Received: output='logits'; leave it out",
        ),
        (MEDIAPIPE | {"quantize": "int8-full"}, "runs no files with int8-full input and output"),
        ({"representative_data": np.full((4, 16, 24, 3), 9.0)}, "_data must be preprocessed"),
    ],
)
def test_settings_that_do_not_fit_are_refused(model, path, arguments, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        keras_vit.export_tflite(model, **{"path": path} | arguments)
    assert not path.exists()


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


def test_runner_refuses_files_that_are_not_models(path):
    with pytest.raises(UsageError, match="there is no such file"):
        Runner(path)
    path.write_bytes(b"not a flatbuffer at all")
    with pytest.raises(UsageError, match="model.tflite is not a TFLite model"):
        Runner(path)


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


def test_errors_without_pictures_are_raised_before_pictures_are_read(model, path):
    pictures = Mock(side_effect=AssertionError("pictures were read"))
    with pytest.raises(RefusedError, match="this precision needs LiteRT 2.1.0 or newer"):
        keras_vit.export_tflite(model, path, "int4", pictures, min_runtime="2.9")
    with pytest.raises(UsageError, match="with quantize='auto'. Received: quantize='int8'"):
        keras_vit.export_tflite(model, path, "int8", pictures, recipe="recipe.json")


def test_the_limits_of_a_file_reach_its_check(model, inputs, path, monkeypatch):
    check, limits = Mock(), {"max_drop": 7.0, "min_runtime": "2.17.0"}
    monkeypatch.setattr(export_stages, "check", check)
    keras_vit.export_tflite(model, path, "dynamic", inputs, **limits)
    assert check.call_args.args[1:] == (7.0, "2.17.0", "no")


@pytest.mark.slow
@pytest.mark.parametrize("export", [keras_vit.export_tflite, deploy.export_bundles])
def test_a_warning_about_a_single_image_names_the_callers_line(export, model, inputs, path):
    with pytest.warns(UserWarning, match="holds only one image") as warned:
        export(model, path, "dynamic", inputs[:1])
    assert [w.filename for w in warned if "only one image" in str(w.message)] == [__file__]


@pytest.mark.slow
def test_each_file_is_parsed_once(model, inputs, path, monkeypatch):
    parse = Mock(wraps=flatbuffer._read_graph)
    monkeypatch.setattr(flatbuffer, "_read_graph", parse)
    keras_vit.export_tflite(model, path, "int8", inputs, min_runtime="2.9")
    parsed = [bytes(flatbuffer.mapped(call.args[0])) for call in parse.call_args_list]
    # Both the float file and the quantised file.
    assert len(parsed) == len(set(parsed)) == 2


@pytest.mark.flavours
@pytest.mark.slow
@pytest.mark.parametrize("quantize", ["none", "float16", "dynamic", "int8"])
def test_two_exports_of_the_same_weights_are_the_same_bytes(sample, tmp_path, quantize):
    files = [tmp_path / f"{i}.tflite" for i in range(2)]
    for file in files:
        copy = keras_vit.ViT.from_config(sample.model.get_config())
        copy.set_weights(sample.model.get_weights())
        deploy.export_tflite(copy, file, quantize, sample.images, output="probabilities")
    assert files[0].read_bytes() == files[1].read_bytes()


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
        preprocessing = keras_vit.Preprocessing(16, 24)
        deploy.export_bundles(model, tmp_path / "bundles", "none", preprocessing=preprocessing)


@pytest.mark.parametrize("input", ["float32", "uint8"])
def test_a_grey_model_becomes_a_bundle_that_reads_pictures(trained_like, rng, tmp_path, input):
    model = trained_like(keras_vit.ViT(dataclasses.replace(SPEC, in_channels=1), 5, (16, 24)))
    pictures = [rng.integers(0, 256, (30, 50, 3)).astype(np.uint8) for _ in range(6)]
    inputs = keras_vit.preprocess(pictures, model)
    deploy.export_bundles(model, tmp_path, "none", inputs, input=input, threads=())
    folder = tmp_path / "float32"
    description, golden = deploy.read_bundle(folder)
    assert description["input"]["channels"] == "grey"
    assert golden["image"].shape == (16, 24, 3)  # the programs of bundles read RGB pictures
    bundle = deploy.open_bundle(folder)
    found = bundle.predict(keras_vit.preprocess(pictures, bundle))
    np.testing.assert_allclose(found, np.asarray(model(inputs)), atol=1e-4)
    assert deploy.check_golden(folder).passed
