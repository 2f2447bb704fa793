"""Files of segmenters: made, held to DINOv2's own head, judged and opened."""

import base64
import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

import keras_vit
from keras_vit import UsageError, deploy
from keras_vit._keras import keras
from keras_vit.deploy.bundle.description import read_golden
from keras_vit.deploy.convert.converter import to_tflite
from keras_vit.deploy.graph.graph_options import GraphOptions
from keras_vit.tflite.file_inspection import inspect_file
from keras_vit.tflite.runner import Runner

CLASSES = 4
LABELS = ("sky", "sea", "sand", "ship")
FORMS = {  # of an image of 32 x 48 pixels, in cells of 4
    "scores": (GraphOptions(output="scores"), (8, 12)),
    "finer scores": (GraphOptions(output="scores", output_stride=2), (16, 24)),
    "coarser scores": (GraphOptions(output="scores", output_stride=5), (7, 10)),
    "class map": (GraphOptions(output="class_map"), (32, 48)),
    "class map of cells": (GraphOptions(output="class_map", output_stride=4), (8, 12)),
}


@pytest.fixture(scope="module")
def segmenter():
    """A segmenter with a norm in its head and four cells in a patch, whose weights are not new."""
    spec = keras_vit.ViTSpec(
        patch_size=8, hidden_dim=48, depth=2, num_heads=3, mlp_dim=96, pooling="none", registers=2,
        dense_head="linear", head_cells=2, head_norm=True,
    )  # fmt: skip
    keras.utils.set_random_seed(0)
    model = keras_vit.ViT(spec, CLASSES, (32, 48), labels=LABELS)
    rng = np.random.default_rng(0)
    for variable in model.weights:
        variable.assign(variable + rng.normal(0, 0.1, tuple(variable.shape)).astype(np.float32))
    variance = model.get_layer("head_norm").moving_variance
    variance.assign(rng.uniform(0.2, 2.0, tuple(variance.shape)).astype(np.float32))
    return model


@pytest.fixture(scope="module")
def data(segmenter):
    """Inputs, and masks that are nearly what the model finds."""
    rng = np.random.default_rng(1)
    coarse = rng.uniform(-1, 1, (40, 4, 6, 3))
    images = (coarse.repeat(8, 1).repeat(8, 2) + rng.normal(0, 0.1, (40, 32, 48, 3))).astype("f4")
    masks = scores_of(segmenter, images, (32, 48)).argmax(-1).astype(np.uint8)
    masks[rng.random(masks.shape) < 0.02] = 255
    return images, np.where(rng.random(masks.shape) < 0.05, 1, masks)


def scores_of(model, images, size):
    return tf.image.resize(np.asarray(model(images)["scores"]), size).numpy()


@pytest.mark.parametrize("form", FORMS)
def test_a_file_gives_keras_masks(segmenter, data, form):
    options, size = FORMS[form]
    content, images = to_tflite(segmenter, options=options), data[0][:4]
    expected, found = scores_of(segmenter, images, size), Runner(content).predict(images)
    if options.output == "scores":
        assert found.shape == (4, *size, CLASSES)
        np.testing.assert_allclose(found, expected, atol=1e-5 * np.ptp(expected))
    else:
        assert (found.shape, found.dtype) == ((4, *size), np.uint8)
        np.testing.assert_array_equal(found, expected.argmax(-1))
    inspection = inspect_file(content)
    left = [each.operator for each in inspection.undelegated]
    assert inspection.partitions == 1
    assert left == ([] if options.output == "scores" else ["ARG_MAX", "CAST"])
    assert inspection.runtime == "2.9.0"
    norms = [name for name in layers_of(content) if "head_norm" in name]
    assert not norms  # it is a part of the head


def layers_of(content):
    from keras_vit.tflite.flatbuffer import read_graph

    graph = read_graph(content)
    return {graph.layer(operator) for operator in graph.operators}


@pytest.mark.parametrize("form", ["scores", "finer scores", "class map"])
def test_files_without_rewrites_give_them_too(segmenter, data, tmp_path, form):
    options, size = FORMS[form]
    images = data[0][:8]
    settings = {"output": options.output, "output_stride": options.output_stride}
    file = tmp_path / "model.tflite"
    verdict = deploy.export_tflite(segmenter, file, None, images, rewrite=False, **settings)
    assert (verdict.agreement, verdict.overlap, verdict.rewritten) == (1, 1, False)
    expected, found = scores_of(segmenter, images, size), Runner(file).predict(images)
    expected = expected if options.output == "scores" else expected.argmax(-1)
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.ptp(expected))


