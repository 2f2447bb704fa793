"""VTAB-1k and ImageNet's evaluation sets, as TensorFlow Datasets writes their real features."""

import re

import numpy as np
import pytest

from keras_vit import Preprocessing, UsageError
from keras_vit.data import VTAB, evaluation_batches, open_source, vtab
from keras_vit.data.records import Keys, Piece, record_source
from keras_vit.data.sources import check_present
from keras_vit.labels import imagenet2012_ids

tf = pytest.importorskip("tensorflow", reason="TensorFlow reads the images")


def shade(i, shape=(8, 10, 3)):
    """An image by which an example can be recognised."""
    return np.full(shape, i, np.uint8)


CLEVR = [0, 1, 2, 18, 19, 100, 101, 102]  # 3 at first, 2 after 90%, and those of another split
COUNTS = (3, 4, 5, 10, 6, 3, 4, 5)
DISTANCES = (8.0, 8.01, 9.0, 10.0, 10.1, 7.9, 8.5, 9.01)  # of the nearest object
OBJECTS = dict(zip(CLEVR, zip(COUNTS, DISTANCES, strict=True), strict=True))
# The types and distances of KITTI's objects; 0 to 2 are vehicles.
TRAFFIC = [[(0, 8.0)], [(3, 5.0)], [(3, 2.0), (2, 20.0), (1, 30.0)], [(1, 20.1)], [], [(2, 8.1)]]


def clevr(i):
    count, distance = OBJECTS.get(i, (3, 7.0))
    other = {"color": 0, "material": 0, "shape": 0, "rotation": 0.0, "3d_coords": [0, 0, 0]}
    places = [[300, 200, distance + j] for j in reversed(range(count))]
    objects = [{"pixel_coords": each, "size": 0, **other} for each in places]
    return {"image": shade(i), "objects": objects, "file_name": "", "question_answer": []}


def kitti(i):
    from tensorflow_datasets.core.features import BBox

    other = dict.fromkeys(("truncated", "occluded", "alpha", "rotation_y"), 0)
    other |= {"bbox": BBox(0.0, 0.0, 1.0, 1.0), "dimensions": [1, 1, 1]}
    objects = [{"type": kind, "location": [5, 1, away], **other} for kind, away in TRAFFIC[i]]
    return {"image": shade(i), "image/file_name": f"{i}.png", "objects": objects}


def dsprites(i):
    """A black or white image."""
    values = ("shape", "scale", "orientation", "x_position", "y_position")
    labels = dict.fromkeys(("label_shape", "label_scale", "label_y_position"), 0)
    labels |= {"label_orientation": (39 if i < 16 else 21) - i, "label_x_position": i + 12}
    image = {"image": shade(i % 2, (64, 64, 1))}
    return image | labels | dict.fromkeys((f"value_{each}" for each in values), 0.0)


def smallnorb(i):
    other = {"image2": shade(0, (96, 96, 1)), "label_category": 0, "instance": 0}
    labels = {"label_elevation": i % 100 % 9, "label_azimuth": i % 100, "label_lighting": 0}
    return {"image": shade(i, (96, 96, 1)), **labels, **other}


@pytest.fixture(autouse=True)
def _few_images(monkeypatch):
    """Three images for training and two for validation."""
    monkeypatch.setattr(vtab, "_TRAIN", 3)
    monkeypatch.setattr(vtab, "_VALIDATION", 2)


def shades(source):
    return [int(source.image(i)[0, 0, 0]) for i in range(len(source))]


# The images of TensorFlow Datasets' splits; not all of them are those of the tasks.
EXAMPLES = {
    "clevr": (clevr, {"train": range(20), "validation": range(100, 103), "test": [200]}),
    "kitti": (kitti, {"train": range(3), "validation": [3, 4], "test": [5]}),
    "dsprites": (dsprites, {"train": range(20)}),
    "smallnorb": (smallnorb, {"train": range(5), "test": range(100, 110)}),
}
NEAR = ["up to 8", "8 to 8.5", "8.5 to 9", "9.5 to 10", "over 10"]
FAR = ["up to 8 m", "no vehicle", "8 to 20 m", "over 20 m", "no vehicle", "8 to 20 m"]
KITTI = [0, 1, 2, 3, 4, 5]
DSPRITES = [0, 255, 0, 0, 255, 0, 255]  # of the images 0, 1, 2, 16 to 19
SMALLNORB = [0, 1, 2, 100, 101, 105, 106, 107, 108, 109]


