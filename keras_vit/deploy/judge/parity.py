"""Compares the scores of an exported file with the Keras model's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from keras_vit._errors import UsageError
from keras_vit.deploy.graph.graph_options import scores_classes
from keras_vit.deploy.judge import significance
from keras_vit.deploy.judge.verdict import CLASS_AGREEMENT, Verdict
from keras_vit.deploy.precisions import precision_named
from keras_vit.deploy.reference_scores import SAME, rows_of, scale_of, variation_of
from keras_vit.labels import answer_scores
from keras_vit.neighbours import NEIGHBOURS, nearest, shares, unit

# Scores of two classes that differ by less than this fraction of the scale are a tie. The order of
# summation in float32 changes scores by at most 2e-6 of the scale (C and D in `precisions`).
TIE = 1e-5
# Of fewer images, the nearest ones are most of them.
_FEWEST = 4 * NEIGHBOURS
# Of feature maps, so many patches are looked up among each other.
_PATCHES = 2000


def compare(
    precision: str,
    reference: np.ndarray,
    candidate: np.ndarray,
    targets: np.ndarray | None = None,
    output: str = "logits",
) -> Verdict:
    """Compares scores (n, ..., classes) of a file with those of its model.

    Args:
        precision: precision of the file: the name of a `Precision`.
        reference: the Keras model's scores.
        candidate: the file's scores for the same inputs.
        targets: the true classes (n,), of a single score 0 and 1; None if unknown. They are not
            used if each token has scores, because they are classes of images.
        output: what the arrays are, as `GraphOptions.output`.

    Raises:
        UsageError: the precision is unknown, the shapes differ, or a target is not a class.
    """
    reference, candidate = np.asarray(reference), np.asarray(candidate)
    targets = None if targets is None else np.asarray(targets)
    precision_named(precision)
    if reference.shape != candidate.shape or reference.ndim < 2 or not reference.size:
        raise UsageError(
            "expected scores (n, ..., classes) of the same inputs. Received: reference "
            f"{reference.shape}, candidate {candidate.shape}."
        )
    expected, actual = rows_of(reference), rows_of(candidate)
    scale = scale_of(expected)
    targets = targets if reference.ndim == 2 else None
    if not scores_classes(output):
        found = {"agreement": None}
        if output == "feature_map":
            places = np.linspace(0, len(expected) - 1, min(len(expected), _PATCHES)).astype(int)
            found |= _neighbours(expected[places], actual[places], None)
        elif reference.ndim == 2:
            found |= _neighbours(expected, actual, targets)
    else:
        answers = [answer_scores(rows, output == "logits") for rows in (expected, actual)]
        same = agree(answers[0], answers[1].argmax(-1), TIE * scale)
        found = {"agreement": float(same.mean())} | _classes(*answers, same)
        found |= {} if targets is None else _accuracies(*answers, targets)
    return Verdict(
        precision=precision,
        images=len(reference),
        max_difference=float(np.abs(actual - expected).max()),
        scale=scale,
        cosine=_cosine(expected, actual),
        error=error_of(float(np.mean((actual - expected) ** 2)), expected, scale),
        comparisons=len(expected),
        output=output,
        **found,
    )


def error_of(mean_square: float, expected: np.ndarray, scale: float) -> float:
    """`Verdict.error`, from the mean square difference and Keras' scores (comparisons, classes)."""
    variation = variation_of(expected)
    return math.inf if variation <= SAME * scale else math.sqrt(mean_square) / variation


def agree(expected: np.ndarray, named: np.ndarray, tie: float) -> np.ndarray:
    """Whether classes (comparisons,) are Keras', or ones that are as probable for Keras."""
    chosen = np.take_along_axis(expected, named.astype(np.int64)[:, None], -1)[:, 0]
    return chosen >= expected.max(-1) - tie


def _cosine(expected: np.ndarray, actual: np.ndarray) -> float | None:
    if expected.shape[-1] == 1:
        return None  # a single score has no direction but its sign, which agreement counts
    lengths = [np.linalg.norm(rows, axis=-1) for rows in (expected, actual)]
    both_zero = (lengths[0] == 0) & (lengths[1] == 0)  # equal, but without a defined cosine
    norms = lengths[0] * lengths[1]
    directed = np.isfinite(norms) & (norms > 0)
    dots = (expected * actual).sum(-1)
    cosines = np.divide(dots, norms, out=np.zeros_like(norms), where=directed)[~both_zero]
    return float(cosines.min()) if len(cosines) else None


def _classes(expected: np.ndarray, actual: np.ndarray, same: np.ndarray) -> dict[str, Any]:
    named = expected.argmax(-1)
    counts = np.bincount(named, minlength=expected.shape[-1])
    agreed = np.bincount(named[same], minlength=expected.shape[-1])
    return {
        "keras_classes": int((counts > 0).sum()),
        "file_classes": len(np.unique(actual.argmax(-1))),
        "weakest_class": weakest_class(counts, agreed),
    }


def weakest_class(counts: np.ndarray, agreed: np.ndarray) -> dict[str, int]:
    """The class on which a file agrees least clearly, see `Verdict.weakest_class`.

    Args:
        counts: the comparisons of each class (classes,).
        agreed: those in which the file agrees.
    """
    weakest = min(
        np.flatnonzero(counts),
        key=lambda c: significance.at_least(counts[c] - agreed[c], counts[c], 1 - CLASS_AGREEMENT),
    )
    return {
        "class": int(weakest),
        "comparisons": int(counts[weakest]),
        "agreed": int(agreed[weakest]),
    }


def _neighbours(
    expected: np.ndarray, actual: np.ndarray, targets: np.ndarray | None
) -> dict[str, Any]:
    """What the nearest other images or patches are by Keras' features and by the file's."""
    if len(expected) < _FEWEST or not np.isfinite(actual).all():
        return {}
    rows = [unit(each) for each in (expected, actual)]
    found = [nearest(each, each, NEIGHBOURS, themselves=True) for each in rows]
    same = [len(np.intersect1d(*each)) for each in zip(found[0][1], found[1][1], strict=True)]
    recall = {"recall": float(np.mean(same) / NEIGHBOURS)}
    if targets is None:
        return recall
    _check_targets(targets, len(expected))
    votes = [shares(cosines, targets[near], int(targets.max()) + 1) for cosines, near in found]
    return recall | _accuracies(*votes, targets)


def _accuracies(expected: np.ndarray, actual: np.ndarray, targets: np.ndarray) -> dict[str, Any]:
    count, classes = expected.shape
    _check_targets(targets, count)
    if not 0 <= targets.min() <= targets.max() < classes:
        raise UsageError(
            f"labels must be 0 to {classes - 1}. Received: {targets.min()} to {targets.max()}."
        )
    keras, file = (rows.argmax(-1) == targets for rows in (expected, actual))
    majority = float(np.bincount(targets).max() / count)
    chance = significance.at_least(int(keras.sum()), count, majority)
    return {
        "accuracy": float(file.mean()),
        "keras_accuracy": float(keras.mean()),
        "majority": majority,
        "lost": int((keras & ~file).sum()),
        "gained": int((file & ~keras).sum()),
        "informed": chance < 1 - significance.CONFIDENCE,
    }


def _check_targets(targets: np.ndarray, count: int) -> None:
    if targets.shape != (count,) or targets.dtype.kind not in "iu":
        raise UsageError(
            f"expected {count} labels, integers. Received: {targets.dtype} {targets.shape}."
        )
