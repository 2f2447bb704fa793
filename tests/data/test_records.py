"""TFRecord files: in ImageNet's layout, and as TensorFlow Datasets itself writes them."""

from __future__ import annotations

import io
import json
import os
import re
import struct
import tracemalloc

import google_crc32c
import numpy as np
import pytest
from PIL import Image

import keras_vit
from keras_vit import Preprocessing, UsageError, runs
from keras_vit._errors import shown
from keras_vit.data import (
    development_split,
    evaluation_batches,
    open_source,
    records,
    skipped_summary,
    source_name,
    split_source,
    split_summary,
    subset,
    training_batches,
)
from keras_vit.data.preprocessing import resize
from keras_vit.data.reading import naming_unreadable
from keras_vit.weights.cache import cache_folder

tf = pytest.importorskip("tensorflow", reason="TensorFlow reads the images")


def pictures(rng, count):
    """Encoded pictures, every third a PNG, one in print colours."""
    for i in range(count):
        image = Image.fromarray(rng.integers(0, 256, (20 + i, 30, 3)).astype(np.uint8))
        image = image.convert("CMYK") if i == 4 else image
        stream = io.BytesIO()
        image.save(stream, "PNG" if i % 3 == 0 else "JPEG", quality=95)
        yield stream.getvalue()


def example(content, labels, texts):
    def strings(values):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))

    features = {
        "image/encoded": strings([content]),
        "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=labels)),
        "image/class/text": strings([text.encode() for text in texts]),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


@pytest.fixture
def imagenet(tmp_path, rng):
    """Two training shards and one of validation; the labels begin with 1, as ImageNet's do."""
    shards = {"train-00000-of-00002": 7, "train-00001-of-00002": 5, "validation-00000-of-00001": 4}
    for name, count in shards.items():
        with tf.io.TFRecordWriter(str(tmp_path / name)) as writer:
            for i, content in enumerate(pictures(rng, count)):
                writer.write(example(content, [1 + i % 2], [("tench", "goldfish")[i % 2]]))
    return tmp_path


def expected_images(folder, names):
    for name in names:
        for record in tf.data.TFRecordDataset(str(folder / name)).as_numpy_iterator():
            features = tf.train.Example.FromString(record).features.feature
            content = features["image/encoded"].bytes_list.value[0]
            yield np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))


@pytest.mark.slow
def test_imagenets_layout_is_read(imagenet):
    source = open_source(f"tfrecords:{imagenet}")
    assert source.labels == ("tench", "goldfish")
    assert source.counts == {"tench": 9, "goldfish": 7}
    assert {name: len(part) for name, part in source.splits.items()} == {
        "train": 12, "validation": 4,
    }  # fmt: skip
    assert source.ids[7] == "train-00001-of-00002#0"
    assert source.states[7].tolist() == [
        (status := (imagenet / "train-00001-of-00002").stat()).st_size, status.st_mtime_ns,
    ]  # fmt: skip
    images = list(expected_images(imagenet, sorted(p.name for p in imagenet.iterdir())))
    preprocessing = Preprocessing(16, 24)
    batches = list(evaluation_batches(source, np.arange(16), preprocessing, 5))
    pixels = np.concatenate([np.asarray(batch) for batch, _ in batches])
    targets = np.concatenate([np.asarray(classes) for _, classes in batches])
    for i, image in enumerate(images):
        np.testing.assert_array_equal(source.image(i), image)
        np.testing.assert_array_equal(pixels[i], resize(Image.fromarray(image), preprocessing))
    np.testing.assert_array_equal(targets, source.targets)
    split = split_source(source)
    assert [len(split.train), len(split.held_out)] == [12, 4]
    again = open_source(source.locator)
    assert (again.ids, again.labels) == (source.ids, source.labels)
    assert source_name(source.locator) == imagenet.name


