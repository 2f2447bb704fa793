"""Data sets of TensorFlow Datasets that are already on the disk. Nothing is downloaded."""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_vit._errors import UsageError, naming_install
from keras_vit.data.folders import listed
from keras_vit.data.records import Keys, Piece, record_source
from keras_vit.data.source import Source

_FORMAT = "tfrecord"  # of TFDS' formats the only one whose records are read
# Data sets that TFDS cannot download by itself: the files that it needs, and where they are.
_BY_HAND = {
    "imagenet2012": "ILSVRC2012_img_train.tar and ILSVRC2012_img_val.tar "
    "(image-net.org, with a registration)",
    "imagenet2012_real": "ILSVRC2012_img_val.tar (image-net.org, with a registration)",
    "resisc45": "NWPU-RESISC45.rar (its address is in TFDS' catalogue) and unpacking it",
    "diabetic_retinopathy_detection": "and unpacking the files of Kaggle's competition "
    "diabetic-retinopathy-detection",
}
_V2_VARIANTS = ("matched-frequency", "threshold-0.7", "topimages")
_V2 = _V2_VARIANTS[0]
# The values of masks, where their classes are known. Sources: the README of Oxford-IIIT Pet, which
# leaves 3 unclassified, the edges of the pets; labels.py of cityscapesScripts, whose other values
# are not evaluated.
_VALUES = {
    "oxford_iiit_pet": {1: "pet", 2: "background", 3: "border"},
    "cityscapes": {
        7: "road", 8: "sidewalk", 11: "building", 12: "wall", 13: "fence", 17: "pole",
        19: "traffic light", 20: "traffic sign", 21: "vegetation", 22: "terrain", 23: "sky",
        24: "person", 25: "rider", 26: "car", 27: "truck", 28: "bus", 31: "train",
        32: "motorcycle", 33: "bicycle",
    },
}  # fmt: skip
_OF_MASKS = ("segment", "mask")  # in the names of features
_IMAGE, _LABEL, _SEVERAL = "image", "label", "labels"  # TFDS' usual names; the last of a list


class NotPreparedError(UsageError):
    """A data set is not on the disk.

    Attributes:
        preparation: the command that prepares it.
    """

    def __init__(self, message: str, preparation: str):
        super().__init__(message)
        self.preparation = preparation


def tfds(text: str) -> Source:
    """Opens a data set of TensorFlow Datasets.

    Args:
        text: its name, with the configuration and the version if there are several:
            "tf_flowers", "imagenet_v2/matched-frequency/3.0.0". Then, each after a colon, the
            split for training and the one to hold out, in TFDS' notation: "mnist:train:test",
            "tf_flowers:train[:80%]:train[80%:]". With one split, a part of it is held out; with
            none, the data set's train, and validation or test.

    Raises:
        UsageError: the data set is not in TFDS' folder (`TFDS_DATA_DIR`, by default
            ~/tensorflow_datasets), has another format than TFRecord, no such split, or no images
            with classes; or the splits have images in common.
        MissingPackageError: tensorflow-datasets is not installed.
    """
    name, *splits = _separated(text)
    builder = prepared(name)
    parts = _parts(name, splits, list(builder.info.splits))
    return _source(builder, text, f"tfds:{text}", parts, *_features(name, builder.info))


def tfds_masks(text: str) -> Source:
    """Opens a data set of TensorFlow Datasets whose examples have an image and a mask.

    The mask is an image of one channel, or one with "segment" or "mask" in its name. The classes
    are its values, named as in `mask_folder` where their names are not known.

    Args:
        text: see `tfds`.

    Raises:
        UsageError: see `tfds`, with masks instead of classes.
        MissingPackageError: tensorflow-datasets is not installed.
    """
    name, *splits = _separated(text)
    builder = prepared(name)
    pieces = pieces_of(builder, text, _parts(name, splits, list(builder.info.splits)))
    keys = Keys(*_image_and_mask(name, builder.info), is_mask=True)
    name = name.partition("/")[0]
    values = _VALUES.get(name) or _labelled_values(builder.info.features[keys.label])
    return record_source(name, f"tfds-masks:{text}", pieces, keys, values=values)