def test_a_file_gives_the_scores_of_dinov2s_own_head(fixtures):
    weights, arrays = (
        fixtures / "dinov2_linear.safetensors",
        np.load(fixtures / "dinov2_linear.io.npz"),
    )
    model = keras_vit.model_from_weights(weights, image_size=(32, 48))
    images = arrays["pixel_values"].transpose(0, 2, 3, 1)
    for stride, name in ((model.spec.cell, "low_logits"), (1, "logits")):
        options = GraphOptions(output="scores", output_stride=stride)
        found = Runner(to_tflite(model, options=options)).predict(images)
        np.testing.assert_allclose(found.transpose(0, 3, 1, 2), arrays[name], atol=2e-5)
    found = Runner(to_tflite(model, options=GraphOptions(output="class_map"))).predict(images)
    np.testing.assert_array_equal(found, arrays["segmentation"])


@pytest.fixture(scope="module")
def exported(segmenter, data, tmp_path_factory):
    """Folders of bundles of scores and of class maps, of a model with random weights."""
    path = tmp_path_factory.mktemp("exported")
    for output in ("scores", "class_map"):
        bundles = deploy.export_bundles(
            segmenter,
            path / output,
            ["none", "int8"],
            data,
            output=output,
            max_drop=8,
            threads=(1,),
        )
        assert bundles.refused == {}
    return path


@pytest.mark.parametrize("output", ["scores", "class_map"])
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_bundle_says_how_good_its_masks_are(exported, segmenter, data, output, precision):
    bundle = deploy.open_bundle(exported / output / precision)
    stated, parity = bundle.description["output"], bundle.description["parity"]
    shape = [1, 8, 12, CLASSES] if output == "scores" else [1, 32, 48]
    assert (stated["kind"], stated["shape"], stated["classes"]) == (output, shape, CLASSES)
    assert (stated["activation"], stated["exclusive"], bundle.labels) == ("softmax", True, LABELS)
    assert parity["informed"]
    assert parity["keras_mean_iou"] > 0.9
    assert -0.1 < parity["drop"] <= parity["largest_drop"] < (0.5 if precision == "float32" else 8)
    assert 0.9 < parity["overlap"] <= parity["agreement"] <= 1
    assert bundle.description["delegation"]["partitions"] == 1
    images = data[0][:3]
    found = bundle.predict(images)
    named = found.argmax(-1) if output == "scores" else found
    same = named == scores_of(segmenter, images, named.shape[1:]).argmax(-1)
    assert same.mean() > 0.9
    assert bundle.files == ["model.tflite", "model.json", "labels.txt", "golden.json"]


@pytest.mark.parametrize("output", ["scores", "class_map"])
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_the_golden_check_compares_the_whole_mask(exported, tmp_path, output, precision):
    folder = exported / output / precision
    check = deploy.check_golden(folder)
    assert check.passed
    assert check.expected is None
    golden = json.loads((folder / "golden.json").read_bytes())
    assert golden["scores"]["dtype"] == ("float32" if output == "scores" else "uint8")
    damaged = with_golden(folder, tmp_path, lambda scores: np.roll(scores, 2, axis=1))
    assert not deploy.check_golden(damaged).passed


def with_golden(folder, tmp_path, change):
    """A copy of a bundle with other scores in golden.json."""
    shutil.copytree(folder, tmp_path / "copy")
    golden = json.loads((folder / "golden.json").read_bytes())
    scores = change(read_golden(folder)[0]["scores"])
    golden["scores"]["base64"] = base64.b64encode(np.ascontiguousarray(scores).tobytes()).decode()
    (tmp_path / "copy" / "golden.json").write_text(json.dumps(golden))
    return tmp_path / "copy"


def test_many_pixels_of_another_class_are_wrong_if_their_scores_are_near(exported, tmp_path):
    folder = exported / "scores" / "int8"
    tolerance = read_golden(folder)[1]

    def exchanged(scores):
        second, first = np.argsort(scores, -1)[..., -2:].transpose(2, 0, 1)
        best, next_best = (
            np.take_along_axis(scores, each[..., None], -1) for each in (first, second)
        )
        chosen = best - next_best < tolerance.scores
        assert chosen.mean() > tolerance.pixels
        scores = scores.copy()
        np.put_along_axis(scores, first[..., None], np.where(chosen, next_best, best), -1)
        np.put_along_axis(scores, second[..., None], np.where(chosen, best, next_best), -1)
        return scores

    check = deploy.check_golden(with_golden(folder, tmp_path, exchanged))
    xnnpack = check.kernels[0]
    assert xnnpack.difference <= xnnpack.tolerance
    assert xnnpack.pixels > xnnpack.most_pixels == tolerance.pixels
    assert not xnnpack.passed
    assert not check.passed


