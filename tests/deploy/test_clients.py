"""Files for programs that run them by themselves: what they need, and what they make of them."""

import dataclasses
import json
import re
import sys

import numpy as np
import pytest

import keras_vit
from keras_vit import UsageError, deploy
from keras_vit._errors import RefusedError
from keras_vit._keras import keras
from keras_vit.data import digits
from keras_vit.data.preprocessing import preprocess_image
from keras_vit.data.source import as_answered
from keras_vit.deploy import clients
from keras_vit.deploy.judge.client_verdict import seen_by
from keras_vit.deploy.sampling import Samples
from keras_vit.tflite.client_process import run_runner, write_cases

OPTIONS = {"client": "mediapipe", "max_images": 24, "calibrate": 16, "threads": ()}
IMAGENET = {"mean": (123.675, 116.28, 103.53), "scale": (58.395, 57.12, 57.375)}

# A client: it resizes as MediaPipe does and runs the file by LiteRT, in a process of its own.
CLIENT = """
import dataclasses, json, sys
from pathlib import Path
import numpy as np
from keras_vit import Preprocessing, preprocess
from keras_vit.tflite.runner import Runner

runner, folder = Runner(sys.argv[1]), Path(sys.argv[2])
how = Preprocessing(*map(int, runner.input["shape"][1:3]), interpolation="mediapipe")
cases = json.loads((folder / "cases.json").read_text())
pictures = [np.fromfile(folder / c["file"], c["dtype"]).reshape(c["shape"]) for c in cases]
print("hello")
print(json.dumps({"version": "7", "scores": runner.predict(preprocess(pictures, how)).tolist()}))
"""

REFUSED = 'print(\'{"version": "7", "refused": "no such op"}\')'


@pytest.fixture
def pictures_of(sample):
    """A trained model with digits as labelled pictures."""

    def make(**preprocessing):
        model = keras_vit.ViT(sample.model.spec, 10, (16, 24))
        model.set_weights(sample.model.get_weights())
        model.preprocessing = dataclasses.replace(model.preprocessing, **preprocessing)
        source = digits()
        parts = np.arange(0, 128, 2), np.arange(1, 128, 2)
        return deploy.TrainedModel(
            lambda: model, "ViT-Test", source.labels, model.preprocessing, source, *parts, True
        )

    return make


@pytest.fixture
def installed(tmp_path_factory, monkeypatch):
    """Replaces MediaPipe by a script; None is a package that is not installed."""

    def install(script):
        path = tmp_path_factory.mktemp("client") / "runner.py"
        path.write_text(script or "")
        monkeypatch.setattr(clients.Client, "program", path)
        module = "numpy" if script else "no_such_package"
        row = dataclasses.replace(clients.CLIENTS["mediapipe"], module=module)
        monkeypatch.setitem(clients.CLIENTS, "mediapipe", row)

    return install


@pytest.fixture
def absent(installed):
    installed(None)


def test_a_file_is_judged_with_the_resize_of_the_client(pictures_of, absent, tmp_path):
    own = pictures_of()
    found = deploy.export_bundles(own, tmp_path, "none", **OPTIONS)
    description = found.written["float32"]
    assert description["output"]["kind"] == "probabilities"
    opened = deploy.open_bundle(tmp_path / "float32")
    assert opened.preprocessing.interpolation == "bilinear"  # for readers of model.json
    compared = own.samples(deploy.ExportOptions(("none",), 24)).compared
    inputs, classes = compared.inputs, compared.targets
    changed = dataclasses.replace(own.preprocessing, interpolation="mediapipe")
    resized = np.stack([preprocess_image(picture, changed) for picture in own.pictures(24)])
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
        (REFUSED, "7 refuses it: no such op"),
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
    installed('print(\'{"missing": "no module named cv2"}\')')
    deploy.export_tflite(sample.model, tmp_path / "model.tflite", client="mediapipe")
    scores = deploy.Runner(tmp_path / "model.tflite").predict(sample.images)
    np.testing.assert_allclose(scores.sum(1), 1, atol=1e-5)