def test_training_reads_single_records_at_their_position(imagenet):
    source = open_source(f"tfrecords:{imagenet}")
    settings = {"augment": "crop_flip", "seed": 1}
    whole = list(training_batches(source, np.arange(12), Preprocessing(8, 8), 4, 6, **settings))
    rest = training_batches(
        source, np.arange(12), Preprocessing(8, 8), 4, 2, first_step=4, **settings
    )
    for (images, classes), (again, same) in zip(whole[4:], rest, strict=True):
        np.testing.assert_array_equal(images, again)
        np.testing.assert_array_equal(classes, same)


def test_files_are_scanned_once(imagenet, monkeypatch):
    before = open_source(f"tfrecords:{imagenet}")
    monkeypatch.setattr(records, "_records", None)
    again = open_source(f"tfrecords:{imagenet}")
    assert (again.ids, again.labels) == (before.ids, before.labels)
    np.testing.assert_array_equal(again.targets, before.targets)
    monkeypatch.undo()
    with tf.io.TFRecordWriter(str(imagenet / "train-00001-of-00002")) as writer:
        writer.write(example(next(pictures(np.random.default_rng(5), 1)), [2], ["goldfish"]))
    assert len(open_source(f"tfrecords:{imagenet}")) == 12


def test_damaged_files_and_pictures_are_named(imagenet):
    file = imagenet / "train-00000-of-00002"
    content = bytearray(file.read_bytes())
    content[400] ^= 1
    file.write_bytes(content)
    with pytest.raises(UsageError, match="00000-of-00002: expected an uncompressed TFRecord file"):
        open_source(f"tfrecords:{imagenet}")
    file.write_bytes(content[:300])
    with pytest.raises(UsageError, match="a damaged record before byte 300"):
        open_source(f"tfrecords:{imagenet}")
    with tf.io.TFRecordWriter(str(file)) as writer:
        writer.write(example(b"no picture", [1], ["tench"]))
        writer.write(example(next(pictures(np.random.default_rng(5), 1)), [1], ["tench"]))
    source = open_source(f"tfrecords:{imagenet}")
    assert skipped_summary(source) == [f"{file.name}#0: not a picture that can be read"]
    with tf.io.TFRecordWriter(str(file)) as writer:
        writer.write(tf.train.Example().SerializeToString())
    with pytest.raises(UsageError, match="expected one image/encoded and image/class/label"):
        open_source(f"tfrecords:{imagenet}")


def test_a_record_that_claims_more_than_its_file_is_refused_before_memory_is_taken(tmp_path):
    length = struct.pack("<Q", 1 << 50)
    checksum = google_crc32c.value(length)
    checksum = ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF
    (tmp_path / "a.tfrecord").write_bytes(length + struct.pack("<I", checksum) + bytes(100))
    with pytest.raises(UsageError, match="a damaged record before byte 112"):
        open_source(f"tfrecords:{tmp_path}")


def test_images_may_have_several_classes_or_none(tmp_path, rng):
    names = {5: "sky", 2: "sea", 9: "sand"}
    of_images = [[5, 2], [5], [2, 5, 9], [], [9, 5], [5]]
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        for content, labels in zip(pictures(rng, 6), of_images, strict=True):
            writer.write(example(content, labels, [names[label] for label in labels]))
    for source in (open_source(f"tfrecords:{tmp_path}"), open_source(f"tfrecords:{tmp_path}")):
        assert source.labels == ("sea", "sky", "sand")
        np.testing.assert_array_equal(
            source.multi_hot[:], [[1, 1, 0], [0, 1, 0], [1, 1, 1], [0, 0, 0], [0, 1, 1], [0, 1, 0]]
        )
        assert source.counts == {"sea": 2, "sky": 5, "sand": 2}
        np.testing.assert_array_equal(source.targets, [0, 1, 0, 0, 2, 1])  # the rarest
        assert not source.skipped
    ((_, classes),) = evaluation_batches(source, np.array([4, 3, 2]), Preprocessing(8, 8), 3)
    np.testing.assert_array_equal(classes, [[0, 1, 1], [0, 0, 0], [1, 1, 1]])
    split = split_source(source)
    assert sorted([*split.train, *split.held_out]) == [0, 1, 2, 3, 4, 5]
    np.testing.assert_array_equal(subset(source, split, 1.0).train, split.train)
    part = subset(source, split, 0.5)
    assert set(part.train) <= set(split.train)
    assert len(part.train) >= len(set(source.targets[split.train]))
    development = development_split(source, split)
    assert sorted([*development.train, *development.held_out]) == sorted(split.train)


