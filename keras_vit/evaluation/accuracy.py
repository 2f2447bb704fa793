"""The accuracy of a model on images whose classes it knows, by the classes' names."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_vit._checks import classifies, reads_pictures
from keras_vit._errors import UsageError
from keras_vit.data.folders import listed
from keras_vit.data.source import Source, as_answered
from keras_vit.evaluation.results_page import write_results
from keras_vit.frozen_features import input_batches
from keras_vit.labels import answer_scores, answers_of, imagenet2012_ids, imagenet2012_labels

_TOP = 5
_MOST_CLASSES = 50  # in the table of the page


@dataclasses.dataclass(frozen=True)
class Accuracy:
    """How often a model is right.

    Attributes:
        images: the number of images that were judged.
        unlabelled: the number of images that were left out because they have no class.
        top1: the fraction of images whose most probable class is correct, or is one of the correct
            ones.
        top5: the fraction of images with a correct class among the five most probable ones.
        classes: for each class its label, its number of images and of those that were recognised;
            empty if an image may have several classes.
    """

    images: int
    unlabelled: int
    top1: float
    top5: float
    classes: list[dict[str, Any]]


def accuracy_on(
    model: Any,
    source: Source,
    indices: np.ndarray,
    batch_size: int = 64,
    report: Callable[[int, int, int], None] = lambda done, count, right: None,
) -> Accuracy:
    """Judges a model on images, which should not be those that it was trained on.

    Args:
        model: a model of keras_vit. One of a single logit is judged on its label and all other
            classes; without a label, on two classes, whose second one it names.
        source: the images.
        indices: which of them; those without a class are left out, as in ImageNet-ReaL.
        batch_size: number of images that the model computes at a time.
        report: called after each batch with the number of images so far, of all of them, and of
            those that were recognised.

    Raises:
        UsageError: the model lacks a class of the images, or no image has a class.
    """
    reads_pictures(model)
    classifies(model, "accuracy_on")
    labels, classes = model.labels, model.num_classes
    if classes == 1:
        labels = labels or (source.labels[1:] if len(source.labels) == 2 else None)
        source, classes = as_answered(source, labels), 2
    places = class_places(source.labels, labels and answers_of(labels), classes)
    sets = source.multi_hot
    labelled = indices if sets is None else indices[np.diff(sets.starts)[indices] > 0]
    if not len(labelled):
        raise UsageError(f"{source.locator}: expected images with classes. Received: none.")
    # The place of the first right class among the most probable ones, or _TOP.
    ranks, done, size = np.full(len(labelled), _TOP), 0, min(batch_size, len(labelled))
    for inputs in input_batches(model, source, labelled, size):
        now = slice(done, done + len(inputs))
        logits = answer_scores(np.asarray(model.predict_on_batch(_filled(inputs, size))))
        ranks[now] = _ranks(logits[: len(inputs)], source, labelled[now], places)
        done += len(inputs)
        report(done, len(labelled), int((ranks == 0).sum()))
    classes = [] if sets is not None else _by_class(source, labelled, ranks == 0)
    top1, top5 = float((ranks == 0).mean()), float((ranks < _TOP).mean())
    return Accuracy(len(labelled), len(indices) - len(labelled), top1, top5, classes)


def class_places(
    names: Sequence[str], labels: Sequence[str] | None, num_classes: int
) -> np.ndarray:
    """The place of each class of the images among the model's classes, int64 (names,).

    Classes are the same if their names are; ImageNet-1k's may be named by words or by WordNet ids.

    Args:
        names: the names of the images' classes.
        labels: the names of the model's classes; None if its file has none. Then they are
            ImageNet-1k's for 1,000 classes, and otherwise must be those of the images in their
            order.
        num_classes: the number of the model's classes.

    Raises:
        UsageError: the model lacks a class.
    """
    ids = imagenet2012_ids()
    if labels is None:
        if num_classes == len(names):
            labels = ids if {*names} <= {*ids} else names
        elif num_classes == len(ids):
            labels = ids
        else:
            raise UsageError(
                f"expected a model of the images' {len(names)} classes. Received: {num_classes} "
                "classes without names; use weights that were fine-tuned on these classes."
            )
    names, labels = _wordnet(tuple(names)), _wordnet(tuple(labels))
    if names == labels:  # names may occur twice
        return np.arange(len(names))
    place = {label: i for i, label in enumerate(labels)}
    missing = [name for name in names if name not in place]
    if missing:
        raise UsageError(
            f"expected classes that are among the model's {num_classes}. Received: "
            f"{listed(missing)}, which the model does not know; use weights that were fine-tuned "
            "on these classes."
        )
    return np.array([place[name] for name in names], np.int64)


def write_accuracy(folder: Path, title: str, facts: dict[str, str], accuracy: Accuracy) -> Path:
    """Writes report.json and index.html, and returns the path of the page.

    Args:
        folder: the folder; other files in it stay.
        title: the title of the page.
        facts: the results and what was judged, in words.
        accuracy: the results.
    """
    seen = [each for each in accuracy.classes if each["images"]]
    seen.sort(key=lambda each: each["recognised"] / each["images"])
    content = {"title": title, "facts": facts, **dataclasses.asdict(accuracy)}
    shown = {"classes": seen[:_MOST_CLASSES], "count": len(seen)}
    return write_results(folder, "report", content, "accuracy", **shown)


def _wordnet(names: tuple[str, ...]) -> tuple[str, ...]:
    return imagenet2012_ids() if names == imagenet2012_labels() else names


def _filled(images: np.ndarray, size: int) -> np.ndarray:
    """A last, smaller batch with more images, because another size would be compiled again."""
    return np.concatenate([images, np.repeat(images[-1:], size - len(images), axis=0)])


def _ranks(
    logits: np.ndarray, source: Source, indices: np.ndarray, places: np.ndarray
) -> np.ndarray:
    """The place of the first right class among each image's five most probable ones, or 5."""
    top = np.argsort(-logits, axis=1, kind="stable")[:, :_TOP]  # (b, 5)
    if source.multi_hot is None:
        right = top == places[source.targets[indices]][:, None]
    else:
        truth = np.zeros(logits.shape, bool)
        truth[:, places] = source.multi_hot[indices]
        right = np.take_along_axis(truth, top, axis=1)
    return np.where(right.any(axis=1), right.argmax(axis=1), _TOP)


def _by_class(source: Source, indices: np.ndarray, right: np.ndarray) -> list[dict[str, Any]]:
    targets, count = source.targets[indices], len(source.labels)
    images = np.bincount(targets, minlength=count).tolist()
    recognised = np.bincount(targets[right], minlength=count).tolist()
    rows = zip(source.labels, images, recognised, strict=True)
    return [{"label": label, "images": n, "recognised": k} for label, n, k in rows]
