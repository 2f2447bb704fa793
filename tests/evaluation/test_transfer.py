"""The table of a transfer suite: published figures beside ours, VTAB's means, what is missing."""

import csv
import json
import statistics

import pytest

from keras_vit.data.vtab_tasks import VTAB
from keras_vit.evaluation import (
    published_accuracies,
    published_transfer,
    transfer_table,
    write_transfer,
)
from keras_vit.evaluation.published_accuracies import PAPER, VTAB_MEAN
from keras_vit.training import SUITES, TASKS
from keras_vit.weights import find_weights
from keras_vit.weights.catalogue import list_weights


def result(task, *accuracies, **fields):
    return {
        "task": task, "group": TASKS[task].group, "accuracy": statistics.mean(accuracies),
        "accuracies": list(accuracies), "learning_rate": 0.01, "tried": {"0.01": 0.5, "0.03": 0.4},
        "source": f"tfds:{task}", "is_own": True, "images": 10, "test_images": 5, "steps": 20,
        "seconds": 1.5, **fields,
    }  # fmt: skip


def test_the_published_figures_are_those_of_the_same_weights():
    file = find_weights("ViT_B16", "imagenet21k").name
    known = published_transfer(file)
    header, rows = transfer_table([result("cifar10", 0.99, 0.98)], known)
    assert header == [
        "task", "learning rate", "accuracy", "published", "difference", "ViT-H/14, JFT",
    ]  # fmt: skip
    assert rows == [["cifar10", "0.01", "98.50% ± 0.71%", "98.95%", "-0.45", "99.50%"]]
    # Nothing is published for other weights, and so there are no such columns.
    assert transfer_table([result("cifar10", 0.5)], published_transfer(None))[1] == [
        ["cifar10", "0.01", "50.00%", "99.50%"]
    ]


def test_every_figure_belongs_to_a_task_and_to_weights_of_the_catalogue():
    for figures in (*PAPER.values(), *published_accuracies._BY_FILE.values()):
        assert figures.keys() <= {*TASKS, VTAB_MEAN}
    assert {*published_accuracies._BY_FILE} <= {entry.name for entry in list_weights()}


@pytest.mark.parametrize("column", [name for name in PAPER if name.startswith("ViT")])
def test_the_papers_tasks_have_the_mean_that_the_paper_gives(column):
    figures = [PAPER[column][name] for name in SUITES["vtab"]]
    assert statistics.mean(figures) == pytest.approx(PAPER[column][VTAB_MEAN], abs=0.02)


def test_a_mean_is_given_only_for_complete_groups():
    structured = [name for name in SUITES["vtab"] if TASKS[name].group == "structured"]
    some = [result(name, i / 10) for i, name in enumerate(structured)]
    _, rows = transfer_table([*some, result("vtab-dtd", 0.5)], {})
    assert [row[0] for row in rows[9:]] == ["VTAB structured, mean of 8"]
    paper = statistics.mean(PAPER["ViT-H/14, JFT"][name] for name in structured)
    assert rows[9][2:] == ["35.00%", f"{paper:.2f}%"]
    _, rows = transfer_table([result(name, 0.5) for name in SUITES["vtab"]], {})
    assert [row[0] for row in rows[len(VTAB) :]] == [
        "VTAB natural, mean of 7", "VTAB specialised, mean of 4", "VTAB structured, mean of 8",
        "VTAB all, mean of 19",
    ]  # fmt: skip
    assert rows[-1][2:] == ["50.00%", "77.63%"]
    _, rows = transfer_table([result(name, 0.5) for name in SUITES["vtab"][1:]], {})
    assert len(rows) == 18 + 2  # without the natural ones, and so without all


def test_the_page_shows_what_diverged_and_what_is_missing(tmp_path):
    results = [
        result("cifar10", 0.9),
        {
            "task": "cifar100", "group": "paper", "source": "tfds:cifar100", "is_own": True,
            "diverged": "the loss is <nan>",
        },
        {"task": "vtab-dtd", "group": "natural", "missing": "python -c prepare"},
    ]  # fmt: skip
    write_transfer(tmp_path, "Transfer of <x>", {"Start": "a & b"}, results, {"cifar10": 95.0})
    text = (tmp_path / "index.html").read_text()
    for part in ("&lt;x&gt;", "a &amp; b", "the loss is &lt;nan&gt;", "python -c prepare", "-5.00"):
        assert part in text
    stored = json.loads((tmp_path / "transfer.json").read_text())
    assert [each["task"] for each in stored["results"]] == ["cifar10", "cifar100", "vtab-dtd"]
    assert stored["results"][0]["published"] == 95.0
    rows = list(csv.DictReader((tmp_path / "transfer.csv").read_text().splitlines()))
    assert rows[0]["accuracy"] == "0.9"
    assert rows[1]["diverged"] == "the loss is <nan>"
    assert [row["source"] for row in rows] == ["tfds:cifar10", "tfds:cifar100", ""]


def test_only_beside_imagenet_the_page_says_that_the_papers_settings_are_others(tmp_path):
    for name, expected in (("imagenet2012", True), ("imagenet2012_real", True), ("cifar10", False)):
        page = write_transfer(tmp_path, "Transfer", {}, [result(name, 0.5)], {})
        assert ("H/14 at 518" in page.read_text()) is expected


def test_other_images_than_those_of_the_task_are_beside_no_published_figure(tmp_path):
    own = [result(name, 0.5) for name in SUITES["vtab"][1:]]
    mine = {"source": "/my/<pictures>", "is_own": False}
    other = [result(name, 0.5, **mine) for name in ("cifar10", SUITES["vtab"][0])]
    published = {"cifar10": 98.95, "vtab-dtd": 70.0}
    _, rows = transfer_table([*other, *own], published)
    assert rows[0] == ["cifar10", "0.01", "50.00%", "", "", ""]
    means = {row[0]: row[-1] for row in rows if "mean of" in row[0]}
    assert means["VTAB natural, mean of 7"] == means["VTAB all, mean of 19"] == ""
    assert means["VTAB structured, mean of 8"] != ""
    write_transfer(tmp_path, "Transfer", {}, other[:1], published)
    (stored,) = json.loads((tmp_path / "transfer.json").read_text())["results"]
    assert (stored["published"], stored["source"]) == (None, "/my/<pictures>")
    (row,) = csv.DictReader((tmp_path / "transfer.csv").read_text().splitlines())
    assert (row["published"], row["source"]) == ("", "/my/<pictures>")
    text = (tmp_path / "index.html").read_text()
    assert "<td>/my/&lt;pictures&gt;</td>" in text
    assert not any(figure in text for figure in ("98.95", "99.50", "JFT", "tables 2 and 9"))
