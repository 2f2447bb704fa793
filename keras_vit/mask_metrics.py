"""Pixels counted by class, and the mean IoU of them."""

from __future__ import annotations

import numpy as np

from keras_vit.data.masks import NO_CLASS


def confusion_of(mask: np.ndarray, prediction: np.ndarray, classes: int) -> np.ndarray:
    """Counts of pixels, int64 (classes, classes), by true and predicted class.

    Args:
        mask: the true class of each pixel, or `NO_CLASS`, uint8 (height, width).
        prediction: the predicted ones, integers (height, width).
        classes: the number of classes.
    """
    counted = mask != NO_CLASS
    return pairs_of(mask[counted], prediction[counted], classes)


def pairs_of(one: np.ndarray, other: np.ndarray, classes: int) -> np.ndarray:
    """Counts of pixels, int64 (classes, classes), by their classes in two predictions."""
    places = one.astype(np.int64) * classes + other
    return np.bincount(places.reshape(-1), minlength=classes**2).reshape(classes, classes)


def mean_iou(confusion: np.ndarray) -> float:
    """The mean of TP / (TP + FP + FN) over the classes that occur or are predicted; 1 for none."""
    return float(mean_iou_of(overlaps_of(confusion)))


def overlaps_of(confusion: np.ndarray) -> np.ndarray:
    """What IoU is made of, for each class (3, classes).

    The pixels that are right, those that have the class, and those that are predicted to have it.
    """
    return np.stack([np.diag(confusion), confusion.sum(1), confusion.sum(0)])


def mean_iou_of(overlaps: np.ndarray) -> np.ndarray:
    """`mean_iou` of sums of `overlaps_of`, (..., 3, classes) to (...)."""
    right, true, predicted = np.moveaxis(overlaps, -2, 0)
    union = true + predicted - right
    occurs = union > 0
    ious = np.divide(right, union, out=np.zeros(union.shape), where=occurs)
    counted = occurs.sum(-1)
    return np.where(counted > 0, ious.sum(-1) / np.maximum(counted, 1), 1.0)
