"""Files whose output is the map of the patches' features: made, judged and opened."""

import json

import numpy as np
import pytest

import keras_vit
from keras_vit import UsageError, deploy
from keras_vit._keras import keras
from keras_vit.deploy import export_stages
from keras_vit.neighbours import unit


@pytest.fixture(scope="module")
def exported(sample, tmp_path_factory):
    """A folder of bundles of feature maps."""
    path, data = tmp_path_factory.mktemp("exported"), (sample.images, np.arange(16) % 10)
    deploy.export_bundles(
        sample.model, path, ["none", "int8"], data, 8, output="feature_map", threads=()
    )
    return path


def test_a_bundle_gives_keras_features_of_each_patch(sample, exported):
    bundle = deploy.open_bundle(exported / "float32")
    output, parity = bundle.description["output"], bundle.description["parity"]
    assert (output["kind"], output["shape"]) == ("feature_map", [1, 2, 3, 96])
    assert not output.keys() & {"classes", "activation", "normalized"}
    assert (bundle.labels, bundle.scores_classes, bundle.gallery) == ((), False, None)
    assert bundle.files == ["model.tflite", "model.json", "golden.json"]
    assert not (bundle.folder / "labels.txt").exists()
    [expected] = sample.model.intermediates("feature_map")(sample.images).values()
    np.testing.assert_allclose(bundle.predict(sample.images), expected, atol=1e-5)
    assert parity["comparisons"] == 6 * parity["images"] == 48
    assert [parity[name] for name in ("agreement", "recall", "accuracy")] == [None, 1.0, None]
    with pytest.raises(UsageError, match="gives a feature map; export it with output=.features"):
        bundle.check_features()


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_the_golden_check_compares_the_whole_map(exported, precision):
    check = deploy.check_golden(exported / precision)
    assert check.passed
    assert (check.expected, check.labels) == (None, ())
    golden = json.loads((exported / precision / "golden.json").read_bytes())
    assert golden["scores"]["shape"] == [2, 3, 96]


def test_a_model_that_is_not_rewritten_has_the_same_map(sample, tmp_path):
    deploy.export_bundles(sample.model, tmp_path, output="feature_map", rewrite=False, threads=())
    found = deploy.open_bundle(tmp_path / "float32").predict(sample.images)
    [expected] = sample.model.intermediates("feature_map")(sample.images).values()
    np.testing.assert_allclose(found, expected, atol=1e-4)
    description = json.loads((tmp_path / "float32/model.json").read_bytes())
    assert not description["parity"]["rewritten"]


def test_patches_are_compared_by_which_others_are_nearest(exported, sample):
    description = json.loads((exported / "int8/model.json").read_bytes())
    keras, file = (
        unit(np.asarray(maps).reshape(48, 96))
        for maps in (
            sample.model.intermediates("feature_map")(sample.images[8:])["feature_map"],
            deploy.open_bundle(exported / "int8").predict(sample.images[8:]),
        )
    )
    places = [np.argsort(-(rows @ rows.T - 9 * np.eye(48)))[:, :10] for rows in (keras, file)]
    same = [len({*one} & {*other}) for one, other in zip(*places, strict=True)]
    assert 0.5 < np.mean(same) / 10 < 1
    recall = f"{description['parity']['recall']:.2%} of the nearest patches by Keras, "
    assert recall in deploy.recommendation({"int8": description})


def test_a_head_for_each_patch_is_for_programs_of_your_own(sample, tmp_path):
    scores = keras.layers.Dense(4, name="parts")(sample.model.feature_map)
    head = keras.Model(sample.model.input, scores)
    deploy.export_bundles(head, tmp_path, "none", sample.images, threads=(), labels=tuple("abcd"))
    bundle = deploy.open_bundle(tmp_path / "float32")
    np.testing.assert_allclose(bundle.predict(sample.images), head(sample.images), atol=1e-5)
    check = deploy.check_golden(tmp_path / "float32")
    assert (check.passed, check.expected) == (True, None)
    with pytest.raises(UsageError, match="logits .1, 2, 3, 4. of parts of a picture"):
        bundle.files  # noqa: B018


def test_named_outputs_are_refused(sample, tmp_path):
    with pytest.raises(UsageError, match="one output"):
        keras_vit.export_tflite(sample.model.intermediates("feature_map"), tmp_path / "a.tflite")


def test_no_more_maps_are_compared_than_fit_into_memory(sample, tmp_path, monkeypatch):
    monkeypatch.setattr(export_stages, "_MOST_VALUES", 5 * 2 * 3 * 96 + 1)
    said, data = [], sample.images
    bundles = deploy.export_bundles(
        sample.model, tmp_path, "none", data, output="feature_map", threads=(), say=said.append
    )
    assert "comparing at most 5 images, because each has 576 values" in said
    assert bundles.written["float32"]["parity"]["images"] == 5
    deploy.export_bundles(sample.model, tmp_path, "none", data, output="features", threads=())
    description = json.loads((tmp_path / "float32/model.json").read_bytes())
    assert description["parity"]["images"] == len(data)
