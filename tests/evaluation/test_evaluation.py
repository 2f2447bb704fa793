"""Evaluation: metrics and rollout equal values computed by hand, and the page shows them."""

import dataclasses
import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import keras_vit
from keras_vit import UsageError, evaluation, preprocess, runs
from keras_vit._json import Table, TableRow
from keras_vit._pages import rendered
from keras_vit.data import open_source, split_source
from keras_vit.evaluation import plots
from keras_vit.tflite.phone_records import MeasuredOnPhones
from keras_vit.training import Recipe


def test_metrics_equal_values_computed_by_hand():
    targets = np.array([0, 0, 0, 1, 1, 2])
    predicted = np.array([0, 0, 1, 1, 1, 0])
    actual = evaluation.classification_report(predicted, targets, ("a", "b", "c"))
    assert actual.accuracy == pytest.approx(4 / 6)
    first, second, third = actual.classes
    two_thirds = {"precision": 2 / 3, "recall": 2 / 3, "f1": 2 / 3}
    assert first == pytest.approx({"label": "a", **two_thirds, "support": 3})
    assert (second["precision"], second["recall"]) == pytest.approx((2 / 3, 1))
    assert (third["precision"], third["recall"], third["f1"], third["support"]) == (0, 0, 0, 1)
    assert actual.macro["recall"] == pytest.approx((2 / 3 + 1 + 0) / 3)
    assert actual.weighted["recall"] == pytest.approx(4 / 6)
    assert actual.confusion == [[2, 1, 0], [0, 2, 0], [1, 0, 0]]


def test_metrics_of_several_classes_equal_values_computed_by_hand():
    logits = np.array([[2.0, -1, -3], [1, 3, -2], [-2, 1, -1], [-1, -4, -2]])
    classes = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]], np.uint8)
    actual = evaluation.multi_label_report(logits, classes, ("a", "b", "c"))
    assert actual.accuracy == 3 / 4  # the second image's highest logit is not its class
    first, second, third = actual.classes
    assert first == pytest.approx(
        {"label": "a", "precision": 1, "recall": 2 / 3, "f1": 0.8, "support": 3}
    )
    assert (second["precision"], second["recall"], second["support"]) == (0.5, 0.5, 2)
    assert (third["recall"], third["support"]) == (0, 0)
    # By logit: a is 1 1 1 0; b is 0 1 0 1, precisions 1/2 and 2/4 at its two images; c is absent.
    assert actual.mean_average_precision == pytest.approx((1 + 1 / 2) / 2)
    assert actual.confusion == []
    assert actual.headline == "held-out accuracy 75.00%, mean average precision 75.00%"
    assert evaluation.recall_warning(actual) is None


def test_the_warning_names_classes_that_are_never_recognised_and_has_advice():
    targets = np.array([0, 0, 0, 1, 1, 2])
    predicted = np.array([0, 0, 1, 0, 0, 0])
    report = evaluation.classification_report(predicted, targets, ("a", "b", "c", "unseen"))
    assert report.never_recognised() == ["b (0 of 2)", "c (0 of 1)"]
    assert evaluation.recall_warning(report) == (
        "2 of 4 classes were never recognised among the held-out images: b (0 of 2), c (0 of 1). "
        "Add images of them, or train with class_weights='balanced'."
    )
    assert evaluation.recall_warning(report, False).endswith("or train longer.")
    perfect = evaluation.classification_report(targets, targets, ("a", "b", "c"))
    assert evaluation.recall_warning(perfect) is None
    many = tuple(map(str, range(100)))
    none = evaluation.classification_report(np.zeros(99, int), np.arange(1, 100), many)
    assert len(evaluation.recall_warning(none)) < 250


def test_rollout_equals_values_computed_by_hand():
    # Two layers, one head, a class token and two patches. Layer 1 moves patch 2 into patch 1,
    # layer 2 moves patch 1 into the class token.
    identity = np.eye(3)
    first, second = identity.copy(), identity.copy()
    first[1] = [0, 0, 1]
    second[0] = [0, 1, 0]
    weights = np.stack([first, second])[:, None, None]
    # Half of each layer is the residual. The class token reads patch 1, which is half patch 2.
    np.testing.assert_allclose(evaluation.rollout(weights, prefix=1), [[1, 1]])
    weights[0, 0, 0, 1] = [0, 1, 0]  # no longer
    np.testing.assert_allclose(evaluation.rollout(weights, prefix=1), [[1, 0]])


def test_attention_map_finds_what_the_class_token_reads(small_spec):
    model = keras_vit.ViT(small_spec, 2, (16, 24))
    for name in ("encoderblock_0", "encoderblock_1"):
        attention = model.get_layer(name).attention
        for projection in (attention.query, attention.key):
            projection.kernel.assign(np.eye(48, dtype=np.float32) * 3)
    encoder = model.get_layer("patch_encoder")
    encoder.projection.kernel.assign(np.zeros(encoder.projection.kernel.shape, np.float32))
    positions = np.random.default_rng(0).normal(size=(1, 7, 48)).astype(np.float32)
    positions[0, 5] = positions[0, 0]  # the class token sits where patch 4 does
    encoder.positions.assign(positions)
    image = np.zeros((1, 16, 24, 3), np.float32)
    actual = evaluation.attention_maps(model, image)
    assert actual.shape == (1, 2, 3)
    assert np.unravel_index(actual[0].argmax(), (2, 3)) == (1, 1)
    assert actual.max() == 1


