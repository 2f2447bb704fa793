"""Export of bundles: files that meet the demands are written, the others are refused."""

import dataclasses
import gc
import json
import re
import weakref
from unittest.mock import Mock

import numpy as np
import pytest
from PIL import Image

import keras_vit
from keras_vit import UsageError, _files, deploy
from keras_vit.deploy.bundle.description import read_golden
from keras_vit.deploy.convert import converter
from keras_vit.deploy.convert.float_layers import read_recipe
from keras_vit.weights.hashing import weights_sha256

# Options that skip the measurements and the card.
QUICK = {"max_images": 24, "calibrate": 16, "threads": ()}
SPOILED = "encoderblock_1/mlp/dense_1"
RECIPE = {
    **{"format": 1, "base": "int8", "model": "ViT-Test", "chosen_on": "2 images of digits"},
    **{"float_layers": [], "sensitivity": {"head": 0.5}},
}


def files(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_only_one_export_writes_a_folder_and_readers_need_not_wait(trained, tmp_path):
    folder, others = tmp_path / "export", []
    (folder / f".float32.abcdefgh{_files.UNFINISHED}").mkdir(parents=True)  # of a killed export

    def say(line):
        others.append(line)
        with pytest.raises(UsageError, match=f"another process is writing {folder}; choose"):
            deploy.export_bundles(trained, folder, **QUICK)

    with _files.locked(folder), pytest.raises(UsageError, match="another process is writing"):
        deploy.export_bundles(trained, folder, **QUICK)
    deploy.export_bundles(trained, folder, **QUICK, say=say)
    assert len(others) > 1
    with _files.locked(folder):
        assert deploy.open_bundle(folder / "float32").precision == "float32"


@pytest.mark.slow
def test_refused_files_are_explained_and_the_others_written(trained, sensitive, tmp_path):
    trained = dataclasses.replace(trained, load=lambda: sensitive.model)
    names, progress = ["int8", "none", "int4", "auto", "none"], []
    options = QUICK | {"min_runtime": "2.16.1", "say": progress.append}
    found = deploy.export_bundles(trained, tmp_path, names, **options)
    written, refused = found.written, found.refused
    assert list(written) == ["float32", "auto"]
    assert files(tmp_path) == ["auto", "float32"]
    assert set(refused) == {"int8", "int4"}
    int8 = refused["int8"]
    assert int8.startswith("the int8 file")
    assert "This file was not written. Its layers differ from those of the float file by" in int8
    assert f"by more than 10% from {SPOILED} on, most in {SPOILED} (" in int8
    assert "needs LiteRT 2.1.0 or newer. Received: min_runtime=2.16.1" in refused["int4"]
    # Auto is within the budget that int8 exceeds, with the sensitive layer in float. Random weights
    # give near ties between classes, for which it may keep a few more of the 14 layers.
    kept = written["auto"]["float_layers"]
    assert kept[0] == SPOILED
    assert len(kept) < 4
    recipe = json.loads((tmp_path / "auto" / "recipe.json").read_text())
    sensitivity, chosen_on = recipe["sensitivity"], "24 other images of digits"
    found = {"chosen_on": chosen_on, "float_layers": kept, "sensitivity": sensitivity}
    assert recipe == RECIPE | found
    assert max(sensitivity, key=sensitivity.get) == SPOILED
    assert (written["auto"]["chosen_on"], written["float32"]["chosen_on"]) == (chosen_on, None)
    # The hash is that of the model's weights, not of the balanced ones in the file.
    hashes = {description["weights_sha256"] for description in written.values()}
    assert hashes == {weights_sha256(trained.load())}
    assert list(written["auto"]["blocks"]) == ["encoderblock_0", "encoderblock_1"]
    assert 0 < max(written["auto"]["blocks"].values()) < 0.1
    assert not (tmp_path / "float32" / "recipe.json").exists()
    assert progress[:2] == ["Keras on 24 images of digits", f"Keras on {chosen_on}"]
    converting = progress.index("int8: converting")
    assert progress[converting + 1] == "int8: comparing with Keras"
    # The recipe gives the same file without a search.
    recipe, progress = tmp_path / "auto" / "recipe.json", []
    options = QUICK | {"recipe": recipe, "say": progress.append}
    repeated = deploy.export_bundles(trained, tmp_path / "again", "auto", **options).written
    assert repeated["auto"]["sha256"] == written["auto"]["sha256"]
    assert (tmp_path / "again" / "auto" / "recipe.json").read_text() == recipe.read_text()
    assert not [line for line in progress if "sensitivity" in line]


def test_a_folder_that_is_not_a_bundle_is_refused_before_writing(trained, tmp_path):
    (tmp_path / "int8").mkdir()
    (tmp_path / "int8" / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match=f"{tmp_path} is not empty and holds no export; choose"):
        deploy.export_bundles(trained, tmp_path, ["dynamic"], **QUICK)
    (tmp_path / "table.json").touch()
    with pytest.raises(UsageError, match="int8 is not empty and holds no bundle; choose another"):
        deploy.export_bundles(trained, tmp_path, ["none", "int8"], **QUICK)
    assert files(tmp_path) == ["int8", "table.json"]


def test_precisions_that_are_too_new_are_refused_before_keras_runs(trained, tmp_path):
    progress = []
    options = QUICK | {"min_runtime": "2.16.1", "say": progress.append}
    found = deploy.export_bundles(trained, tmp_path, ["int4"], **options)
    assert (found.written, list(found.refused), progress) == ({}, ["int4"], [])
    expected = "this precision needs LiteRT 2.1.0 or newer. Received: min_runtime=2.1"
    assert found.refused["int4"].startswith(expected)


def test_without_a_device_gpu_auto_says_so_and_gpu_yes_writes_nothing(
    trained, tmp_path, monkeypatch
):
    monkeypatch.setenv("VK_ICD_FILENAMES", "/nowhere.json")
    found = deploy.export_bundles(trained, tmp_path, ["none", "float16"], gpu="auto", **QUICK)
    for written in (found.written["float32"], found.written["float16"]):
        assert not {row["effect"] for row in written["gpu"]} & {"refused", "wrong"}
        run = written["gpu_run"]
        assert (run["device"], run["images"]) == ("", 0)
        assert run["problem"].startswith("no Vulkan device")
        assert [half["problem"] for half in run["half_precision"]] == ["", ""]
    found = deploy.export_bundles(trained, tmp_path / "yes", ["none"], gpu="yes", **QUICK)
    assert found.written == {}
    assert "was not run on a GPU: no Vulkan device" in found.refused["float32"]


def test_mistakes_are_found_before_a_run_is_opened(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="min_runtime must be a version of TFLite such as 2.16.1"):
        deploy.export_bundles("no run", tmp_path / "out", min_runtime="newest")
    with pytest.raises(UsageError, match="file is a file; choose another folder"):
        deploy.export_bundles("no run", tmp_path / "file" / "out")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quantize": ["none", "int-8"]}, "unknown quantize='int-8'; did you mean int8"),
        ({"golden": "none.png"}, "none.png: there is no such file"),
        ({"labels": ["a", "b"]}, "expected 10 labels, one for each score. Received: 2 labels"),
        ({"labels": [*"abcdefghi", ""]}, "labels[9] is empty; name the class"),
        (
            {"labels": ["a\nb", *"bcdefghij"]},
            "labels must be lines of text without control characters, at most 1,000 characters "
            r"long. Received: labels[0]='a\nb'; rename the class",
        ),
        (
            {"quantize": "none", "recipe": {}},
            "recipe can only be used with quantize='auto'. Received: quantize='none'",
        ),
        ({"recipe": {"format": 2}}, "expected format 1. Received: 2"),
        ({"recipe": {"base": "int4"}}, "is not a recipe of float layers for int8"),
        ({"recipe": {"model": "ViT-B_16"}}, "is a recipe for ViT-B_16. Received: ViT-Test"),
        ({"recipe": {"float_layers": None}}, "$.float_layers must be a list. Received: None"),
        ({"recipe": {"float_layers": "head"}}, "$.float_layers must be a list. Received: 'head'"),
        ({"recipe": {"float_layers": ["heat"]}}, "did you mean head?"),
        ({"recipe": {"sensitivity": [1]}}, "$.sensitivity must be an object. Received: [1]"),
        ({"recipe": {"sensitivity": {"head": np.nan}}}, "NaN is not a number of JSON"),
    ],
)
def test_mistakes_write_nothing(trained, tmp_path, options, message):
    if "recipe" in options:
        recipe = tmp_path / "recipe.json"
        recipe.write_text(json.dumps(RECIPE | options["recipe"]))
        options = {"quantize": ["none", "auto"]} | options | {"recipe": recipe}
    with pytest.raises(UsageError, match=re.escape(message)):
        deploy.export_bundles(trained, tmp_path / "out", **options, **QUICK)
    assert not (tmp_path / "out").exists()


