"""A comparison of trained models: a page, and its figures as JSON and CSV."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from keras_vit.evaluation import plots
from keras_vit.evaluation.classification import METRICS
from keras_vit.evaluation.results_page import mean_text, write_results

# The columns of the CSV; the JSON also has the classes and the curve of each result.
COLUMNS = (
    "model", "fraction", "seed", "images", "steps", "accuracy",
    *(f"macro_{metric}" for metric in METRICS),
    "parameters", "forward_flops", "training_flops", "seconds", "judged_weights", "diverged",
)  # fmt: skip
_UNITS = {1e18: "EFLOP", 1e15: "PFLOP", 1e12: "TFLOP", 1e9: "GFLOP", 1e6: "MFLOP", 1e3: "KFLOP"}

Result = dict[str, Any]


def write_comparison(
    folder: Path, title: str, facts: dict[str, str], results: Sequence[Result]
) -> Path:
    """Writes compare.json, compare.csv and index.html, and returns the path of the page.

    Args:
        folder: the folder; other files in it stay.
        title: the title of the page.
        facts: what was compared, in words.
        results: for each run the `COLUMNS`; `classes`, as in `ClassReport`; `curve`, the records of
            its metrics; and, if images have several classes, `mean_average_precision`. Where
            `judged_weights` is "average", the average of the weights was judged. A run that
            diverged has only `model`, `fraction`, `seed`, `images`, `seconds`, and the reason as
            `diverged`.
    """
    finished = _finished(results)
    return write_results(
        folder,
        "compare",
        {"title": title, "facts": facts, "results": list(results)},
        "comparison",
        (COLUMNS, results),
        summary=summary(results),
        several=any(len(of_group) > 1 for of_group in _grouped(results, "model", "fraction")),
        diverged=[result for result in results if "diverged" in result],
        **(_figures(finished) if finished else {"accuracies": None, "course": None}),
    )


def summary(results: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of a table with a row for each model and fraction."""
    finished = _finished(results)
    one, image = _unit(finished, "forward_flops")
    all_, training = _unit(finished, "training_flops")
    several = any("mean_average_precision" in result for result in finished)
    accuracy = "accuracy of the average" if finished and _average(finished) else "accuracy"
    columns: dict[str, Callable[[Sequence[Result]], str]] = {
        accuracy: lambda of: _mean(of, "accuracy"),
        **({"mAP": lambda of: _mean(of, "mean_average_precision")} if several else {}),
        "f1": lambda of: _mean(of, "macro_f1"),
        "parameters": lambda of: f"{of[0]['parameters']:,}",
        f"{image} an image": lambda of: f"{of[0]['forward_flops'] / one:,.2f}",
        f"{training} in training": lambda of: f"{of[0]['training_flops'] / all_:,.2f}",
        "seconds": lambda of: f"{statistics.mean(r['seconds'] for r in of):,.0f}",
    }

    def row(of_group: Sequence[Result]) -> list[str]:
        figures = ["diverged", *[""] * (len(columns) - 1)]
        if judged := _finished(of_group):
            figures = [cell(judged) for cell in columns.values()]
        first = of_group[0]
        return [first["model"], f"{first['images']:,}", _seeds(of_group), *figures]

    rows = [row(of) for of in _grouped(results, "model", "fraction")]
    return ["model", "images", "seeds", *columns], rows


def _figures(results: Sequence[Result]) -> dict[str, Any]:
    """What the page shows of finished runs."""
    most = max(result["images"] for result in results)
    largest = [result for result in results if result["images"] == most]
    models = _grouped(largest, "model")
    size, unit = _unit(largest, "training_flops")
    accuracy = {"ylabel": "held-out accuracy (%)", "xscale": "log"}
    by_compute = {"title": "Accuracy against compute", "xlabel": f"training compute ({unit})"}
    panels = [({**by_compute, **accuracy}, [_by_compute(of, size) for of in models])]
    if len(largest) < len(results):
        by_images = {"title": "Accuracy against images", "xlabel": "training images"}
        lines = [_by_images(of) for of in _grouped(results, "model")]
        panels.insert(0, ({**by_images, **accuracy}, lines))
    loss = {"xlabel": "steps", "ylabel": "cross-entropy (nats)"}
    curves = [
        ({"title": title, **loss}, [_course(of, key) for of in models])
        for title, key in (("Training loss", "loss"), ("Held-out loss", _key(largest, "loss")))
    ]
    dots = [(of[0]["model"], [100 * result["accuracy"] for result in of]) for of in models]
    return {
        "images": most,
        "accuracies": plots.dots(dots, accuracy["ylabel"]) if len(dots) > 1 else None,
        "course": plots.lines(panels),
        "curves": plots.lines(curves),
        "classes": _classes(models),
    }


