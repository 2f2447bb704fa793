"""Classes that VTAB computes from other features of an example.

Source: `task_adaptation/data` of google-research/task_adaptation (Zhai et al. 2019, arXiv
1910.04867): clevr.py, kitti.py, dsprites.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


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


def _interval(limits: tuple[float, ...], value: float) -> int:
    return int(np.searchsorted(np.float32(limits), np.float32(value), side="left")) - 1


def _clevr_distance(coordinates: np.ndarray) -> int:
    # The third coordinate of an object is its distance.
    return _interval(_CLEVR_LIMITS, coordinates.reshape(-1, 3)[:, 2].min())  # (objects, 3)


def _kitti_distance(types: np.ndarray, locations: np.ndarray) -> int:
    distances = locations.reshape(-1, 3)[:, 2]  # (objects, 3): right, down, ahead
    vehicles = distances[np.isin(types, (_CAR, _VAN, _TRUCK))]
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
