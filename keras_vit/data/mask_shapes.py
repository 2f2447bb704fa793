"""Masks from the outlines of objects, or from runs of pixels.

pycocotools draws the outlines, because other programs and all published figures use it: which
pixels of an edge are inside is a convention. All that its C code gets was checked before.

A mask as runs (RLE) are the lengths of the runs of pixels outside and inside in turn, column by
column. Compressed, each length is written as the difference from the one before the last, in
groups of 5 bits. Source: `rleToString` of `common/maskApi.c`, github.com/cocodataset/cocoapi.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from keras_vit._errors import UsageError, naming_install

# The polygons of an object, float64 (points, 2) each, or its runs, int64 (runs,).
Shape = list[np.ndarray] | np.ndarray

_MOST_OBJECTS = 10_000  # of a picture
_MOST_STEPS = 1 << 23  # of a polygon; pycocotools takes 16 bytes for each
_MOST_WORK = 1 << 31  # of a picture, in pixels that are painted; it takes seconds
_FINE, _STEP = 5, 10  # pycocotools' steps in a pixel, and the pixels painted in the time of a step
_LONGEST_GROUP = 6  # groups of 5 bits, for lengths below 2**29


def check_drawable() -> None:
    """Raises a `MissingPackageError` without pycocotools."""
    with naming_install("masks as outlines need pycocotools"):
        import pycocotools.mask  # noqa: F401


def polygon(numbers: Sequence[float], height: int, width: int) -> np.ndarray:
    """A polygon from x, y, x, y ... in pixels, float64 (points, 2).

    Coordinates far outside of the picture are moved closer; those near it stay, because they decide
    where an edge meets the border.

    Raises:
        UsageError: the numbers are no polygon.
    """
    if len(numbers) % 2:
        raise UsageError("a polygon with an odd number of coordinates")
    if len(numbers) < 6:
        raise UsageError("a polygon of fewer than 3 points")
    points = np.array(numbers, np.float64).reshape(-1, 2)
    if not np.isfinite(points).all():
        raise UsageError("a polygon with coordinates that are no numbers")
    size = np.array([width, height])
    points = points.clip(-size, 2 * size)
    if _steps(points) > _MOST_STEPS:
        raise UsageError("a polygon with too long an outline")
    return points


def runs(size: Sequence[int], counts: str | Sequence[int], height: int, width: int) -> np.ndarray:
    """The lengths of runs, int64, of a mask in the form of COCO's RLE.

    Raises:
        UsageError: they are not those of a picture of this size.
    """
    if tuple(size) != (height, width):
        raise UsageError("an RLE of another size than the picture")
    if len(counts) > _LONGEST_GROUP * (height * width + 2):
        raise UsageError("an RLE with more runs than pixels")
    lengths = _unpacked(counts.encode()) if isinstance(counts, str) else _lengths(counts)
    if lengths.min(initial=0) < 0 or lengths.max(initial=0) > height * width:
        raise UsageError("an RLE with runs outside of the picture")
    if lengths.sum() != height * width:
        raise UsageError("an RLE of another number of pixels than the picture")
    return lengths


def work(shape: Shape, height: int, width: int) -> int:
    """What it takes to draw an object, in pixels that are painted."""
    if isinstance(shape, np.ndarray):
        return height * width
    x = np.concatenate(shape)[:, 0].clip(0, width)
    # Parts are joined one after the other, and each time all runs so far are read.
    return int(np.ptp(x) + 1) * height + (_STEP + len(shape)) * sum(map(_steps, shape))


def check_count(objects: int) -> None:
    """Raises a `UsageError` for more objects than are drawn in a picture."""
    if objects > _MOST_OBJECTS:
        raise UsageError(f"more than {_MOST_OBJECTS:,} objects")


def check_work(each: Iterable[int]) -> None:
    """Raises a `UsageError` if it takes too long to draw the objects of a picture."""
    if sum(each) > _MOST_WORK:
        raise UsageError("objects that are too many or too large to draw")


def drawn(objects: Iterable[tuple[int, Shape]], height: int, width: int) -> np.ndarray:
    """The class of each pixel, uint8 (height, width), from the classes and shapes of objects.

    Pixels of no object are 0. The smaller one of two objects is on top, and of equal ones the last.
    """
    mask = np.zeros(height * width, np.uint8)  # column by column
    lengths = [(number, _runs_of(shape, height, width)) for number, shape in objects]
    for number, each in sorted(lengths, key=lambda pair: -pair[1][1::2].sum()):
        ends = np.cumsum(each)
        inner = each[1 : len(each) // 2 * 2]  # from the first run inside to the last one
        if inner.size:
            inside = np.repeat(np.arange(len(inner)) % 2 == 0, inner)
            mask[ends[0] : ends[0] + len(inside)][inside] = number
    return np.ascontiguousarray(mask.reshape(width, height).T)


def _runs_of(shape: Shape, height: int, width: int) -> np.ndarray:
    if isinstance(shape, np.ndarray):
        return shape
    from pycocotools import mask

    parts = mask.frPyObjects([points.ravel() for points in shape], height, width)
    return _unpacked(mask.merge(parts)["counts"])


def _steps(points: np.ndarray) -> int:
    """The steps in which pycocotools follows an outline."""
    edges = np.abs(points[1:] - points[:-1]).max(1)
    last = np.abs(points[-1] - points[0]).max()
    return int(_FINE * (edges.sum() + last)) + 2 * len(points)


def _lengths(counts: Sequence[int]) -> np.ndarray:
    try:
        return np.array(counts, np.int64)
    except OverflowError:
        raise UsageError("an RLE with runs outside of the picture") from None


def _unpacked(text: bytes) -> np.ndarray:
    """The lengths of compressed runs."""
    codes = np.frombuffer(text, np.uint8).astype(np.int64) - 48
    if codes.min(initial=0) < 0 or codes.max(initial=0) > 63 or (len(codes) and codes[-1] & 32):
        raise UsageError("an RLE with characters that are not its own")
    ends = np.flatnonzero(~codes & 32)
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    sizes = ends - starts + 1
    if sizes.max(initial=0) > _LONGEST_GROUP:
        raise UsageError("an RLE with runs outside of the picture")
    if not len(ends):
        return ends
    places = np.arange(len(codes)) - np.repeat(starts, sizes)
    values = np.add.reduceat((codes & 31) << 5 * places, starts)
    values -= (codes[ends] & 16) // 16 << 5 * sizes  # the sign
    for start in (1, 2):
        values[start::2] = np.cumsum(values[start::2])
    return values