def imagenet(name: str, label: str) -> Source:
    """ImageNet-1k's 50,000 validation images.

    Args:
        name: the name in TFDS: "imagenet2012", or "imagenet2012_real" for the classes of
            ImageNet-ReaL: several, or none, for an image. Source: Beyer et al. 2020, "Are we done
            with ImageNet?" (arXiv 2006.07159).
        label: the feature with the classes.

    Raises:
        UsageError: the data set is not in TFDS' folder, see `tfds`.
    """
    return _source(prepared(name), name, name, {"validation": "validation"}, "image", label)


def imagenet_v2(variant: str = _V2) -> Source:
    """ImageNet-V2: 10,000 new test images for ImageNet-1k's classes.

    Source: Recht et al. 2019 (arXiv 1902.10811).

    Args:
        variant: "matched-frequency", "threshold-0.7" or "topimages".

    Raises:
        UsageError: the data set is not in TFDS' folder, see `tfds`.
    """
    name, locator = f"imagenet_v2/{variant}", f"imagenet_v2:{variant}".removesuffix(f":{_V2}")
    return _source(prepared(name), name, locator, {"test": "test"}, "image", "label")


def check_imagenet_v2(variant: str = _V2) -> None:
    """Raises a `UsageError` if there is no such variant, or if it is not prepared."""
    if variant not in _V2_VARIANTS:
        raise UsageError(
            f"imagenet_v2 has the variants {', '.join(_V2_VARIANTS)}. Received: {variant!r}."
        )
    check_prepared(f"imagenet_v2/{variant}")


def prepared(name: str) -> Any:
    """TFDS' builder of a data set that is on the disk.

    Args:
        name: its name, with the configuration and the version if there are several.

    Raises:
        UsageError, MissingPackageError: see `tfds`.
    """
    with naming_install("tfds needs TensorFlow Datasets"):
        import tensorflow_datasets
    folder = _directory(name)
    builder = tensorflow_datasets.builder_from_directory(folder)
    kind = builder.info.file_format
    if kind is not None and kind.value != _FORMAT:
        raise UsageError(
            f"{folder}: expected files in the format {_FORMAT}. Received: {kind.value}; prepare "
            f"the data set in another folder, TFDS_DATA_DIR: {_preparation(name)}"
        )
    return builder


def check_prepared(text: str) -> None:
    """Raises a `NotPreparedError` if a data set is not on the disk.

    Args:
        text: see `tfds`; its splits are not checked.
    """
    _directory(_separated(text)[0])


def pieces_of(builder: Any, text: str, parts: Mapping[str, str]) -> dict[str, list[Piece]]:
    """The pieces of files with the examples of each split.

    Args:
        builder: see `prepared`.
        text: the data set, for errors.
        parts: for keras_vit's splits those of TFDS, in its notation.

    Raises:
        UsageError: there is no such split, or splits have images in common.
    """
    pieces, splits = {}, builder.info.splits
    for split, given in parts.items():
        try:
            files = splits[given].file_instructions
        except (KeyError, ValueError, AssertionError) as error:
            raise UsageError(
                f"tfds:{_separated(text)[0]} has the splits {', '.join(splits)}. Received: {given}."
            ) from error
        pieces[split] = [Piece(Path(file.filename), file.skip, file.take) for file in files]
    _check_apart(text, pieces)
    return pieces


def _source(
    builder: Any, text: str, locator: str, parts: Mapping[str, str], image: str, label: str
) -> Source:
    """The source of some splits, from the features with the image and with its class or classes."""
    pieces = pieces_of(builder, text, parts)
    name = _separated(text)[0].partition("/")[0]
    feature = builder.info.features[label]
    classes = getattr(feature, "feature", feature)  # of a list
    several = classes is not feature
    return record_source(name, locator, pieces, Keys(image, label), classes.names, several)


def _separated(text: str) -> list[str]:
    """The name of a data set and its splits, in whose notation there are colons too."""
    return re.split(r":(?![^\[]*\])", text)


def _directory(name: str) -> Path:
    """The folder of the newest version of a data set."""
    root = _root()
    found = sorted((root / name).rglob("dataset_info.json"), key=_version)
    configurations = {file.parent.parent for file in found if file.parent != root / name}
    if len(configurations) > 1:
        names = listed(sorted(folder.relative_to(root).as_posix() for folder in configurations))
        raise UsageError(f"tfds:{name} has several configurations: {names}; name one of them.")
    if not found:
        preparation = _preparation(name)
        raise NotPreparedError(
            f"{root / name}: expected a prepared data set of TensorFlow Datasets; set "
            f"TFDS_DATA_DIR, or prepare it: {preparation}",
            preparation,
        )
    return found[-1].parent


