"""The evaluation of a run: metrics in report.json and a page in index.html."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_vit import _files, _json, runs
from keras_vit._checks import reads_pictures
from keras_vit.data import load
from keras_vit.data.sources import Source, path_of
from keras_vit.evaluation import plots
from keras_vit.evaluation.attention_scores import attention_maps
from keras_vit.evaluation.classification import ClassReport, Mistake, scored_report
from keras_vit.evaluation.report import Report
from keras_vit.evaluation.results_page import read_results, write_results
from keras_vit.evaluation.segmentation import judge_masks, segmentation_report
from keras_vit.frozen_features import input_batches
from keras_vit.labels import answer_scores
from keras_vit.models.profile import grouped, profile
from keras_vit.specs import ViTSpec
from keras_vit.tflite.phone_records import measured_on_phones

_MOST_WRONG, _MOST_ATTENTION, _MOST_LISTED = 24, 8, 10_000
# Where the images are that a report is about.
_PLACES = {"held_out": "held out", "validation": "for validation", "test": "for testing"}


def evaluate(
    run: runs.Run,
    batch_size: int = 64,
    data: str | os.PathLike | None = None,
    split: str = "held_out",
    average: bool = False,
) -> tuple[Report, Path]:
    """Runs the model on images it was not trained on and writes a report into the run folder.

    >>> from keras_vit import evaluation, runs
    >>> report, page = evaluation.evaluate(runs.open_run("runs/flowers"))
    >>> page.name
    'index.html'

    Args:
        run: an opened run folder.
        batch_size: images in a batch.
        data: the current folder of the run's images, if they were moved.
        split: "held_out" for the images that training held out, reported in report/; or a split
            that the data declares, "validation" or "test", reported in report-test/, for example.
        average: judge the average of the weights instead, reported in report-average/ or
            report-test-average/, for example.

    Returns:
        The metrics, and the path of the page.

    Raises:
        UsageError: see `Run.model`, `Run.source` and `Run.images`.
    """
    run.check_trained_with_classes()
    model, source = run.model(average=average), run.source(data)
    images = run.images(source, split)
    judge = JUDGES[run.task]
    report, shown = judge.in_pictures(model, source, images, batch_size)
    report = dataclasses.replace(report, split=split, average=average)
    metrics, out = run.metrics(), run.path / _folder(report)
    with _files.replacing_folder(out) as folder:
        page = write_results(
            folder,
            "report",
            {"images": len(images), **dataclasses.asdict(report)},
            judge.template,
            title=f"{run.spec['model']} on {source.name}",
            facts=_facts(run, source, len(images), report),
            curves={n: plots.curve(metrics, n) for n in ("loss", report.metric) if metrics},
            report=report,
            layers=grouped(profile(model.spec, model.num_classes, model.image_size)),
            exports=read_results(run.path / "export" / "table.json", _json.Table),
            phones=measured_on_phones(run.path / "export"),
            **shown,
        )
    return report, out / page.name


def held_out_report(
    run: runs.Run, source: Source, batch_size: int = 64, average: bool = False
) -> Report:
    """The metrics on an open source, without writing a report; see `evaluate`."""
    held_out, model = run.split(source).held_out, run.model(average=average)
    report = JUDGES[run.task].report(model, source, held_out, batch_size)
    return dataclasses.replace(report, average=average)


def class_report(
    model: Any, source: Source, indices: np.ndarray, batch_size: int = 64
) -> ClassReport:
    """The metrics of a model on the images `indices` of a source with the model's classes.

    A model of one logit has two classes, "not LABEL" and its label: see `data.as_answered`.
    """
    return scored_report(*_scored(model, source, indices, batch_size), source.labels)


def _judge_classes(
    model: Any, source: Source, images: np.ndarray, batch_size: int
) -> tuple[ClassReport, dict[str, Any]]:
    """The metrics, and what the page shows besides."""
    scores, targets = _scored(model, source, images, batch_size)
    places, mistakes = _mistakes(source, images, scores, targets)
    report = scored_report(scores, targets, source.labels)
    return dataclasses.replace(report, wrong=mistakes[:_MOST_LISTED]), {
        "confusion": plots.confusion(report.confusion, source.labels) if report.confusion else None,
        "mistakes": mistakes,
        "pictures": [plots.picture(source.image(int(place))) for place in places[:_MOST_WRONG]],
        # BiT has no attention.
        "attention": _attention(model, source, images) if isinstance(model.spec, ViTSpec) else (),
    }


class Judge(NamedTuple):
    """How runs of a task are judged; the functions are of model, source, indices and batch size.

    Attributes:
        report: returns the metrics.
        in_pictures: returns the metrics, and what the page shows besides.
        template: the page's template, "evaluation/TEMPLATE.html.j2".
    """

    report: Callable[..., Report]
    in_pictures: Callable[..., tuple[Report, dict[str, Any]]]
    template: str


JUDGES = {
    "classification": Judge(class_report, _judge_classes, "report"),
    "segmentation": Judge(segmentation_report, judge_masks, "segmentation"),
}


def _folder(report: Report) -> str:
    split = "" if report.split == "held_out" else f"-{report.split}"
    return f"report{split}{'-average' if report.average else ''}"


def _scored(
    model: Any, source: Source, indices: np.ndarray, batch_size: int
) -> tuple[np.ndarray, np.ndarray]:
    """The scores of images, (n, classes), and their targets, (n,) or multi-hot (n, classes)."""
    reads_pictures(model)
    batches = input_batches(model, source, indices, batch_size)
    scores = np.concatenate([np.asarray(model(inputs, training=False)) for inputs in batches])
    if source.multi_hot is not None:
        return scores, source.multi_hot[indices]
    return answer_scores(scores), source.targets[indices]


def _facts(run: runs.Run, source: Source, count: int, report: Report) -> dict[str, str]:
    height, width = run.spec["image_size"]
    duration, optimizer = (run.setting(name) for name in ("duration", "optimizer"))
    name, score = report.score
    return {
        f"{report.kind.capitalize()} {name}": f"{score:.2%}",
        **report.facts,
        "Model": f"{run.spec['model']}, {height} x {width} pixels",
        "Images": f"{len(source):,}, of them {count:,} {_PLACES[report.split]}",
        **({"Weights": "their average over the steps"} if report.average else {}),
        "Training": f"{duration}, {optimizer}, seed {run.setting('seed')}",
    }


def _mistakes(
    source: Source, indices: np.ndarray, scores: np.ndarray, targets: np.ndarray
) -> tuple[np.ndarray, list[Mistake]]:
    """The places in the source of wrongly classified images, and what is wrong about each."""
    predicted = scores.argmax(-1)
    if targets.ndim == 2:
        classes = [np.flatnonzero(row) for row in targets]
        confidence = 0.5 * (1 + np.tanh(0.5 * scores.max(-1)))  # the sigmoid
    else:
        classes = targets[:, None]
        confidence = np.exp(scores - scores.max(-1, keepdims=True))
        confidence = (confidence / confidence.sum(-1, keepdims=True)).max(-1)
    wrong = np.array([i for i, each in enumerate(classes) if predicted[i] not in each], int)
    wrong = wrong[np.argsort(-confidence[wrong], kind="stable")]
    mistakes, labels = [], source.labels
    for i in wrong:
        path, prediction = path_of(source, int(indices[i])), labels[predicted[i]]
        label = " and ".join(labels[each] for each in classes[i]) or "no class"
        mistakes.append(Mistake(path, label, prediction, float(confidence[i])))
    return indices[wrong], mistakes


def _attention(
    model: Any, source: Source, indices: np.ndarray
) -> list[tuple[bytes, bytes, str, str]]:
    # The first image of each class.
    firsts = np.unique(source.targets[indices], return_index=True)[1][:_MOST_ATTENTION]
    chosen = indices[firsts]
    maps = attention_maps(model, load(source, chosen, model.preprocessing)[0])
    pictures = []
    for index, attention in zip(chosen, maps, strict=True):
        image = source.image(int(index))
        caption, path = source.labels[source.targets[index]], path_of(source, int(index))
        pictures.append((plots.picture(image), plots.overlay(image, attention), caption, path))
    return pictures
