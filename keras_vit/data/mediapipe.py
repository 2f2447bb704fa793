"""The resizes of MediaPipe's ImageClassifier and ImageSegmenter on CPUs, with the same pixels.

Its ImageToTensorCalculator lets OpenCV warp the whole picture so that corners fall on corners:
output pixel x reads the picture at x * (width / new width), without half a pixel, and without
smoothing when it shrinks. (A picture with a side of 32,767 pixels or more ends its process.) OpenCV
finds the warp by solving eight equations and then rounds places to 1/32 pixel. Where a place is
halfway between two of them, the rounding errors of the equations decide, so the same operations are
done here in the same order, in float64.

The scores of an ImageSegmenter become as large as the picture so that the centres of the first and
of the last pixels fall on each other; the highest one is then the class of a pixel.

Sources: MediaPipe's image_to_tensor_converter_opencv.cc and tensors_to_segmentation_calculator.cc;
OpenCV's getPerspectiveTransform, LUImpl, invert, warpPerspective and remap.
`benchmarks/mediapipe_pixels.py` and `segmenter_clients.py` compare with MediaPipe itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

# Places are rounded to 1/32 pixel, and blended with integers of that unit.
UNIT = 32
# OpenCV computes in blocks of 1,024 pixels, at least 16 rows of them, and each from its left edge.
_BLOCK, _ROWS = 1024, 16


class Warp(NamedTuple):
    """A projection: output (x, y) is input (x * across, y * down) / (x * p + y * q + whole).

    p and q are minus `left` and `up`; without rounding errors they are 0, and `whole` is 1.
    """

    across: Any
    down: Any
    left: Any
    up: Any
    whole: Any


def resize(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """uint8 (height, width, 3) to uint8 (*size, 3)."""
    height, width = image.shape[:2]
    column, row = places(warp(float(height), float(width), size), size, np.rint)

    def pixels(row, column):  # (new height, new width, 3)
        return image[row, column].astype(np.int64)

    column, row = column.astype(np.int64), row.astype(np.int64)
    return blended(pixels, column, row, height, width, np.minimum).astype(np.uint8)


def resized_scores(scores: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Scores, float32 (rows, columns, ...), as MediaPipe's ImageSegmenter makes them larger.

    Args:
        scores: those of the file, before a softmax.
        size: height and width of the picture, 2 or more.
    """
    for axis, side in enumerate(size):
        places = np.arange(side, dtype=np.float32)
        places *= np.float32(scores.shape[axis] - 1) / np.float32(side - 1)
        first = np.minimum(places.astype(np.int64), scores.shape[axis] - 1)
        after = np.minimum(first + 1, scores.shape[axis] - 1)
        low, high = (np.take(scores, each, axis) for each in (first, after))
        weights = (places - first.astype(np.float32)).reshape(-1, *[1] * (scores.ndim - 1 - axis))
        scores = low + (high - low) * weights
    return scores


def blended(
    pixels: Callable[[Any, Any], Any],
    column: Any,
    row: Any,
    height: Any,
    width: Any,
    minimum: Callable[[Any, Any], Any],
) -> Any:
    """The picture at `places`, each from the four pixels about it: integers (*size, 3).

    Args:
        pixels: a function of rows and columns that returns the picture there, as integers.
        column, row: the places, integers.
        height, width: of the picture.
        minimum: of two arrays, in their library.
    """
    # Pixels outside are those of the edge.
    left, top = minimum(column // UNIT, width - 1), minimum(row // UNIT, height - 1)
    right, bottom = minimum(left + 1, width - 1), minimum(top + 1, height - 1)
    x, y = (place[..., None] % UNIT for place in (column, row))  # (new height, new width, 1)
    above = pixels(top, left) * (UNIT - x) + pixels(top, right) * x
    below = pixels(bottom, left) * (UNIT - x) + pixels(bottom, right) * x
    return (above * (UNIT - y) + below * y + UNIT * UNIT // 2) // (UNIT * UNIT)


def warp(
    height: Any,
    width: Any,
    size: tuple[int, int],
    times: Callable[[Any, Any], Any] = operator.mul,
    over: Callable[[Any, Any], Any] = operator.truediv,
) -> Warp:
    """The projection from output pixels to those of a picture.

    The eight equations for the corners, by Gaussian elimination as in OpenCV, without the terms
    that are zero; then the inverse of the matrix.

    Args:
        height, width: of the picture, in float64.
        size: height and width of the output.
        times, over: multiply and divide; TensorFlow would change the order of its own operators.
    """
    new_height, new_width = map(float, size)
    # 1 and 1, up to rounding.
    one_down, one_across = times(height, over(1.0, height)), times(width, over(1.0, width))
    tall, wide = times(height, new_height), times(width, new_width)
    # 0 and 0, up to rounding; so are their multiples.
    lost_down = new_height - times(one_down, new_height)
    lost_across = new_width - times(one_across, new_width)
    more_down, more_across = times(one_down, tall) - tall, times(one_across, wide) - wide
    factor = times(more_across, over(1.0, times(width, new_height)))
    # The last row of the matrix, then its diagonal.
    q = over(
        lost_across + times(factor, lost_down),
        times(factor, more_down) - times(height, new_width),
    )
    p = over(times(more_down, q) - lost_down, times(width, new_height))
    down = over(new_height + times(tall, q), height)
    across = over(new_width + times(wide, p), width)
    area = times(across, down)
    inverse = over(1.0, area)
    return Warp(
        times(down, inverse),
        times(across, inverse),
        times(times(down, p), inverse),
        times(times(across, q), inverse),
        times(area, inverse),
    )


def places(
    warp: Warp,
    size: tuple[int, int],
    rounded: Callable[[Any], Any],
    times: Callable[[Any, Any], Any] = operator.mul,
    over: Callable[[Any, Any], Any] = operator.truediv,
) -> tuple[Any, Any]:
    """The column and the row that each output pixel reads, in 1/32 pixel: (*size), rounded."""
    height, width = size
    columns = min(_BLOCK // min(_ROWS, height), width)
    # For each column, the first one of its block, and the distance from it.
    within = np.arange(width, dtype=np.float64) % columns
    start = np.arange(width, dtype=np.float64) - within
    y = np.arange(height, dtype=np.float64)[:, None]  # (height, 1)
    scale = warp.whole - (times(warp.left, start) + times(warp.up, y))
    scale = over(float(UNIT), scale - times(warp.left, within))
    column = times(warp.across, start) + times(warp.across, within)
    return rounded(times(scale, column)), rounded(times(scale, times(warp.down, y)))
