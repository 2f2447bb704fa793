"""Files of segmenters for MediaPipe's ImageSegmenter: what it needs, and what it makes of them."""

import dataclasses
import functools
import re

import numpy as np
import pytest

import keras_vit
from keras_vit import UsageError, data, deploy, evaluation
from keras_vit._errors import RefusedError
from keras_vit.data import Masks, mediapipe
from keras_vit.data.masks import NO_CLASS, sets_of
from keras_vit.data.source import InMemory
from keras_vit.deploy import clients
from keras_vit.deploy.clients import output_for
from keras_vit.deploy.convert.converter import to_tflite
from keras_vit.deploy.graph.graph_options import GraphOptions
from keras_vit.deploy.judge.client_verdict import (
    as_resized_by,
    judge_client,
    mask_difference,
    seen_by,
)

SPEC = keras_vit.ViTSpec(
    patch_size=4, hidden_dim=32, depth=1, num_heads=2, mlp_dim=48, dense_head="linear", head_cells=4
)
LABELS = ("background", "red", "green", "blue")
MEDIAPIPE = clients.CLIENTS["mediapipe"]
OPTIONS = {"client": "mediapipe", "max_images": 12, "calibrate": 8, "threads": ()}

# A client: it resizes as MediaPipe does and runs the file by LiteRT, in a process of its own.
CLIENT = """
import json, sys
from pathlib import Path
import numpy as np
from keras_vit import Preprocessing, preprocess
from keras_vit.data.mediapipe import resized_scores
from keras_vit.tflite.runner import Runner

runner, folder = Runner(sys.argv[1]), Path(sys.argv[2])
preprocessing = Preprocessing(*map(int, runner.input["shape"][1:3]), interpolation="mediapipe")
for i, case in enumerate(json.loads((folder / "cases.json").read_text())):
    picture = np.fromfile(folder / case["file"], case["dtype"]).reshape(case["shape"])
    [scores] = runner.predict(preprocess([picture], preprocessing))
    mask = resized_scores(scores, picture.shape[:2]).argmax(-1)
    mask.astype(np.uint8).tofile(folder / f"{i}.mask")
print(json.dumps({"version": "7"}))
"""
# Writes the same bytes as the mask of each picture.
WRITES = """
import json, sys
from pathlib import Path
folder = Path(sys.argv[2])
for i, case in enumerate(json.loads((folder / "cases.json").read_text())):
    Path(folder, f"{{i}}.mask").write_bytes({content})
print('{{"version": "7"}}')
"""


@pytest.fixture(scope="module")
def segmenter(trained_like):
    model = keras_vit.ViT(SPEC, 4, 16, labels=LABELS)
    assert model.task == "segmentation"
    return trained_like(model)


@pytest.fixture(scope="module")
def source():
    """Pictures of noise, whose masks are rectangles on the background or have no class."""
    rng = np.random.default_rng(0)
    pictures = np.kron(rng.integers(0, 256, (24, 5, 6, 3)), np.ones((1, 4, 5, 1))).astype(np.uint8)
    masks = np.zeros((24, 20, 30), np.uint8)
    for mask in masks:
        (top, left), kind = rng.integers(0, 12, 2), rng.integers(1, 4)
        mask[top : top + 8, left : left + 11] = kind
        mask[:2] = NO_CLASS
    sets = sets_of(masks, 4)
    return data.Source(
        name="rectangles",
        labels=LABELS,
        ids=tuple(f"{i:02d}" for i in range(24)),
        targets=sets.rarest,
        image=InMemory(pictures),
        annotations=Masks(masks.__getitem__, sets),
    )


@pytest.fixture(scope="module")
def given(segmenter, source):
    places = np.arange(24)
    about = (lambda: segmenter, "Segmenter-Test", LABELS, segmenter.preprocessing)
    return deploy.TrainedModel(*about, source, places[::2], places[1::2], labelled=True)


def slowly(scores, height, width):
    """The scores of each pixel, one after the other, as MediaPipe's source has them."""
    result = np.empty((height, width, scores.shape[-1]))
    down, across = ((scores.shape[i] - 1) / (n - 1) for i, n in enumerate((height, width)))
    for y, x in np.ndindex(height, width):
        top, left = int(np.floor(y * down)), int(np.floor(x * across))
        bottom = min(int(np.ceil(y * down)), scores.shape[0] - 1)
        right = min(int(np.ceil(x * across)), scores.shape[1] - 1)
        t, u = y * down - top, x * across - left
        above = scores[top, left] * (1 - u) + scores[top, right] * u
        below = scores[bottom, left] * (1 - u) + scores[bottom, right] * u
        result[y, x] = above * (1 - t) + below * t
    return result


