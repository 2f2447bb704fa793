"""Precision, recall and f1 of each class, their means, and the confusion matrix."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from keras_vit._errors import MissingPackageError

_MOST_SHOWN = 8


@dataclasses.dataclass(frozen=True)
class ClassReport:
    """The results of a classifier on labelled images.

    Attributes:
        accuracy: fraction of images that are classified correctly.
        classes: label, precision, recall, f1 and support of each class; a class that is never
            predicted has precision 0.
        macro: means of precision, recall and f1 over the classes.
        weighted: the same means, weighted by support.
        confusion: counts, as [true][predicted].
    """

    accuracy: float
    classes: list[dict[str, Any]]
    macro: dict[str, float]
    weighted: dict[str, float]
    confusion: list[list[int]]

    def never_recognised(self) -> list[str]:
        """The classes with recall 0, each with its number of images."""
        return [
            f"{c['label']} (0 of {c['support']})"
            for c in self.classes
            if c["support"] and not c["recall"]
        ]


def classification_report(
    predicted: np.ndarray, targets: np.ndarray, labels: tuple[str, ...]
) -> ClassReport:
    """scikit-learn's metrics for predicted and true classes, both int (n,)."""
    try:
        from sklearn import metrics
    except ImportError:
        raise MissingPackageError(
            "evaluation needs scikit-learn: pip install 'keras_vit[train]'"
        ) from None
    known = np.arange(len(labels))

    def figures(average: str | None) -> dict[str, Any]:
        names = ("precision", "recall", "f1", "support")
        values = metrics.precision_recall_fscore_support(
            targets, predicted, labels=known, average=average, zero_division=0
        )
        return dict(zip(names, values, strict=True))

    each = figures(None)
    classes = [
        {"label": label}
        | {name: float(each[name][i]) for name in ("precision", "recall", "f1")}
        | {"support": int(each["support"][i])}
        for i, label in enumerate(labels)
    ]
    means = {
        average: {k: float(v) for k, v in figures(average).items() if k != "support"}
        for average in ("macro", "weighted")
    }
    return ClassReport(
        accuracy=float((predicted == targets).mean()),
        classes=classes,
        confusion=metrics.confusion_matrix(targets, predicted, labels=known).tolist(),
        **means,
    )


def recall_warning(report: ClassReport, class_weights: str = "none") -> str | None:
    """One line with advice if a class was never recognised, else None.

    Args:
        report: the metrics.
        class_weights: the setting in the recipe of the training.
    """
    missed = report.never_recognised()
    if not missed:
        return None
    shown = ", ".join(missed[:_MOST_SHOWN]) + (" ..." if len(missed) > _MOST_SHOWN else "")
    advice = "train longer" if class_weights == "balanced" else "train with balanced class weights"
    return (
        f"{len(missed)} of {len(report.classes)} classes were never recognised among the held-out "
        f"images: {shown}. Add images of them, or {advice}."
    )