def test_an_index_of_many_classes_does_not_grow_in_memory(tmp_path, rng, monkeypatch):
    content, count = next(pictures(rng, 1)), 3000
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        for i in range(count):
            writer.write(example(content, [i, i + 1], []))
    tracemalloc.start()
    source = open_source(f"tfrecords:{tmp_path}")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert source.multi_hot.shape == (count, count + 1)
    assert peak < count * count  # a byte for each image and class
    assert np.flatnonzero(source.multi_hot[7]).tolist() == [7, 8]


def test_a_damaged_index_is_made_again(imagenet):
    expected = open_source(f"tfrecords:{imagenet}").targets
    for cached in (cache_folder() / "records").glob("*.json"):
        good = json.loads(cached.read_text())
        outside = [[10**9, *example[1:]] for example in good["examples"]]
        for damaged in (good["examples"][0], [[0, "", "GIF", [1]]], [[0, "", "PNG", 1]], outside):
            cached.write_text(json.dumps(good | {"examples": damaged}))
            source = open_source(f"tfrecords:{imagenet}")
            np.testing.assert_array_equal(source.targets, expected)
            source.image(0)


def test_a_record_longer_than_its_file_is_not_read(imagenet):
    import google_crc32c

    header = struct.pack("<Q", 2**50)
    value = google_crc32c.value(header)
    masked = ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF
    file = imagenet / "train-00000-of-00002"
    file.write_bytes(header + struct.pack("<I", masked) + bytes(100))
    with pytest.raises(UsageError, match="a damaged record"):
        open_source(f"tfrecords:{imagenet}")


def test_images_without_a_class_are_skipped_where_each_has_one(tmp_path, rng):
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        for content, labels in zip(pictures(rng, 3), ([2], [], [5]), strict=True):
            writer.write(example(content, labels, []))
    source = open_source(f"tfrecords:{tmp_path}")
    np.testing.assert_array_equal(source.targets, [0, 1])
    assert source.multi_hot is None
    assert skipped_summary(source) == ["a.tfrecord#1: it has no class"]


def test_images_with_none_of_several_classes_stay_in_one_part_each(tmp_path, rng):
    of_images = [[], [], [], [], [1, 2], [2], [2, 1]]
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        for content, labels in zip(pictures(rng, 7), of_images, strict=True):
            writer.write(example(content, labels, []))
    source = open_source(f"tfrecords:{tmp_path}")
    np.testing.assert_array_equal(source.multi_hot[:].sum(1), [0, 0, 0, 0, 2, 1, 2])
    split = split_source(source, 0.4)
    assert sorted([*split.train, *split.held_out]) == list(range(7))
    np.testing.assert_array_equal(subset(source, split, 1.0).train, split.train)


def test_a_folder_without_records_is_refused(tmp_path):
    with pytest.raises(UsageError, match="expected TFRecord files.*Received: none"):
        open_source(f"tfrecords:{tmp_path}")


