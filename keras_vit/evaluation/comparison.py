"""A comparison of trained models: a page, and its figures as JSON and CSV."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from keras_vit import _files
from keras_vit._templates import rendered
from keras_vit.evaluation import plots
from keras_vit.evaluation.plots import Line

FORMAT = 1
# The columns of the CSV; the JSON also has the classes and the curve of each result.
COLUMNS = (
    "model", "fraction", "seed", "images", "steps", "accuracy", "macro_precision", "macro_recall",
    "macro_f1", "parameters", "forward_flops", "training_flops", "seconds", "judged_weights",
    "diverged",
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
    content = {"format": FORMAT, "title": title, "facts": facts, "results": list(results)}
    _files.write_json(folder / "compare.json", content)
    _files.write_text(folder / "compare.csv", as_csv(results))
    text = rendered(
        "evaluation/comparison.html.j2",
        title=title,
        facts=facts,
        summary=summary(results),
        several=any(len(of_group) > 1 for of_group in _groups(results)),
        diverged=[result for result in results if "diverged" in result],
        **(_figures(finished) if finished else {"accuracies": None, "course": None}),
    )
    _files.write_text(folder / "index.html", text)
    return folder / "index.html"


def as_csv(results: Sequence[Result]) -> str:
    """One line for each result, with a header."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(results)
    return stream.getvalue()


def summary(results: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of a table with a row for each model and fraction."""
    finished = _finished(results)
    (one, image), (all_, training) = (
        _unit(finished, f"{kind}_flops") for kind in ("forward", "training")
    )
    several = any("mean_average_precision" in result for result in finished)
    accuracy = "accuracy of the average" if finished and _average(finished) else "accuracy"
    header = [
        "model", "images", "seeds", accuracy, *(["mAP"] if several else []), "f1", "parameters",
        f"{image} an image", f"{training} in training", "seconds",
    ]  # fmt: skip

    def figures(of_group: Sequence[Result]) -> list[str]:
        if not of_group:
            return ["diverged", *[""] * (len(header) - 4)]
        return [
            _mean("{:.2%}", of_group, "accuracy"),
            *([_mean("{:.2%}", of_group, "mean_average_precision")] if several else []),
            _mean("{:.2%}", of_group, "macro_f1"),
            f"{of_group[0]['parameters']:,}",
            f"{of_group[0]['forward_flops'] / one:,.2f}",
            f"{of_group[0]['training_flops'] / all_:,.2f}",
            f"{statistics.mean(r['seconds'] for r in of_group):,.0f}",
        ]

    return header, [
        [of[0]["model"], f"{of[0]['images']:,}", _seeds(of), *figures(_finished(of))]
        for of in _groups(results)
    ]


def _figures(results: Sequence[Result]) -> dict[str, Any]:
    """What the page shows of finished runs."""
    largest = _largest(results)
    size, unit = _unit(largest, "training_flops")
    compute = [
        Line(
            model,
            [record["step"] * r["training_flops"] / r["steps"] / size for record in r["curve"]],
            _percent(_mean_curve(of_model, _key(of_model, "accuracy"))),
        )
        for model, of_model in _by_model(largest)
        if (r := of_model[0])
    ]
    accuracy = {"ylabel": "held-out accuracy (%)", "xscale": "log"}
    by_compute = {"title": "Accuracy against compute", "xlabel": f"training compute ({unit})"}
    panels = [({**by_compute, **accuracy}, compute)]
    if len({result["images"] for result in results}) > 1:
        by_images = {"title": "Accuracy against images", "xlabel": "training images"}
        lines = [_by_images(model, of_model) for model, of_model in _by_model(results)]
        panels.insert(0, ({**by_images, **accuracy}, lines))
    curves = [
        (
            {"title": f"{name} loss", "xlabel": "steps", "ylabel": "cross-entropy (nats)"},
            [_by_step(model, of_model, key) for model, of_model in _by_model(largest)],
        )
        for name, key in (("Training", "loss"), ("Held-out", _key(largest, "loss")))
    ]
    return {
        "images": largest[0]["images"],
        "accuracies": _dots(largest),
        "course": plots.lines(panels),
        "curves": plots.lines(curves),
        "classes": _classes(results),
    }


def _dots(results: Sequence[Result]) -> bytes | None:
    """The accuracy of each training, if several models are compared."""
    groups = [(name, _percent([r["accuracy"] for r in of])) for name, of in _by_model(results)]
    return plots.dots(groups, "held-out accuracy (%)") if len(groups) > 1 else None


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


def _classes(results: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    """Precision, recall and f1 of each class, the models side by side: header and rows."""
    models = _by_model(_largest(results))
    names = ("precision", "recall", "f1")
    header = ["class", *(f"{model} {name}" for model, _ in models for name in names), "images"]
    rows = [
        [
            each["label"],
            *(
                f"{statistics.mean(r['classes'][i][name] for r in of_model):.2%}"
                for _, of_model in models
                for name in names
            ),
            str(each["support"]),
        ]
        for i, each in enumerate(results[0]["classes"])
    ]
    return header, rows


def _by_images(model: str, results: Sequence[Result]) -> Line:
    groups = sorted(_groups(results), key=lambda group: group[0]["images"])
    return Line(
        model,
        [group[0]["images"] for group in groups],
        _percent([statistics.mean(r["accuracy"] for r in group) for group in groups]),
        _percent([_deviation(group, "accuracy") for group in groups])
        if max(map(len, groups)) > 1
        else None,
    )


def _by_step(model: str, results: Sequence[Result], key: str) -> Line:
    steps = [record["step"] for record in results[0]["curve"]]
    return Line(model, steps, _mean_curve(results, key))


def _mean_curve(results: Sequence[Result], key: str) -> list[float]:
    # A training that was stopped before an evaluation has no training metrics for that epoch.
    curves = [[record.get(key, math.nan) for record in result["curve"]] for result in results]
    return [statistics.mean(values) for values in zip(*curves, strict=True)]


def _largest(results: Sequence[Result]) -> list[Result]:
    most = max(result["images"] for result in results)
    return [result for result in results if result["images"] == most]


def _by_model(results: Sequence[Result]) -> list[tuple[str, list[Result]]]:
    return [(of[0]["model"], of) for of in _grouped(results, lambda r: r["model"])]


def _groups(results: Sequence[Result]) -> list[list[Result]]:
    """The results of each model and fraction, which differ in their seeds."""
    return _grouped(results, lambda result: (result["model"], result["fraction"]))


def _grouped(results: Sequence[Result], key: Callable[[Result], Any]) -> list[list[Result]]:
    groups: dict[Any, list[Result]] = {}
    for result in results:
        groups.setdefault(key(result), []).append(result)
    return list(groups.values())


def _unit(results: Sequence[Result], key: str) -> tuple[float, str]:
    """The largest unit in which no result is less than 1, and its name."""
    least = min((result[key] for result in results), default=1)
    return next((each for each in _UNITS.items() if each[0] <= least), (1.0, "FLOP"))


def _mean(text: str, results: Sequence[Result], key: str) -> str:
    mean = text.format(statistics.mean(result[key] for result in results))
    if len(results) == 1:
        return mean
    return f"{mean} \u00b1 {text.format(_deviation(results, key))}"


def _deviation(results: Sequence[Result], key: str) -> float:
    values = [result[key] for result in results]
    return statistics.stdev(values) if len(values) > 1 else 0.0


def _percent(values: Sequence[float]) -> list[float]:
    return [100 * value for value in values]
