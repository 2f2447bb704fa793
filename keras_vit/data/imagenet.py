"""The images on which ImageNet-1k's classifiers are judged, from TensorFlow Datasets.

Their classes are named by WordNet ids. The training images are not read; `tfds:imagenet2012` has
them too.
"""

from __future__ import annotations

from keras_vit._errors import UsageError
from keras_vit.data.records import Keys, record_source
from keras_vit.data.source import Source
from keras_vit.data.tfds import check_prepared, pieces_of, prepared

_V2_VARIANTS = ("matched-frequency", "threshold-0.7", "topimages")
_V2 = _V2_VARIANTS[0]


def imagenet2012() -> Source:
    """ImageNet-1k's 50,000 validation images.

    Raises:
        UsageError: the data set is not in TFDS' folder, see `tfds`.
    """
    return _opened("imagenet2012", "imagenet2012", "validation", "label")


def imagenet2012_real() -> Source:
    """The same images with the classes of ImageNet-ReaL: several, or none, for an image.

    Source: Beyer et al. 2020, "Are we done with ImageNet?" (arXiv 2006.07159).

    Raises:
        UsageError: the data set is not in TFDS' folder, see `tfds`.
    """
    return _opened("imagenet2012_real", "imagenet2012_real", "validation", "real_label")


def imagenet_v2(variant: str = _V2) -> Source:
    """ImageNet-V2: 10,000 new test images for ImageNet-1k's classes.

    Source: Recht et al. 2019 (arXiv 1902.10811).

    Args:
        variant: "matched-frequency", "threshold-0.7" or "topimages".

    Raises:
        UsageError: the data set is not in TFDS' folder, see `tfds`.
    """
    locator = "imagenet_v2" if variant == _V2 else f"imagenet_v2:{variant}"
    return _opened(f"imagenet_v2/{variant}", locator, "test", "label")


def check_imagenet_v2(variant: str = _V2) -> None:
    """Raises a `UsageError` if there is no such variant, or if it is not prepared."""
    if variant not in _V2_VARIANTS:
        raise UsageError(
            f"imagenet_v2 has the variants {', '.join(_V2_VARIANTS)}. Received: {variant!r}."
        )
    check_prepared(f"imagenet_v2/{variant}")


def _opened(name: str, locator: str, split: str, label: str) -> Source:
    builder = prepared(name)
    feature = builder.info.features[label]
    several = hasattr(feature, "feature")
    names = feature.feature.names if several else feature.names
    parts = pieces_of(builder, name, {split: split})
    return record_source(
        name.partition("/")[0], locator, parts, Keys("image", label), names, several
    )
