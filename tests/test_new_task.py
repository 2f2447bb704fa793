"""An imaginary task, key points as heat maps, added as CONTRIBUTING.md says.

It is one record in each of six tables: head and its layers, task, annotations, what is learned, and
how it is judged and shown. Nothing else is changed, and a run of it is trained, read and judged.
"""

import dataclasses
from typing import ClassVar

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import keras_vit
from keras_vit import UsageError, data, deploy, evaluation, recipe, training
from keras_vit._keras import keras, ops
from keras_vit.data.source import ClassSets, InMemory
from keras_vit.encoder.dense_heads import DENSE_HEADS, DenseHead
from keras_vit.encoder.weight_rows import rows
from keras_vit.evaluation.run_report import JUDGES, Judge
from keras_vit.frozen_features import batches_of
from keras_vit.models.dense_head_layers import DENSE_HEAD_LAYERS
from keras_vit.training.prepared import DENSE_TASKS
from keras_vit.training.tasks import ImageLoss, Task, predicted

SIZE, STRIDE = 32, 4  # of the input; of its cells
NAMES = ("red", "green")


# 1 and 2: the head, and its layers.
HEAT_MAPS = DenseHead(
    "keypoints",
    ("heatmaps",),
    rows("""
keypoints/kernel    head/kernel    zeros    D s s C
keypoints/bias      head/bias      zeros    s s C
"""),
)


def heat_map_layers(tokens, spec, grid, num_classes):
    scores = DENSE_HEAD_LAYERS["linear"](tokens, spec, grid, num_classes)["scores"]
    return {"heatmaps": keras.layers.Activation("sigmoid", name="heatmaps")(scores)}


# 3: what is annotated, and how it moves.
@dataclasses.dataclass(frozen=True)
class KeyPoints:
    """x and y of each point in pixels of the picture, float32 (n, points, 2)."""

    points: np.ndarray
    sets: ClassSets
    task: ClassVar[str] = "keypoints"
    note: ClassVar[str] = ""

    def check(self, count, classes):
        assert self.points.shape == (count, classes, 2)

    def moved(self, index, matrix, size):
        a, b, c, d, e, f = tf.unstack(matrix)
        turn = tf.linalg.inv(tf.stack([tf.stack([a, b]), tf.stack([d, e])]))
        points = tf.gather(tf.constant(self.points), index) - tf.stack([c, f])
        cells = (tf.linalg.matvec(turn, points) + 0.5) / STRIDE - 0.5  # (points, 2)
        x, y = tf.meshgrid(*(tf.range(side / STRIDE) for side in size[::-1]))
        grid = tf.stack([x, y], axis=-1)[:, :, None]  # (rows, columns, 1, 2)
        return tf.exp(-tf.reduce_sum((grid - cells) ** 2, axis=-1) / 2)


# 4: what is learned.
@dataclasses.dataclass(frozen=True)
class HeatMapTask(Task):
    num_classes: int

    def targets(self, images, maps):
        return maps

    def predictions(self, model, pixels):
        return predicted(model, pixels)["heatmaps"]

    def loss(self, training=True):
        return ImageLoss(lambda y, p: ops.mean((y - p) ** 2, axis=(1, 2, 3)), "heat_maps")


# 5: how it is judged; 6: how that is shown.
@dataclasses.dataclass(frozen=True)
class Distances(evaluation.Report):
    distance: float
    split: str = "held_out"
    average: bool = False
    metric: ClassVar[str] = "distance"
    facts: ClassVar[dict] = {}

    @property
    def score(self):
        return "distance", self.distance


def distances(model, source, indices, batch_size):
    found = []
    for inputs, maps in batches_of(model, source, indices, batch_size):
        places = [
            np.stack(np.unravel_index(each.reshape(-1, len(NAMES)).argmax(0), each.shape[:2]), -1)
            for each in [*maps.numpy(), *model.predict(inputs, verbose=0)["heatmaps"]]
        ]
        true, predicted_ones = np.split(np.array(places, float), 2)
        found.extend(np.linalg.norm(true - predicted_ones, axis=-1).mean(-1))
    return Distances(float(np.mean(found)))


