"""What the app's tests compare with is what Python makes today, and what `keras-vit run` prints."""

import base64
import json
import runpy
from pathlib import Path

import numpy as np
import pytest

from keras_vit import deploy

DEMO = Path(__file__).parents[1] / "android_demo"
ASSETS = DEMO / "app/src/main/assets"
FIXTURES = (
    *("resizing", "tensors", "alpha", "orientations", "yuv", "scores", "percentiles"),
    *("patch_colours", "masks", "class_colours"),
)


@pytest.fixture(scope="module")
def tool():
    """The names in `tools/make_fixtures.py`."""
    return runpy.run_path(str(DEMO / "tools/make_fixtures.py"))


def near(text):
    """A float of a file: one that is made now may differ in its last bits."""
    return pytest.approx(float(text), rel=1e-6, abs=1e-12)


def test_every_fixture_is_compared(tool):
    assert {path.stem for path in tool["MAKERS"]} == set(FIXTURES)
    folders = {path.parent for path in (*tool["MAKERS"], tool["DIGITS"], tool["SAMPLES"])}
    answers = ("DIGITS", "SAMPLES", "SIMILAR", "FEATURE_MAPS", "MASKS")
    files = ("CUMULATIVE_SUM", "BESSEL", "LOG_SOFTMAX")
    others = {*(tool[name] for name in (*answers, *files)), tool["TOO_NEW"].parent}
    found = {path for folder in folders for path in folder.iterdir()}
    assert found == {*tool["MAKERS"], *others}


@pytest.mark.parametrize("name", FIXTURES)
def test_python_makes_the_fixture_that_the_app_is_tested_with(tool, name):
    [(path, make)] = [item for item in tool["MAKERS"].items() if item[0].stem == name]
    # Integers are compared as texts, because 1.0 is equal to 1.
    committed = json.loads(path.read_text(), parse_float=near, parse_int=str)
    assert json.loads(json.dumps(make()), parse_int=str) == committed


def test_the_digits_are_those_that_the_demo_holds_out_with_the_scores_of_python(tool):
    committed = json.loads(tool["DIGITS"].read_text())
    made = tool["digits_and_scores"]()
    expected, actual = committed.pop("scores"), made.pop("scores")
    assert committed == made
    assert expected.keys() == actual.keys()
    for bundle in expected:
        golden = json.loads((tool["MODELS"] / bundle / "golden.json").read_text())
        before, now = (decoded(scores[bundle]) for scores in (expected, actual))
        assert np.abs(before - now).max() <= golden["tolerance"]["scores"]
        assert (before.argmax(-1) == now.argmax(-1)).all()


def decoded(scores):
    return np.frombuffer(base64.b64decode(scores), "<f4").reshape(-1, 10)  # (images, classes)


def test_the_small_files_compute_what_they_are_named_after(tool):
    numbers = np.arange(10, dtype=np.float32)
    actual = deploy.Runner(tool["CUMULATIVE_SUM"])(numbers)
    np.testing.assert_array_equal(actual, np.cumsum(numbers))
    actual = deploy.Runner(tool["LOG_SOFTMAX"])(numbers)
    expected = np.abs(numbers - np.log(np.exp(numbers).sum()))
    np.testing.assert_allclose(actual, expected, atol=1e-6)


def test_the_bundle_that_is_too_new_for_the_apks_runtime_is_one(tool):
    """`InterpreterEnginesTest` sees that runtime refuse it; today's runs it."""
    folder = tool["TOO_NEW"]
    description = json.loads((folder / "model.json").read_text())
    floor = deploy.runtime_floor((folder / "model.tflite").read_bytes())
    assert floor == description["runtime_floor"]
    assert f"needs TFLite {floor}" in deploy.too_new_for_app(folder, DEMO)
    assert deploy.check_golden(folder).passed


def test_similar_pictures_are_those_that_the_app_is_tested_with(tool):
    """`FeaturesTest` reads the same file, and has the same tolerance."""

    def near(text):
        return pytest.approx(float(text), abs=1e-3)

    committed = json.loads(tool["SIMILAR"].read_text(), parse_float=near)
    assert tool["samples_and_similar_pictures"]() == committed


def test_patch_colours_are_those_that_the_app_is_tested_with(tool):
    """`FeatureMapTest` reads the same file, and has the same tolerance."""

    def near(text):
        return pytest.approx(float(text), abs=2e-3)

    committed = json.loads(tool["FEATURE_MAPS"].read_text(), parse_float=near)
    assert tool["samples_and_patch_colours"]() == committed


def test_masks_are_those_that_the_app_is_tested_with(tool):
    """`SegmenterTest` reads the same file, and has the same tolerance."""
    committed, made = json.loads(tool["MASKS"].read_text()), tool["samples_and_masks"]()
    assert [case["picture"] for case in made] == [case["picture"] for case in committed]
    for one, other in zip(committed, made, strict=True):
        before, now = (base64.b64decode(each["mask"]) for each in (one, other))
        assert np.mean([a != b for a, b in zip(before, now, strict=True)]) <= 0.01


@pytest.mark.parametrize("kind", ["cifar10-float16", "cifar10-words"])
def test_run_prints_the_probabilities_that_the_app_shows(kind, tool, invoke, tmp_path):
    """`ClassifyTest` reads the same file, and has the same tolerance."""
    committed = json.loads(tool["SAMPLES"].read_text())
    [(folder, samples)] = [each for each in committed.items() if each[0].endswith(kind)]
    bundle = DEMO / folder
    command = ("export/run.py", "--bundle", bundle, "--top-k", 3, "--json", bundle / "samples")
    code, printed, error = invoke(*command, cwd=tmp_path)
    assert code == 0, error
    lines = [json.loads(line) for line in printed.splitlines()]
    assert [Path(line["picture"]).name for line in lines] == list(samples)
    for line, best in zip(lines, samples.values(), strict=True):
        found = line["predictions"]
        assert [each["label"] for each in found] == [each["label"] for each in best]
        for one, other in zip(found, best, strict=True):
            assert one["probability"] == pytest.approx(other["probability"], abs=1e-4)
