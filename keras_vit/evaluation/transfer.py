"""The results of a transfer suite: a table beside published figures, a page, JSON and CSV."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from keras_vit import _files
from keras_vit.data.vtab_tasks import VTAB
from keras_vit.evaluation import page
from keras_vit.evaluation.published import PAPER, VTAB_MEAN

FORMAT = 1
COLUMNS = (
    "task", "group", "source", "accuracy", "accuracies", "learning_rate", "images", "test_images",
    "steps", "seconds", "published", "diverged", "missing",
)  # fmt: skip
_BEST = "ViT-H/14, JFT"  # the column of the paper that the terminal has room for
_IMAGENET = ("imagenet2012", "imagenet2012_real")
_GROUPS = ("natural", "specialised", "structured")

Result = dict[str, Any]


def write_transfer(
    folder: Path,
    title: str,
    facts: dict[str, str],
    results: Sequence[Result],
    published: Mapping[str, float],
) -> Path:
    """Writes transfer.json, transfer.csv and index.html, and returns the path of the page.

    Args:
        folder: the folder; other files in it stay.
        title: the title of the page.
        facts: what was done, in words.
        results: for each task `task`, `group`, and one of: `accuracies`, one for each seed, with
            `accuracy` (their mean), `learning_rate`, `tried` (accuracy on the development images by
            learning rate), `images`, `test_images`, `steps` and `seconds`; the reason as
            `diverged`; or how to prepare the images as `missing`. The first two have `source`, the
            images that were used, and `is_own`: whether these are the task's own, for which the
            published figures are.
        published: what was published for these weights, in percent by task.
    """
    figures = [
        {**each, "published": _own(published, each)} for each in (*results, *_means(results))
    ]
    content = {"format": FORMAT, "title": title, "facts": facts, "results": figures}
    _files.write_json(folder / "transfer.json", content)
    _files.write_text(folder / "transfer.csv", _as_csv(figures))
    _files.write_text(folder / "index.html", _page(title, facts, results, published))
    return folder / "index.html"


def transfer_table(
    results: Sequence[Result],
    published: Mapping[str, float],
    columns: Sequence[str] = (_BEST,),
    with_sources: bool = False,
) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of a table: the tasks that were run, then VTAB's means.

    A mean is given only where all of its tasks were run.

    Args:
        results, published: see `write_transfer`.
        columns: the models of `PAPER` to compare with.
        with_sources: whether the last column is the images that were used.
    """
    done = [each for each in results if "missing" not in each]
    if not any(_own(published, each) for each in done):
        published = {}
    header = ["task", "learning rate", "accuracy"]
    header += ["published", "difference"] if published else []
    header += [*columns, *(["images"] if with_sources else [])]

    def row(each: Result) -> list[str]:
        task = each["task"]
        beside = [_percent(_own(PAPER[column], each)) for column in columns]
        beside += [each["source"]] if with_sources else []
        if "diverged" in each:
            return [task, "", "diverged", *(["", ""] if published else []), *beside]
        known = _own(published, each)
        difference = "" if known is None else f"{100 * each['accuracy'] - known:+.2f}"
        cells = [_percent(known), difference] if published else []
        rate = each.get("learning_rate")
        return [task, "" if rate is None else f"{rate:g}", _accuracy(each), *cells, *beside]

    rows = [row(each) for each in done]
    for mean in _means(results):
        beside = [_percent(mean["paper"].get(column)) for column in columns]
        beside += [""] if with_sources else []
        blank = ["", ""] if published else []
        rows.append([mean["task"], "", _accuracy(mean), *blank, *beside])
    return header, rows


def _own(figures: Mapping[str, float], result: Result) -> float | None:
    """The figure for a task; None if there is none, or if its images were not the task's own."""
    return figures.get(result["task"]) if result.get("is_own", True) else None