def test_truncated_pictures_are_skipped_by_their_name(tmp_path, rng):
    png, jpeg, *_ = pictures(rng, 2)
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        for i, content in enumerate([jpeg, jpeg[: len(jpeg) // 2], png, png[: len(png) // 2]]):
            writer.write(example(content, [i // 2], []))
    source = open_source(f"tfrecords:{tmp_path}")
    assert source.ids == ("a.tfrecord#0", "a.tfrecord#2")
    assert skipped_summary(source)[:2] == [
        "a.tfrecord#1: truncated JPEG", "a.tfrecord#3: truncated PNG",
    ]  # fmt: skip


def test_texts_name_classes_only_where_there_are_as_many(tmp_path, rng):
    of_images = [([3], ["a wreck", "in a storm"]), ([3, 4], ["ship", "sea"]), ([4, 5], ["sky"])]
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        for content, (labels, texts) in zip(pictures(rng, 3), of_images, strict=True):
            writer.write(example(content, labels, texts))
    assert open_source(f"tfrecords:{tmp_path}").labels == ("ship", "sea", "5")


def test_files_without_usable_records_are_refused(tmp_path):
    file = tmp_path / "a.tfrecord"
    file.touch()
    with pytest.raises(UsageError, match="expected images with classes. Received: no examples"):
        open_source(f"tfrecords:{tmp_path}")
    with tf.io.TFRecordWriter(str(file)) as writer:
        writer.write(example(b"no picture", [1], []))
    with pytest.raises(UsageError, match="Received: 1, the first is a.tfrecord#0: not a picture"):
        open_source(f"tfrecords:{tmp_path}")


def test_files_that_declare_no_split_beside_others_are_refused(imagenet):
    train = imagenet / "train-00000-of-00002"
    (imagenet / "extra.tfrecord").write_bytes(train.read_bytes())
    message = r"expected train, validation or test in the name of every file.* extra\.tfrecord;"
    with pytest.raises(UsageError, match=message):
        open_source(f"tfrecords:{imagenet}")
    train.unlink()
    (imagenet / "train-00001-of-00002").unlink()
    with pytest.raises(UsageError, match=message):
        open_source(f"tfrecords:{imagenet}")
    (imagenet / "validation-00000-of-00001").unlink()
    assert len(open_source(f"tfrecords:{imagenet}")) == 7


def test_missing_files_of_a_set_are_named(imagenet):
    train, other = imagenet / "train-00000-of-00002", imagenet / "train-00001-of-00002"
    kept = other.rename(imagenet / "kept")
    with pytest.raises(UsageError, match="Received: 2, without train-00001-of-00002; add them, or"):
        open_source(f"tfrecords:{imagenet}")
    for file, number in ((train, 1), (kept, 3)):  # as TensorFlow Datasets names them
        file.rename(imagenet / f"a-train.tfrecord-0000{number}-of-00006")
    names = ", ".join(f"a-train.tfrecord-0000{number}-of-00006" for number in (0, 2, 4))
    with pytest.raises(UsageError, match=f"Received: 3, without {names} and 1 more; add them"):
        open_source(f"tfrecords:{imagenet}")
    for i, file in enumerate(sorted(imagenet.glob("a-*"))):
        file.rename(imagenet / f"train-{i}.tfrecord")
    assert len(open_source(f"tfrecords:{imagenet}").splits["train"]) == 12


def test_splits_without_one_for_training_are_opened_but_not_trained_on(imagenet):
    validation = imagenet / "validation-00000-of-00001"
    (imagenet / "train-00000-of-00002").unlink()
    (imagenet / "train-00001-of-00002").rename(imagenet / "test.tfrecord")
    source = open_source(f"tfrecords:{imagenet}")  # an exported file is compared on all of them
    assert {name: len(part) for name, part in source.splits.items()} == {
        "test": 5, "validation": 4,
    }  # fmt: skip
    assert split_summary(source) == "splits: test 5, validation 4 (declared by the data)"
    message = "splits train, and validation or test. Received: only test and validation; rename"
    with pytest.raises(UsageError, match=message):
        split_source(source)
    validation.unlink()
    split = split_source(open_source(f"tfrecords:{imagenet}"))  # of a single one a part is held out
    assert [len(split.train), len(split.held_out)] == [3, 2]


@pytest.mark.parametrize(
    "name", ["a\nb", "tench\r", "a\u2028b", "a\x1cb", "a\0", "\x1b[2J", "\u202ea", "x" * 1_001]
)
def test_names_of_classes_with_line_breaks_are_refused(tmp_path, rng, name):
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        for i, content in enumerate(pictures(rng, 2)):
            writer.write(example(content, [i], [("goldfish", name)[i]]))
    with pytest.raises(UsageError) as error:
        open_source(f"tfrecords:{tmp_path}")
    assert f"and line breaks. Received: {shown(name)}; rename" in str(error.value)
    assert len(str(error.value).splitlines()) == 1


@pytest.fixture
def written_by_tfds(tmp_path, monkeypatch, rng):
    """A data set that TensorFlow Datasets prepares from code of its own kind."""
    import tensorflow_datasets as tfds

    images = rng.integers(0, 256, (20, 12, 10, 3)).astype(np.uint8)
    labels = np.arange(20) % 3

    class TinyShapes(tfds.core.GeneratorBasedBuilder, skip_registration=True):
        VERSION = tfds.core.Version("1.2.0")

        def _info(self):
            features = {
                "image": tfds.features.Image(shape=(None, None, 3), encoding_format="png"),
                "label": tfds.features.ClassLabel(names=["dot", "line", "box"]),
                "id": tfds.features.Text(),
            }
            features = tfds.features.FeaturesDict(features)
            return self.dataset_info_from_configs(
                features=features, supervised_keys=("image", "label")
            )

        def _split_generators(self, dl_manager):
            return {
                "train": self._generate_examples(0, 14),
                "test": self._generate_examples(14, 20),
            }

        def _generate_examples(self, start, end):
            for i in range(start, end):
                yield i, {"image": images[i], "label": int(labels[i]), "id": f"{i}"}

    TinyShapes.pkg_dir_path = tmp_path
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "data"))
    builder = TinyShapes(data_dir=tmp_path / "data")
    builder.download_and_prepare()
    return builder, {images[i].tobytes(): labels[i] for i in range(20)}


def test_a_list_of_classes_that_tfds_wrote_is_read(tmp_path, monkeypatch, rng):
    import tensorflow_datasets as tfds

    images = rng.integers(0, 256, (9, 12, 10, 3)).astype(np.uint8)

    class TinyScenes(tfds.core.GeneratorBasedBuilder, skip_registration=True):
        VERSION = tfds.core.Version("1.0.0")

        def _info(self):
            classes = tfds.features.Sequence(tfds.features.ClassLabel(names=["a", "b", "c", "d"]))
            features = {
                "image": tfds.features.Image(shape=(12, 10, 3), encoding_format="png"),
                "labels": classes,
                "labels_no_difficult": classes,
            }
            return self.dataset_info_from_configs(features=tfds.features.FeaturesDict(features))

        def _split_generators(self, dl_manager):
            parts = {"train": range(6), "test": [7]}
            return {name: self._generate_examples(part) for name, part in parts.items()}

        def _generate_examples(self, chosen):
            for i in chosen:
                some = {"labels": [i % 3, 3], "labels_no_difficult": [i % 3]}
                yield i, {"image": images[i], **some}

    TinyScenes.pkg_dir_path = tmp_path
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "data"))
    builder = TinyScenes(data_dir=tmp_path / "data")
    builder.download_and_prepare()
    source = open_source("tfds:tiny_scenes")
    expected = [*builder.as_dataset("train"), *builder.as_dataset("test")]
    for i, each in enumerate(expected):
        np.testing.assert_array_equal(source.image(i), each["image"])
        np.testing.assert_array_equal(np.flatnonzero(source.multi_hot[i]), each["labels"])
    assert source.counts == {"a": 2, "b": 3, "c": 2, "d": 7}


@pytest.mark.parametrize(
    ("supervised", "expected"),
    [(None, "label"), (("image", "segmentation_mask"), "label"), (("image", "kind"), "kind")],
)
def test_of_several_features_of_tfds_the_supervised_or_usual_ones_are_read(
    tmp_path, monkeypatch, rng, supervised, expected
):
    import tensorflow_datasets as tfds

    images = rng.integers(0, 256, (6, 12, 10, 3)).astype(np.uint8)

    class TinyPets(tfds.core.GeneratorBasedBuilder, skip_registration=True):
        VERSION = tfds.core.Version("1.0.0")

        def _info(self):
            features = {
                "coarse_label": tfds.features.ClassLabel(names=["pet", "no pet"]),
                "image": tfds.features.Image(shape=(12, 10, 3), encoding_format="png"),
                "kind": tfds.features.ClassLabel(names=["cat", "dog"]),
                "label": tfds.features.ClassLabel(names=["Abyssinian", "Beagle", "Pug"]),
                "segmentation_mask": tfds.features.Image(shape=(12, 10, 1), encoding_format="png"),
            }
            return self.dataset_info_from_configs(
                features=tfds.features.FeaturesDict(features), supervised_keys=supervised
            )

        def _split_generators(self, dl_manager):
            return {"train": self._generate_examples()}

        def _generate_examples(self):
            for i, image in enumerate(images):
                classes = {"coarse_label": 0, "kind": i % 2, "label": i % 3}
                yield i, {"image": image, "segmentation_mask": 0 * image[..., :1], **classes}

    TinyPets.pkg_dir_path = tmp_path
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "data"))
    builder = TinyPets(data_dir=tmp_path / "data")
    builder.download_and_prepare()
    source = open_source("tfds:tiny_pets")
    assert source.labels == tuple(builder.info.features[expected].names)
    for i, each in enumerate(builder.as_dataset("train").as_numpy_iterator()):
        np.testing.assert_array_equal(source.image(i), each["image"])
        assert source.targets[i] == each[expected]


