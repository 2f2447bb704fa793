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
    smaller: Callable[[Any, Any], Any] = min,
) -> list[tuple[Any, Any]]:
    """The part of a picture that is resized: (top, bottom), (left, right).

    It is the largest centred box with the model's aspect ratio, times the crop fraction, or the
    whole picture. Rounding may put it just outside the picture.

    Args:
        sides: height and width of the picture.
        preprocessing: the crop fraction, and the size.
        over, smaller: divide, and take the minimum, in the library of `sides`.
    """
    if preprocessing.crop is None:
        return [(0, side) for side in sides]
    unit = preprocessing.crop * smaller(*map(over, sides, preprocessing.size))
    lengths = [unit * new for new in preprocessing.size]
    starts = [(side - length) / 2 for side, length in zip(sides, lengths, strict=True)]
    return [(start, start + length) for start, length in zip(starts, lengths, strict=True)]
