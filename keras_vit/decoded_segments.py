"""From EoMT's masks and classes to the segments of a picture, or to scores of its classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from keras_vit import bilinear
from keras_vit._checks import choice, fraction
from keras_vit._errors import UsageError, shown
from keras_vit.data.luma_and_crop import central_box, shown_size
from keras_vit.specs import Preprocessing

Kind = Literal["panoptic", "instance"]
_MOST_VALUES = 1 << 24  # of masks that are interpolated at once, float32
_NOTHING = -1


class Segment(NamedTuple):
    """A part of a picture: one object, or all pixels of a class.

    Attributes:
        class_index: the index of its class.
        label: the name of its class; "" if the model has no names.
        score: 0 to 1.
    """

    class_index: int
    label: str
    score: float


class Segmentation(NamedTuple):
    """The segments of a picture.

    Attributes:
        ids: for each pixel the index of its segment, int32 (height, width); -1 where there is none.
        segments: the segments; of overlapping instances, a later one covers those before it.
    """

    ids: np.ndarray
    segments: tuple[Segment, ...]


def decode_segments(
    predictions: Any,
    model: Any,
    sizes: Sequence[tuple[int, int]] | None = None,
    *,
    kind: Kind = "panoptic",
    threshold: float = 0.8,
    mask_threshold: float = 0.5,
    overlap_threshold: float = 0.8,
    stuff_classes: Sequence[int] = (),
) -> list[Segmentation]:
    """The segments of the pictures that an EoMT was given.

    The results are those of transformers' `post_process_panoptic_segmentation` and
    `post_process_instance_segmentation`. `decode_masks` gives the class of each pixel.

    >>> import numpy as np
    >>> masks = np.float32([[[[9, -9], [9, -9]], [[-9, 9], [-9, 9]]]])  # (1, 2, 2, 2 queries)
    >>> classes = np.float32([[[8, 0, 0], [0, 8, 0]]])  # cat or dog, or nothing
    >>> [found] = keras_vit.decode_segments({"masks": masks, "classes": classes}, model, [(2, 4)])
    >>> found.ids.tolist()
    [[0, 0, 0, 0], [1, 1, 1, 1]]
    >>> [(segment.class_index, round(segment.score, 3)) for segment in found.segments]
    [(0, 0.999), (1, 0.999)]

    Args:
        predictions: what the model predicts, a dict of "masks" (n, rows, columns, queries) and
            "classes" (n, queries, classes + 1).
        model: the model, or its `Preprocessing`.
        sizes: height and width of each picture as it is seen, turned upright by EXIF; default: the
            model's input.
        kind: "panoptic": each pixel belongs to one segment at most. "instance": the masks of
            objects, which may overlap.
        threshold: the least score of a segment; its class's probability, for instances times the
            mean probability of its pixels. Panoptic segments must exceed it.
        mask_threshold: the least probability of a panoptic segment's pixels.
        overlap_threshold: how much of the pixels that a query claims must be left to it by other
            queries in a panoptic segmentation, as a fraction.
        stuff_classes: the indices of classes of which a picture has one panoptic segment at most,
            such as sky.

    Returns:
        One for each picture. Where the model does not look, because its preprocessing crops,
        `ids` is -1.

    Raises:
        UsageError: the predictions are not those of an EoMT or not finite, `sizes` are not two
            integers for each of them, or another argument is out of range.
    """
    choice("kind", kind, get_args(Kind))
    for name, value in (("mask_threshold", mask_threshold), ("threshold", threshold)):
        fraction(name, value)
    fraction("overlap_threshold", overlap_threshold)
    preprocessing: Preprocessing = getattr(model, "preprocessing", model)
    masks, classes = checked_queries(predictions)
    count = classes.shape[-1] - 1
    stuff = set(stuff_classes)
    if not stuff <= set(range(count)):
        raise UsageError(
            f"stuff_classes must be indices of the {count} classes, 0 to {count - 1}. "
            f"Received: {shown(stuff)}."
        )
    names = getattr(model, "labels", None) or [""] * count
    if len(names) != count:
        raise UsageError(f"expected predictions of {len(names)} classes. Received: {count}.")
    sizes = checked_sizes(sizes, len(masks), preprocessing)
    found = []
    for each, logits, size in zip(masks, classes, sizes, strict=True):
        interpolated = _Interpolated(each, size, preprocessing)
        if kind == "panoptic":
            limits = (threshold, mask_threshold, overlap_threshold)
            ids, segments = _panoptic(interpolated, logits, *limits, stuff)
        else:
            ids, segments = _instances(interpolated, logits, threshold)
        named = tuple(Segment(index, names[index], score) for index, score in segments)
        found.append(Segmentation(interpolated.placed(ids), named))
    return found


def class_scores(masks: np.ndarray, classes: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The scores of classes that EoMT's queries add up to, in each pixel of the model's input.

    Args:
        masks: logits (rows, columns, queries).
        classes: logits (queries, classes + 1).
        size: height and width of the input.

    Returns:
        float32 (height, width, classes).
    """
    probabilities = _softmax(classes)[:, :-1]
    scores = np.empty((*size, probabilities.shape[1]), np.float32)
    down, across = (bilinear.matrix(*each) for each in zip(size, masks.shape, strict=False))
    for rows, logits in _in_bands(masks, np.arange(masks.shape[-1]), down, across):
        # (queries, rows, width) and (queries, classes) to (rows, width, classes)
        scores[rows] = np.tensordot(_sigmoid(logits), probabilities, (0, 0))
    return scores


