"""Class weights, balanced sampling, warnings of unbalanced classes, and several in an image."""

import dataclasses
import io
import json

import numpy as np
import pytest
from PIL import Image

from keras_vit import UsageError, deploy, evaluation, training
from keras_vit.cli import predict
from keras_vit.data import Source, open_source, split_source, training_batches
from keras_vit.training import Recipe
from keras_vit.training.tasks import MultiLabel, SingleLabel

TINY = Recipe(image_size=16, duration="2 epochs", batch_size=4, augment="none", jit=False)
SEVERAL = Recipe(
    image_size=16, duration="60 steps", batch_size=16, learning_rate=3e-3, augment="none",
    loss="sigmoid", jit=False,
)  # fmt: skip


def imbalanced(counts):
    """Images in memory: `counts[i]` images of class i, all of one colour."""
    targets = np.repeat(np.arange(len(counts)), counts)
    return Source(
        name="colours", labels=tuple("abc"), ids=tuple(map(str, range(len(targets)))),
        targets=targets, image=lambda i: np.full((8, 8, 3), 80 * targets[i], np.uint8),
    )  # fmt: skip


def test_balanced_weights_equal_those_of_scikit_learn():
    from sklearn.utils.class_weight import compute_class_weight

    targets = np.repeat([0, 1, 2], [30, 5, 1])
    actual = training.balanced_weights(targets, 3)
    expected = compute_class_weight("balanced", classes=np.arange(3), y=targets)
    np.testing.assert_allclose([actual[i] for i in range(3)], expected)
    assert np.mean([actual[target] for target in targets]) == pytest.approx(1)
    # A class without training images has no weight.
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
def test_class_weights_scale_the_training_loss_and_not_the_validation(train_tiny, kind):
    # The head starts at zero, so without class weights the loss of each image is log(classes).
    source = imbalanced((20, 5, 2))
    recipe = dataclasses.replace(
        TINY, duration="1 step", warmup="0 steps", learning_rate=0.0, batch_size=8,
        class_weights=kind, label_smoothing=0.1,
    )  # fmt: skip
    run = train_tiny(recipe, source=source)
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


def test_few_images_and_strong_imbalance_are_warned_of():
    warning = training.few_images_warning(("many", "few", "fewest"), (1000, 9, 3))
    assert warning.startswith("2 of 3 classes have fewer than 10 images, fewest has 3. ")
    assert training.few_images_warning(("many", "enough"), (1000, 10)) is None
    warning = training.imbalance_warning(("common", "rare"), (1200, 120))
    assert "common has 1,200 images, rare 120" in warning
    assert warning.endswith("set class_weights='balanced'.")
    assert training.imbalance_warning(("common", "rare"), (1199, 120)) is None


@pytest.fixture
def scenes(tmp_path, rng):
    """TFRecords whose images have a bright left, a bright top, a red tint, or several of them."""
    tf = pytest.importorskip("tensorflow", reason="it writes the records")
    with tf.io.TFRecordWriter(str(tmp_path / "scenes.tfrecord")) as writer:
        for _ in range(120):
            classes = np.flatnonzero(rng.random(3) < 0.5)
            if not len(classes):
                continue
            pixels = rng.integers(0, 60, (16, 16, 3))
            pixels[:, :8] += 80 * (0 in classes)
            pixels[:8] += 80 * (1 in classes)
            pixels[..., 0] += 30 * (2 in classes)
            stream = io.BytesIO()
            Image.fromarray(pixels.astype(np.uint8)).save(stream, "PNG")
            names = [("left", "top", "red")[i].encode() for i in classes]
            features = {
                "image/encoded": {"bytes_list": {"value": [stream.getvalue()]}},
                "image/class/label": {"int64_list": {"value": classes}},
                "image/class/text": {"bytes_list": {"value": names}},
            }
            example = tf.train.Example(features={"feature": features})
            writer.write(example.SerializeToString())
    return open_source(f"tfrecords:{tmp_path}")


@pytest.mark.slow
def test_a_model_learns_each_class_on_its_own(scenes, train_tiny, tmp_path, capsys):
    run = train_tiny(SEVERAL, source=scenes)
    report, page = evaluation.evaluate(run)
    assert report.mean_average_precision > 0.9
    assert report.accuracy == pytest.approx(run.metrics()[-1]["val_accuracy"], abs=1e-6)
    html = page.read_text(encoding="utf-8")
    assert f"<dd>{report.mean_average_precision:.2%}</dd>" in html
    assert "Confusion" not in html

    both = scenes.image(int(np.flatnonzero(scenes.multi_hot[:].all(-1))[0]))
    Image.fromarray(both).save(tmp_path / "both.png")
    predict.run(predict.Arguments((tmp_path / "both.png",), run=run.path, json=True))
    predictions = json.loads(capsys.readouterr().out)["predictions"]
    assert sum(each["probability"] for each in predictions) > 1.5

    bundles = deploy.export_bundles(run.path, tmp_path / "bundles", threads=())
    assert bundles.written["float32"]["parity"]["accuracy"] is None


SOFTMAX = {"loss": "softmax"}
SMOOTHED = {"loss": "softmax", "label_smoothing": 0.1}


@pytest.mark.parametrize(
    ("change", "task", "message"),
    [
        (SOFTMAX, None, "have several classes, which need loss='sigmoid'"),
        ({"sampling": "balanced"}, None, "sampling='balanced' needs one class for each image"),
        (SOFTMAX, MultiLabel(3), "MultiLabel is for loss='sigmoid'. Received: loss='soft"),
        (SMOOTHED, SingleLabel(3), "label_smoothing=0.1. Received: a task with .*=0.0"),
    ],
)
def test_settings_for_one_class_or_another_task_are_refused(
    scenes, train_tiny, tmp_path, change, task, message
):
    with pytest.raises(UsageError, match=message):
        train_tiny(SEVERAL, source=scenes, task=task, **change)
    assert not (tmp_path / "run").exists()