def test_a_data_set_that_tfds_wrote_is_read(written_by_tfds):
    builder, labels = written_by_tfds
    source = open_source("tfds:tiny_shapes")
    assert source.labels == ("dot", "line", "box")
    assert {name: len(part) for name, part in source.splits.items()} == {"train": 14, "test": 6}
    expected = [
        each
        for split in ("train", "test")
        for each in builder.as_dataset(split).as_numpy_iterator()
    ]
    for i, each in enumerate(expected):  # in the order in which TFDS reads them
        np.testing.assert_array_equal(source.image(i), each["image"])
        assert source.targets[i] == each["label"] == labels[each["image"].tobytes()]
    ((images, classes),) = evaluation_batches(source, np.arange(20), Preprocessing(12, 10), 20)
    np.testing.assert_array_equal(images, [each["image"] for each in expected])
    np.testing.assert_array_equal(classes, [each["label"] for each in expected])
    assert source_name("tfds:tiny_shapes:train:test") == "tiny_shapes"


def test_splits_of_tfds_may_be_named_and_divided(written_by_tfds):
    builder, _ = written_by_tfds
    source = open_source("tfds:tiny_shapes/1.2.0:train[:50%]:train[50%:]")
    assert {k: len(v) for k, v in source.splits.items()} == {"train": 7, "validation": 7}
    expected = [
        each["image"] for part in ("train[:50%]", "train[50%:]")
        for each in builder.as_dataset(part).as_numpy_iterator()
    ]  # fmt: skip
    for i, image in enumerate(expected):
        np.testing.assert_array_equal(source.image(i), image)
    assert open_source(source.locator).ids == source.ids
    whole = open_source("tfds:tiny_shapes:train")
    assert not whole.splits
    assert len(whole) == 14
    with pytest.raises(
        UsageError, match="tiny_shapes has the splits (train, test|test, train).*dev"
    ):
        open_source("tfds:tiny_shapes:dev")
    with pytest.raises(UsageError, match="a split for training and one to hold out.*a, b, c"):
        open_source("tfds:tiny_shapes:a:b:c")