def test_a_recipe_is_read_once(trained, tmp_path):
    recipe = tmp_path / "recipe.json"
    recipe.write_text(json.dumps(RECIPE))
    options = QUICK | {"recipe": recipe, "say": lambda line: recipe.unlink(missing_ok=True)}
    found = deploy.export_bundles(trained, tmp_path / "out", "auto", **options)
    assert not recipe.exists()
    assert found.written["auto"]["float_layers"] == RECIPE["float_layers"]


def test_unknown_fields_of_a_recipe_are_dropped(tmp_path):
    recipe = tmp_path / "recipe.json"
    recipe.write_text(json.dumps(RECIPE | {"more": 1}))
    assert read_recipe(recipe, "ViT-Test", {"int8"}) == RECIPE


def test_a_keras_model_gets_bundles_and_a_card_in_one_call(sample, tmp_path):
    images = np.concatenate([sample.images, sample.converter.calibration])
    classes = np.asarray(sample.model(images, training=False)).argmax(-1)
    names = tuple("abcdefghij")
    picture = np.random.default_rng(0).integers(0, 256, (9, 7, 3), np.uint8)
    Image.fromarray(picture).save(golden := tmp_path / "golden.png")
    options = {"threads": (1,), "labels": names, "calibrate": 16, "golden": golden}
    data, folder = (images, classes), tmp_path / "export"
    found = deploy.export_bundles(sample.model, folder, ["none", "int8"], data, 20, **options)
    assert (list(found.written), found.refused) == (["float32", "int8"], {})
    assert (read_golden(folder / "int8")[0]["image"] == picture).all()
    assert files(folder) == ["card.md", "float32", "int8", "plot.png", "table.json"]
    assert found.measured["int8"].latency[0].threads == 1
    bundle = deploy.open_bundle(folder / "int8")
    assert bundle.labels == names
    scores = bundle.predict(images)
    assert (scores.argmax(-1) == classes).mean() >= 0.9
    with pytest.raises(UsageError, match="inputs must be preprocessed"):
        bundle.predict(127.5 * images + 127.5)
    described = found.written["int8"]
    assert described["parity"]["images_from"] == "images of the data"
    assert (described["parity"]["images"], described["calibration"]["images"]) == (20, 16)
    assert described["weights_sha256"] == weights_sha256(sample.model)
    assert described["parameters"] == sample.model.count_params()


