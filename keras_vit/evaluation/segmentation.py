"""IoU of each class, and the pictures with the worst masks."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_vit._keras import keras
from keras_vit.data.sources import Source, path_of
from keras_vit.evaluation import plots
from keras_vit.evaluation.report import Report
from keras_vit.frozen_features import batches_of
from keras_vit.mask_metrics import confusion_of, mean_iou
from keras_vit.models.dense_head_layers import scores_of_pixels

_MOST_LISTED, _MOST_WORST, _MOST_FIRST = 10_000, 12, 6
_MOST_SCORES = 1 << 26  # of the pixels of a batch, which are float32
_ALL = 0.999  # of the pixels: a class that takes so many takes all


@dataclasses.dataclass(frozen=True)
class MaskedPicture:
    """A picture whose mask was predicted.

    Attributes:
        path: the file of a folder of pictures; of other data the picture's id.
        mean_iou: of the classes that its mask or its prediction has; 1 if no pixel has a class.
    """

    path: str
    mean_iou: float


@dataclasses.dataclass(frozen=True)
class SegmentationReport(Report):
    """The results of a model on pictures with masks, both at the model's input size.

    Attributes:
        mean_iou: the mean of the classes' IoU, of those that a mask or a prediction has.
        accuracy: the fraction of pixels whose class is right.
        classes: of each class its label, its IoU (None if no mask and no prediction has it), its
            recall, and its parts of the pixels in the masks and in the predictions.
        confusion: pixels, `confusion[true][predicted]`; those without a class are not counted.
        images: the number of pictures.
        split, average: see `Report`.
        pictures: the one with the lowest mean IoU first, at most 10,000.
    """

    mean_iou: float
    accuracy: float
    classes: list[dict[str, Any]]
    confusion: list[list[int]]
    images: int
    split: str = "held_out"
    average: bool = False
    pictures: list[MaskedPicture] = dataclasses.field(default_factory=list)

    metric = "mean_iou"

    @property
    def score(self) -> tuple[str, float]:
        """See `Report`."""
        return "mean IoU", self.mean_iou

    @property
    def wrong(self) -> list[MaskedPicture]:
        """The pictures with wrong pixels, as in `pictures`."""
        return [each for each in self.pictures if each.mean_iou < 1]

    @property
    def facts(self) -> dict[str, str]:
        """See `Report`."""
        missed = self.never_found()
        return {
            "Pixel accuracy": f"{self.accuracy:.2%}",
            **({"Never found": ", ".join(missed)} if missed else {}),
        }

    @property
    def headline(self) -> str:
        """See `Report`."""
        weights = " with the average of the weights" if self.average else ""
        return (
            f"{self.kind} mean IoU {self.mean_iou:.2%}, pixel accuracy {self.accuracy:.2%} "
            f"({self.images:,} picture{'' if self.images == 1 else 's'}){weights}"
        )

    @property
    def table(self) -> tuple[list[str], list[list[str]]]:
        """See `Report`; the last row has the mean."""
        header = ["class", "IoU", "recall", "of the pixels", "predicted"]
        rows = []
        for each in self.classes:
            iou = "-" if each["iou"] is None else f"{each['iou']:.2%}"
            parts = (f"{each[name]:.2%}" for name in ("recall", "part", "predicted"))
            rows.append([each["label"], iou, *parts])
        return header, [*rows, ["mean", f"{self.mean_iou:.2%}", "", "", ""]]

    def warning(self, may_weight_classes: bool = False) -> str | None:
        """One line if a class takes all pixels, or others are never predicted; else None."""
        takes_all = next((c for c in self.classes if c["predicted"] >= _ALL), None)
        if takes_all is not None and takes_all["part"] < _ALL:
            return (
                f"{takes_all['label']} takes {takes_all['predicted']:.1%} of the pixels of the "
                f"{self.kind} pictures, and has {takes_all['part']:.1%} of them. Train longer, or "
                "with another learning_rate."
            )
        missed = self.never_found()
        if not missed:
            return None
        shown = ", ".join(missed[:8]) + (" ..." if len(missed) > 8 else "")
        verb = "was" if len(missed) == 1 else "were"
        return (
            f"{len(missed)} of {len(self.classes)} classes {verb} never found in the {self.kind} "
            f"pictures: {shown}. Add pictures of them, or train longer."
        )

    def never_found(self) -> list[str]:
        """The classes with recall 0 that occur."""
        return [c["label"] for c in self.classes if c["part"] and not c["recall"]]


def segmentation_report(
    model: Any, source: Source, indices: np.ndarray, batch_size: int = 64
) -> SegmentationReport:
    """The metrics of a segmenter on the pictures `indices` of a source with the model's classes."""
    return _judged(model, source, indices, batch_size)[0]