def test_the_card_and_the_table_have_the_mean_iou(exported):
    text = (exported / "class_map" / "card.md").read_text()
    header, *rows = [line for line in text.splitlines() if line.startswith("|")]
    assert "| mean IoU | drop | drop, 95% | agreement | overlap | worst |" in header
    assert len(rows) == 3
    for part in (
        "no loss of mean IoU seen on",
        "the mean IoU of the Keras model is",
        "points of mean IoU cannot be excluded on",
        "(paired bootstrap over the images)",
        "of an image's pixels get another class, mean IoU",
    ):
        assert part in text
    table = json.loads((exported / "class_map" / "table.json").read_bytes())
    assert all(0.8 < row["mean_iou"] <= 1 and row["overlap"] for row in table["rows"])


def test_without_masks_the_masks_of_keras_count(segmenter, data, tmp_path):
    verdict = deploy.export_tflite(segmenter, tmp_path / "model.tflite", "int8", data[0])
    assert (verdict.mean_iou, verdict.accuracy, verdict.informed) == (None, None, False)
    assert 0.9 < verdict.overlap < 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda masks: masks[:, :8], r"masks must be integers \(40, 32, 48\)"),
        (lambda masks: masks[:, 0, 0], r"masks must be integers \(40, 32, 48\)"),
        (lambda masks: [[1], [1, 2]], "Received: rows of different lengths"),
        (lambda masks: masks.astype(float), "Received: float64"),
        (lambda masks: np.where(masks == 255, 4, masks), "classes 0 to 3, or 255 for none. Rec.*4"),
        (
            lambda masks: masks[:9],
            r"integers \(40,\), .* or their masks. Received: uint8 \(9, 32, 48\)",
        ),
    ],
)
def test_other_labels_than_masks_are_refused(segmenter, data, tmp_path, change, message):
    with pytest.raises(UsageError, match=message):
        deploy.export_tflite(segmenter, tmp_path / "model.tflite", None, (data[0], change(data[1])))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"output": "logits"},
            "must be one of scores, class_map, feature_map. Received: output='log",
        ),
        ({"output": "features"}, "must be one of scores, class_map, feature_map"),
        ({"output": "feature_map", "output_stride": 4}, "output_stride is for output='scores'"),
        ({"output_stride": 0}, "output_stride must be"),
        ({"output_stride": 65}, "output_stride must be"),
    ],
)
def test_outputs_that_a_segmenter_does_not_have(segmenter, tmp_path, settings, message):
    with pytest.raises(UsageError, match=message):
        deploy.export_tflite(segmenter, tmp_path / "model.tflite", **settings)


def test_a_class_map_has_at_most_255_classes(tmp_path):
    spec = keras_vit.ViTSpec(8, 32, 1, 2, 48, pooling="none", dense_head="linear")
    model = keras_vit.ViT(spec, 256, 16)
    with pytest.raises(UsageError, match="255 classes at most, because it is uint8. Received: 256"):
        deploy.export_tflite(model, tmp_path / "model.tflite", output="class_map")


def test_a_segmenter_with_other_layers_is_converted_as_it_is(segmenter, data, tmp_path):
    softmax = keras.layers.Softmax()(segmenter.output["scores"])
    model = keras.Model(segmenter.input, softmax)
    verdict = deploy.export_tflite(model, tmp_path / "model.tflite", None, data[0])
    assert (verdict.rewritten, verdict.agreement) == (False, 1)
    found = Runner(tmp_path / "model.tflite").predict(data[0][:2])
    np.testing.assert_allclose(found, np.asarray(model(data[0][:2])), atol=1e-5)


@pytest.mark.parametrize(
    ("output", "change", "message"),
    [
        ("class_map", {"kind": "feature_map"}, "which cannot be $.output.kind feature_map"),
        ("class_map", {"kind": "scores"}, "model.tflite gives uint8 (1, 32, 48), which cannot be"),
        ("scores", {"kind": "class_map"}, "which cannot be $.output.kind class_map"),
        ("class_map", {"classes": 3}, "expected 3 names"),
    ],
)
def test_a_description_of_another_output_is_refused(exported, tmp_path, output, change, message):
    shutil.copytree(exported / output / "float32", tmp_path / "copy")
    file = tmp_path / "copy" / "model.json"
    description = json.loads(file.read_bytes())
    description["output"] |= change
    file.write_text(json.dumps(description))
    with pytest.raises(UsageError, match=re.escape(message)):
        deploy.open_bundle(tmp_path / "copy")


def test_a_classifier_has_no_masks(sample, tmp_path):
    with pytest.raises(
        UsageError, match="must be one of logits, .* feature_map. Received: output='sc"
    ):
        deploy.export_tflite(sample.model, tmp_path / "model.tflite", output="scores")


def test_what_is_only_for_classifiers_says_so(segmenter, tmp_path):
    for export in (deploy.export_serving, deploy.export_saved_model):
        with pytest.raises(UsageError, match="expected a classifier. Received: a model for segm"):
            export(segmenter, tmp_path / "saved")
