"""The page, the JSON and the CSV of a comparison hold the figures of the runs."""

import copy
import csv
import json
import math
import re

import pytest

from keras_vit.evaluation import comparison, plots, summary, write_comparison
from keras_vit.evaluation.plots import Series


def result(model, fraction, seed, accuracy):
    each = {"precision": accuracy, "recall": accuracy / 2, "f1": accuracy / 4, "support": 30}
    return {
        "model": model, "fraction": fraction, "seed": seed, "images": int(100 * fraction),
        "steps": 20, "accuracy": accuracy, "macro_precision": 0.5, "macro_recall": 0.5,
        "macro_f1": 0.25, "parameters": 1234, "forward_flops": 2_500_000,
        "training_flops": 6_000_000_000, "seconds": 12.5,
        "classes": [{"label": "<cat>", **each}, {"label": "dog", **each}],
        "curve": [
            {"step": step, "loss": 1 / step, "val_loss": 2 / step, "val_accuracy": accuracy}
            for step in (10, 20)
        ],
    }  # fmt: skip


RESULTS = [
    result(model, fraction, seed, accuracy + 0.02 * seed)
    for model, accuracies in (("ViT-A", (0.3, 0.7)), ("BiT-B", (0.4, 0.6)))
    for fraction, accuracy in zip((0.1, 1.0), accuracies, strict=True)
    for seed in (0, 1)
]


def test_a_row_is_the_mean_of_the_seeds_of_a_model_and_fraction():
    header, rows = summary(RESULTS)
    assert header[6:8] == ["MFLOP an image", "GFLOP in training"]
    assert [row[:4] for row in rows] == [
        ["ViT-A", "10", "2", "31.00% ± 1.41%"],  # the deviation of .30 and .32
        ["ViT-A", "100", "2", "71.00% ± 1.41%"],
        ["BiT-B", "10", "2", "41.00% ± 1.41%"],
        ["BiT-B", "100", "2", "61.00% ± 1.41%"],
    ]
    assert rows[0][5:] == ["1,234", "2.50", "6.00", "12"]
    [one] = summary(RESULTS[:1])[1]
    assert one[2:4] == ["1", "30.00%"]  # without a deviation


def test_a_run_that_diverged_is_named_and_the_others_are_compared(tmp_path):
    about = {"name": "x", "fraction": 0.1, "images": 10, "diverged": "the loss is nan"}
    bad = [{**about, "model": "BiT-B", "seed": 2}, {**about, "model": "R-C", "seed": 0}]
    _, rows = summary([*RESULTS, *bad])
    assert [row[:4] for row in rows[-3:]] == [
        ["BiT-B", "10", "3, 1 diverged", "41.00% ± 1.41%"],
        ["BiT-B", "100", "2", "61.00% ± 1.41%"],
        ["R-C", "10", "1", "diverged"],
    ]
    page = write_comparison(tmp_path, "Models", {}, [*RESULTS, *bad]).read_text()
    assert "<td>diverged</td>" in page
    assert "<td>BiT-B</td><td>10</td><td>2</td><td>the loss is nan</td>" in page
    assert "Curves" in page
    *_, last = csv.DictReader((tmp_path / "compare.csv").read_text().splitlines())
    assert (last["model"], last["accuracy"], last["diverged"]) == ("R-C", "", "the loss is nan")
    only = write_comparison(tmp_path, "Models", {}, bad).read_text()
    assert "<td>diverged</td>" in only
    assert "Curves" not in only


def test_the_average_of_the_weights_is_shown_and_named_where_it_was_judged():
    assert summary(RESULTS)[0][3] == "accuracy"
    averaged = copy.deepcopy(RESULTS)
    for each in averaged:
        each["judged_weights"] = "average"
        for record in each["curve"]:
            record |= {"ema_val_accuracy": 0.25, "ema_val_loss": 0.125}
    assert summary(averaged)[0][3] == "accuracy of the average"
    _, (_, lines), _, (_, losses) = panels(comparison._figures, averaged)
    assert lines[0].y == pytest.approx([25, 25])
    assert losses[0].y == [0.125, 0.125]


def test_the_files_hold_every_run(tmp_path):
    page = write_comparison(tmp_path, "Models on <cats>", {"Budget": "20 steps"}, RESULTS)
    content = json.loads((tmp_path / "compare.json").read_text())
    assert (content["format"], content["results"]) == (1, RESULTS)
    rows = csv.DictReader((tmp_path / "compare.csv").read_text().splitlines())
    assert [float(row["accuracy"]) for row in rows] == [each["accuracy"] for each in RESULTS]
    html = " ".join(page.read_text().split())
    assert 'src="data:image/svg+xml;base64,' in html
    assert "http" not in html.replace("http://www.w3.org", "")
    assert "<td>&lt;cat&gt;</td>" in html
    assert "through its training on 100 images. Only its last point is a finished run" in html
    # Precision, recall and f1 of the models side by side, on all images.
    assert "<td>71.00%</td><td>35.50%</td><td>17.75%</td><td>61.00%</td>" in html


def test_curves_are_of_the_largest_fraction_and_the_mean_of_the_seeds():
    (axes, lines), *_ = panels(comparison._figures, RESULTS)
    assert axes["title"] == "Accuracy against images"
    assert [line.name for line in lines] == ["ViT-A", "BiT-B"]
    assert lines[0].x == [10, 100]
    assert lines[0].y == pytest.approx([31, 71])
    assert lines[0].deviation == pytest.approx([1.414, 1.414], abs=1e-3)
    _, (axes, lines), (_, losses), _ = panels(comparison._figures, RESULTS)
    assert axes["xlabel"] == "training compute (GFLOP)"
    assert (lines[0].x, lines[0].y) == ([3.0, 6.0], pytest.approx([71, 71]))
    assert (losses[1].x, losses[1].y) == ([10, 20], pytest.approx([0.1, 0.05]))


def test_an_epoch_without_training_metrics_is_a_gap_in_the_curve(tmp_path):
    stopped = copy.deepcopy(RESULTS)
    for result in stopped:
        del result["curve"][-1]["loss"]
    _, _, (_, losses), (_, held_out) = panels(comparison._figures, stopped)
    assert [math.isnan(value) for value in losses[0].y] == [False, True]
    assert not any(map(math.isnan, held_out[0].y))
    assert write_comparison(tmp_path, "Models", {}, stopped).exists()


def panels(function, results):
    """The panels of all diagrams that a function draws."""
    drawn = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "lines", lambda panels: drawn.extend(panels) or b"")
        function(results)
    return drawn


def test_lines_differ_without_colours_and_axes_have_plain_numbers():
    axes = {"title": "a", "xlabel": "x", "xscale": "log"}
    svg = plots.lines([(axes, [Series(name, [200, 2000], [1, 2]) for name in "abcd"])]).decode()
    assert "stroke-dasharray" in svg
    assert ">1,000<" in svg
    assert "mathdefault" not in svg
    one_point = [({"title": "a"}, [Series("a", [2], [1.5])])]
    for svg in (plots.lines(one_point), plots.curve([{"step": 2, "loss": 1.5}], "loss")):
        below = re.findall(r'id="xtick_\d+">.*?>([^<>]+)</text>', svg.decode(), re.DOTALL)
        assert set(below) == {"2"}
    styles = [plots._style(i) for i in range(12)]
    assert len({(style["linestyle"], style["marker"]) for style in styles}) == 12
