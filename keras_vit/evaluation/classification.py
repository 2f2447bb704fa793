"""Per-class precision, recall and f1, their means, and the confusion matrix."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class ClassReport:
    """How a classifier did on labelled images.

    Attributes:
        accuracy: share of images whose highest score is their class.
        classes: for each class its label, precision, recall, f1 and support; a class that was
            never predicted has precision 0.
        macro, weighted: means of precision, recall and f1 over classes, plain and by support.
        confusion: [true][predicted] counts.
    """

    accuracy: float
    classes: list[dict[str, Any]]
    macro: dict[str, float]
    weighted: dict[str, float]
    confusion: list[list[int]]


def classification_report(
    predicted: np.ndarray, targets: np.ndarray, labels: tuple[str, ...]
) -> ClassReport:
    """Figures of scikit-learn, for predicted and true classes, both int (n,)."""
    try:
        from sklearn import metrics
    except ImportError:
        raise ImportError("evaluation needs scikit-learn: pip install 'keras_vit[train]'") from None
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