def in_pictures(model, source, indices, batch_size):
    return distances(model, source, indices, batch_size), {}


@pytest.fixture
def added(monkeypatch):
    """The task in the tables of the six rooms."""
    monkeypatch.setitem(DENSE_HEADS, "heat_maps", HEAT_MAPS)
    monkeypatch.setitem(DENSE_HEAD_LAYERS, "heat_maps", heat_map_layers)
    monkeypatch.setattr(recipe, "TASKS", (*recipe.TASKS, "keypoints"))
    monkeypatch.setitem(data.SOURCES, "dots", data.Opener(dots))
    monkeypatch.setitem(DENSE_TASKS, "keypoints", HeatMapTask)
    monkeypatch.setitem(JUDGES, "keypoints", Judge(distances, in_pictures, "page"))


def dots(count=160):
    """A red and a green dot on black, each at a random place."""
    rng = np.random.default_rng(0)
    pictures = np.zeros((count, 40, 40, 3), np.uint8)
    points = rng.integers(4, 36, (count, 2, 2))
    for picture, pair in zip(pictures, points, strict=True):
        for channel, (x, y) in enumerate(pair):
            picture[y - 3 : y + 4, x - 3 : x + 4, channel] = 255
    sets = ClassSets.of_rows(np.ones((count, 2), np.uint8))
    return data.Source(
        name="dots",
        labels=NAMES,
        ids=tuple(map(str, range(count))),
        targets=sets.rarest,
        image=InMemory(pictures),
        annotations=KeyPoints(points.astype(np.float32), sets),
    )


@pytest.mark.flavours
def test_a_run_of_a_new_task_is_trained_read_and_judged(added, invoke, tmp_path):
    spec = keras_vit.ViTSpec(8, 32, 2, 2, 64, dense_head="heat_maps", head_cells=8 // STRIDE)
    model = keras_vit.ViT(spec, len(NAMES), SIZE)
    settings = training.Recipe(
        task="keypoints", image_size=SIZE, head_cells=8 // STRIDE, duration="200 steps",
        batch_size=32, learning_rate=1e-2, augment="mild_crop_flip", jit=False,
    )  # fmt: skip
    source = data.open_source("dots")
    run = training.train(model, source, settings, tmp_path / "run")
    assert run.task == "keypoints"
    report, page = evaluation.evaluate(run)
    assert report.distance < 1.5  # cells; at random they are 4
    assert report == evaluation.held_out_report(run, source)
    assert "Held-out distance" in page.read_text()
    with pytest.raises(UsageError, match="made of models for classification or segmentation. Rece"):
        deploy.export_tflite(run.model(), tmp_path / "model.tflite")
    Image.fromarray(source.image(0)).save(tmp_path / "a.png")
    code, _, error = invoke("train/predict.py", "--run", run.path, "a.png", cwd=tmp_path)
    assert code == 2
    assert (
        "run: expected a model for classification, segmentation or panoptic. Received: one" in error
    )


def test_points_move_with_their_pictures(added):
    source = data.open_source("dots")
    [(images, maps)] = data.training_batches(
        source, np.arange(160), keras_vit.Preprocessing(SIZE, SIZE), 64, 1, "zoom_flip"
    )
    for image, each in zip(images.numpy(), maps.numpy(), strict=True):
        for channel in range(2):
            cells = (
                image[..., channel].reshape(8, STRIDE, 8, STRIDE).mean((1, 3))
            )  # (rows, columns)
            if each[..., channel].max() > 0.9 and cells.max() > 150:
                y, x = np.unravel_index(each[..., channel].argmax(), cells.shape)
                assert cells[y, x] > 0.6 * cells.max()
