"""From a segmenter's scores to the class of each pixel of a picture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from keras_vit import bilinear
from keras_vit._errors import UsageError
from keras_vit.data.luma_and_crop import shown_size
from keras_vit.data.masks import NO_CLASS
from keras_vit.decoded_segments import checked_queries, checked_sizes, class_scores, seen_box
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
    `post_process_semantic_segmentation` and DINOv2's evaluation. The scores of an EoMT are sums of
    its queries' classes, each times the probability that the pixel is in the query's mask.

    Args:
        predictions: what a segmenter or its opened bundle predicts: scores (n, rows, columns,
            classes), in Keras in a dict, or class maps, uint8 (n, rows, columns), which are
            enlarged to the nearest pixel; or an EoMT's "masks" and "classes".
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
    preprocessing: Preprocessing = getattr(model, "preprocessing", model)
    if getattr(model, "task", "") == "panoptic":
        checked_queries(predictions)  # masks alone look like scores of classes
    outputs = _outputs(predictions, preprocessing)
    if sizes is None:
        return [classes_at(output, preprocessing.size) for output in outputs]
    count = len(next(iter(predictions.values())) if isinstance(predictions, dict) else predictions)
    sizes = checked_sizes(sizes, count, preprocessing)
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
    vertical, horizontal = (bilinear.positions(*each) for each in sides)
    if output.ndim == 2:
        return output[
            np.ix_(*(np.floor(each + 0.5).astype(int) for each in (vertical, horizontal)))
        ]
    best = output.argmax(-1).astype(np.uint8)  # (rows, columns)
    (top, bottom, down), (left, right, across) = map(
        bilinear.neighbours, (vertical, horizontal), output.shape[:2]
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


def _outputs(predictions: Any, preprocessing: Preprocessing) -> Iterable[np.ndarray]:
    """Scores or class maps, one by one, as `decode_masks` takes them."""
    is_dict = isinstance(predictions, dict)
    if is_dict and "masks" in predictions:
        masks, classes = checked_queries(predictions)
        _check_classes(classes.shape[-1] - 1)
        pairs = zip(masks, classes, strict=True)
        return (class_scores(*pair, preprocessing.size) for pair in pairs)
    outputs = np.asarray(predictions.get("scores") if is_dict else predictions)
    if not (outputs.ndim == 4 and outputs.dtype.kind == "f") and not (
        outputs.ndim == 3 and outputs.dtype == np.uint8
    ):
        raise UsageError(
            "predictions must be scores (n, rows, columns, classes) or class maps, uint8 (n, rows, "
            f"columns). Received: {outputs.dtype} {outputs.shape}."
        )
    if outputs.ndim == 4:
        _check_classes(outputs.shape[-1])
    if not np.isfinite(outputs).all():
        raise UsageError("the scores must be finite numbers. Received: NaN or infinity.")
    return outputs


def _check_classes(count: int) -> None:
    if count > NO_CLASS:
        raise UsageError(f"masks have {NO_CLASS} classes at most. Received: {count} classes.")


def _placed(output: np.ndarray, size: tuple[int, int], preprocessing: Preprocessing) -> np.ndarray:
    """The mask of a picture of this size, of which the model saw the centre or all."""
    mask = np.full(size, NO_CLASS, np.uint8)
    (top, bottom), (left, right) = seen_box(size, preprocessing)
    if preprocessing.pad:
        rows, columns = shown_size(size, preprocessing)
        output = _enlarged(output, preprocessing.size)[:rows, :columns]
    mask[top:bottom, left:right] = classes_at(output, (bottom - top, right - left))
    return mask


def _enlarged(output: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Scores or a class map of an image of this size, (height, width, ...)."""
    if output.shape[:2] == size:
        return output
    if output.ndim == 2:
        return classes_at(output, size)
    down, across = (bilinear.matrix(*each) for each in zip(size, output.shape, strict=False))
    # (rows, columns, classes) to (rows, width, classes) to (height, width, classes)
    return np.tensordot(down, np.tensordot(output, across, (1, 1)).transpose(0, 2, 1), (1, 0))


def _between(one: np.ndarray, other: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """From scores (n, classes) to others, by a weight (n,)."""
    return one + (other - one) * weight[:, None]