@pytest.fixture(scope="module")
def evaluated(trained_run, tmp_path_factory):
    folder = shutil.copytree(trained_run.path, tmp_path_factory.mktemp("evaluated") / "run")
    return evaluation.evaluate(runs.open_run(folder))


def test_the_report_has_the_accuracy_that_training_measured(evaluated, trained_run):
    report, path = evaluated
    found = evaluation.held_out_report(trained_run, trained_run.source())
    assert found == dataclasses.replace(report, wrong=[])
    assert report.accuracy == pytest.approx(trained_run.metrics()[-1]["val_accuracy"], abs=1e-6)
    assert np.trace(report.confusion) == round(report.accuracy * 359)
    stored = json.loads((path.parent / "report.json").read_text())
    assert stored == {"format": 1, "images": 359, **dataclasses.asdict(report)}


def test_each_wrong_picture_has_its_file(split_run):
    report, path = evaluation.evaluate(split_run, split="test")
    source, model = split_run.source(), split_run.model()
    assert 0 < len({each.path for each in report.wrong}) == round(10 * (1 - report.accuracy))
    for file, label, prediction, stated in map(dataclasses.astuple, report.wrong):
        scores = model(preprocess(file, model))
        [[(name, probability)]] = keras_vit.decode_predictions(scores, source.labels, top=1)
        assert (label, prediction) == (Path(file).parent.name, name) != (name, label)
        assert f'title="{file}">{Path(file).name}<' in path.read_text()
        assert stated == pytest.approx(probability)
    certain = [each.probability for each in report.wrong]
    assert certain == sorted(certain, reverse=True)


@pytest.fixture
def split_run(shared_folder, small_spec, randomised, tmp_path):
    """A run on pictures with train/, val/ and test/, which was not trained."""
    for place in ("train", "val", "test"):
        shutil.copytree(shared_folder, tmp_path / "flowers" / place)
    for name in ("0.jpg", "1.png"):  # a split with an accuracy and a size of its own
        (tmp_path / "flowers" / "test" / "red" / name).unlink()
    source = open_source(tmp_path / "flowers")
    model = randomised(keras_vit.ViT(small_spec, 2, 16))
    recipe = {"recipe": dataclasses.asdict(Recipe())}
    path = tmp_path / "run"
    runs.create_run(path, model, source, split_source(source), recipe, "fresh")
    return runs.open_run(path)


def test_a_test_split_that_training_does_not_use_judges_the_run(split_run, parsed):
    report, path = evaluation.evaluate(split_run, split="test")
    source, model = split_run.source(), split_run.model()
    places = [i for i, name in enumerate(source.ids) if name.startswith("test/")]
    images = [preprocess(source.image(i)[None], model)[0] for i in places]
    predicted = np.asarray(model(np.stack(images))).argmax(-1)
    assert len(places) == 10
    assert report.accuracy == pytest.approx((predicted == source.targets[places]).mean())
    assert report.headline.startswith(f"test accuracy {report.accuracy:.2%} (")
    assert path.parent == split_run.path / "report-test"
    assert json.loads((path.parent / "report.json").read_text())["split"] == "test"
    text = parsed(path.read_text()).text
    assert "Test accuracy" in text
    assert "34, of them 10 for testing" in text
    assert "held" not in text.lower()
    same, path = evaluation.evaluate(split_run, split="validation")
    held_out, _ = evaluation.evaluate(split_run)
    assert dataclasses.replace(same, split="held_out") == held_out
    assert path.parent.name == "report-validation"


@pytest.mark.slow
def test_the_average_of_the_weights_is_judged_where_there_is_one(split_run, small_spec, parsed):
    with pytest.raises(UsageError, match=r"no average of its weights \(weights_ema.npz\); train"):
        evaluation.evaluate(split_run, average=True)
    other = keras_vit.ViT(small_spec, 2, 16)  # its head is zero: it always answers the first class
    keras_vit.save_weights(other, split_run.path / runs.AVERAGE)
    report, path = evaluation.evaluate(split_run, split="test", average=True)
    assert [each["recall"] for each in report.classes] == [1, 0]
    assert report.headline == "test accuracy 60.00% (6 of 10) with the average of the weights"
    assert path.parent.name == "report-test-average"
    assert "their average over the steps" in parsed(path.read_text()).text
    assert evaluation.held_out_report(split_run, split_run.source(), average=True).accuracy == 0.5
    last, path = evaluation.evaluate(split_run)
    assert path.parent.name == "report"
    assert [each["recall"] for each in last.classes] != [1, 0]