@pytest.mark.usefixtures("written_by_tfds")
def test_a_run_on_parts_of_a_split_of_tfds_can_be_judged_on_the_test_split(tmp_path, small_spec):
    source = open_source("tfds:tiny_shapes:train[:50%]:train[50%:]")
    model = keras_vit.ViT(small_spec, 3, 16)
    recipe = {"recipe": {}}
    runs.create_run(tmp_path / "run", model, source, split_source(source), recipe, "fresh")
    run = runs.open_run(tmp_path / "run")
    with pytest.raises(UsageError, match="declares the splits train and validation"):
        run.images(run.source(), "test")
    whole = run.source("tfds:tiny_shapes")
    images = run.images(whole, "test")
    assert len(images) == 6
    assert all(whole.ids[i].startswith("tiny_shapes-test") for i in images)


@pytest.mark.parametrize(
    "splits", ["train:train", "train:train[80%:]", "train[:60%]:train[50%:]", "train+train"]
)
@pytest.mark.usefixtures("written_by_tfds")
def test_splits_of_tfds_with_common_images_are_refused(splits):
    with pytest.raises(
        UsageError,
        match=r"expected each image once.* image tiny_shapes-train\.tfrecord.*#\d+ twice",
    ):
        open_source(f"tfds:tiny_shapes:{splits}")


