"""Semantic segmentation: loss and metrics against other code, real runs, and their reports."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from sklearn.metrics import jaccard_score

import keras_vit
from keras_vit import UsageError, data, deploy, evaluation, training
from keras_vit._keras import keras
from keras_vit.data import Masks
from keras_vit.data.masks import NO_CLASS, sets_of
from keras_vit.data.source import ClassSets, InMemory
from keras_vit.evaluation.segmentation import report_of
from keras_vit.mask_metrics import confusion_of, mean_iou
from keras_vit.training import Recipe, Saving, prepared
from keras_vit.training.segmentation_task import (
    MeanIoU,
    PixelAccuracy,
    SemanticSegmentation,
    pixel_softmax,
)

CLASSES = 4
TINY = Recipe(
    task="segmentation", image_size=16, duration="12 steps", batch_size=8, learning_rate=5e-3,
    augment="zoom_flip", head_cells=4, jit=False, warmup="2 steps",
)  # fmt: skip
MODEL = {"patch_size": 8, "hidden_dim": 32, "depth": 1, "num_heads": 2, "mlp_dim": 48}


def squares(count=40, seed=0):
    """Pictures of a coloured square on grey, whose class is its colour, and a border without."""
    rng = np.random.default_rng(seed)
    pictures = np.full((count, 20, 20, 3), 90, np.uint8)
    masks = np.zeros((count, 20, 20), np.uint8)
    for picture, mask in zip(pictures, masks, strict=True):
        kind, (top, left) = rng.integers(1, CLASSES), rng.integers(0, 12, 2)
        picture[top : top + 8, left : left + 8] = 0
        picture[top : top + 8, left : left + 8, kind - 1] = 250
        mask[top : top + 8, left : left + 8] = NO_CLASS
        mask[top + 1 : top + 7, left + 1 : left + 7] = kind
    sets = sets_of(masks, CLASSES)
    return data.Source(
        name="squares",
        labels=("background", "red", "green", "blue"),
        ids=tuple(f"{i:02d}" for i in range(count)),
        targets=sets.rarest,
        image=InMemory(pictures),
        annotations=Masks(masks.__getitem__, sets),
    )


@pytest.fixture(scope="module")
def source():
    return squares()


def built(source, recipe=TINY, **fields):
    spec = keras_vit.ViTSpec(**MODEL, dense_head="linear", head_norm=True, **fields)
    spec = dataclasses.replace(spec, head_cells=recipe.head_cells)
    return keras_vit.ViT(spec, CLASSES, recipe.image_size, labels=source.labels)


@pytest.fixture(scope="module")
def opened(source):
    """A row in `SOURCES`, by which runs open their source."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(data.SOURCES, "squares", data.Opener(lambda: source))
        yield


@pytest.fixture(scope="module")
def run(source, opened, tmp_path_factory):
    folder = tmp_path_factory.mktemp("segmentation") / "run"
    recipe = dataclasses.replace(TINY, duration="120 steps", augment="none")
    return training.train(built(source, recipe), source, recipe, folder)


@pytest.fixture
def example(rng):
    masks = rng.integers(0, CLASSES, (3, 6, 5)).astype(np.uint8)
    masks[0, :3] = NO_CLASS
    masks[1] = NO_CLASS
    return masks, rng.normal(size=(3, 6, 5, CLASSES)).astype(np.float32)


@pytest.mark.flavours
def test_the_loss_is_the_cross_entropy_of_pixels_with_a_class(example):
    masks, scores = example
    log_p = scores - np.log(np.exp(scores.astype(np.float64)).sum(-1, keepdims=True))
    for i, actual in enumerate(np.asarray(pixel_softmax(masks, scores))):
        known = masks[i] != NO_CLASS
        losses = -log_p[i][known, masks[i][known]]
        assert actual == pytest.approx(losses.mean() if known.any() else 0, rel=1e-5)
    whole = SemanticSegmentation(CLASSES).loss()(masks, scores)
    assert float(whole) == pytest.approx(np.mean(pixel_softmax(masks, scores)), rel=1e-6)


@pytest.mark.flavours
def test_metrics_are_scikit_learns(example):
    masks, scores = example
    known, predicted = masks != NO_CLASS, scores.argmax(-1)
    expected = jaccard_score(masks[known], predicted[known], average="macro")
    metric = MeanIoU(CLASSES)
    metric.update_state(masks[:2], scores[:2])
    metric.update_state(masks[2:], scores[2:])
    assert float(metric.result()) == pytest.approx(expected, rel=1e-5)
    confusion = sum(confusion_of(m, p, CLASSES) for m, p in zip(masks, predicted, strict=True))
    assert mean_iou(confusion) == pytest.approx(expected, rel=1e-12)
    accuracy = PixelAccuracy()
    accuracy.update_state(masks, scores)
    expected = (predicted == masks)[known].mean()
    assert float(accuracy.result()) == pytest.approx(expected, rel=1e-6)


