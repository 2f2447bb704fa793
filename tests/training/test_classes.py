"""Class weights, balanced sampling and the warning of unbalanced classes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from keras_vit import evaluation, training
from keras_vit.data import Source, split_source, training_batches
from keras_vit.training import Recipe, train

TINY = Recipe(image_size=16, duration="2 epochs", batch_size=4, augment="mild_crop_flip", jit=False)


def imbalanced(counts, colours=((200, 30, 30), (30, 200, 30), (30, 30, 200))):
    """Images in memory: `counts[i]` images of class i, all of one colour."""
    targets = np.repeat(np.arange(len(counts)), counts)
    return Source(
        name="colours",
        labels=tuple("abc"[: len(counts)]),
        ids=tuple(f"{target}/{i}" for i, target in enumerate(targets)),
        targets=targets,
        image=lambda i: np.full((8, 8, 3), colours[targets[i]], np.uint8),
    )


def test_balanced_weights_equal_those_of_scikit_learn():
    from sklearn.utils.class_weight import compute_class_weight

    targets = np.repeat([0, 1, 2], [30, 5, 1])
    actual = training.balanced_weights(targets, 3)
    expected = compute_class_weight("balanced", classes=np.arange(3), y=targets)
    np.testing.assert_allclose([actual[i] for i in range(3)], expected)
    assert np.mean([actual[target] for target in targets]) == pytest.approx(1)


def test_a_class_without_training_images_has_no_weight():
    weights = training.balanced_weights(np.array([0, 0, 0, 2]), 3)
    assert weights == {0: pytest.approx(4 / 6), 1: 0.0, 2: pytest.approx(2)}


@pytest.mark.flavours
def test_class_weights_of_mixed_and_smoothed_targets_act_on_each_class(rng):
    logits = rng.normal(size=(4, 3)).astype(np.float32)
    targets = np.array([[1, 0, 0], [0.3, 0.7, 0], [0, 0.2, 0.8], [0, 1, 0]], np.float32)
    weights = (0.5, 4.0, 2.0)
    shifted = logits - logits.max(-1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    smooth = targets * 0.9 + 0.1 / 3
    task = training.SingleLabel(3, 0.1, weights)
    expected = -(np.array(weights) * smooth * logs).sum(-1).mean()
    assert float(task.loss()(targets, logits)) == pytest.approx(expected, rel=1e-5)
    plain = -(smooth * logs).sum(-1).mean()
    assert float(task.loss(training=False)(targets, logits)) == pytest.approx(plain, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["none", "balanced"])
def test_class_weights_scale_the_training_loss_and_not_the_validation(tiny_model, tmp_path, kind):
    # The head starts at zero, so without class weights the loss of each image is log(classes).
    source = imbalanced((20, 5, 2))
    recipe = dataclasses.replace(
        TINY, duration="1 step", warmup="0 steps", learning_rate=0.0, batch_size=8,
        augment="none", class_weights=kind, label_smoothing=0.1,
    )  # fmt: skip
    run = train(tiny_model, source, recipe, tmp_path / "run")
    split = split_source(source, recipe.held_out)
    model = run.model()
    batches = training_batches(source, split.train, model.preprocessing, 8, 1, "none", recipe.seed)
    (_, targets), *_ = batches.as_numpy_iterator()
    weights = training.balanced_weights(source.targets[split.train], 3)
    # The smoothed part of a target has the mean of all classes' weights.
    smoothed = [0.9 * weights[target] + 0.1 * np.mean(list(weights.values())) for target in targets]
    mean = np.mean(smoothed) if kind == "balanced" else 1.0
    assert kind == "none" or abs(mean - 1) > 0.05
    record = run.metrics()[-1]
    assert record["loss"] == pytest.approx(np.log(3) * mean, rel=1e-5)
    assert record["val_loss"] == pytest.approx(np.log(3), rel=1e-5)


@pytest.mark.slow
def test_balanced_classes_let_a_rare_class_be_learned(tiny_model, tmp_path):
    # The two colours are so similar that a short training predicts only the frequent class.
    source = imbalanced((60, 5), colours=((120, 120, 120), (130, 120, 120)))
    recalls = {}
    for kind in ("none", "balanced"):
        recipe = dataclasses.replace(
            TINY, duration="12 steps", batch_size=16, augment="none", class_weights=kind
        )
        run = train(tiny_model, source, recipe, tmp_path / kind)
        recalls[kind] = evaluation.held_out_report(run, source).classes[1]["recall"]
    assert recalls == {"none": 0.0, "balanced": 1.0}


def test_the_warning_of_few_images_names_the_smallest_class():
    warning = training.few_images_warning(("many", "few", "fewest"), (1000, 9, 3))
    assert warning.startswith("2 of 3 classes have fewer than 10 images, fewest has 3. ")
    assert training.few_images_warning(("many", "enough"), (1000, 10)) is None


def test_the_warning_of_strong_imbalance_has_advice():
    warning = training.imbalance_warning(("common", "rare"), (1200, 120))
    assert "common has 1,200 images, rare 120" in warning
    assert warning.endswith("set class_weights='balanced'.")
    assert training.imbalance_warning(("common", "rare"), (1199, 120)) is None