def checked_queries(predictions: Any) -> tuple[np.ndarray, np.ndarray]:
    """An EoMT's "masks" and "classes", in float32.

    Raises:
        UsageError: these are not its predictions.
    """
    names = ("masks", "classes")
    held = predictions if isinstance(predictions, dict) else {}
    masks, classes = (np.asarray(held.get(name, 0)) for name in names)
    if (masks.ndim, classes.ndim) != (4, 3) or (
        (masks.shape[0], masks.shape[-1]) != classes.shape[:2]
        or classes.shape[-1] < 2
        or 0 in masks.shape[1:]
    ):
        raise UsageError(
            'predictions must be a dict of "masks" (n, rows, columns, queries) and "classes" (n, '
            f"queries, classes + 1). Received: {shown(_shapes(predictions))}."
        )
    masks, classes = masks.astype(np.float32), classes.astype(np.float32)
    if not (np.isfinite(masks).all() and np.isfinite(classes).all()):
        raise UsageError("masks and classes must be finite numbers. Received: NaN or infinity.")
    return masks, classes


def checked_sizes(
    sizes: Any, count: int, preprocessing: Preprocessing
) -> Sequence[tuple[int, int]]:
    """Height and width of each picture; default: the model's input.

    Raises:
        UsageError: there are not two positive integers for each picture.
    """
    if sizes is None:
        sizes = [shown_size(preprocessing.size, preprocessing)] * count
    try:
        array = np.asarray(sizes if count else np.ones((0, 2), int))
    except ValueError:  # they are of several lengths
        array = np.zeros(0)
    if array.shape != (count, 2) or array.dtype.kind not in "iu" or (array < 1).any():
        raise UsageError(
            f"sizes must be (height, width) of each of the {count} pictures, integers. "
            f"Received: {shown(sizes)}."
        )
    return [(int(height), int(width)) for height, width in array]


def seen_box(
    size: tuple[int, int], preprocessing: Preprocessing
) -> tuple[tuple[int, int], tuple[int, int]]:
    """The part of a picture of this size that a model sees: (top, bottom), (left, right)."""
    vertical, horizontal = (
        (min(round(start), side - 1), max(round(end), round(start) + 1))
        for (start, end), side in zip(central_box(size, preprocessing), size, strict=True)
    )
    return vertical, horizontal


