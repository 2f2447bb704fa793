"""The 19 tasks of VTAB-1k, as data. Nothing here imports NumPy, because --help lists the names.

Each task has 800 images for training and 200 for validation; a final training uses both. The test
images are all of the original test split, or a part of the only split that is labelled.

Source: `task_adaptation/data` of google-research/task_adaptation (Zhai et al. 2019, arXiv
1910.04867) and its `scripts/run_all_tasks.sh`.
"""

from __future__ import annotations

import dataclasses
from typing import Literal


@dataclasses.dataclass(frozen=True)
class VtabTask:
    """A row of `VTAB`.

    Attributes:
        group: VTAB's group of tasks.
        data: the name in TensorFlow Datasets, with its configuration.
        validation: the split of TFDS with the 200 validation images, and the percentage of it that
            comes before them.
        test: the split of TFDS with the test images, and the percentage of it before them.
        label: the feature with the class; "" for a task of `derived.DERIVED`.
        levels: what the image's levels are multiplied by, to lie in 0 to 255.
    """

    group: Literal["natural", "specialised", "structured"]
    data: str
    validation: tuple[str, int]
    test: tuple[str, int] = ("test", 0)
    label: str = "label"
    levels: int = 1


_DECLARED = ("validation", 0)

VTAB: dict[str, VtabTask] = {
    "caltech101": VtabTask("natural", "caltech101", ("train", 90)),
    "cifar100": VtabTask("natural", "cifar100", ("train", 90)),
    "dtd": VtabTask("natural", "dtd", _DECLARED),
    "flowers102": VtabTask("natural", "oxford_flowers102", _DECLARED),
    "pets": VtabTask("natural", "oxford_iiit_pet", ("train", 80)),
    "sun397": VtabTask("natural", "sun397/tfds", _DECLARED),
    "svhn": VtabTask("natural", "svhn_cropped", ("train", 90)),
    "patch-camelyon": VtabTask("specialised", "patch_camelyon", _DECLARED),
    "eurosat": VtabTask("specialised", "eurosat/rgb", ("train", 60), ("train", 80)),
    "resisc45": VtabTask("specialised", "resisc45", ("train", 60), ("train", 80)),
    "retinopathy": VtabTask(
        "specialised", "diabetic_retinopathy_detection/btgraham-300", _DECLARED
    ),
    # CLEVR's test images have no labels.
    "clevr-count": VtabTask("structured", "clevr", ("train", 90), ("validation", 0), ""),
    "clevr-distance": VtabTask("structured", "clevr", ("train", 90), ("validation", 0), ""),
    "dmlab": VtabTask("structured", "dmlab", _DECLARED),
    # dSprites' levels are 0 and 1.
    "dsprites-location": VtabTask("structured", "dsprites", ("train", 80), ("train", 90), "", 255),
    "dsprites-orientation": VtabTask(
        "structured", "dsprites", ("train", 80), ("train", 90), "", 255
    ),
    "kitti-distance": VtabTask("structured", "kitti", _DECLARED, label=""),
    "smallnorb-azimuth": VtabTask(
        "structured", "smallnorb", ("test", 0), ("test", 50), "label_azimuth"
    ),
    "smallnorb-elevation": VtabTask(
        "structured", "smallnorb", ("test", 0), ("test", 50), "label_elevation"
    ),
}