@pytest.mark.parametrize(
    ("task", "images", "classes"),
    [
        ("clevr-count", CLEVR, [f"{count} objects" for count in COUNTS]),
        ("clevr-distance", CLEVR, [*NEAR, "up to 8", "8 to 8.5", "9 to 9.5"]),
        ("kitti-distance", KITTI, FAR),
        ("dsprites-location", DSPRITES, [f"column {i}" for i in (6, 6, 7, 14, 14, 15, 15)]),
        ("dsprites-orientation", DSPRITES, [f"angle {i}" for i in (15, 15, 14, 2, 1, 1, 0)]),
        ("smallnorb-azimuth", SMALLNORB, [*"0120156789"]),
        ("smallnorb-elevation", SMALLNORB, [*"0120156780"]),
    ],
)
def test_tasks_are_read_from_the_features_of_their_data_sets(prepare_tfds, task, images, classes):
    name = task.partition("-")[0]
    make, splits = EXAMPLES[name]
    prepare_tfds(name, **{split: [*map(make, numbers)] for split, numbers in splits.items()})
    source = open_source(f"vtab:{task}")
    assert shades(source) == images
    assert [source.labels[i] for i in source.targets] == classes
    parts = [indices.tolist() for indices in source.splits.values()]
    assert parts == [[0, 1, 2], [3, 4], [*range(5, len(images))]]
    assert [*source.splits] == ["train", "validation", "test"]
    size = Preprocessing(*source.image(0).shape[:2])
    ((batch, _),) = evaluation_batches(source, np.arange(2), size, 2)
    np.testing.assert_array_equal(batch, [source.image(i) for i in range(2)])


def test_every_task_says_how_its_images_are_prepared(refused, monkeypatch, tmp_path):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    assert len(VTAB) == 19
    for name, task in VTAB.items():
        with pytest.raises(UsageError, match=re.escape(f"t.builder({task.data!r}")):
            check_present(f"vtab:{name}")
    with pytest.raises(UsageError, match=r"after downloading .*Kaggle.* to .*downloads/manual"):
        check_present("vtab:retinopathy")
    refused("vtab:clevr", "no task 'clevr'; ")


def test_the_names_in_tensorflow_datasets_exist():
    import tensorflow_datasets as tfds

    names = {task.data.partition("/")[0] for task in VTAB.values()}
    assert not names - set(tfds.list_builders(with_community_datasets=False))


def test_imagenet_real_has_the_reassessed_classes(prepare_tfds):
    real = [[3], [], [7, 999]]
    about = {"image": shade(9), "file_name": "", "original_label": 5}
    prepare_tfds("imagenet2012_real", validation=[{"real_label": each, **about} for each in real])
    source = open_source("imagenet2012_real")
    assert source.labels == imagenet2012_ids()
    assert [np.flatnonzero(row).tolist() for row in source.multi_hot] == real


def test_imagenet_is_read_without_its_training_images(prepare_tfds):
    examples = [{"image": shade(i), "label": i, "file_name": ""} for i in range(3)]
    folder = prepare_tfds("imagenet2012", train=examples, validation=examples[1:])
    for file in folder.glob("imagenet2012-train*"):
        file.unlink()
    source = open_source("imagenet2012")
    assert source.targets.tolist() == [1, 2]
    assert list(source.splits) == ["validation"]
    prepare_tfds("imagenet_v2/matched-frequency", test=examples)
    assert open_source("imagenet_v2").targets.tolist() == [0, 1, 2]
    with pytest.raises(UsageError, match="imagenet_v2/topimages"):
        check_present("imagenet_v2:topimages")


@pytest.mark.parametrize(
    ("name", "key", "values", "received"),
    [
        ("clevr-distance", "objects/pixel_coords", [1.0, 2.0], "cannot reshape"),
        ("dsprites-location", "label_x_position", [3e38], r"class \d+ of 16"),
        ("dsprites-location", "label_x_position", [float("nan")], "cannot convert float NaN"),
        ("dsprites-location", "label_x_position", [], "out of bounds"),
    ],
)
def test_features_that_give_no_class_are_refused(tmp_path, name, key, values, received):
    feature = {
        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b""])),
        key: tf.train.Feature(float_list=tf.train.FloatList(value=values)),
    }
    example = tf.train.Example(features=tf.train.Features(feature=feature))
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        writer.write(example.SerializeToString())
    pieces = {"": [Piece(tmp_path / "a.tfrecord")]}
    with pytest.raises(UsageError, match=f"expected values of {key} for {name}.*{received}"):
        record_source("x", "x", pieces, Keys("image", "", derived=name), ["a"])