def test_a_missing_file_of_tfds_is_named(written_by_tfds):
    (file,) = written_by_tfds[0].data_path.glob("*-test.*")
    file.unlink()
    message = f"expected 2 files. Received: 1, without {file.name} of {file.parent}; prepare"
    with pytest.raises(UsageError, match=message):
        open_source("tfds:tiny_shapes")
    assert len(open_source("tfds:tiny_shapes:train")) == 14


def test_a_file_of_tfds_that_lacks_examples_is_named(written_by_tfds):
    (file,) = written_by_tfds[0].data_path.glob("*-train.*")
    records = list(tf.data.TFRecordDataset(str(file)).as_numpy_iterator())
    with tf.io.TFRecordWriter(str(file)) as writer:
        for record in records[:5]:
            writer.write(record)
    with pytest.raises(UsageError, match=f"{file}: expected 7 examples. Received: 5; prepare"):
        open_source("tfds:tiny_shapes:train[:50%]")


@pytest.mark.usefixtures("written_by_tfds")
def test_an_empty_split_of_tfds_is_refused():
    source = open_source("tfds:tiny_shapes:train[:1%]:test")
    with pytest.raises(UsageError, match=r"tfds:tiny_shapes:train\[:1%\]:test.*none in train"):
        split_source(source)
    with pytest.raises(UsageError, match="expected images with classes. Received: no examples"):
        open_source("tfds:tiny_shapes:train[:1%]")


@pytest.fixture
def without_test_classes(tmp_path, monkeypatch, rng):
    """A data set whose test images have no classes, as many that TFDS publishes."""
    import tensorflow_datasets as tfds

    image = rng.integers(0, 256, (12, 10, 3)).astype(np.uint8)

    class TinyPlaces(tfds.core.GeneratorBasedBuilder, skip_registration=True):
        VERSION = tfds.core.Version("1.0.0")
        BUILDER_CONFIGS = (
            tfds.core.BuilderConfig(name="two"), tfds.core.BuilderConfig(name="three"),
        )  # fmt: skip

        def _info(self):
            features = {
                "image": tfds.features.Image(shape=(12, 10, 3), encoding_format="png"),
                "label": tfds.features.ClassLabel(names=["sky", "sea"]),
            }
            return self.dataset_info_from_configs(features=tfds.features.FeaturesDict(features))

        def _split_generators(self, dl_manager):
            parts = {"train": [0, 1, 0, 1], "validation": [1, 0], "test": [-1, -1, -1]}
            if self.builder_config.name == "two":
                del parts["validation"]
            return {name: self._generate_examples(part) for name, part in parts.items()}

        def _generate_examples(self, labels):
            for i, label in enumerate(labels):
                yield i, {"image": image, "label": label}

    TinyPlaces.pkg_dir_path = tmp_path
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "data"))
    for name in ("two", "three"):
        TinyPlaces(data_dir=tmp_path / "data", config=name).download_and_prepare()


