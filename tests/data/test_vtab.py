"""VTAB-1k and ImageNet's evaluation sets, as TensorFlow Datasets writes their real features."""

import re

import numpy as np
import pytest

from keras_vit import Preprocessing, UsageError
from keras_vit.data import VTAB, evaluation_batches, open_source, vtab
from keras_vit.data.records import Keys, Piece, record_source
from keras_vit.data.sources import check_present
from keras_vit.data.vtab_tasks import DERIVED
from keras_vit.labels import imagenet2012_ids

tf = pytest.importorskip("tensorflow", reason="TensorFlow reads the images")


def shade(i, shape=(8, 10, 3)):
    """An image by which an example can be recognised."""
    return np.full(shape, i, np.uint8)


def clevr_objects(count, distance):
    """Objects of which the nearest is at this distance."""
    other = {"color": 0, "material": 0, "shape": 0, "rotation": 0.0, "3d_coords": [0, 0, 0]}
    places = [[300, 200, distance + i] for i in range(count)]
    return [{"pixel_coords": each, "size": i % 2, **other} for i, each in enumerate(places)]


def kitti_objects(*objects):
    """Objects with a type of KITTI and a distance."""
    from tensorflow_datasets.core.features import BBox

    other = dict.fromkeys(("truncated", "occluded", "alpha", "rotation_y"), 0)
    other |= {"bbox": BBox(0.0, 0.0, 1.0, 1.0), "dimensions": [1, 1, 1]}
    return [{"type": kind, "location": [5, 1, distance], **other} for kind, distance in objects]


@pytest.fixture(autouse=True)
def _few_images(monkeypatch):
    """Three images for training and two for validation."""
    monkeypatch.setattr(vtab, "_TRAIN", 3)
    monkeypatch.setattr(vtab, "_VALIDATION", 2)


def shades(source):
    return [int(source.image(i)[0, 0, 0]) for i in range(len(source))]


@pytest.mark.parametrize(
    ("name", "values", "label"),
    [
        ("clevr-count", [[0] * 3], "3 objects"),
        ("clevr-count", [[0] * 10], "10 objects"),
        ("clevr-distance", [[1, 2, 9.2, 1, 2, 8.0]], "up to 8"),
        ("clevr-distance", [[1, 2, 9.2, 1, 2, 8.01]], "8 to 8.5"),
        ("clevr-distance", [[0, 0, 10.5]], "over 10"),
        ("kitti-distance", [[3, 0], [5, 1, 2.0, 5, 1, 8.0]], "up to 8 m"),  # 3 is a pedestrian
        ("kitti-distance", [[3, 2], [5, 1, 2.0, 5, 1, 20.0]], "8 to 20 m"),
        ("kitti-distance", [[1], [5, 1, 20.1]], "over 20 m"),
        ("kitti-distance", [[3], [5, 1, 2.0]], "no vehicle"),
        ("kitti-distance", [[], []], "no vehicle"),
        ("dsprites-location", [[31]], "column 15"),
        ("dsprites-orientation", [[39]], "angle 15"),
        ("dsprites-orientation", [[2]], "angle 0"),
        ("dsprites-orientation", [[3]], "angle 1"),
    ],
)
def test_classes_are_derived_as_by_the_benchmark(name, values, label):
    derived = DERIVED[name]
    assert derived.names[derived.label(*map(np.array, values))] == label


def test_clevr_is_read_from_its_objects(prepare_tfds):
    about = {"file_name": "", "question_answer": []}

    def examples(first, count):
        return [
            {"image": shade(first + i), "objects": clevr_objects(3 + i % 8, 7.9 + 0.4 * i), **about}
            for i in range(count)
        ]

    # The test images have no objects, and are not read.
    unlabelled = [{"image": shade(200), "objects": [], **about}]
    prepare_tfds("clevr", train=examples(0, 20), validation=examples(100, 3), test=unlabelled)
    source = open_source("vtab:clevr-count")
    assert shades(source) == [0, 1, 2, 18, 19, 100, 101, 102]  # 3 at first, 2 after 90%
    parts = {name: indices.tolist() for name, indices in source.splits.items()}
    assert parts == {"train": [0, 1, 2], "validation": [3, 4], "test": [5, 6, 7]}
    counts = [source.labels[i].removesuffix(" objects") for i in source.targets[:5]]
    assert counts == [*"34556"]
    # The same files, with other classes.
    source = open_source("vtab:clevr-distance")
    assert [source.labels[i] for i in source.targets[5:]] == ["up to 8", "8 to 8.5", "8.5 to 9"]


def test_kitti_is_read_from_its_objects(prepare_tfds):
    objects = ([(0, 5.0)], [(3, 5.0)], [(3, 2.0), (2, 15.0)])
    examples = [
        {"image": shade(i), "image/file_name": f"{i}.png", "objects": kitti_objects(*each)}
        for i, each in enumerate(objects)
    ]
    prepare_tfds("kitti", train=examples, validation=examples[:2], test=examples[2:])
    source = open_source("vtab:kitti-distance")
    labels = [source.labels[i] for i in source.targets]
    both = ["up to 8 m", "no vehicle"]
    assert labels == [*both, "8 to 20 m", *both, "8 to 20 m"]


def test_the_only_split_of_dsprites_is_divided_and_its_levels_are_black_and_white(prepare_tfds):
    values = {f"value_{x}": 0.0 for x in ("shape", "scale", "orientation", "x_position")}
    examples = [
        {
            "image": shade(i % 2, (64, 64, 1)), "label_shape": 0, "label_scale": 0,
            "label_orientation": 39 - i, "label_x_position": i, "label_y_position": 0,
            "value_y_position": 0.0, **values,
        }
        for i in range(20)
    ]  # fmt: skip
    prepare_tfds("dsprites", train=examples)
    source = open_source("vtab:dsprites-location")
    assert source.targets.tolist() == [0, 0, 1, 8, 8, 9, 9]  # of the images 0, 1, 2, 16 to 19
    assert [source.image(i).max() for i in range(4)] == [0, 255, 0, 0]
    ((batch, _),) = evaluation_batches(source, np.arange(2), Preprocessing(64, 64), 2)
    np.testing.assert_array_equal(batch, [source.image(i) for i in range(2)])
    turned = open_source("vtab:dsprites-orientation")
    assert turned.targets[:3].tolist() == [15, 15, 14]  # 39, 38 and 37 of 40


def test_the_test_split_of_smallnorb_is_divided(prepare_tfds):
    other = {"image2": shade(0, (96, 96, 1)), "label_category": 0, "instance": 0}

    def examples(first, count):
        return [
            {
                "image": shade(first + i, (96, 96, 1)), "label_elevation": i % 9,
                "label_azimuth": i % 18, "label_lighting": 0, **other,
            }
            for i in range(count)
        ]  # fmt: skip

    prepare_tfds("smallnorb", train=examples(0, 5), test=examples(100, 10))
    source = open_source("vtab:smallnorb-azimuth")
    assert shades(source) == [0, 1, 2, 100, 101, 105, 106, 107, 108, 109]
    assert len(source.labels) == 18
    assert open_source("vtab:smallnorb-elevation").targets[-1] == 0  # the tenth of nine


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