def _preparation(name: str) -> str:
    """The command that prepares a data set, and what must be downloaded by hand before."""
    command = (
        'python -c "import tensorflow_datasets as t; '
        f't.builder({name!r}, file_format={_FORMAT!r}).download_and_prepare()"'
    )
    by_hand = _BY_HAND.get(name.partition("/")[0])
    if by_hand is None:
        return command
    return f"{command}, after downloading {by_hand} to {_root() / 'downloads/manual'}"


def _root() -> Path:
    """TFDS' folder."""
    return Path(os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets").expanduser()


def _version(file: Path) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", file.parent.name))


def _features(name: str, info: Any) -> tuple[str, str]:
    """The features with the image and with its class or classes."""
    from tensorflow_datasets import features as kinds

    features = info.features

    def of_kind(kind, within=lambda feature: feature):
        return [key for key, feature in features.items() if isinstance(within(feature), kind)]

    def preferred(keys, usual):
        # Others are usually coarser classes (CIFAR-100, Pets) or masks.
        named = [key for key in (*(info.supervised_keys or ()), usual) if key in keys]
        return named[:1] or keys

    images = preferred(of_kind(kinds.Image), _IMAGE)
    single = preferred(of_kind(kinds.ClassLabel), _LABEL)
    several = of_kind(kinds.ClassLabel, lambda feature: getattr(feature, "feature", None))
    # Pascal VOC has the classes twice, in "labels" and without the difficult objects.
    labels = single or ([_SEVERAL] if _SEVERAL in several else several)
    if len(images) != 1 or len(labels) != 1:
        raise UsageError(
            f"tfds:{name}: expected one image, and one class or one list of classes, in each "
            f"example. Received: the features {listed(features)}."
        )
    return images[0], labels[0]


def _image_and_mask(name: str, info: Any) -> tuple[str, str]:
    """The features with the image and with its mask."""
    from tensorflow_datasets import features as kinds

    images = [key for key, each in info.features.items() if isinstance(each, kinds.Image)]
    masks = [key for key in images if any(word in key.lower() for word in _OF_MASKS)]
    shapes = {key: info.features[key].shape for key in images}
    masks = masks or [key for key, shape in shapes.items() if shape == (None, None, 1)]
    images = [key for key in images if key not in masks]
    images = [_IMAGE] if _IMAGE in images else images
    if len(images) != 1 or len(masks) != 1:
        raise UsageError(
            f"tfds:{name}: expected one image and one mask, an image of one channel, in each "
            f"example. Received: the features {listed(sorted(info.features))}."
        )
    return images[0], masks[0]


def _labelled_values(feature: Any) -> dict[int, str] | None:
    """The names of the values of a mask, if TFDS has them."""
    names = getattr(feature, "names", None)
    return dict(enumerate(names)) if names else None


def _parts(name: str, given: Sequence[str], existing: Sequence[str]) -> dict[str, str]:
    """TFDS' splits for each of keras_vit's."""
    if len(given) > 2:
        raise UsageError(
            f"tfds:{name}: expected a split for training and one to hold out. "
            f"Received: {', '.join(given)}."
        )
    if given:
        return {"": given[0]} if len(given) == 1 else {"train": given[0], "validation": given[1]}
    declared = {split: split for split in ("train", "validation", "test") if split in existing}
    if "train" in declared and len(declared) > 1:
        return declared
    return {"": "train" if "train" in existing else existing[0]}


def _check_apart(text: str, parts: Mapping[str, Sequence[Piece]]) -> None:
    """Raises a `UsageError` if two pieces have examples in common."""
    spans = sorted(
        (piece.file, piece.skip, math.inf if piece.take < 0 else piece.skip + piece.take)
        for pieces in parts.values()
        for piece in pieces
    )
    for (file, _, end), (other, start, _) in itertools.pairwise(spans):
        if file == other and start < end:
            raise UsageError(
                f"tfds:{text}: expected each image once, for training or held out. Received: the "
                f"image {file.name}#{start} twice; divide a split, as in train[:80%]:train[80%:]."
            )