ANSWER = "import json; print(json.dumps({{'version': '7', 'scores': {}}}))"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "message"),
    [
        (CLIENT, None),
        (
            ANSWER.format("[[0.0] * 9 + [1.0]] * 24"),
            "gives other scores than LiteRT for the same pixels",
        ),
        (ANSWER.format("[[float('nan')] * 10] * 24"), "they differ by nan"),
        (
            ANSWER.format("[[0.1] * 9] * 24"),
            r"gives scores of the shape \(24, 9\); expected \(24, 10\)",
        ),
        (REFUSED, "7 refuses it: no such op"),
    ],
    ids=["right", "always the last class", "NaN", "too few classes", "refused"],
)
def test_an_installed_client_runs_the_file_and_decides(
    pictures_of, installed, tmp_path, script, message
):
    installed(script)
    found = deploy.export_bundles(pictures_of(), tmp_path / "out", "none", **OPTIONS)
    if message is None:
        verdict = found.written["float32"]["client"]
        assert (verdict["version"], verdict["ran"]) == ("7", 24)
        assert verdict["difference"] < 1e-6
    else:
        assert found.written == {}
        assert re.search(message, found.refused["float32"])
        assert not (tmp_path / "out" / "float32").exists()


def test_pictures_that_end_the_client_are_not_given_to_it(pictures_of):
    pictures = [np.zeros((1, 32_767, 3), np.uint8), np.zeros((1, 32_766, 3), np.uint8)]
    own = np.zeros((2, 16, 24, 3), np.float32)
    mediapipe, how = clients.CLIENTS["mediapipe"], pictures_of().preprocessing
    samples = Samples(deploy.Reference(own))
    assert list(seen_by(mediapipe, samples, pictures, how).pictures) == [1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"client": "mediapip"}, "unknown client='mediapip'; did you mean mediapipe"),
        ({"output": "logits"}, "needs output='probabilities'. Received: output='logits'"),
        ({"quantize": "int8-full"}, "runs no files with int8-full input and output"),
        ({"quantize": "int16x8"}, "runs no files with int16x8 input and output"),
    ],
)
def test_settings_that_contradict_the_client_are_refused(sample, tmp_path, options, message):
    options = {"client": "mediapipe", **options}
    with pytest.raises(UsageError, match=message):
        deploy.export_tflite(sample.model, tmp_path / "model.tflite", **options)


def test_models_that_a_client_cannot_run_are_refused(sample, tmp_path):
    layers = keras_vit.ViT(sample.model.spec, 0, 16), keras.layers.Dense(3)
    message = "needs output='probabilities' of a keras_vit model"
    with pytest.raises(UsageError, match=message):
        deploy.export_tflite(keras.Sequential(layers), tmp_path / "out", client="mediapipe")
    for channels in (1, 13):
        model = keras_vit.ViT_Pico4(4, in_channels=channels)
        for export in (deploy.export_bundles, keras_vit.export_tflite):
            message = f"gives a file RGB pixels.*in_channels={channels};"
            with pytest.raises(UsageError, match=message):
                export(model, tmp_path / "out", "none", client="mediapipe")


@pytest.mark.slow
def test_a_file_normalises_where_the_client_cannot(pictures_of, absent, tmp_path):
    with pytest.raises(UsageError, match="normalises R, G and B alike.*use 'uint8'"):
        deploy.export_bundles(pictures_of(**IMAGENET), tmp_path, input="float32", **OPTIONS)
    found = deploy.export_bundles(pictures_of(**IMAGENET), tmp_path, **OPTIONS)
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


def test_what_a_runner_prints_before_its_answer_is_ignored(tmp_path):
    script = tmp_path / "runner.py"
    script.write_text('print(\'loading\'); print(\'{"version": "1", "scores": []}\')')
    answer = run_runner([sys.executable, script], b"", [], "a client")
    assert answer == {"version": "1", "scores": []}
