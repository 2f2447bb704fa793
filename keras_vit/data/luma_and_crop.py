"""What preprocessing computes in every array library, with the same bits: grey, crop, and size."""

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


def shown_size(
    sides: tuple[Any, Any],
    preprocessing: Preprocessing,
    over: Callable[[Any, Any], Any] = operator.truediv,
    rounded: Callable[[Any], Any] = round,
    truncated: Callable[[Any], Any] = int,
    choose: Callable[[Any, Any, Any], Any] = lambda condition, x, y: x if condition else y,
) -> tuple[Any, Any]:
    """Height and width in the model's input of what is seen of a picture, in pixels.

    Those of the input, except for `pad`. One of them may then be a pixel less than the input's:
    this is the arithmetic of transformers' `get_size_with_aspect_ratio`, which leaves a picture as
    it is if its shorter side is already right.

    Args:
        sides: height and width of the picture, integers.
        preprocessing: the size, and whether it pads.
        over, rounded, truncated, choose: divide numbers, make numbers to integers, and take one of
            two, in the library of `sides`.
    """
    if not preprocessing.pad:
        return preprocessing.size
    (height, width), (rows, columns) = sides, preprocessing.size
    is_tall = columns * height >= rows * width
    across, down = over(rows * width, height), over(columns * height, width)
    shown = (
        choose(is_tall, truncated(over(across * height, width)), rounded(down)),
        choose(is_tall, rounded(across), truncated(over(down * width, height))),
    )
    return tuple(choose(side < 1, 1, side) for side in shown)


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