@pytest.mark.flavours
def test_images_of_no_weight_do_not_count(example):
    """The copies that fill the last batch of an evaluation."""
    masks, scores = example
    for metric in (lambda: MeanIoU(CLASSES), PixelAccuracy):
        one, other = metric(), metric()
        one.update_state(masks, scores, np.array([1, 1, 0], np.float32))
        other.update_state(masks[:2], scores[:2])
        assert float(one.result()) == float(other.result())


@pytest.mark.flavours
def test_a_run_learns_and_is_read_again(run, source):
    last = run.metrics()[-1]
    assert last["val_mean_iou"] > 0.6
    assert run.task == "segmentation"
    report = evaluation.held_out_report(run, source)
    assert report.mean_iou == pytest.approx(last["val_mean_iou"], abs=1e-6)
    assert report.accuracy == pytest.approx(last["val_accuracy"], abs=1e-6)
    # The same by hand, with the masks at the model's size.
    model, held_out = run.model(), run.split(source).held_out
    batches = data.evaluation_batches(source, held_out, model.preprocessing, 64)
    [(images, masks)] = batches
    inputs = (images.numpy() / 127.5 - 1).astype(np.float32)
    scores = model.predict(inputs, verbose=0)["scores"]
    assert scores.shape == (len(held_out), 8, 8, CLASSES)
    predicted = tf.image.resize(scores, (16, 16)).numpy().argmax(-1)
    masks = masks.numpy()
    known = masks < NO_CLASS
    by_hand = jaccard_score(masks[known], predicted[known], average="macro")
    assert report.mean_iou == pytest.approx(by_hand, abs=1e-4)


def test_a_stopped_run_goes_on_as_if_it_had_not_stopped(source, opened, tmp_path):
    """The norm's moving averages are part of the state."""
    half = dataclasses.replace(TINY, duration="4 steps", schedule="constant")
    longer, keep = dataclasses.replace(half, duration="8 steps"), {"checkpoint_every": "4 steps"}
    whole = training.train(built(source), source, longer, Saving(tmp_path / "whole", **keep))
    training.train(built(source), source, half, Saving(tmp_path / "half", **keep))
    resumed = training.train(
        built(source), source, longer, Saving(tmp_path / "half", resume=True, **keep)
    )
    for one, other in zip(whole.model().weights, resumed.model().weights, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def test_a_frozen_encoder_stays_as_it_is(source, tmp_path):
    model = built(source)
    before = {w.path: np.array(w) for w in model.weights}
    recipe = dataclasses.replace(TINY, freeze="body")
    run = training.train(model, source, recipe, tmp_path / "run")
    changed = {w.path for w in run.model().weights if not np.array_equal(before[w.path], w)}
    assert {path.split("/")[0] for path in changed} == {"head", "head_norm"}
    assert len(changed) == 6


@pytest.mark.flavours
def test_the_patches_of_a_frozen_encoder_are_computed_once(source, tmp_path, monkeypatch):
    """Training on kept features makes the same steps as on pictures."""
    recipe = dataclasses.replace(TINY, freeze="body", augment="none")
    model = built(source)
    start = model.get_weights()
    kept = training.train(model, source, recipe, tmp_path / "kept")
    model.set_weights(start)
    monkeypatch.setattr(prepared, "_MOST_FEATURES", 0)
    images = training.train(model, source, recipe, tmp_path / "images")
    for one, other in zip(kept.metrics(), images.metrics(), strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-5)
        assert one["val_mean_iou"] == pytest.approx(other["val_mean_iou"], abs=1e-4)
    for one, other in zip(kept.model().weights, images.model().weights, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), atol=1e-5)