def judge_masks(
    model: Any, source: Source, images: np.ndarray, batch_size: int
) -> tuple[SegmentationReport, dict[str, Any]]:
    """The metrics, and what the page shows besides: the worst pictures, and the first ones."""
    report, ordered = _judged(model, source, images, batch_size)
    return report, {
        "confusion": plots.confusion(report.confusion, source.labels),
        "worst": _overlays(model, source, ordered[:_MOST_WORST]),
        "first": _overlays(model, source, images[:_MOST_FIRST]),
        "colours": plots.class_colours(source.labels),
    }


def _judged(
    model: Any, source: Source, indices: np.ndarray, batch_size: int
) -> tuple[SegmentationReport, np.ndarray]:
    """The metrics, and the indices in the order of the pictures' mean IoU, the lowest first."""
    count, found = len(source.labels), []
    total = np.zeros((count, count), np.int64)
    for masks, predicted in _predictions(model, source, indices, batch_size):
        for mask, prediction in zip(masks, predicted, strict=True):
            confusion = confusion_of(mask, prediction, count)
            total += confusion
            found.append(mean_iou(confusion))
    order = np.argsort(found, kind="stable")
    pictures = [
        MaskedPicture(path_of(source, int(indices[i])), found[i]) for i in order[:_MOST_LISTED]
    ]
    return report_of(total, source.labels, len(indices), pictures), indices[order]


def report_of(
    confusion: np.ndarray, labels: tuple[str, ...], images: int, pictures: list[MaskedPicture]
) -> SegmentationReport:
    """The report of counted pixels, int64 (classes, classes)."""
    right, true, predicted = np.diag(confusion), confusion.sum(1), confusion.sum(0)
    pixels = max(int(confusion.sum()), 1)
    classes = [
        {
            "label": label,
            "iou": float(right[i] / (true[i] + predicted[i] - right[i]))
            if true[i] + predicted[i]
            else None,
            "recall": float(right[i] / max(true[i], 1)),
            "part": float(true[i] / pixels),
            "predicted": float(predicted[i] / pixels),
        }
        for i, label in enumerate(labels)
    ]
    accuracy = float(right.sum() / pixels)
    counts = confusion.tolist()
    return SegmentationReport(
        mean_iou(confusion), accuracy, classes, counts, images, pictures=pictures
    )


def _overlays(
    model: Any, source: Source, indices: np.ndarray
) -> list[tuple[bytes, bytes, bytes, str, float]]:
    """For each picture: itself, with its mask, with the predicted mask, its name, its mean IoU."""
    shown = []
    batches = _predictions(model, source, indices, max(len(indices), 1)) if len(indices) else ()
    for index, mask, prediction in (
        each for masks, found in batches for each in zip(indices, masks, found, strict=True)
    ):
        image = source.image(int(index))
        pictures = [plots.picture(image)]
        pictures += [plots.with_mask(image, each, source.labels) for each in (mask, prediction)]
        iou = mean_iou(confusion_of(mask, prediction, len(source.labels)))
        shown.append((*pictures, path_of(source, int(index)), iou))
    return shown


def _predictions(
    model: Any, source: Source, indices: np.ndarray, batch_size: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Batches of masks and of predicted classes, both uint8 (b, height, width)."""
    scores = scores_of_pixels(model.output["scores"], model.spec)
    at_once = max(min(_MOST_SCORES // math.prod(scores.shape[1:]), batch_size), 1)
    whole = keras.Model(model.input, scores)
    for inputs, masks in batches_of(model, source, indices, at_once):
        scores = np.asarray(whole.predict_on_batch(inputs))
        yield np.asarray(masks), scores.argmax(-1).astype(np.uint8)