@pytest.mark.usefixtures("without_test_classes")
def test_a_test_split_of_tfds_without_classes_is_left_out_if_it_is_not_needed():
    source = open_source("tfds:tiny_places/three")
    assert {name: len(part) for name, part in source.splits.items()} == {
        "train": 4, "validation": 2,
    }  # fmt: skip
    (line,) = skipped_summary(source)
    assert line.startswith("3 files, it has no class: tiny_places-test.tfr")
    received = (
        r"classes from 0 to 1. Received: -1 in tiny_places-test\S+#0; name splits with classes"
    )
    for data in ("tiny_places/two", "tiny_places/three:train:test", "tiny_places/two:test"):
        with pytest.raises(UsageError, match=received):
            open_source(f"tfds:{data}")


def test_a_data_set_that_is_not_prepared_says_how(written_by_tfds):
    command = r"t.builder\('mnist', file_format='tfrecord'\).download_and_prepare\(\)"
    with pytest.raises(UsageError, match=command):
        open_source("tfds:mnist")


def test_other_formats_of_tfds_are_refused_by_their_name(written_by_tfds, monkeypatch, tmp_path):
    pytest.importorskip("array_record.python", reason="TFDS writes the format with it")
    builder, _ = written_by_tfds
    folder = tmp_path / "other"
    type(builder)(data_dir=folder, file_format="array_record").download_and_prepare()
    monkeypatch.setenv("TFDS_DATA_DIR", str(folder))
    with pytest.raises(
        UsageError, match="the format tfrecord. Received: array_record; prepare .* file_format="
    ):
        open_source("tfds:tiny_shapes")


@pytest.mark.parametrize("keeps_its_time", [False, True])
@pytest.mark.parametrize(
    "change", ["cut", "emptied", "deleted", "flipped", "shifted", "no examples", "no pictures"]
)
def test_a_file_that_changed_after_it_was_opened_is_named(imagenet, change, keeps_its_time):
    source, file = open_source(f"tfrecords:{imagenet}"), imagenet / "train-00001-of-00002"
    good, time = file.read_bytes(), file.stat().st_mtime_ns
    middle = len(good) // 2
    file.unlink()
    if change in ("no examples", "no pictures"):
        with tf.io.TFRecordWriter(str(file)) as writer:
            for _ in range(7):
                is_example = change == "no pictures"
                writer.write(example(b"broken", [1], ["tench"]) if is_example else b"not one")
    elif change != "deleted":
        flipped = bytes([good[middle] ^ 1])
        file.write_bytes({
            "cut": good[:middle], "emptied": b"", "shifted": b"\0" * 9 + good,
            "flipped": good[:middle] + flipped + good[middle + 1 :],
        }[change])  # fmt: skip
    if keeps_its_time and file.exists():
        os.utime(file, ns=(time, time))
    with pytest.raises(UsageError) as error, naming_unreadable(source):
        if change == "no pictures":  # they must be decoded
            list(evaluation_batches(source, np.arange(12), Preprocessing(8, 8), 4))
        for i in range(7, 12):
            source.image.contents(tf.constant(i, tf.int64))
    line = str(error.value)
    assert line.startswith(f"{file}: expected ")
    assert len(line.splitlines()) == 1
    is_seen = not keeps_its_time or change != "flipped"  # by its time or by its size
    assert ("put it back, or start again" if is_seen else "a damaged record before") in line
    with pytest.raises((UsageError, FileNotFoundError), match=re.escape(str(file))):
        for i in range(7, 12):  # as Python reads them
            source.image(i)


def test_errors_that_no_image_causes_stay_as_they_are(imagenet):
    source = open_source(f"tfrecords:{imagenet}")
    with pytest.raises(tf.errors.InvalidArgumentError), naming_unreadable(source):
        tf.reshape(tf.zeros(3), (2, 2))
    (imagenet / "train-00001-of-00002").unlink()
    with pytest.raises(tf.errors.ResourceExhaustedError), naming_unreadable(source):
        raise tf.errors.ResourceExhaustedError(None, None, "out of memory")
