"""What preprocessing computes in every array library, with the same bits: grey, and the crop."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from keras_vit.specs import Preprocessing


def luma(pixels: Any, floor: Callable[[Any], Any] = np.floor) -> Any:
    """The luma of RGB levels 0 to 255, float32 (..., 3) to (..., 1), as Pillow rounds it.

    All sums are integers below 2**24, so that float32 is exact in every library.

    Args:
        pixels: an array or a tensor.
        floor: the function of its library.
    """
    red, green, blue = (pixels[..., i : i + 1] for i in range(3))
    return floor((red * 19595.0 + green * 38470.0 + blue * 7471.0 + 32768.0) / 65536.0)


def central_box(
    sides: tuple[Any, Any],
    preprocessing: Preprocessing,
    over: Callable[[Any, Any], Any] = operator.truediv,
    larger: Callable[[Any, Any], Any] = max,
) -> list[tuple[Any, Any]]:
    """The part of a picture that is resized: (top, bottom), (left, right).

    Other libraries resize the picture to whole pixels, with the short side size / crop, and cut the
    middle out at whole pixels. This is the part of the picture that they cut out.

    Args:
        sides: height and width of the picture, integers.
        preprocessing: the crop fraction, and the size.
        over, larger: divide integers, and take the maximum, in the library of `sides`.
    """
    if preprocessing.crop is None:
        return [(0, side) for side in sides]
    height, width = sides
    rows, columns = preprocessing.uncropped
    resized = larger(columns * height // width, rows), larger(rows * width // height, columns)
    box = []
    for side, whole, size in zip(sides, resized, preprocessing.size, strict=True):
        start = (whole - size) // 2
        box.append((over(start * side, whole), over((start + size) * side, whole)))
    return box
