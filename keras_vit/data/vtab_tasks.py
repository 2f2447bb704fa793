"""The 19 tasks of VTAB-1k, as data. Nothing here imports NumPy, because --help lists the names.

Each task has 800 images for training and 200 for validation; the final run uses both. The test
images are all of the original test split, or a part of the only split that is labelled. The classes
of some are computed from other features of an example.

Source: `task_adaptation/data` of google-research/task_adaptation (Zhai et al. 2019, arXiv
1910.04867; clevr.py, kitti.py, dsprites.py) and its `scripts/run_all_tasks.sh`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    import numpy as np


@dataclasses.dataclass(frozen=True)
class VtabTask:
    """A row of `VTAB`.

    Attributes:
        group: VTAB's group of tasks.
        data: the name in TensorFlow Datasets, with its configuration.
        validation: the split of TFDS with the 200 validation images, and the percentage of it that
            comes before them.
        test: the split of TFDS with the test images, and the percentage of it before them.
        label: the feature with the class; "" for a task of `DERIVED`.
        levels: what the image's levels are multiplied by, to lie in 0 to 255.
    """

    group: Literal["natural", "specialised", "structured"]
    data: str
    validation: tuple[str, int]
    test: tuple[str, int] = ("test", 0)
    label: str = "label"
    levels: int = 1


class Derived(NamedTuple):
    """How a class is computed.

    Attributes:
        features: the features of `tf.train.Example` that are read.
        label: a function of their values, flat arrays in this order, that returns the class.
        names: the names of the classes.
    """

    features: tuple[str, ...]
    label: Callable[..., int]
    names: tuple[str, ...]


_CAR, _VAN, _TRUCK = range(3)  # KITTI's first types of objects, the vehicles
_NO_VEHICLE = 1000.0  # metres, beyond the last limit
_FEWEST = 3  # objects in an image of CLEVR
# A class goes from one limit, which does not belong to it, to the next, which does.
_CLEVR_LIMITS = (0.0, 8.0, 8.5, 9.0, 9.5, 10.0)  # pixel_coords, without a unit
_KITTI_LIMITS = (-100.0, 8.0, 20.0, 999.0)  # metres
_BINS = 16  # of dSprites' 32 positions and 40 orientations
_DECLARED = ("validation", 0)
# The beginnings of the rows of data sets with two tasks. CLEVR's test images have no labels, and
# dSprites' levels are 0 and 1.
_CLEVR = ("structured", "clevr", ("train", 90), ("validation", 0), "")
_DSPRITES = ("structured", "dsprites", ("train", 80), ("train", 90), "", 255)
_SMALLNORB = ("structured", "smallnorb", ("test", 0), ("test", 50))

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
    "clevr-count": VtabTask(*_CLEVR),
    "clevr-distance": VtabTask(*_CLEVR),
    "dmlab": VtabTask("structured", "dmlab", _DECLARED),
    "dsprites-location": VtabTask(*_DSPRITES),
    "dsprites-orientation": VtabTask(*_DSPRITES),
    "kitti-distance": VtabTask("structured", "kitti", _DECLARED, label=""),
    "smallnorb-azimuth": VtabTask(*_SMALLNORB, "label_azimuth"),
    "smallnorb-elevation": VtabTask(*_SMALLNORB, "label_elevation"),
}


def _interval(limits: tuple[float, ...], value: float) -> int:
    import numpy as np

    return int(np.searchsorted(np.float32(limits), np.float32(value), side="left")) - 1


def _clevr_distance(coordinates: np.ndarray) -> int:
    # The third coordinate of an object is its distance.
    return _interval(_CLEVR_LIMITS, coordinates.reshape(-1, 3)[:, 2].min())  # (objects, 3)


def _kitti_distance(types: np.ndarray, locations: np.ndarray) -> int:
    distances = locations.reshape(-1, 3)[:, 2]  # (objects, 3): right, down, ahead
    vehicles = distances[(types >= _CAR) & (types <= _TRUCK)]
    return _interval(_KITTI_LIMITS, vehicles.min(initial=_NO_VEHICLE))


def _binned(values: int) -> Callable[[np.ndarray], int]:
    return lambda label: int(label[0] // (values / _BINS))


DERIVED: dict[str, Derived] = {
    "clevr-count": Derived(
        ("objects/size",),
        lambda sizes: len(sizes) - _FEWEST,
        tuple(f"{count} objects" for count in range(_FEWEST, 11)),
    ),
    "clevr-distance": Derived(
        ("objects/pixel_coords",),
        _clevr_distance,
        ("up to 8", "8 to 8.5", "8.5 to 9", "9 to 9.5", "9.5 to 10", "over 10"),
    ),
    "kitti-distance": Derived(
        ("objects/type", "objects/location"),
        _kitti_distance,
        ("up to 8 m", "8 to 20 m", "over 20 m", "no vehicle"),
    ),
    "dsprites-location": Derived(
        ("label_x_position",), _binned(32), tuple(f"column {i}" for i in range(_BINS))
    ),
    "dsprites-orientation": Derived(
        ("label_orientation",), _binned(40), tuple(f"angle {i}" for i in range(_BINS))
    ),
}