def test_a_segmenter_is_built_by_name_and_from_a_classifier(tmp_path, source):
    recipe = dataclasses.replace(TINY, image_size=32, head_cells=2)
    centre = keras_vit.Preprocessing(32, 32, crop=0.9)
    classifier = keras_vit.create_model(
        "ViT_Pico4", num_classes=CLASSES, image_size=32, preprocessing=centre
    )
    keras_vit.save_weights(classifier, tmp_path / "weights.npz")
    model = training.build("ViT_Pico4", source.labels, recipe, tmp_path / "weights.npz")
    assert (model.spec.dense_head, model.spec.head_cells) == ("linear", 2)
    assert model.preprocessing.crop is None  # pixels at the edges need answers, too
    held = training.build(None, source.labels, recipe, tmp_path / "weights.npz")
    assert held.spec == model.spec
    # Its own head goes on, with its cells.
    keras_vit.save_weights(model, tmp_path / "own.npz")
    model.get_layer("head").bias.assign(np.arange(16.0))
    keras_vit.save_weights(model, tmp_path / "own.npz")
    longer = dataclasses.replace(recipe, head_cells=None)
    own = training.build(None, source.labels, longer, tmp_path / "own.npz")
    np.testing.assert_array_equal(own.get_layer("head").bias, np.arange(16.0))
    # And back.
    keras_vit.save_weights(model, tmp_path / "dense.npz")
    back = Recipe(image_size=32, dropout=None)
    again = training.build(None, source.labels, back, tmp_path / "dense.npz")
    assert again.output_shape == (None, CLASSES)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "sigmoid"}, "needs loss='softmax'"),
        ({"loss": "mae"}, "task is for training with classes"),
        ({"mixup": 0.2}, "mixup is for task='classification'"),
        ({"distillation": "soft"}, "distillation is for task='classification'"),
        ({"augment": "randaugment_2_10"}, "masks do not follow"),
        ({"task": "classification", "head_cells": 2}, "head_cells is for task='segmentation'"),
        ({"task": "segmentatoin"}, "must be one of classification, segmentation"),
    ],
)
def test_settings_that_do_not_fit_the_task_are_refused(settings, message):
    with pytest.raises(UsageError, match=message):
        dataclasses.replace(TINY, **settings)


def test_a_model_and_a_source_must_fit_the_task(source, tmp_path):
    with pytest.raises(UsageError, match="is a ResNet, task='segmentation' needs the patches"):
        training.train("BiT_R8x1", source, TINY, tmp_path / "run")
    with pytest.raises(UsageError, match="squares is for task='segmentation'"):
        recipe = Recipe(image_size=16, batch_size=8, duration="3 steps")
        training.train(keras_vit.ViT(keras_vit.ViTSpec(**MODEL), 4, 16), source, recipe, tmp_path)
    with pytest.raises(UsageError, match="digits is for task='classification'"):
        training.train("ViT_Pico4", data.open_source("digits"), TINY, tmp_path / "run")
    with pytest.raises(UsageError, match="Received: a model with dense_head='none'"):
        training.train(
            keras_vit.ViT(keras_vit.ViTSpec(**MODEL), 4, 16), source, TINY, tmp_path / "run"
        )


def test_the_report_shows_the_worst_pictures(run, source, opened):
    report, page = evaluation.evaluate(run)
    content = json.loads(page.with_name("report.json").read_text())
    assert content["mean_iou"] == report.mean_iou
    ious = [each["mean_iou"] for each in content["pictures"]]
    assert ious == sorted(ious)
    assert len(ious) == content["images"] == len(run.split(source).held_out)
    text = page.read_text()
    assert f"{report.mean_iou:.2%}" in text
    assert text.count("predicted mask of") == min(12, len(ious)) + 6
    assert "background: #800000" in text  # the first colour of VOC's masks
    assert report.headline.startswith("held-out mean IoU")
    assert sum(map(sum, report.confusion)) < 16 * 16 * len(ious)  # pixels without a class


def test_a_class_that_takes_all_pixels_is_a_warning():
    labels = ("background", "cat", "dog")
    everything = report_of(np.array([[90, 0, 0], [6, 0, 0], [4, 0, 0]]), labels, 5, [])
    assert "background takes 100.0% of the pixels" in everything.warning()
    assert everything.mean_iou == pytest.approx(0.9 / 3)
    no_dogs = report_of(np.array([[90, 0, 0], [2, 4, 0], [2, 2, 0]]), labels, 5, [])
    assert no_dogs.warning().startswith("1 of 3 classes was never found in the held-out pictures")
    absent = report_of(np.array([[90, 1, 0], [1, 8, 0], [0, 0, 0]]), labels, 5, [])
    assert absent.warning() is None
    assert absent.classes[2]["iou"] is None
    assert absent.mean_iou == pytest.approx((90 / 92 + 8 / 10) / 2)


