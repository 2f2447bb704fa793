"""Images with several classes: trained with the sigmoid loss, evaluated, predicted and exported."""

from __future__ import annotations

import dataclasses
import io
import json

import numpy as np
import pytest
from PIL import Image

from keras_vit import UsageError, deploy, evaluation
from keras_vit.cli import predict
from keras_vit.data import open_source
from keras_vit.training import Recipe, train
from keras_vit.training.tasks import MultiLabel, SingleLabel

RECIPE = Recipe(
    image_size=16, duration="60 steps", batch_size=16, learning_rate=3e-3, augment="none",
    loss="sigmoid", jit=False,
)  # fmt: skip


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
def test_a_model_learns_each_class_on_its_own(scenes, tiny_model, tmp_path, capsys):
    run = train(tiny_model, scenes, RECIPE, tmp_path / "run")
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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": "softmax"}, "have several classes, which need loss='sigmoid'"),
        ({"sampling": "balanced"}, "sampling='balanced' needs one class for each image"),
    ],
)
def test_settings_for_one_class_are_refused(scenes, tiny_model, tmp_path, change, message):
    with pytest.raises(UsageError, match=message):
        train(tiny_model, scenes, dataclasses.replace(RECIPE, **change), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_tasks_and_recipes_must_agree(scenes, tiny_model, tmp_path):
    recipe = dataclasses.replace(RECIPE, loss="softmax")
    with pytest.raises(UsageError, match="MultiLabel is for loss='sigmoid'. Received: loss='soft"):
        train(tiny_model, scenes, recipe, tmp_path / "run", task=MultiLabel(3))
    smooth = dataclasses.replace(recipe, label_smoothing=0.1)
    with pytest.raises(UsageError, match="label_smoothing=0.1. Received: a task with .*=0.0"):
        train(tiny_model, scenes, smooth, tmp_path / "run", task=SingleLabel(3))
