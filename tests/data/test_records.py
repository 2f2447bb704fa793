"""TFRecord files: in ImageNet's layout, and as TensorFlow Datasets itself writes them."""

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
from keras_vit import Preprocessing, UsageError, data, runs
from keras_vit._errors import shown
from keras_vit.data import open_source, records, skipped_summary, split_source
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


def example(content, labels, texts=()):
    def strings(values):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))

    features = {
        "image/encoded": strings([content]),
        "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=labels)),
        "image/class/text": strings([text.encode() for text in texts]),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def write(file, *contents):
    with tf.io.TFRecordWriter(str(file)) as writer:
        for content in contents:
            writer.write(content)


def sizes(source):
    return {name: len(indices) for name, indices in source.splits.items()}


@pytest.fixture
def labelled(tmp_path, rng):
    """Writes a file of pictures with these classes and their names; returns what opens it."""

    def write_labelled(classes, texts=None):
        texts = texts or [[]] * len(classes)
        write(tmp_path / "a.tfrecord", *map(example, pictures(rng, len(classes)), classes, texts))
        return f"tfrecords:{tmp_path}"

    return write_labelled


@pytest.fixture
def imagenet(tmp_path, rng):
    """Two training shards and one of validation; the labels begin with 1, as ImageNet's do."""
    shards = {"train-00000-of-00002": 7, "train-00001-of-00002": 5, "validation-00000-of-00001": 4}
    for name, count in shards.items():
        classes = [([1], ["tench"]), ([2], ["goldfish"])]
        contents = enumerate(pictures(rng, count))
        write(tmp_path / name, *(example(content, *classes[i % 2]) for i, content in contents))
    return tmp_path


def test_files_are_scanned_once(imagenet, monkeypatch, rng):
    before = open_source(f"tfrecords:{imagenet}")
    assert data.source_name(before.locator) == imagenet.name
    assert before.counts == {"tench": 9, "goldfish": 7}
    assert sizes(before) == {"train": 12, "validation": 4}
    assert before.ids[7] == "train-00001-of-00002#0"
    status = (imagenet / "train-00001-of-00002").stat()
    assert before.states[7].tolist() == [status.st_size, status.st_mtime_ns]
    monkeypatch.setattr(records, "_records", None)
    again = open_source(before.locator)
    assert (again.ids, again.labels) == (before.ids, before.labels)
    np.testing.assert_array_equal(again.targets, before.targets)
    monkeypatch.undo()
    write(imagenet / "train-00001-of-00002", example(next(pictures(rng, 1)), [2], ["goldfish"]))
    assert len(open_source(before.locator)) == 12


def test_damaged_files_and_pictures_are_named(imagenet, refused, rng):
    file = imagenet / "train-00000-of-00002"
    content = bytearray(file.read_bytes())
    content[400] ^= 1
    file.write_bytes(content)
    refused(f"tfrecords:{imagenet}", "00000-of-00002: expected an uncompressed TFRecord file")
    file.write_bytes(content[:300])
    refused(f"tfrecords:{imagenet}", "a damaged record before byte 300")
    length = struct.pack("<Q", 1 << 50)  # more than the file has: no memory is taken for it
    value = google_crc32c.value(length)
    checksum = ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF
    file.write_bytes(length + struct.pack("<I", checksum) + bytes(100))
    refused(f"tfrecords:{imagenet}", "a damaged record before byte 112")
    write(file, tf.train.Example().SerializeToString())
    refused(f"tfrecords:{imagenet}", "expected one image/encoded and image/class/label")
    png = next(pictures(rng, 1))
    write(file, *(example(content, [1]) for content in (b"no picture", png, png[:-999])))
    assert skipped_summary(open_source(f"tfrecords:{imagenet}"))[:2] == [
        f"{file.name}#0: not a picture that can be read", f"{file.name}#2: truncated PNG",
    ]  # fmt: skip


def test_images_may_have_several_classes_or_none(labelled):
    names = {5: "sky", 2: "sea", 9: "sand"}
    of_images = [[5, 2], [5], [2, 5, 9], [], [9, 5], [5]]
    locator = labelled(of_images, [[names[label] for label in each] for each in of_images])
    for source in (open_source(locator), open_source(locator)):
        assert source.labels == ("sea", "sky", "sand")
        rows = [[1, 1, 0], [0, 1, 0], [1, 1, 1], [0, 0, 0], [0, 1, 1], [0, 1, 0]]
        np.testing.assert_array_equal(source.multi_hot[:], rows)
        assert source.counts == {"sea": 2, "sky": 5, "sand": 2}
        np.testing.assert_array_equal(source.targets, [0, 1, 0, 0, 2, 1])  # the rarest
        assert not source.skipped
    size, contents = Preprocessing(8, 8), [*pictures(np.random.default_rng(0), 6)]
    ((batch, classes),) = data.evaluation_batches(source, [4, 3, 2], size, 3)
    np.testing.assert_array_equal(classes, [[0, 1, 1], [0, 0, 0], [1, 1, 1]])
    for i, pixels in zip((4, 3, 2), batch, strict=True):  # print colours, a PNG and a JPEG
        image = Image.open(io.BytesIO(contents[i])).convert("RGB")
        np.testing.assert_array_equal(source.image(i), image)
        np.testing.assert_array_equal(pixels, resize(image, size))
    split = split_source(source)
    assert sorted([*split.train, *split.held_out]) == [0, 1, 2, 3, 4, 5]
    np.testing.assert_array_equal(data.subset(source, split, 1.0).train, split.train)
    part = data.subset(source, split, 0.5)
    assert set(part.train) <= set(split.train)
    assert len(part.train) >= len(set(source.targets[split.train]))
    development = data.development_split(source, split)
    assert sorted([*development.train, *development.held_out]) == sorted(split.train)


def test_an_index_of_many_classes_does_not_grow_in_memory(tmp_path, rng):
    content, count = next(pictures(rng, 1)), 3000
    write(tmp_path / "a.tfrecord", *(example(content, [i, i + 1]) for i in range(count)))
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


def test_images_without_a_class_are_skipped_where_each_has_one(labelled):
    source = open_source(labelled([[2], [], [5]]))
    np.testing.assert_array_equal(source.targets, [0, 1])
    assert source.multi_hot is None
    assert skipped_summary(source) == ["a.tfrecord#1: it has no class"]


def test_texts_name_classes_only_where_there_are_as_many(labelled):
    texts = [["a wreck", "in a storm"], ["ship", "sea"], ["sky"]]
    assert open_source(labelled([[3], [3, 4], [4, 5]], texts)).labels == ("ship", "sea", "5")


def test_files_without_usable_records_are_refused(tmp_path, refused):
    file = tmp_path / "a.tfrecord"
    file.touch()
    refused(f"tfrecords:{tmp_path}", "expected images with classes. Received: no examples")
    write(file, example(b"no picture", [1]))
    refused(f"tfrecords:{tmp_path}", "Received: 1, the first is a.tfrecord#0: not a picture")


UNDECLARED = r"expected train, validation or test in the name of every file.* extra\.tfrecord;"
OF_SIX = "a-train.tfrecord-0000{}-of-00006"  # as TensorFlow Datasets names them


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["kept"], "expected TFRecord files.*Received: none"),
        (["train-0.tfrecord", "validation-0.tfrecord", "extra.tfrecord"], UNDECLARED),
        (["validation-0.tfrecord", "extra.tfrecord"], UNDECLARED),
        (
            ["train-00000-of-00002", "validation-00000-of-00001"],
            "Received: 2, without train-00001-of-00002; add them, or",
        ),
        (
            [OF_SIX.format(1), OF_SIX.format(3), "validation-00000-of-00001"],
            f"Received: 3, without {', '.join(map(OF_SIX.format, (0, 2, 4)))} and 1 more; add them",
        ),
    ],
    ids=["none", "one undeclared", "another undeclared", "one missing", "four missing"],
)
def test_folders_that_lack_files_or_declare_only_some_splits_are_refused(
    tmp_path, refused, names, message
):
    for name in names:
        (tmp_path / name).touch()
    refused(f"tfrecords:{tmp_path}", message)