def test_its_file_has_the_mean_iou_of_the_report(run, tmp_path):
    source = run.source()
    report = evaluation.segmentation_report(run.model(), source, run.split(source).held_out)
    bundles = deploy.export_bundles(run.path, tmp_path, ["none", "int8"], threads=())
    for name in ("float32", "int8"):
        parity = bundles.written[name]["parity"]
        assert parity["images"] == report.images
        assert parity["keras_mean_iou"] == pytest.approx(report.mean_iou, abs=1e-6)
        assert parity["keras_accuracy"] == pytest.approx(report.accuracy, abs=1e-6)
        assert abs(parity["drop"]) < (1e-3 if name == "float32" else 5)


def test_predict_writes_the_masks_of_a_run_and_of_its_weights(run, invoke, tmp_path):
    source, model = run.source(), run.model()
    Image.fromarray(source.image(0)).resize((60, 40)).save(tmp_path / "a.png")
    inputs = keras_vit.preprocess([tmp_path / "a.png"], model)
    [mask] = keras_vit.decode_masks(model.predict(inputs, verbose=0), model, [(40, 60)])
    for kind, path in (("run", run.path), ("weights", run.path / "weights.npz")):
        words = (f"--{kind}", path, "a.png", "--out", kind)
        code, out, error = invoke("train/predict.py", *words, cwd=tmp_path)
        assert code == 0, error
        np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / kind / "masks/a.png")), mask)
        assert ("to_tflite.py" in out) == (kind == "run")
    _, out, _ = invoke("train/predict.py", "--run", run.path, "a.png", cwd=tmp_path)
    assert out.splitlines()[-1].endswith(f"predict.py --run {run.path} a.png --out predicted")


def test_a_model_is_compared_with_masks_of_some_of_its_classes(run, tmp_path):
    own, model = run.source(), run.model()
    one = deploy.trained_model.of_model(lambda: model, own)
    names = [own.labels[place] for place in (2, 0, 3, 1)]
    order = np.array([names.index(label) for label in own.labels])
    other = dataclasses.replace(
        own,
        labels=tuple(names),
        targets=order[own.targets],
        annotations=own.annotations.renumbered(order, CLASSES),
    )
    assert not np.array_equal(other.annotations.mask(0), own.annotations.mask(0))
    back = deploy.trained_model.of_model(lambda: model, other)
    options = deploy.export_options.ExportOptions("int8", 8)
    found = [each.samples(options).compared.targets for each in (one, back)]
    np.testing.assert_array_equal(*found)
    assert found[0].dtype == np.uint8
    np.testing.assert_array_equal(
        np.asarray(back.source.annotations.sets), np.asarray(own.annotations.sets)
    )
    unknown = dataclasses.replace(own, labels=("a", "b", "c", "d"))
    assert not deploy.trained_model.of_model(lambda: model, unknown).labelled


def test_only_classifiers_are_probed(run, source):
    with pytest.raises(UsageError, match="accuracy_on: expected a classifier"):
        evaluation.accuracy_on(run.model(), source, np.arange(3))
    with pytest.raises(UsageError, match="squares, whose images have several classes"):
        evaluation.split_features(run.model(), run.source(), run.split(run.source()))


def test_masks_of_rare_classes_are_in_both_parts():
    source = squares(60, seed=3)
    split = data.split_source(source)
    for part in (split.train, split.held_out):
        assert (np.asarray(source.annotations.sets)[part].sum(0) > 0).all()


def test_pictures_that_are_alone_with_their_rarest_class_are_divided_too():
    masks = np.zeros((10, 2, 2), np.uint8)
    masks[:, 0, 0] = np.arange(1, 11)
    sets = sets_of(masks, 11)

    def some(count):
        return data.Source(
            name="alone", labels=tuple("abcdefghijk"), ids=tuple(map(str, range(count))),
            targets=sets.rarest[:count], image=InMemory(np.zeros((count, 2, 2, 3), np.uint8)),
            annotations=Masks(masks.__getitem__, ClassSets.of_rows(sets[:count])),
        )  # fmt: skip

    assert len(data.split_source(some(10)).held_out) == 2
    assert len(data.split_source(some(2)).held_out) == 1
    with pytest.raises(UsageError, match="expected two annotated pictures or more.* Received: 1"):
        data.split_source(some(1))


def test_upsampled_scores_are_trained_with_jit(source, tmp_path):
    """A compiled step computes the same as one that is not, with a resize in it."""
    losses = []
    for jit in (False, True):
        keras.utils.set_random_seed(0)
        recipe = dataclasses.replace(TINY, jit=jit, duration="3 steps", warmup="1 steps")
        run = training.train(built(source), source, recipe, tmp_path / f"{jit}")
        losses.append(run.metrics()[-1]["loss"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
