"""Files for programs that run them by themselves: what they need, and what they make of them."""

import dataclasses
import json

import numpy as np
import pytest

import keras_vit
from keras_vit import UsageError, deploy
from keras_vit._errors import RefusedError
from keras_vit._keras import keras
from keras_vit.data import digits
from keras_vit.data.source import as_answered
from keras_vit.deploy import clients
from keras_vit.deploy.judge.client_verdict import seen_by
from keras_vit.deploy.sample_images import Samples
from keras_vit.tflite.client_process import write_cases

OPTIONS = {"client": "mediapipe", "max_images": 24, "calibrate": 16, "threads": ()}

# A client: it resizes as MediaPipe does and runs the file by LiteRT, in a process of its own.
CLIENT = """
import dataclasses, json, sys
from pathlib import Path
import numpy as np
from keras_vit import Preprocessing, preprocess
from keras_vit.tflite.runner import Runner

runner, folder = Runner(sys.argv[1]), Path(sys.argv[2])
preprocessing = Preprocessing(*map(int, runner.input["shape"][1:3]), interpolation="mediapipe")
cases = json.loads((folder / "cases.json").read_text())
pictures = [np.fromfile(folder / c["file"], c["dtype"]).reshape(c["shape"]) for c in cases]
scores = runner.predict(preprocess(pictures, preprocessing))
print(json.dumps({"version": "7", "scores": scores.tolist()}))
"""


def test_a_file_is_judged_with_the_resize_of_the_client(trained, absent, tmp_path):
    found = deploy.export_bundles(trained, tmp_path, "none", **OPTIONS)
    description = found.written["float32"]
    assert description["output"]["kind"] == "probabilities"
    opened = deploy.open_bundle(tmp_path / "float32")
    assert opened.preprocessing.interpolation == "bilinear"  # for readers of model.json
    compared = trained.samples(deploy.ExportOptions(("none",), 24)).compared
    inputs, classes = compared.inputs, compared.targets
    changed = dataclasses.replace(trained.preprocessing, interpolation="mediapipe")
    resized = keras_vit.preprocess(trained.pictures(24), changed)
    right, seen = (opened.predict(x).argmax(1) for x in (inputs, resized))
    assert description["client"] == {
        "client": "mediapipe",
        "images": 24,
        "accuracy": (seen == classes).mean(),
        "own_accuracy": (right == classes).mean(),
        "agreement": (seen == right).mean(),
        "version": None,
        "ran": 0,
        "difference": None,
        "mean_iou": None,
        "own_mean_iou": None,
    }
    assert (right != seen).any()  # otherwise this test would not see a wrong resize
    [line] = [x for x in deploy.notes(found.written) if x.startswith("In the app's client")]
    assert "with the resize of MediaPipe's ImageClassifier" in line
    assert line.endswith("not run in it, which is not installed: pip install mediapipe")


def test_the_probability_of_one_logit_is_judged_by_its_two_answers(trained_like, absent, tmp_path):
    spec = keras_vit.ViTSpec(patch_size=8, hidden_dim=96, depth=1, num_heads=3, mlp_dim=80)
    model = trained_like(keras_vit.ViT(spec, 1, 16))
    source = as_answered(digits(), ["3"])
    places = np.r_[np.flatnonzero(source.targets)[:12], np.flatnonzero(source.targets == 0)[:12]]
    given = deploy.TrainedModel(
        lambda: model, "one", ("3",), model.preprocessing, source, places, places, labelled=True
    )
    inputs = given.samples(deploy.ExportOptions(("none",), 24)).compared.inputs
    bias = model.get_layer("head").bias
    bias.assign(bias - np.median(np.asarray(model(inputs, training=False))))
    found = deploy.export_bundles(given, tmp_path, "none", **OPTIONS)
    verdict, parity = found.written["float32"]["client"], found.written["float32"]["parity"]
    assert verdict["own_accuracy"] == parity["accuracy"] == parity["keras_accuracy"]
    assert parity["accuracy"] != 0.5  # that of always saying one of them


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ('print(\'{"version": "7", "refused": "no such op"}\')', "7 refuses it: no such op"),
        ("import os; os.abort()", "ended while it ran the file: exit code -6"),
        ("raise SystemExit('no camera')", "ended while it ran the file: no camera"),
        ("pass", "ended while it ran the file: exit code 0"),
        ("print('done')", "gives no scores; its last line is 'done'"),
        ('print(\'{"version": "7", "scores": [[1], [1, 2]]}\')', "gives no scores"),
    ],
)
def test_a_file_that_the_client_refuses_is_not_written(
    sample, installed, tmp_path, script, message
):
    installed(script)
    file = tmp_path / "model.tflite"
    with pytest.raises(RefusedError, match=f"MediaPipe's ImageClassifier {message}"):
        deploy.export_tflite(sample.model, file, client="mediapipe")
    assert not file.exists()