@pytest.mark.flavours
@pytest.mark.parametrize("output", ["logits", "probabilities"])
def test_a_binary_classifier_answers_in_its_bundle_as_in_keras(
    sample, trained_like, tmp_path, output
):
    model = trained_like(keras_vit.ViT(sample.model.spec, 1, (16, 24), labels=("daisy",)))
    head, logits = model.get_layer("head"), np.asarray(model(sample.images, training=False))[:, 0]
    head.bias.assign(head.bias - np.median(logits))
    images = sample.images[np.argsort(-logits)]  # the golden picture is the first
    expected = keras_vit.decode_predictions(model(images, training=False), model)
    assert [answers[0][0] for answers in expected] == ["daisy"] * 8 + ["not daisy"] * 8
    data, options = (images, np.repeat([1, 0], 8)), {"output": output, "threads": (1,)}
    found = deploy.export_bundles(model, tmp_path, "none", data, **options)
    description = found.written["float32"]
    assert (description["parity"]["accuracy"], description["parity"]["cosine"]) == (1, None)
    assert description["output"]["shape"] == [1, 1]
    bundle = deploy.open_bundle(tmp_path / "float32")
    scores = bundle.predict(images)
    answered = keras_vit.decode_predictions(scores, bundle, from_logits=bundle.from_logits)
    for actual, wanted in zip(answered, expected, strict=True):
        assert dict(actual) == pytest.approx(dict(wanted), abs=1e-5)
    check = deploy.check_golden(tmp_path / "float32")
    assert check.passed
    answers = check.expected, *(kernel.found for kernel in check.kernels)
    assert {check.labels[i] for i in answers} == {"daisy"}
    card = (tmp_path / "card.md").read_text()
    assert "Classes, 2: `not daisy`, `daisy`" in card
    assert description["output"]["meaning"] in card
    assert (description["output"]["activation"], description["output"]["exclusive"]) == (
        "sigmoid",
        True,
    )


