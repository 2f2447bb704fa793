"""The files of zero-shot models: their head, their probabilities, and what bundles say of them."""

import numpy as np
import pytest

import keras_vit
from keras_vit import data, deploy
from keras_vit.deploy.convert.converter import to_tflite
from keras_vit.deploy.graph.graph_options import GraphOptions
from keras_vit.deploy.resolve import resolve
from keras_vit.deploy.serving import serving_module
from keras_vit.tflite.flatbuffer import read_graph
from keras_vit.tflite.float16_emulation import emulate

LABELS, TEMPLATES = ["cat", "hot_dog", "emu"], ["a photo of a {}.", "a {}"]


@pytest.fixture(params=["clip", "siglip"])
def name(request):
    return request.param


@pytest.fixture
def model(fixtures, name):
    return keras_vit.zero_shot_model(fixtures / "zero_shot" / name, LABELS, TEMPLATES)


@pytest.fixture
def images(model, pictures):
    return keras_vit.preprocess(pixels_of(pictures(16, (32, 32))), model)


def pixels_of(images):
    return np.rint(127.5 * images + 127.5).astype(np.uint8)


def test_a_file_gives_the_models_logits_and_probabilities(model, images, name):
    logits = model.predict(images, verbose=0)
    found = deploy.Runner(to_tflite(model)).predict(images)
    np.testing.assert_allclose(found, logits, atol=2e-5, rtol=0)
    options = GraphOptions(output="probabilities")
    for rewrite in (True, False):
        resolved = resolve(model, options, rewrite)
        file = deploy.Converter(resolved, ["none"])("none")
        found = deploy.Runner(file).predict(images)
        powers = np.exp(logits.astype(float))
        whole = powers.sum(-1, keepdims=True) if name == "clip" else 1 + powers
        np.testing.assert_allclose(found, powers / whole, atol=5e-6)


@pytest.mark.parametrize("quantize", ["float16", "dynamic", "int8"])
def test_the_head_stays_in_float(model, images, quantize):
    graph = read_graph(to_tflite(model, quantize, images))
    dense = [graph.read(op) for op in graph.operators if op.name == "FULLY_CONNECTED"]
    kernels = [inputs[1] for inputs in dense]
    assert kernels[-1].shape[0] == len(LABELS)
    # Kernels in half precision are cast before they are read.
    in_float = [kernel.constant and kernel.dtype == "float32" for kernel in kernels]
    assert in_float[-1]
    assert not any(in_float[:-1])


def test_large_features_are_normalised_in_half_precision(randomised, pictures):
    spec = keras_vit.ViTSpec(8, 48, 1, 3, 64, normalized_features=True)
    model = randomised(keras_vit.ViT(spec, 0, 32))
    norm = model.get_layer("encoder_norm")
    norm.gamma.assign(np.full(48, 100, np.float32))  # half precision holds 48 squares of 37
    [image] = images = pictures(1, (32, 32))
    file = to_tflite(model, options=GraphOptions(output="features"))
    found = emulate(file, images, "float16")
    assert not found.overflow
    expected = model.predict(image[None], verbose=0)
    np.testing.assert_allclose(found.scores, expected, atol=5e-3)


def test_features_are_normalised(model, images):
    file = to_tflite(model, "dynamic", images, GraphOptions(output="features"))
    features = deploy.Runner(file).predict(images)
    np.testing.assert_allclose(np.linalg.norm(features, axis=-1), 1, atol=1e-6)


def test_a_bundle_says_how_its_classes_were_made_and_what_scores_mean(
    model, images, name, tmp_path
):
    bundles = deploy.export_bundles(
        model, tmp_path / "out", ["none", "int8"], images, output="probabilities", threads=()
    )
    assert bundles.refused == {}
    output = bundles.written["int8"]["output"]
    exclusive = name == "clip"
    assert (output["kind"], output["exclusive"]) == ("probabilities", exclusive)
    assert output["activation"] == model.head_activation
    assert ("do not exclude each other" in output.get("meaning", "")) != exclusive
    assert bundles.written["int8"]["float_layers"] == ["head"]
    assert bundles.written["float32"]["float_layers"] == []
    zero_shot = bundles.written["int8"]["zero_shot"]
    assert zero_shot["templates"] == TEMPLATES
    assert zero_shot["weights"] is None
    assert len(zero_shot["tokenizer_sha256"]) == len(zero_shot["weights_sha256"]) == 64
    bundle = deploy.open_bundle(tmp_path / "out/int8")
    assert bundle.labels == tuple(LABELS)
    assert bundle.head_activation == model.head_activation


def test_a_bundle_of_logits_is_decoded_as_its_model(model, images, tmp_path):
    deploy.export_bundles(model, tmp_path / "out", "none", images, threads=())
    bundle = deploy.open_bundle(tmp_path / "out/float32")
    assert bundle.from_logits
    expected = keras_vit.decode_predictions(model.predict(images, verbose=0), model)
    found = keras_vit.decode_predictions(bundle.predict(images), bundle)
    for one, other in zip(found, expected, strict=True):
        assert [label for label, _ in one] == [label for label, _ in other]
        np.testing.assert_allclose([p for _, p in one], [p for _, p in other], atol=1e-5)


def test_pictures_of_some_of_the_labels_are_judged_by_accuracy(model, pictures, tmp_path):
    pixels = pixels_of(pictures(40, (32, 32)))
    logits = model.predict(keras_vit.preprocess(pixels, model), verbose=0)
    # Of the two classes that most pictures get; every fourth label is wrong.
    common = np.bincount(logits.argmax(-1), minlength=3).argsort()[::-1][:2]
    right = logits.argmax(-1) == common[0]
    targets = (right ^ (np.arange(40) % 4 == 0)).astype(np.int64)
    labels = tuple(LABELS[i] for i in common[::-1])
    source = data.Source("two", labels, tuple(map(str, range(40))), targets, data.InMemory(pixels))
    trained = deploy.of_model(lambda: model, source)
    assert (trained.labelled, trained.source.labels) == (True, tuple(LABELS))
    expected = [common[::-1][target] for target in targets]
    np.testing.assert_array_equal(trained.source.targets, expected)
    bundles = deploy.export_bundles(trained, tmp_path / "out", "none", threads=())
    compared = np.isin(np.arange(40), trained.held_out)
    accuracy = np.mean(logits.argmax(-1)[compared] == np.array(expected)[compared])
    assert bundles.written["float32"]["parity"]["keras_accuracy"] == pytest.approx(accuracy)


def test_classes_that_are_no_labels_keep_their_numbers(model, pictures):
    source = data.Source(
        "own",
        ("cat", "yak"),
        ("0", "1"),
        np.array([0, 1]),
        data.InMemory(pixels_of(pictures(2, (32, 32)))),
    )
    assert not deploy.of_model(lambda: model, source).labelled


def test_a_saved_model_answers_with_its_probabilities(model, images, name, tmp_path):
    options = GraphOptions(input="uint8", batch=None)
    module = serving_module(resolve(model, options), 2)
    [scores, *_] = answers = module.classify(np.zeros((1, 32, 32, 3), np.uint8))["scores"].numpy()
    logits = model.predict(
        keras_vit.preprocess(np.zeros((1, 32, 32, 3), np.uint8), model), verbose=0
    )
    expected = keras_vit.decode_predictions(logits, model, 2)[0]
    np.testing.assert_allclose(scores, [p for _, p in expected], atol=1e-6)
    assert len(answers) == 1