def test_splits_without_one_for_training_are_opened_but_not_trained_on(imagenet):
    (imagenet / "train-00000-of-00002").unlink()
    (imagenet / "train-00001-of-00002").rename(imagenet / "test.tfrecord")
    source = open_source(f"tfrecords:{imagenet}")  # an exported file is compared on all of them
    assert sizes(source) == {"test": 5, "validation": 4}
    assert data.split_summary(source) == "splits: test 5, validation 4 (declared by the data)"
    message = "splits train, and validation or test. Received: only test and validation; rename"
    with pytest.raises(UsageError, match=message):
        split_source(source)
    (imagenet / "validation-00000-of-00001").unlink()
    split = split_source(open_source(f"tfrecords:{imagenet}"))  # of a single one a part is held out
    assert [len(split.train), len(split.held_out)] == [3, 2]


@pytest.mark.parametrize(
    "name", ["a\nb", "tench\r", "a\u2028b", "a\x1cb", "a\0", "\x1b[2J", "\u202ea", "x" * 1_001]
)
def test_names_of_classes_with_line_breaks_are_refused(labelled, refused, name):
    locator = labelled([[0], [1]], [["goldfish"], [name]])
    refused(locator, re.escape(f"and line breaks. Received: {shown(name)}; rename"))


@pytest.fixture
def shapes(prepare_tfds, rng):
    """The folder of 14 images for training and 6 to test, whose classes go round."""
    images = rng.integers(0, 256, (20, 32, 32, 3), np.uint8)
    examples = [{"image": image, "label": i % 3, "id": f"{i}"} for i, image in enumerate(images)]
    return prepare_tfds("cifar10", train=examples[:14], test=examples[14:])