def _means(results: Sequence[Result]) -> list[Result]:
    """The means of VTAB's complete groups, and of all 19 tasks; with the paper's.

    The paper has none where a task's images were not its own.
    """
    finished = {each["task"]: each for each in results if "accuracy" in each}
    means = []
    for group in (*_GROUPS, None):
        tasks = [f"vtab-{name}" for name, row in VTAB.items() if group in (row.group, None)]
        if not finished.keys() >= set(tasks):
            continue
        name = f"VTAB {group or 'all'}, mean of {len(tasks)}"
        is_own = all(finished[task].get("is_own", True) for task in tasks)
        paper = {
            column: figures.get(VTAB_MEAN) if group is None else _mean(figures, tasks)
            for column, figures in PAPER.items()
            if is_own
        }
        accuracy = statistics.mean(finished[task]["accuracy"] for task in tasks)
        means.append({"task": name, "group": "mean", "accuracy": accuracy, "paper": paper})
    return means


def _mean(figures: Mapping[str, float], tasks: Sequence[str]) -> float | None:
    values = [figures.get(task) for task in tasks]
    return None if None in values else statistics.mean(values)


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}%"


def _accuracy(result: Result) -> str:
    mean, of_seeds = _percent(100 * result["accuracy"]), result.get("accuracies", ())
    if len(of_seeds) < 2:
        return mean
    return f"{mean} \u00b1 {_percent(100 * statistics.stdev(of_seeds))}"


def _as_csv(figures: Sequence[Result]) -> str:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {**each, "accuracies": " ".join(map(str, each.get("accuracies", ())))} for each in figures
    )
    return stream.getvalue()


def _page(
    title: str, facts: dict[str, str], results: Sequence[Result], published: Mapping[str, float]
) -> str:
    done = [each for each in results if "missing" not in each]
    columns = [name for name, of in PAPER.items() if any(_own(of, each) for each in done)]
    header, rows = transfer_table(results, published, columns, with_sources=True)
    sections = [
        page.facts(facts),
        page.section("Tasks", _notes(done, header, columns) + page.table(header, rows)),
        *_trials(results),
        *_left(results),
    ]
    return page.document(title, sections)


def _notes(done: Sequence[Result], header: Sequence[str], columns: Sequence[str]) -> str:
    """What the columns of the table are, and what is not comparable."""
    notes = "Accuracy on the test images"
    if any(len(each.get("accuracies", ())) > 1 for each in done):
        notes += ", the mean over the seeds \u00b1 their standard deviation"
    if "published" in header:
        notes += "; \u201cpublished\u201d is for these weights"
    notes += "."
    if columns:
        notes += (
            " The columns of models are tables 2 and 9 of Dosovitskiy et al. 2021, whose means of "
            "VTAB's groups were computed from table 9."
        )
    if columns and any(each["task"] in _IMAGENET for each in done):
        notes += (
            " For ImageNet the paper has other settings than this suite: L/16 was fine-tuned at "
            "512 pixels and H/14 at 518, and the weights were averaged (section 4.1); the recipe "
            "here has 384 pixels and no average."
        )
    if not all(each.get("is_own", True) for each in done):
        notes += " Images that are not those of a task have no published figure."
    return f"<p>{notes}</p>"


def _trials(results: Sequence[Result]) -> list[str]:
    """The learning rates that were compared."""
    tried = [each for each in results if each.get("tried")]
    rates = sorted({float(rate) for each in tried for rate in each["tried"]})
    if not rates:
        return []

    def cell(each: Result, rate: float) -> str:
        accuracy = {float(key): value for key, value in each["tried"].items()}.get(rate)
        return "" if accuracy is None else _percent(100 * accuracy)

    rows = [[each["task"], *(cell(each, rate) for rate in rates)] for each in tried]
    header = ["task", *(f"{rate:g}" for rate in rates)]
    note = "<p>Accuracy on the development images by learning rate; empty where it diverged.</p>"
    return [page.section("Learning rates", note + page.table(header, rows))]


def _left(results: Sequence[Result]) -> list[str]:
    """What was not run, and what prepares it; what diverged."""
    reasons: dict[str, list[str]] = {}
    for each in results:
        if reason := each.get("missing") or each.get("diverged"):
            reasons.setdefault(reason, []).append(each["task"])
    lines = [f"<p>{escape(', '.join(of))}: {escape(reason)}</p>" for reason, of in reasons.items()]
    return [page.section("Not finished", "".join(lines))] if lines else []