@pytest.mark.slow
def test_a_model_of_100_000_classes_is_exported_with_its_labels_and_opened(sample, tmp_path):
    model = keras_vit.ViT(dataclasses.replace(sample.model.spec, depth=1), 100_000, 16)
    names = tuple(f"class {i}" for i in range(100_000))
    rng = np.random.default_rng(0)
    model.get_layer("head").kernel.assign(rng.normal(0, 0.1, model.get_layer("head").kernel.shape))
    deploy.export_bundles(model, tmp_path, "none", threads=(), labels=names)
    opened = deploy.open_bundle(tmp_path / "float32", trusted=False)
    assert opened.labels == names
    assert deploy.check_golden(tmp_path / "float32").passed


@pytest.mark.slow
def test_an_export_that_ends_before_its_report_leaves_no_report_of_other_files(
    sample, tmp_path, monkeypatch
):
    images = np.concatenate([sample.images, sample.converter.calibration])

    def export(*precisions, threads=(1,)):
        deploy.export_bundles(sample.model, tmp_path, precisions, images, threads=threads)

    export("none")
    export("dynamic")
    rows = {row["name"]: row for row in json.loads((tmp_path / "table.json").read_text())["rows"]}
    assert {name: row["earlier"] for name, row in rows.items()} == {"float32": 1, "dynamic": 0}
    assert all(row["measured"] for row in rows.values())
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("keras_vit.deploy.export.measure", Mock(side_effect=KeyboardInterrupt))
        export("float16")
    assert files(tmp_path) == ["dynamic", "float16", "float32"]
    export("none")
    assert {"table.json", "card.md", "plot.png"} < {*files(tmp_path)}
    export("none", threads=())  # nothing is measured, so there is no report
    assert files(tmp_path) == ["dynamic", "float16", "float32"]


def test_a_foreign_model_needs_a_preprocessing(foreign, inputs, tmp_path):
    with pytest.raises(UsageError, match="pass preprocessing=keras_vit.Preprocessing"):
        deploy.export_bundles(foreign, tmp_path / "out", "none", inputs, threads=())
    preprocessing = keras_vit.Preprocessing(16, 24)
    options = {"preprocessing": preprocessing, "input": "uint8", "threads": ()}
    found = deploy.export_bundles(foreign, tmp_path / "out", "none", inputs, **options)
    description, golden = deploy.read_bundle(tmp_path / "out" / "float32")
    assert description == found.written["float32"]
    assert not description["parity"]["rewritten"]
    assert golden["tensor"].dtype == np.uint8
    expected = np.asarray(foreign(keras_vit.preprocess(golden["image"], preprocessing)))[0]
    np.testing.assert_allclose(golden["scores"], expected, atol=1e-5)
    assert len(description["weights_sha256"]) == 64


@pytest.mark.slow
def test_the_model_is_freed_before_the_conversion(trained, tmp_path, monkeypatch):
    models, seen = [], []
    whole = converter.write_float_graph

    def load():
        model = keras_vit.ViT.from_config(trained.load().get_config())
        models.append(weakref.ref(model))
        model.set_weights(trained.load().get_weights())
        return model

    def watched(*graph):
        gc.collect()
        seen.append(models[-1]())
        return whole(*graph)

    monkeypatch.setattr(converter, "write_float_graph", watched)
    given = dataclasses.replace(trained, load=load)
    for _ in range(2):  # a model may be exported again
        deploy.export_bundles(given, tmp_path, ["none", "dynamic"], **QUICK)
    assert (len(models), seen) == (2, 4 * [None])
