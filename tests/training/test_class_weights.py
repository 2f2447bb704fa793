"""Class weights, balanced sampling, warnings of unbalanced classes, and several in an image."""

import json

import numpy as np
import pytest
from PIL import Image
from scipy.special import log_softmax

from keras_vit import UsageError, deploy, evaluation, training
from keras_vit.cli import predict
from keras_vit.data import SOURCES, Opener, Source, Split
from keras_vit.training import Recipe
from keras_vit.training.tasks import MultiLabel, SingleLabel

TINY = Recipe(image_size=16, duration="2 epochs", batch_size=4, augment="none", jit=False)
SEVERAL = Recipe(
    image_size=16, duration="60 steps", batch_size=16, learning_rate=3e-3, augment="none",
    loss="sigmoid", jit=False,
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
    logs, smooth = log_softmax(logits, -1), targets * 0.9 + 0.1 / 3
    task = training.SingleLabel(3, 0.1, weights)
    expected = -(np.array(weights) * smooth * logs).sum(-1).mean()
    assert float(task.loss()(targets, logits)) == pytest.approx(expected, rel=1e-5)
    plain = -(smooth * logs).sum(-1).mean()
    assert float(task.loss(training=False)(targets, logits)) == pytest.approx(plain, rel=1e-5)


@pytest.mark.slow
# The mean of the weights 0.625 and 2.5 of four of five images, with the rare one or without it.
@pytest.mark.parametrize(("kind", "means"), [("none", [1.0]), ("balanced", [0.625, 1.09375])])
def test_class_weights_scale_the_training_loss_and_not_the_validation(train_tiny, kind, means):
    # The head stays at zero, so without class weights the loss of each image is log(classes).
    split = Split(train=np.array([0, 1, 2, 3, 6]), held_out=np.array([4, 7, 8]))
    still = {"duration": "1 step", "warmup": "0 steps", "learning_rate": 0.0}
    (record,) = train_tiny(TINY, split=split, class_weights=kind, **still).metrics()
    mean = record["loss"] / np.log(2)
    assert min(abs(mean - each) for each in means) < 1e-5, mean
    assert record["val_loss"] == pytest.approx(np.log(2), rel=1e-5)


def test_few_images_and_strong_imbalance_are_warned_of():
    warning = training.few_images_warning(("many", "few", "fewest"), (1000, 9, 3))
    assert warning.startswith("2 of 3 classes have fewer than 10 images, fewest has 3. ")
    assert training.few_images_warning(("many", "enough"), (1000, 10)) is None
    warning = training.imbalance_warning(("common", "rare"), (1200, 120))
    assert "common has 1,200 images, rare 120" in warning
    assert warning.endswith("set class_weights='balanced'.")
    assert training.imbalance_warning(("common", "rare"), (1199, 120)) is None


@pytest.fixture
def scenes(rng, monkeypatch):
    """Images that have a bright left, a bright top, a red tint, or several of them."""
    several = rng.random((120, 3)) < 0.5
    several = several[several.any(-1)]
    pixels = rng.integers(0, 60, (len(several), 16, 16, 3))
    left, top, red = several.T
    pixels[left, :, :8] += 80
    pixels[top, :8] += 80
    pixels[red, ..., 0] += 30
    source = Source(
        name="scenes", labels=("left", "top", "red"), ids=tuple(map(str, range(len(several)))),
        targets=several.argmax(-1), multi_hot=several.astype(np.int64),
        image=pixels.astype(np.uint8).__getitem__,
    )  # fmt: skip
    monkeypatch.setitem(SOURCES, "scenes", Opener(lambda: source))
    return source


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
