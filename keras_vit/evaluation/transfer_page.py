"""The results of a transfer suite: a table beside published figures, a page, JSON and CSV."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_vit.data.vtab_tasks import VTAB
from keras_vit.evaluation.published_accuracies import PAPER, VTAB_MEAN
from keras_vit.evaluation.results_page import mean_text, write_results

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
    every = [*results, *_means(results)]
    figures = [{**each, "published": _own(published, each)} for each in every]
    rows = [
        {**each, "accuracies": " ".join(map(str, each.get("accuracies", ())))} for each in figures
    ]
    done = _done(results)
    paper = [name for name, of in PAPER.items() if any(_own(of, each) for each in done)]
    return write_results(
        folder,
        "transfer",
        {"title": title, "facts": facts, "results": figures},
        "transfer",
        (COLUMNS, rows),
        tasks=transfer_table(results, published, paper, with_sources=True),
        paper=paper,
        several_seeds=any(len(each.get("accuracies", ())) > 1 for each in done),
        imagenet=any(each["task"] in _IMAGENET for each in done),
        other_images=not all(each.get("is_own", True) for each in done),
        rates=_learning_rates(results),
        unfinished=_unfinished(results),
    )


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
    done = _done(results)
    header = ["task", "learning rate", "accuracy"]
    if any(_own(published, each) for each in done):
        header += ["published", "difference"]
    header += [*columns, *(["images"] if with_sources else [])]
    rows = [_cells(each, published) for each in (*done, *_means(results))]
    return header, [[cells.get(name, "") for name in header] for cells in rows]


def _cells(result: Result, published: Mapping[str, float]) -> dict[str, str]:
    """What is known of a task or of a mean, by column."""
    paper = result.get("paper", {name: _own(of, result) for name, of in PAPER.items()})
    cells = {name: f"{figure:.2f}%" for name, figure in paper.items() if figure is not None}
    cells |= {"task": result["task"], "images": result.get("source", "")}
    if "diverged" in result:
        return {**cells, "accuracy": "diverged"}
    cells["accuracy"] = mean_text(result.get("accuracies", [result["accuracy"]]))
    if (rate := result.get("learning_rate")) is not None:
        cells["learning rate"] = f"{rate:g}"
    if (known := _own(published, result)) is not None:
        cells["published"] = f"{known:.2f}%"
        cells["difference"] = f"{100 * result['accuracy'] - known:+.2f}"
    return cells


def _done(results: Sequence[Result]) -> list[Result]:
    return [each for each in results if "missing" not in each]


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


def _learning_rates(results: Sequence[Result]) -> tuple[list[str], list[list[str]]] | None:
    """The accuracies of the learning rates that were compared: header and rows."""
    tried = {
        each["task"]: {float(rate): f"{accuracy:.2%}" for rate, accuracy in each["tried"].items()}
        for each in results
        if each.get("tried")
    }
    rates = sorted(set().union(*tried.values()))
    if not rates:
        return None
    header = ["task", *(f"{rate:g}" for rate in rates)]
    return header, [[task, *(of.get(rate, "") for rate in rates)] for task, of in tried.items()]


def _unfinished(results: Sequence[Result]) -> dict[str, list[str]]:
    """The tasks that were not run, by what prepares them; and those that diverged."""
    reasons: dict[str, list[str]] = {}
    for each in results:
        if reason := each.get("missing") or each.get("diverged"):
            reasons.setdefault(reason, []).append(each["task"])
    return reasons
