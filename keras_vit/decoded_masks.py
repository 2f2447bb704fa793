"""From a segmenter's scores to the class of each pixel of a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_vit._errors import UsageError, shown
from keras_vit.data.luma_and_crop import central_box
from keras_vit.data.masks import NO_CLASS
from keras_vit.specs import Preprocessing

_MOST_SCORES = 1 << 24  # of pixels that are interpolated at once, float32


def decode_masks(
    predictions: Any, model: Any, sizes: Sequence[tuple[int, int]] | None = None
) -> list[np.ndarray]:
    """The class of each pixel of the pictures that a segmenter was given.

    >>> import numpy as np
    >>> scores = np.eye(3)[[[[0, 2], [1, 1]]]]  # as segmenter.predict(inputs)["scores"]
    >>> [mask] = keras_vit.decode_masks(scores, model, sizes=[(4, 4)])
    >>> mask.tolist()
    [[0, 0, 2, 2], [0, 0, 2, 2], [1, 1, 1, 1], [1, 1, 1, 1]]

    Scores are resized bilinearly, with the centres of pixels half a pixel from their edges, and the
    highest one of each pixel counts, the first of equals; so do transformers'
    `post_process_semantic_segmentation` and DINOv2's evaluation.

    Args:
        predictions: what a segmenter or its opened bundle predicts: scores (n, rows, columns,
            classes), in Keras in a dict, or class maps, uint8 (n, rows, columns), which are
            enlarged to the nearest pixel.
        model: the model or bundle, or its `Preprocessing`.
        sizes: height and width of each picture as it is seen, turned upright by EXIF; default: the
            model's input.

    Returns:
        For each picture uint8 (height, width). Pixels that the model did not see, because its
        preprocessing crops, have the value 255.

    Raises:
        UsageError: the predictions are not masks, are not finite or have more than 255 classes, or
            `sizes` are not two integers for each of them.
    """
    outputs = _checked(predictions)
    preprocessing: Preprocessing = getattr(model, "preprocessing", model)
    if sizes is None:
        return [classes_at(output, preprocessing.size) for output in outputs]
    shapes = [np.shape(size) for size in sizes]
    if shapes != [(2,)] * len(outputs) or np.less(sizes, 1).any():
        raise UsageError(
            f"sizes must be (height, width) of each of the {len(outputs)} pictures. "
            f"Received: {shown(sizes)}."
        )
    return [_placed(*each, preprocessing) for each in zip(outputs, sizes, strict=True)]


def shares_of(mask: np.ndarray, labels: Sequence[str]) -> list[tuple[str, float]]:
    """The classes that a mask has, the largest first, and of its pixels with a class their share.

    Args:
        mask: uint8 (height, width), from `decode_masks`.
        labels: the names of the classes.

    Raises:
        UsageError: the mask has a class without a name.
    """
    counts = np.bincount(mask[mask != NO_CLASS], minlength=len(labels))
    if len(counts) > len(labels):
        raise UsageError(
            f"the mask has class {len(counts) - 1}, and there are names of {len(labels)} classes."
        )
    order = np.argsort(-counts, kind="stable")
    return [(labels[i], float(counts[i] / counts.sum())) for i in order if counts[i]]


def classes_at(output: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The class of each pixel of an image of this size, uint8 (height, width).

    Args:
        output: scores (rows, columns, classes), or a class map, uint8 (rows, columns).
        size: height and width.
    """
    sides = zip(size, output.shape, strict=False)
    vertical, horizontal = (_positions(*each) for each in sides)
    if output.ndim == 2:
        return output[
            np.ix_(*(np.floor(each + 0.5).astype(int) for each in (vertical, horizontal)))
        ]
    best = output.argmax(-1).astype(np.uint8)  # (rows, columns)
    (top, bottom, down), (left, right, across) = map(
        _neighbours, (vertical, horizontal), output.shape[:2]
    )
    corners = [best[np.ix_(y, x)] for y in (top, bottom) for x in (left, right)]
    classes = corners[0]
    # A class that is the highest one in all four neighbours is it between them, too.
    mixed = np.nonzero(np.any([each != classes for each in corners[1:]], axis=0))
    at_once = max(_MOST_SCORES // output.shape[-1], 1)
    for first in range(0, len(mixed[0]), at_once):
        y, x = (each[first : first + at_once] for each in mixed)
        above, below = (
            _between(output[rows[y], left[x]], output[rows[y], right[x]], across[x])
            for rows in (top, bottom)
        )
        classes[y, x] = _between(above, below, down[y]).argmax(-1)
    return classes


def _checked(predictions: Any) -> np.ndarray:
    """Scores or class maps, as `decode_masks` takes them."""
    is_dict = isinstance(predictions, dict)
    outputs = np.asarray(predictions.get("scores") if is_dict else predictions)
    if not (outputs.ndim == 4 and outputs.dtype.kind == "f") and not (
        outputs.ndim == 3 and outputs.dtype == np.uint8
    ):
        raise UsageError(
            "predictions must be scores (n, rows, columns, classes) or class maps, uint8 (n, rows, "
            f"columns). Received: {outputs.dtype} {outputs.shape}."
        )
    if outputs.ndim == 4 and outputs.shape[-1] > NO_CLASS:
        raise UsageError(
            f"masks have {NO_CLASS} classes at most. Received: {outputs.shape[-1]} classes."
        )
    if not np.isfinite(outputs).all():
        raise UsageError("the scores must be finite numbers. Received: NaN or infinity.")
    return outputs


def _placed(output: np.ndarray, size: tuple[int, int], preprocessing: Preprocessing) -> np.ndarray:
    """The mask of a picture of this size, of which the model saw the centre or all."""
    mask = np.full(size, NO_CLASS, np.uint8)
    (top, bottom), (left, right) = (
        (min(round(start), side - 1), max(round(end), round(start) + 1))
        for (start, end), side in zip(central_box(size, preprocessing), size, strict=True)
    )
    mask[top:bottom, left:right] = classes_at(output, (bottom - top, right - left))
    return mask


def _positions(size: int, count: int) -> np.ndarray:
    """Where the centres of `size` pixels lie between the centres of `count`, float64 (size,)."""
    return np.clip((np.arange(size) + 0.5) * count / size - 0.5, 0, count - 1)


def _neighbours(positions: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each position the indices on its two sides, and the weight of the second one."""
    first = positions.astype(int)
    return first, np.minimum(first + 1, count - 1), (positions - first).astype(np.float32)


def _between(one: np.ndarray, other: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """From scores (n, classes) to others, by a weight (n,)."""
    return one + (other - one) * weight[:, None]