def test_a_split_that_cannot_judge_the_run_is_refused(split_run, trained_run):
    with pytest.raises(UsageError, match=r"digits declares no splits. Received: split='test'"):
        trained_run.images(trained_run.source(), "test")
    source = split_run.source()
    without = {name: source.splits[name] for name in ("train", "validation")}
    with pytest.raises(UsageError, match=r"the splits train and validation. Received: split='te"):
        split_run.images(dataclasses.replace(source, splits=without), "test")
    mixed = {**source.splits, "test": np.array([0, 33])}
    with pytest.raises(UsageError, match=r"was trained on 1 images of split='test'"):
        split_run.images(dataclasses.replace(source, splits=mixed), "test")


def test_the_page_has_every_part(evaluated, parsed):
    report, path = evaluated
    actual = parsed(path.read_text())
    for part in (f"{report.accuracy:.2%}", "Curves", "Classes", "Confusion", "Wrong", "Attention"):
        assert part in actual.text
    wrong = 359 - np.trace(report.confusion)
    assert f"{wrong} in all" in actual.text
    assert len(actual.images) == 3 + min(wrong, 24) + 2 * 8
    # A dark page inverts plots, and no pictures.
    assert [image.get("class") for image in actual.images[:4]] == ["plot"] * 3 + [None]


def page_of(label, **values):
    """The page of a report on one image of one class."""
    report = evaluation.classification_report(np.array([0]), np.array([0]), (label,))
    nothing = {
        "title": "", "facts": {}, "curves": {}, "confusion": None, "mistakes": (), "pictures": (),
        "attention": (), "layers": (), "exports": None, "phones": None,
    }  # fmt: skip
    return rendered("evaluation/report.html.j2", **{**nothing, "report": report, **values})


def test_page_escapes_what_comes_from_folders(parsed):
    label = '<script>alert("x")</script>'
    mistakes = [evaluation.Mistake(f"{label}/1.jpg", label, label, 1.0)]
    text = page_of(
        label, title=label, facts={label: label}, mistakes=mistakes, pictures=[b""],
        attention=[(b"", b"", label, label)], curves={label: b""},
    )  # fmt: skip
    page = parsed(text)
    assert page.text.count(label) == 8
    assert [image["alt"].count(label) for image in page.images] == [1, 2, 1, 1]


def test_exports_and_mistakes_are_shown_where_there_are_any(parsed):
    row = TableRow("int8", 2048, accuracy=0.98, agreement=0.99, max_difference=0.1, latency_ms=1.5)
    exports = Table("x86_64", 5, [row])
    text = page_of("a", exports=exports, phones=MeasuredOnPhones((), (), ()))
    assert {"int8", "98.00%", "99.00%", "2", "1.50"} <= set(parsed(text).text.split())
    assert "keras-vit bench --bundle RUN/export/int8" in text
    phones = MeasuredOnPhones(["phone", "warm ms"], [["<b>", "98.76"]], ["<i>: int8 on GPU"])
    page = parsed(page_of("a", exports=exports, phones=phones))
    assert {"phone", "<b>", "98.76"} <= set(page.text.split())
    assert "Refused, because its scores differ too much: <i>: int8 on GPU." in page.text
    assert "keras-vit bench" not in page.text
    empty = page_of("a")
    assert "Exports" not in empty
    assert "None of the held-out images" in empty  # is wrong


def test_overlay_is_bright_where_attention_is():
    image = np.full((32, 32, 3), 200, np.uint8)
    attention = np.zeros((4, 4))
    attention[0, 0] = 1
    actual = np.asarray(Image.open(io.BytesIO(plots.overlay(image, attention, side=64))))
    assert actual.shape == (64, 64, 3)
    assert actual[4, 4].mean() > 150 > 70 > actual[60, 60].mean()


def test_tiny_pictures_are_enlarged_in_blocks(rng):
    image = rng.integers(0, 255, (8, 4, 3)).astype(np.uint8)
    actual = np.asarray(Image.open(io.BytesIO(plots.picture(image, side=64))))
    np.testing.assert_array_equal(actual, image.repeat(8, 0).repeat(8, 1))


def test_names_with_dollars_and_in_any_script_stay_text(recwarn):
    svg = plots.confusion([[1, 0], [0, 1]], ("$_$", "菊花")).decode()
    assert ">$_$<" in svg
    assert ">菊花<" in svg
    assert not recwarn.list


def test_plots_take_one_epoch_and_many_long_class_names():
    record = {"step": 10, "loss": 1.0, "val_loss": 1.0, "accuracy": 0.5, "val_accuracy": 0.5}
    assert plots.curve([record], "loss").startswith(b"<?xml")
    # Training that was stopped before an evaluation has no training metrics for the epoch.
    stopped = {"step": 400, "val_loss": 1.0, "val_accuracy": 0.5}
    svg = plots.curve([record, stopped], "loss").decode()
    assert ">steps<" in svg
    assert ">400<" in svg
    labels = tuple(f"a very long name of class number {i}" for i in range(60))
    assert plots.confusion(np.eye(60, dtype=int).tolist(), labels).startswith(b"<?xml")
