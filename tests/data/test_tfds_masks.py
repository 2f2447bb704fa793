"""Masks in the data sets of TensorFlow Datasets."""

import functools

import numpy as np
import pytest

from keras_vit import Preprocessing, UsageError, data
from keras_vit.data.geometry import of_whole
from keras_vit.data.masks import NO_CLASS

SIZE = (12, 10)


def pets(masks):
    """Examples of Oxford-IIIT Pet with these masks, (height, width)."""
    from tensorflow_datasets.core.features import BBox

    other = {"species": 1, "label": 2, "head_bbox": BBox(0.0, 0.0, 1.0, 1.0), "file_name": ""}
    return [
        {"image": np.full((*SIZE, 3), 30 * i, np.uint8), "segmentation_mask": m[..., None], **other}
        for i, m in enumerate(masks)
    ]


def test_a_data_set_that_tfds_wrote_is_read(prepare_tfds, rng):
    from tensorflow_datasets import builder_from_directory

    masks = rng.integers(1, 4, (5, *SIZE), np.uint8)
    masks[3] = 2
    folder = prepare_tfds("oxford_iiit_pet", train=pets(masks[:3]), test=pets(masks[3:]))
    locator = data.for_task("tfds:oxford_iiit_pet", "segmentation")
    assert locator == "tfds-masks:oxford_iiit_pet"
    source = data.open_source(locator)
    assert source.locator == locator
    assert source.labels == ("pet", "background", "border")
    assert source.counts == {"pet": 4, "background": 5, "border": 4}
    assert {name: len(each) for name, each in source.splits.items()} == {"train": 3, "test": 2}
    builder = builder_from_directory(folder)
    expected = [e for split in ("train", "test") for e in builder.as_dataset(split)]
    for i, each in enumerate(expected):
        np.testing.assert_array_equal(source.image(i), each["image"])
        mask = each["segmentation_mask"].numpy()[..., 0]
        np.testing.assert_array_equal(source.annotations.mask(i), mask - 1)
        whole = functools.partial(of_whole, preprocessing=Preprocessing(*SIZE))
        moved = source.annotations.moved(np.int64(i), whole, SIZE)
        np.testing.assert_array_equal(moved, mask - 1)
    assert data.open_source("tfds:oxford_iiit_pet").annotations is None
    assert data.for_task("tfds:oxford_iiit_pet", "classification") == "tfds:oxford_iiit_pet"
    divided = data.open_source("tfds-masks:oxford_iiit_pet:train[:2]:test")
    assert {name: len(each) for name, each in divided.splits.items()} == {
        "train": 2,
        "validation": 2,
    }


def test_a_mask_that_cannot_be_used_is_skipped(prepare_tfds):
    masks = [np.ones(SIZE, np.uint8), np.ones((6, 5), np.uint8)]
    prepare_tfds("oxford_iiit_pet", train=pets(masks))
    source = data.open_source("tfds-masks:oxford_iiit_pet")
    assert len(source) == 1
    (skipped,) = source.skipped
    assert skipped.reason == "mask of another size than its picture"


def test_values_without_names_are_named_by_their_numbers(tmp_path, monkeypatch, rng):
    import tensorflow_datasets as tfds

    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    masks = rng.choice(np.array([0, 4, NO_CLASS], np.uint8), (3, *SIZE, 1))
    features = {
        "photo": tfds.features.Image(),
        "classes": tfds.features.Image(shape=(None, None, 1)),
    }
    examples = [{"photo": np.zeros((*SIZE, 3), np.uint8), "classes": mask} for mask in masks]
    tfds.dataset_builders.store_as_tfds_dataset(
        "own",
        "1.0.0",
        tfds.features.FeaturesDict(features),
        {"train": enumerate(examples)},
        data_dir=tmp_path,
        file_format="tfrecord",
        disable_shuffling=True,
    )
    source = data.open_source("tfds-masks:own")
    assert source.labels == ("background", "class 4")
    for i, mask in enumerate(masks[..., 0]):
        expected = np.where(mask == 4, 1, mask)
        np.testing.assert_array_equal(source.annotations.mask(i), expected)


def test_a_data_set_without_masks_is_one_line(prepare_tfds):
    image = np.zeros((32, 32, 3), np.uint8)
    prepare_tfds("cifar10", train=[{"image": image, "label": 1, "id": "1"}])
    with pytest.raises(UsageError, match=r"expected one image and one mask.*id, image, label"):
        data.open_source("tfds-masks:cifar10")
    with pytest.raises(UsageError, match="expected a prepared data set"):
        data.check_present("tfds-masks:oxford_iiit_pet")