class _Interpolated:
    """The masks of a picture's queries at its pixels, band by band.

    They are resized to the model's input, cut to what it shows of the picture, and resized to that,
    all of it bilinearly: two matrices do this, one for rows and one for columns.
    """

    def __init__(self, masks: np.ndarray, size: tuple[int, int], preprocessing: Preprocessing):
        self.masks, self.size = masks, size
        self.box = seen_box(size, preprocessing)
        self.seen = tuple(end - start for start, end in self.box)
        input_shown = shown_size(size, preprocessing)
        self.down, self.across = (
            bilinear.matrix(seen, shown) @ bilinear.matrix(side, cells)[:shown]
            for seen, shown, side, cells in zip(
                self.seen, input_shown, preprocessing.size, masks.shape, strict=False
            )
        )

    def bands(self, queries: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Slices of rows of what is seen, with logits (queries, rows, width)."""
        return _in_bands(self.masks, queries, self.down, self.across)

    def placed(self, ids: np.ndarray) -> np.ndarray:
        """Ids of what is seen, as those of the whole picture."""
        whole = np.full(self.size, _NOTHING, np.int32)
        whole[tuple(slice(*each) for each in self.box)] = ids
        return whole


def _in_bands(
    masks: np.ndarray, queries: np.ndarray, down: np.ndarray, across: np.ndarray
) -> Iterator[tuple[slice, np.ndarray]]:
    maps = np.ascontiguousarray(masks[..., queries].transpose(2, 0, 1))  # (queries, rows, columns)
    maps = maps @ across.T  # (queries, rows, width)
    at_once = max(_MOST_VALUES // max(len(maps) * len(across), 1), 1)
    for start in range(0, len(down), at_once):
        rows = slice(start, min(start + at_once, len(down)))
        yield rows, down[rows] @ maps


def _panoptic(
    masks: _Interpolated,
    logits: np.ndarray,
    threshold: float,
    mask_threshold: float,
    overlap_threshold: float,
    stuff: set[int],
) -> tuple[np.ndarray, list[tuple[int, float]]]:
    probabilities = _softmax(logits)
    classes, scores = probabilities.argmax(-1), probabilities.max(-1)
    queries = np.flatnonzero((classes < logits.shape[-1] - 1) & (scores > threshold))
    ids = np.full(masks.seen, _NOTHING, np.int32)
    if not len(queries):
        return ids, []
    claimed, won, held = (np.zeros(len(queries), int) for _ in range(3))
    for rows, values in masks.bands(queries):
        values = _sigmoid(values)
        claimed += (values >= mask_threshold).sum((1, 2))
        best = (values * scores[queries, None, None]).argmax(0)
        inside = np.take_along_axis(values, best[None], 0)[0] >= mask_threshold
        won += np.bincount(best.ravel(), minlength=len(queries))
        held += np.bincount(best[inside], minlength=len(queries))
        ids[rows] = np.where(inside, best, _NOTHING)
    segments, first_of, number = [], {}, np.full(len(queries) + 1, _NOTHING, np.int32)
    for i in np.flatnonzero((claimed > 0) & (held > 0)):
        if won[i] / claimed[i] <= overlap_threshold:
            continue
        index = int(classes[queries[i]])
        if index in first_of:
            number[i] = first_of[index]
            continue
        number[i] = len(segments)
        if index in stuff:
            first_of[index] = len(segments)
        segments.append((index, float(scores[queries[i]])))
    return number[ids], segments  # the last number is that of pixels without a segment


def _instances(
    masks: _Interpolated, logits: np.ndarray, threshold: float
) -> tuple[np.ndarray, list[tuple[int, float]]]:
    probabilities = _softmax(logits)[:, :-1]
    classes, scores = probabilities.argmax(-1), probabilities.max(-1)
    # A score is the class's probability times one that is not larger than 1.
    queries = np.flatnonzero(scores >= threshold)
    sums, areas = np.zeros(len(queries)), np.zeros(len(queries))
    for _, values in masks.bands(queries):
        inside = values > 0
        areas += inside.sum((1, 2))
        sums += np.where(inside, _sigmoid(values), 0).sum((1, 2), np.float64)
    scores = scores[queries] * sums / (areas + 1e-6)
    kept = np.flatnonzero((areas > 0) & (scores >= threshold))
    ids = np.full(masks.seen, _NOTHING, np.int32)
    for rows, values in masks.bands(queries[kept]):
        for i, value in enumerate(values):
            ids[rows][value > 0] = i
    return ids, [(int(classes[queries[i]]), float(scores[i])) for i in kept]


def _softmax(logits: np.ndarray) -> np.ndarray:
    values = np.exp(logits - logits.max(-1, keepdims=True))
    return values / values.sum(-1, keepdims=True)


def _sigmoid(logits: np.ndarray) -> np.ndarray:
    return 0.5 + 0.5 * np.tanh(0.5 * logits)  # does not overflow


def _shapes(predictions: Any) -> Any:
    if isinstance(predictions, dict):
        return {name: np.shape(value) for name, value in predictions.items()}
    return np.shape(predictions)