def test_a_client_that_cannot_be_imported_is_not_installed(sample, installed, tmp_path):
    installed('print("loading"); print(\'{"missing": "no module named cv2"}\')')
    deploy.export_tflite(sample.model, tmp_path / "model.tflite", client="mediapipe")
    scores = deploy.Runner(tmp_path / "model.tflite").predict(sample.images)
    np.testing.assert_allclose(scores.sum(1), 1, atol=1e-5)


@pytest.mark.slow
def test_an_installed_client_runs_the_file(trained, installed, tmp_path):
    installed(CLIENT)
    found = deploy.export_bundles(trained, tmp_path, "none", **OPTIONS)
    verdict = found.written["float32"]["client"]
    assert (verdict["version"], verdict["ran"]) == ("7", 24)
    assert verdict["difference"] < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ("[[0.0] * 9 + [1.0]] * 24", "gives other scores than LiteRT for the same pixels"),
        ("[[float('nan')] * 10] * 24", "they differ by nan"),
        ("[[0.1] * 9] * 24", "gives scores of the shape (24, 9); expected (24, 10)"),
    ],
)
def test_a_bundle_for_which_the_client_gives_other_scores_is_not_written(
    trained, installed, tmp_path, scores, message
):
    installed(f"import json; print(json.dumps({{'version': '7', 'scores': {scores}}}))")
    found = deploy.export_bundles(trained, tmp_path / "out", "none", **OPTIONS)
    assert found.written == {}
    assert message in found.refused["float32"]
    assert not (tmp_path / "out" / "float32").exists()


def test_pictures_that_end_the_client_are_not_given_to_it(trained):
    pictures = [np.zeros((1, 32_767, 3), np.uint8), np.zeros((1, 32_766, 3), np.uint8)]
    samples = Samples(deploy.Reference(np.zeros((2, 16, 24, 3), np.float32)))
    found = seen_by(clients.CLIENTS["mediapipe"], samples, pictures, trained.preprocessing)
    assert list(found.pictures) == [1]


def test_models_that_a_client_cannot_run_are_refused(sample, tmp_path):
    layers = keras_vit.ViT(sample.model.spec, 0, 16), keras.layers.Dense(3)
    with pytest.raises(UsageError, match="needs a keras_vit model with its own head"):
        deploy.export_tflite(keras.Sequential(layers), tmp_path / "out", client="mediapipe")
    for channels in (1, 13):
        model = keras_vit.ViT_Pico4(4, in_channels=channels)
        for export in (deploy.export_bundles, keras_vit.export_tflite):
            with pytest.raises(
                UsageError, match=f"gives a file RGB pixels.*in_channels={channels};"
            ):
                export(model, tmp_path / "out", "none", client="mediapipe")


@pytest.mark.slow
def test_a_file_normalises_where_the_client_cannot(sample, trained, absent, tmp_path):
    preprocessing = dataclasses.replace(trained.preprocessing, mean=(123.0, 116.0, 103.0))
    model = keras_vit.ViT(sample.model.spec, 10, (16, 24), preprocessing=preprocessing)
    model.set_weights(sample.model.get_weights())
    given = dataclasses.replace(trained, load=lambda: model, preprocessing=preprocessing)
    with pytest.raises(UsageError, match="normalises R, G and B alike.*use 'uint8'"):
        deploy.export_bundles(given, tmp_path, input="float32", **OPTIONS)
    found = deploy.export_bundles(given, tmp_path, **OPTIONS)
    assert found.written["float32"]["input"]["dtype"] == "uint8"
    assert found.written["float32"]["client"]["images"] == 24


def test_runners_in_any_language_read_the_cases(rng, tmp_path):
    cases = [rng.integers(0, 256, (3, 5, 3), np.uint8), rng.random((2, 2), np.float32)]
    write_cases(tmp_path, cases)
    listed = json.loads((tmp_path / "cases.json").read_text())
    assert [case["dtype"] for case in listed] == ["uint8", "float32"]
    for case, expected in zip(listed, cases, strict=True):
        assert (tmp_path / case["file"]).read_bytes() == expected.tobytes()
        assert case["shape"] == list(expected.shape)