def read_by_tfds(folder, *splits):
    """The examples of the splits, in the order in which TensorFlow Datasets reads them."""
    from tensorflow_datasets import builder_from_directory

    builder = builder_from_directory(folder)
    return [each for split in splits for each in builder.as_dataset(split).as_numpy_iterator()]


def restate(folder, **facts):
    """Changes what TensorFlow Datasets says of its files."""
    about = folder / "dataset_info.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | facts))


def shade(i):
    """An image by which an example can be recognised; a JPEG of it has no losses."""
    return np.full((12, 10, 3), 30 * i, np.uint8)


def test_a_list_of_classes_that_tfds_wrote_is_read(prepare_tfds):
    other = {"image/filename": "", "objects": []}
    examples = [
        {"image": shade(i), "labels": [i % 3, 3], "labels_no_difficult": [i % 3], **other}
        for i in range(7)
    ]
    folder = prepare_tfds("voc/2007", train=examples[:6], test=examples[6:])
    source = open_source("tfds:voc")
    for i, each in enumerate(read_by_tfds(folder, "train", "test")):
        np.testing.assert_array_equal(source.image(i), each["image"])
        np.testing.assert_array_equal(np.flatnonzero(source.multi_hot[i]), each["labels"])
    assert source.labels[:5] == ("aeroplane", "bicycle", "bird", "boat", "bottle")
    assert list(source.counts.values()) == [3, 2, 2, 7] + [0] * 16


@pytest.mark.parametrize(
    ("supervised", "expected"),
    [([], "label"), (["image", "segmentation_mask"], "label"), (["image", "species"], "species")],
)
def test_of_several_features_of_tfds_the_supervised_or_usual_ones_are_read(
    prepare_tfds, supervised, expected
):
    from tensorflow_datasets.core.features import BBox

    mask, box = np.zeros((12, 10, 1), np.uint8), BBox(0.0, 0.0, 1.0, 1.0)
    other = {"segmentation_mask": mask, "head_bbox": box, "file_name": ""}
    examples = [{"image": shade(i), "species": i % 2, "label": i % 3, **other} for i in range(6)]
    folder = prepare_tfds("oxford_iiit_pet", train=examples)
    items = [{"featureKey": key} for key in supervised]
    restate(folder, **({"supervisedKeys": {"tuple": {"items": items}}} if items else {}))
    source = open_source("tfds:oxford_iiit_pet")
    for i, each in enumerate(read_by_tfds(folder, "train")):
        np.testing.assert_array_equal(source.image(i), each["image"])
        assert source.targets[i] == each[expected]
    labels = {"label": ("Abyssinian", "american_bulldog"), "species": ("Cat", "Dog")}
    assert source.labels[:2] == labels[expected]


def test_a_data_set_that_tfds_wrote_is_read(shapes):
    source = open_source("tfds:cifar10")
    assert sizes(source) == {"train": 14, "test": 6}
    expected = read_by_tfds(shapes, "train", "test")
    for i, each in enumerate(expected):
        np.testing.assert_array_equal(source.image(i), each["image"])
        assert source.targets[i] == each["label"] == int(each["id"]) % 3
    order = np.random.default_rng(3).permutation(20)  # each is read at its position
    ((images, classes),) = data.evaluation_batches(source, order, Preprocessing(32, 32), 20)
    np.testing.assert_array_equal(images, [expected[i]["image"] for i in order])
    np.testing.assert_array_equal(classes, [expected[i]["label"] for i in order])
    assert data.source_name("tfds:cifar10:train:test") == "cifar10"


def test_splits_of_tfds_may_be_named_and_divided(shapes, refused):
    source = open_source("tfds:cifar10/3.0.2:train[:50%]:train[50%:]")
    assert sizes(source) == {"train": 7, "validation": 7}
    for i, each in enumerate(read_by_tfds(shapes, "train[:50%]", "train[50%:]")):
        np.testing.assert_array_equal(source.image(i), each["image"])
    assert open_source(source.locator).ids == source.ids
    whole = open_source("tfds:cifar10:train")
    assert not whole.splits
    assert len(whole) == 14
    refused("tfds:cifar10:dev", "cifar10 has the splits (train, test|test, train).*dev")
    refused("tfds:cifar10:a:b:c", "a split for training and one to hold out.*a, b, c")


