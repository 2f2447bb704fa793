"""Compares the masks of an exported file with the Keras model's, and with the true ones."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from keras_vit.deploy.graph.mask_outputs import mask_of
from keras_vit.deploy.judge import significance
from keras_vit.deploy.judge.parity import TIE, agree, error_of, weakest_class
from keras_vit.deploy.judge.verdict import Verdict
from keras_vit.deploy.reference_scores import rows_of, scale_of
from keras_vit.mask_metrics import confusion_of, mean_iou_of, overlaps_of, pairs_of


def compare_masks(
    precision: str, cells: np.ndarray, candidate: np.ndarray, masks: np.ndarray | None = None
) -> Verdict:
    """Compares a file's scores or class maps with the scores of its model.

    They are compared at the file's resolution. If the true masks are known, both are compared with
    these at their resolution: what a file loses by its own counts, too.

    Args:
        precision: precision of the file: the name of a `Precision`.
        cells: Keras' scores of the head's cells (n, rows, columns, classes).
        candidate: the file's output for the same images: scores (n, height, width, classes), or
            classes, uint8 (n, height, width).
        masks: the true classes at the model's input size, uint8 (n, height, width), with
            `NO_CLASS` where there is none; None if unknown.
    """
    rows, gives_classes = rows_of(cells), candidate.ndim == 3
    scale = scale_of(rows)
    each = [_compared(*pair, TIE * scale) for pair in zip(cells, candidate, strict=True)]
    counts = np.stack([one.overlaps for one in each])  # (n, 3, classes)
    both, keras, file = total = counts.sum(0)
    overlap, bounds = float(mean_iou_of(total)), significance.bounds_of(counts, mean_iou_of)
    mean_square = float(np.mean([one.mean_square for one in each]))
    return Verdict(
        precision=precision,
        images=len(cells),
        agreement=float(both.sum() / keras.sum()),
        overlap=overlap,
        largest_overlap=bounds and bounds[1],
        max_difference=float(np.max([one.difference for one in each])),  # NaN, if one is
        scale=1.0 if gives_classes else scale,
        cosine=None,
        error=error_of(mean_square, rows, scale),
        comparisons=int(keras.sum()),
        keras_classes=int((keras > 0).sum()),
        file_classes=int((file > 0).sum()),
        weakest_class=weakest_class(keras + file - both, both),
        output="class_map" if gives_classes else "scores",
        **({} if masks is None else _graded(cells, candidate, masks)),
    )


@dataclasses.dataclass(frozen=True)
class _Compared:
    """An image's output of a file, compared with Keras'.

    Attributes:
        overlaps: `overlaps_of` its pixels by Keras' class and the file's.
        difference: the largest of a score, or the fraction of pixels with another class.
        mean_square: of the differences of scores; 0 of classes.
    """

    overlaps: np.ndarray
    difference: float
    mean_square: float


def _compared(cells: np.ndarray, output: np.ndarray, tie: float) -> _Compared:
    scores = _resized(cells, output.shape[:2])
    keras, file = scores.argmax(-1), _classes(output, output.shape[:2])
    equal = agree(scores.reshape(-1, scores.shape[-1]), file.reshape(-1), tie)  # (pixels,)
    file = np.where(equal.reshape(file.shape), keras, file)
    overlaps = overlaps_of(pairs_of(keras, file, cells.shape[-1]))
    if output.ndim == 2:
        return _Compared(overlaps, float((keras != file).mean()), 0.0)
    difference = np.abs(output.astype(np.float64) - scores)
    return _Compared(overlaps, float(difference.max()), float(np.mean(difference**2)))


def _graded(cells: np.ndarray, candidate: np.ndarray, masks: np.ndarray) -> dict[str, Any]:
    """The figures of a `Verdict` that need true masks."""
    classes = cells.shape[-1]
    keras, file = (
        np.stack(
            [
                overlaps_of(confusion_of(mask, _classes(output, mask.shape), classes))
                for mask, output in zip(masks, outputs, strict=True)
            ]
        )
        for outputs in (cells, candidate)
    )  # (n, 3, classes)
    pixels = int(keras[:, 1].sum())
    if not pixels:  # no pixel has a class
        return {}
    usual = _always(keras)
    bounds, above = (
        significance.bounds_of(np.stack([keras, other], 1), _drop) for other in (file, usual)
    )
    keras_mean, mean, majority = (
        float(mean_iou_of(counts.sum(0))) for counts in (keras, file, usual)
    )
    return {
        "accuracy": float(file[:, 0].sum() / pixels),
        "keras_accuracy": float(keras[:, 0].sum() / pixels),
        "mean_iou": mean,
        "keras_mean_iou": keras_mean,
        "drop_bounds": bounds and (100 * bounds[0], 100 * bounds[1]),
        "majority": majority,
        "informed": above[0] > 0 if above else keras_mean > majority,
    }


def _drop(counts: np.ndarray) -> np.ndarray:
    """The mean IoU lost, of overlaps of Keras and another (resamples, 2, 3, classes)."""
    return mean_iou_of(counts[:, 0]) - mean_iou_of(counts[:, 1])


def _always(overlaps: np.ndarray) -> np.ndarray:
    """The overlaps (n, 3, classes) of always naming the class with the most pixels."""
    usual, true = np.zeros_like(overlaps), overlaps[:, 1]
    named = true.sum(0).argmax()
    usual[:, 0, named], usual[:, 1], usual[:, 2, named] = true[:, named], true, true.sum(-1)
    return usual


def _resized(scores: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Scores (rows, columns, classes) at another resolution."""
    return mask_of(tf.constant(scores[None], tf.float32), size, "scores").numpy()[0]


def _classes(output: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The classes (*size) of scores (rows, columns, classes), or of classes (rows, columns)."""
    if output.ndim == 3:
        return _resized(output, size).argmax(-1)
    return tf.image.resize(output[..., None], size, "nearest").numpy()[..., 0]
