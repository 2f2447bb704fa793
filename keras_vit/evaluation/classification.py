"""Precision, recall and f1 of each class, their means, and the confusion matrix."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from keras_vit._errors import naming_install
from keras_vit.evaluation.report import Report

# The metrics of each class, which the means have too.
METRICS = ("precision", "recall", "f1")
_MOST_SHOWN = 8


@dataclasses.dataclass(frozen=True)
class Mistake:
    """A picture that is classified wrongly.

    Attributes:
        path: the file of a folder of pictures; of other data the picture's id.
        label: its class or classes.
        prediction: the most probable class.
        probability: the probability of the prediction.
    """

    path: str
    label: str
    prediction: str
    probability: float


@dataclasses.dataclass(frozen=True)
class ClassReport(Report):
    """The results of a classifier on labelled images.

    Attributes:
        accuracy: the fraction of images whose most probable class is correct, or is one of the
            correct ones.
        classes: label, precision, recall, f1 and support of each class; a class that is never
            predicted has precision 0.
        macro: means of precision, recall and f1 over the classes.
        weighted: the same means, weighted by support.
        confusion: counts, `confusion[true][predicted]`; empty if an image may have several classes.
        mean_average_precision: if an image may have several classes: the mean over the classes
            that occur of the average precision; else None.
        split, average: see `Report`.
        wrong: the pictures that are classified wrongly, the one with the highest probability first,
            at most 10,000.
    """

    accuracy: float
    classes: list[dict[str, Any]]
    macro: dict[str, float]
    weighted: dict[str, float]
    confusion: list[list[int]]
    mean_average_precision: float | None = None
    split: str = "held_out"
    average: bool = False
    wrong: list[Mistake] = dataclasses.field(default_factory=list)

    metric = "accuracy"

    @property
    def score(self) -> tuple[str, float]:
        """See `Report`."""
        return "accuracy", self.accuracy

    @property
    def facts(self) -> dict[str, str]:
        """See `Report`."""
        several, missed = self.mean_average_precision, self.never_recognised()
        return {
            **({} if several is None else {"Mean average precision": f"{several:.2%}"}),
            "Macro f1": f"{self.macro['f1']:.2%}",
            **({"Never recognised": ", ".join(missed)} if missed else {}),
        }

    @property
    def table(self) -> tuple[list[str], list[list[str]]]:
        """A header, and a row for each class and for their means."""
        rows = [
            [c["label"], *(f"{c[name]:.2%}" for name in METRICS), str(c["support"])]
            for c in self.classes
        ]
        means = ["macro mean", *(f"{self.macro[name]:.2%}" for name in METRICS), ""]
        return ["class", *METRICS, "images"], [*rows, means]

    @property
    def headline(self) -> str:
        """The main figures in words."""
        several = self.mean_average_precision
        more = "" if several is None else f", mean average precision {several:.2%}"
        weights = " with the average of the weights" if self.average else ""
        images = sum(map(sum, self.confusion))
        count = f" ({round(self.accuracy * images):,} of {images:,})" if images else ""
        return f"{self.kind} accuracy {self.accuracy:.2%}{count}{more}{weights}"

    def warning(self, may_weight_classes: bool = True) -> str | None:
        """See `recall_warning`."""
        return recall_warning(self, may_weight_classes)

    def never_recognised(self) -> list[str]:
        """The classes with recall 0, each with its number of images."""
        missed = [each for each in self.classes if each["support"] and not each["recall"]]
        return [f"{each['label']} (0 of {each['support']})" for each in missed]


def scored_report(scores: np.ndarray, targets: np.ndarray, labels: tuple[str, ...]) -> ClassReport:
    """The metrics of scores (n, classes) for targets, int (n,) or multi-hot (n, classes)."""
    if targets.ndim == 2:
        return multi_label_report(scores, targets, labels)
    return classification_report(scores.argmax(-1), targets, labels)


def classification_report(
    predicted: np.ndarray, targets: np.ndarray, labels: tuple[str, ...]
) -> ClassReport:
    """scikit-learn's metrics for predicted and true classes, both int (n,)."""
    confusion = _metrics().confusion_matrix(targets, predicted, labels=np.arange(len(labels)))
    accuracy, by_class = float((predicted == targets).mean()), _by_class(predicted, targets, labels)
    return ClassReport(accuracy, **by_class, confusion=confusion.tolist())


def multi_label_report(
    logits: np.ndarray, multi_hot: np.ndarray, labels: tuple[str, ...]
) -> ClassReport:
    """scikit-learn's metrics where images have several classes.

    A class is predicted where its logit is positive: its probability by the sigmoid is over a half.

    Args:
        logits: (n, classes).
        multi_hot: 1 for each class of an image, else 0; (n, classes).
        labels: the names of the classes.
    """
    top = np.take_along_axis(multi_hot, logits.argmax(-1)[:, None], -1)
    precision, occurring = _metrics().average_precision_score, np.flatnonzero(multi_hot.any(axis=0))
    precisions = [precision(multi_hot[:, i], logits[:, i]) for i in occurring]
    mean = float(np.mean(precisions))
    by_class = _by_class((logits > 0).astype(np.uint8), multi_hot, labels)
    return ClassReport(float(top.mean()), **by_class, confusion=[], mean_average_precision=mean)


def _metrics() -> Any:
    with naming_install("evaluation needs scikit-learn"):
        from sklearn import metrics
    return metrics


def _by_class(
    predicted: np.ndarray, targets: np.ndarray, labels: tuple[str, ...]
) -> dict[str, Any]:
    """The `classes`, `macro` and `weighted` of a report, from classes (n,) or (n, classes)."""
    found = _metrics().classification_report(
        targets, predicted, labels=np.arange(len(labels)), output_dict=True, zero_division=0
    )

    def figures(name: str) -> dict[str, float]:
        keys = ("precision", "recall", "f1-score")  # scikit-learn's
        return {metric: float(found[name][key]) for metric, key in zip(METRICS, keys, strict=True)}

    classes = [
        {"label": label, **figures(str(i)), "support": int(found[str(i)]["support"])}
        for i, label in enumerate(labels)
    ]
    return {"classes": classes, "macro": figures("macro avg"), "weighted": figures("weighted avg")}


def recall_warning(report: ClassReport, may_weight_classes: bool = True) -> str | None:
    """One line with advice if a class was never recognised, else None.

    Args:
        report: the metrics.
        may_weight_classes: whether class weights can be advised.
    """
    missed = report.never_recognised()
    if not missed:
        return None
    shown = ", ".join(missed[:_MOST_SHOWN]) + (" ..." if len(missed) > _MOST_SHOWN else "")
    counts = [each["support"] for each in report.classes]
    weigh = may_weight_classes and max(counts) >= 2 * min(counts)
    advice = "train with class_weights='balanced'" if weigh else "train longer"
    verb = "was" if len(missed) == 1 else "were"
    return (
        f"{len(missed)} of {len(report.classes)} classes {verb} never recognised among the "
        f"{report.kind} images: {shown}. Add images of them, or {advice}."
    )