def _finished(results: Sequence[Result]) -> list[Result]:
    return [result for result in results if "diverged" not in result]


def _seeds(results: Sequence[Result]) -> str:
    diverged = len(results) - len(_finished(results))
    if diverged in (0, len(results)):
        return str(len(results))
    return f"{len(results)}, {diverged} diverged"


def _average(results: Sequence[Result]) -> bool:
    """Whether the average of the weights was judged, and not the last ones."""
    return all(result.get("judged_weights") == "average" for result in results)


def _key(results: Sequence[Result], name: str) -> str:
    """The held-out metric in the records of a curve."""
    return f"ema_val_{name}" if _average(results) else f"val_{name}"


def _classes(models: Sequence[Sequence[Result]]) -> tuple[list[str], list[list[str]]]:
    """Precision, recall and f1 of each class, the models side by side: header and rows."""
    columns = [(of, metric) for of in models for metric in METRICS]
    header = ["class", *(f"{of[0]['model']} {metric}" for of, metric in columns), "images"]

    def mean(of: Sequence[Result], i: int, metric: str) -> str:
        return f"{statistics.mean(r['classes'][i][metric] for r in of):.2%}"

    return header, [
        [each["label"], *(mean(of, i, metric) for of, metric in columns), str(each["support"])]
        for i, each in enumerate(models[0][0]["classes"])
    ]


def _by_compute(results: Sequence[Result], unit: float) -> plots.Series:
    """The accuracy of a model through its training."""
    r, course = results[0], _course(results, _key(results, "accuracy"))
    compute = [step * r["training_flops"] / r["steps"] / unit for step in course.x]
    return plots.Series(r["model"], compute, [100 * value for value in course.y])


def _by_images(results: Sequence[Result]) -> plots.Series:
    """The accuracy of a model by the number of images."""
    groups = sorted(_grouped(results, "fraction"), key=lambda of: of[0]["images"])
    images = [of[0]["images"] for of in groups]
    accuracies = [[result["accuracy"] for result in of] for of in groups]
    means = [100 * statistics.mean(each) for each in accuracies]
    deviations = [100 * statistics.stdev(each) if len(each) > 1 else 0.0 for each in accuracies]
    several = max(map(len, groups)) > 1
    return plots.Series(results[0]["model"], images, means, deviations if several else None)


def _course(results: Sequence[Result], key: str) -> plots.Series:
    """A metric of a model by step, the mean of its runs."""
    steps = [record["step"] for record in results[0]["curve"]]
    # A run that was stopped before an evaluation has no training metrics for that epoch.
    curves = [[record.get(key, math.nan) for record in result["curve"]] for result in results]
    means = [statistics.mean(values) for values in zip(*curves, strict=True)]
    return plots.Series(results[0]["model"], steps, means)


def _grouped(results: Sequence[Result], *fields: str) -> list[list[Result]]:
    """Results with the same values of the fields; the others differ, such as the seeds."""
    groups: dict[Any, list[Result]] = {}
    for result in results:
        groups.setdefault(tuple(result[field] for field in fields), []).append(result)
    return list(groups.values())


def _unit(results: Sequence[Result], key: str) -> tuple[float, str]:
    """The largest unit in which no result is less than 1, and its name."""
    least = min((result[key] for result in results), default=1)
    return next((each for each in _UNITS.items() if each[0] <= least), (1.0, "FLOP"))


def _mean(results: Sequence[Result], key: str) -> str:
    return mean_text([result[key] for result in results])