@pytest.mark.usefixtures("shapes")
def test_a_run_on_parts_of_a_split_of_tfds_can_be_judged_on_the_test_split(tmp_path, small_spec):
    source = open_source("tfds:cifar10:train[:50%]:train[50%:]")
    model = keras_vit.ViT(small_spec, 10, 16)
    recipe = {"recipe": {}}
    runs.create_run(tmp_path / "run", model, source, split_source(source), recipe, "fresh")
    run = runs.open_run(tmp_path / "run")
    whole = run.source("tfds:cifar10")
    images = run.images(whole, "test")
    assert len(images) == 6
    assert all(whole.ids[i].startswith("cifar10-test") for i in images)


@pytest.mark.parametrize(
    "splits", ["train:train", "train:train[80%:]", "train[:60%]:train[50%:]", "train+train"]
)
@pytest.mark.usefixtures("shapes")
def test_splits_of_tfds_with_common_images_are_refused(refused, splits):
    message = r"expected each image once.* image cifar10-train\.tfrecord.*#\d+ twice"
    refused(f"tfds:cifar10:{splits}", message)


def test_a_file_of_tfds_that_is_missing_or_lacks_examples_is_named(shapes, refused):
    (file,) = shapes.glob("*-test.*")
    file.unlink()
    message = f"expected 2 files. Received: 1, without {file.name} of {file.parent}; prepare"
    refused("tfds:cifar10", message)
    assert len(open_source("tfds:cifar10:train")) == 14
    (file,) = shapes.glob("*-train.*")
    write(file, *list(tf.data.TFRecordDataset(str(file)).as_numpy_iterator())[:5])
    refused("tfds:cifar10:train[:50%]", f"{file}: expected 7 examples. Received: 5; prepare")


@pytest.mark.usefixtures("shapes")
def test_an_empty_split_of_tfds_is_refused(refused):
    source = open_source("tfds:cifar10:train[:1%]:test")
    with pytest.raises(UsageError, match=r"tfds:cifar10:train\[:1%\]:test.*none in train"):
        split_source(source)
    refused("tfds:cifar10:train[:1%]", "expected images with classes. Received: no examples")


def test_a_test_split_of_tfds_without_classes_is_left_out_if_it_is_not_needed(
    prepare_tfds, refused
):
    parts = {"train": [0, 1, 0, 1], "test": [-1, -1, -1], "validation": [1, 0]}
    image = np.zeros((28, 28, 1), np.uint8)
    two, three = "mnist", "kmnist"
    splits = {name: [{"image": image, "label": i} for i in part] for name, part in parts.items()}
    prepare_tfds(three, **splits)
    del splits["validation"]
    prepare_tfds(two, **splits)
    source = open_source(f"tfds:{three}")
    assert sizes(source) == {"train": 4, "validation": 2}
    (line,) = skipped_summary(source)
    assert line.startswith("3 files, it has no class: kmnist-test.tfr")
    received = r"classes from 0 to 9. Received: -1 in k?mnist-test\S+#0; name splits with classes"
    for name in (two, f"{three}:train:test", f"{two}:test"):
        refused(f"tfds:{name}", received)


def test_other_formats_and_data_sets_that_are_not_prepared_are_refused(shapes, refused):
    refused("tfds:mnist", r"t.builder\('mnist', file_format='tfrecord'\).download_and_prepare\(\)")
    restate(shapes, fileFormat="array_record")
    refused("tfds:cifar10", "format tfrecord. Received: array_record; prepare .* file_format=")


@pytest.mark.parametrize("keeps_its_time", [False, True])
@pytest.mark.parametrize(
    "change", ["cut", "emptied", "deleted", "flipped", "shifted", "no examples", "no pictures"]
)
def test_a_file_that_changed_after_it_was_opened_is_named(imagenet, change, keeps_its_time):
    source, file = open_source(f"tfrecords:{imagenet}"), imagenet / "train-00001-of-00002"
    good, time = file.read_bytes(), file.stat().st_mtime_ns
    start, middle, end = good[: len(good) // 2], good[len(good) // 2], good[len(good) // 2 + 1 :]
    file.unlink()
    if change in ("no examples", "no pictures"):
        broken = example(b"broken", [1], ["tench"])
        write(file, *[broken if change == "no pictures" else b"not one"] * 7)
    elif change != "deleted":
        flipped = start + bytes([middle ^ 1]) + end
        contents = {"cut": start, "emptied": b"", "shifted": bytes(9) + good, "flipped": flipped}
        file.write_bytes(contents[change])
    if keeps_its_time and file.exists():
        os.utime(file, ns=(time, time))
    with pytest.raises(UsageError) as error, naming_unreadable(source):
        if change == "no pictures":  # they must be decoded
            list(data.evaluation_batches(source, np.arange(12), Preprocessing(8, 8), 4))
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