@pytest.mark.parametrize(
    ("rows", "columns", "height", "width"),
    [(4, 7, 9, 23), (7, 4, 3, 2), (5, 6, 5, 6), (1, 3, 4, 8), (56, 2, 111, 2)],
)
def test_scores_become_larger_from_corner_to_corner(rng, rows, columns, height, width):
    scores = rng.normal(size=(rows, columns, 3)).astype(np.float32)
    resized = mediapipe.resized_scores(scores, (height, width))
    assert resized.dtype == np.float32
    np.testing.assert_allclose(resized, slowly(scores, height, width), atol=2e-5)
    corners = np.ix_([0, -1], [0, -1])
    np.testing.assert_allclose(resized[corners], scores[corners], atol=2e-5)
    one = mediapipe.resized_scores(scores[..., 1], (height, width))
    np.testing.assert_array_equal(one, resized[..., 1])


def test_a_mask_differs_by_how_much_its_class_is_below_the_highest(rng):
    scores = rng.normal(size=(2, 3, 4, 5)).astype(np.float32)
    resized = [mediapipe.resized_scores(each, (9, 8)) for each in scores]
    masks = [each.argmax(-1).astype(np.uint8) for each in resized]
    assert mask_difference("it", scores, masks) == (0, 0)
    second = np.sort(resized[1][2, 3])
    masks[1][2, 3] = resized[1][2, 3].argsort()[-2]
    difference, changed = mask_difference("it", scores, masks)
    assert difference == second[-1] - second[-2]
    assert changed == 1 / sum(mask.size for mask in masks)
    scores[0, 0, 0, 0] = np.nan
    assert np.isnan(mask_difference("it", scores, masks)[0])
    masks[0][4, 4] = 5
    with pytest.raises(RefusedError, match="it gives a pixel the class 5; expected 0 to 4"):
        mask_difference("it", scores, masks)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("class_map", "output='class_map', whose width it would take for the number of classes;"),
        (
            "feature_map",
            "needs output='probabilities' for classification or 'scores' for segmentation. "
            "Received: output='feature_map'; leave it",
        ),
    ],
)
def test_other_outputs_are_refused_before_the_model_is_known(output, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        deploy.ExportOptions(None, 10, client="mediapipe", output=output)


def test_each_task_has_its_output(segmenter, sample):
    options = deploy.ExportOptions(None, 10, client="mediapipe", output_stride=2)
    graph = options.graph(segmenter)
    assert (graph.output, graph.output_stride) == ("scores", 2)
    for model, output, message in (
        (segmenter, "probabilities", "MediaPipe's ImageSegmenter needs output='scores'. Received"),
        (sample.model, "scores", "MediaPipe's ImageClassifier needs output='probabilities'. Rec"),
    ):
        options = deploy.ExportOptions(None, 10, client="mediapipe", output=output)
        with pytest.raises(UsageError, match=message):
            options.graph(model)
    with pytest.raises(
        UsageError, match="runs models for classification or segmentation. Received"
    ):
        output_for(MEDIAPIPE, None, "detection")


@pytest.mark.parametrize("classes", [1, 256])
def test_numbers_of_classes_that_masks_cannot_have_are_refused(classes, tmp_path):
    model = keras_vit.ViT(SPEC, classes, 16)
    with pytest.raises(UsageError, match=f"needs 2 to 255 classes. Received: {classes};"):
        deploy.export_tflite(model, tmp_path / "model.tflite", client="mediapipe")


def test_a_file_is_judged_with_the_resize_of_the_client(given, segmenter, source, absent, tmp_path):
    found = deploy.export_bundles(given, tmp_path, "none", **OPTIONS)
    description = found.written["float32"]
    assert description["output"]["kind"] == "scores"
    verdict = description["client"]
    assert (verdict["images"], verdict["accuracy"], verdict["ran"]) == (12, None, 0)
    # The images are those that are held out, so the evaluation of Keras has the same ones.
    report = evaluation.segmentation_report(segmenter, source, given.held_out)
    assert verdict["own_mean_iou"] == pytest.approx(report.mean_iou, abs=1e-5)
    changed = keras_vit.ViT(
        SPEC, 4, 16, preprocessing=as_resized_by(MEDIAPIPE, segmenter.preprocessing)
    )
    changed.set_weights(segmenter.get_weights())
    report = evaluation.segmentation_report(changed, source, given.held_out)
    assert verdict["mean_iou"] == pytest.approx(report.mean_iou, abs=1e-5)
    # Otherwise this test would not see a wrong resize.
    assert abs(verdict["mean_iou"] - verdict["own_mean_iou"]) > 2e-3
    assert 0.5 < verdict["agreement"] < 1
    [line] = [x for x in deploy.notes(found.written) if x.startswith("In the app's client")]
    assert line.startswith("In the app's client: mean IoU ")
    assert "with the resize of MediaPipe's ImageSegmenter, " in line
    assert line.endswith("not run in it, which is not installed: pip install mediapipe")


def test_without_masks_classes_of_pixels_are_compared(given, absent, tmp_path):
    given = dataclasses.replace(given, labelled=False)
    found = deploy.export_bundles(given, tmp_path, "none", **OPTIONS)
    verdict = found.written["float32"]["client"]
    assert verdict["mean_iou"] is verdict["own_mean_iou"] is None
    [line] = [x for x in deploy.notes(found.written) if x.startswith("In the app's client")]
    assert f"class for {verdict['agreement']:.2%} of the pixels of 12 images with the" in line


@pytest.mark.slow
@pytest.mark.parametrize("stride", [1, 4])
def test_scores_in_coarser_rows_are_compared_with_the_masks_of_the_client(
    given, segmenter, source, installed, stride
):
    installed(CLIENT)
    client, options = clients.CLIENTS["mediapipe"], deploy.ExportOptions(None, 12)
    graph = GraphOptions(output="scores", output_stride=stride)
    content, samples = to_tflite(segmenter, None, None, graph), given.samples(options)
    samples = seen_by(client, samples, given.pictures(12), segmenter.preprocessing)
    verdict = judge_client(client, content, samples, 1e-6, "segmentation", 1e-3)
    assert (verdict.version, verdict.ran) == ("7", 12)
    assert verdict.difference < 1e-6


def test_many_pixels_of_another_class_are_refused_if_their_scores_are_near(
    given, segmenter, source, installed
):
    installed(WRITES.format(content="bytes([3]) * 600"))  # class 3 everywhere
    content = to_tflite(segmenter, None, None, GraphOptions(output="scores"))
    client, samples = clients.CLIENTS["mediapipe"], given.samples(deploy.ExportOptions(None, 4))
    samples = seen_by(client, samples, given.pictures(4), segmenter.preprocessing)
    judged = functools.partial(judge_client, client, content, samples, 1e9, "segmentation")
    with pytest.raises(RefusedError, match="of the pixels another class than LiteRT's scores do"):
        judged(0.01)
    assert judged(1.0).difference > 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("bytes(600)", "gives other scores than LiteRT for the same pixels"),
        ("bytes([4]) * 600", "gives a pixel the class 4; expected 0 to 3"),
        ("bytes(599)", "no mask of a picture of 20 x 30: expected 600 bytes. Received: 599."),
        ("bytes(601)", "expected 600 bytes. Received: 601."),
        ("b''", "expected 600 bytes. Received: 0."),
    ],
)
def test_a_bundle_for_which_the_client_gives_other_masks_is_not_written(
    given, installed, tmp_path, content, message
):
    installed(WRITES.format(content=content))
    found = deploy.export_bundles(given, tmp_path / "out", "none", **OPTIONS)
    assert found.written == {}
    assert message in found.refused["float32"]


def test_a_client_that_writes_no_masks_is_refused(segmenter, installed, tmp_path):
    installed('print(\'{"version": "7"}\')')
    with pytest.raises(RefusedError, match="MediaPipe's ImageSegmenter gives no mask of a picture"):
        deploy.export_tflite(segmenter, tmp_path / "model.tflite", client="mediapipe")


def test_pictures_of_one_row_or_column_are_not_given_to_the_client(given, segmenter):
    samples = given.samples(deploy.ExportOptions(None, 2))
    pictures = [np.zeros((1, 9, 3), np.uint8), np.zeros((2, 9, 3), np.uint8)]
    task = MEDIAPIPE.tasks["segmentation"]
    found = seen_by(MEDIAPIPE, samples, pictures, segmenter.preprocessing, task.shortest_side)
    assert list(found.pictures) == [1]
