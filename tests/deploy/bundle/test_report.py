"""The report: a table of all files, a plot and a model card, with measured values only."""

import io
import json
import shutil
import sys

import numpy as np
import pytest
from markdown_it import MarkdownIt
from PIL import Image

import keras_vit
from keras_vit import _json
from keras_vit._pages import own_settings, rendered
from keras_vit.deploy import PRECISIONS, compare, notes
from keras_vit.deploy.bundle.accuracy_plot import draw, plot
from keras_vit.deploy.bundle.card import card, recommendation
from keras_vit.deploy.bundle.export_report import table, write_report
from keras_vit.evaluation import classification_report
from keras_vit.tflite.file_inspection import inspect_file
from keras_vit.tflite.measure import Latency, Measured, measure
from keras_vit.tflite.phone_records import summary

SPEC = keras_vit.ViTSpec(patch_size=8, hidden_dim=48, depth=1, num_heads=3, mlp_dim=112)
MIB = 2**20
UNKNOWN = {"accuracy": None, "keras_accuracy": None}


def description(name="float32", **changes):
    """What a bundle's model.json says; changes may be figures of its parity."""
    parity = {
        **{"precision": name, "images_from": "held-out images of digits"},
        **{"images": 359, "comparisons": 359, "agreement": 0.9972, "cosine": 0.99774},
        **{"max_difference": 0.5, "scale": 8.4, "rewritten": True},
        **{"accuracy": 0.9916, "keras_accuracy": 0.9944, "recall": None},
    }
    tensor = {"shape": [1, 32, 48, 3], "dtype": "float32", "mean": 127.5, "scale": 127.5}
    made = {
        **{"format": 1, "model": "ViT-Pico_4", "precision": name, "weights_sha256": "5" * 64},
        **{"bytes": 3 * MIB, "sha256": name * 4, "runtime_floor": "2.9.0"},
        "input": tensor | {"height": 32, "width": 48, "crop": None, "interpolation": "bilinear"},
        "output": {"shape": [1, 10], "dtype": "float32", "kind": "logits", "classes": 10},
        "delegation": {"nodes": 98, "delegated": 98, "partitions": 1, "undelegated": []},
        **{"gpu": [], "float_layers": [], "calibration": None, "made_with": {"keras": "3.15.1"}},
    }
    parity |= {key: changes.pop(key) for key in list(changes) if key in parity}
    return made | {"parity": parity} | changes


def measured(milliseconds=12.34, size=2 * MIB):
    latency = [Latency(n, milliseconds / n, milliseconds, 30) for n in (1, 2)]
    return Measured(3 * MIB, size, 0.0123, 35 * MIB, 1234 * MIB, tuple(latency))


def bundle(folder, made):
    folder.mkdir(parents=True)
    (folder / "model.json").write_text(json.dumps(made))
    (folder / "model.tflite").write_bytes(b"a model")
    (folder / "labels.txt").write_text("".join(f"{i}\n" for i in range(10)))


def rows_of(folder):
    rows = json.loads((folder / "table.json").read_text())["rows"]
    return {row["name"]: row for row in rows}


def card_of(descriptions, found, **details):
    return card(descriptions, table(descriptions, found), found, **details)


def test_a_row_shows_accuracy_and_cost_of_a_file():
    header, rows = table({"int8": description("int8")}, {"int8": measured()})
    assert " | ".join(header) == (
        "file | accuracy | drop | agreement | worst | cosine | MiB | zipped | ms, 1 thread | p90 | "
        "ms, 2 threads | p90 | peak MiB | load s | parts"
    )
    assert [" | ".join(row) for row in rows] == [
        "int8 | 99.16% | 0.28 | 99.72% | 6.0% | 0.99774 | 3.00 | 2.00 | 12.3 | 12.3 | "
        "6.17 | 12.3 | 1,234 | 0.0123 | 1"
    ]


def test_columns_without_any_value_are_left_out():
    assert table({"a": description(**UNKNOWN, delegation={})}, {}) == (
        ["file", "agreement", "worst", "cosine", "MiB"],
        [["a", "99.72%", "6.0%", "0.99774", "3.00"]],
    )
    header, rows = table({"a": description(**UNKNOWN), "b": description()}, {"b": measured()})
    accuracy, load = header.index("accuracy"), header.index("load s")
    assert (rows[0][accuracy], rows[0][load], rows[1][accuracy]) == ("-", "-", "99.16%")


def test_a_tiny_gain_is_shown_as_zero_not_minus_zero():
    header, rows = table({"a": description(accuracy=0.99442, keras_accuracy=0.9944)}, {})
    assert rows[0][header.index("drop")] == "0.00"


@pytest.fixture(scope="module")
def written(graph_file, tmp_path_factory):
    """The report of two real files: its folder, their descriptions and their measurements."""
    folder = tmp_path_factory.mktemp("export")
    files = {"float32": graph_file(SPEC), "int8": graph_file(SPEC, input="uint8")}
    descriptions = {}
    for name, content in files.items():
        record = inspect_file(content).to_dict()
        keys = ("nodes", "delegated", "partitions", "undelegated")
        found = {"delegation": {key: record[key] for key in keys}, "gpu": record["gpu"]}
        descriptions[name] = description(name, bytes=len(content), **found)
        bundle(folder / name, descriptions[name])
    found = measure(files, budget_s=0)
    write_report(folder, descriptions, found)
    return folder, descriptions, found


def test_the_report_is_a_table_a_card_and_a_plot(written):
    folder, descriptions, found = written
    files = {path.name for path in folder.iterdir()}
    assert files == {"float32", "int8", "table.json", "card.md", "plot.png"}
    record = json.loads((folder / "table.json").read_text())
    assert (record["format"], record["images"]) == (1, 359)
    assert record["machine"].endswith("2 threads")
    for row, (name, measured) in zip(record["rows"], found.items(), strict=True):
        assert (row["name"], row["precision"], row["earlier"]) == (name, name, False)
        assert row["latency_ms"] == measured.latency[-1].median_ms
        assert row["bytes"] == descriptions[name]["bytes"] == measured.bytes
        assert row["partitions"] == 1
        for figure in ("accuracy", "keras_accuracy", "agreement", "max_difference", "cosine"):
            assert row[figure] == descriptions[name]["parity"][figure]
        assert Measured.from_dict(row["measured"]) == measured
    assert Image.open(folder / "plot.png").width > 1000


def test_the_page_of_a_run_shows_the_table(written):
    record = json.loads((written[0] / "table.json").read_text())
    record["rows"][0] |= {"accuracy": None, "latency_ms": None}
    values = {"exports": _json.check(record, "table.json", _json.Table), "title": "", "facts": {}}
    values["report"] = classification_report(np.array([0]), np.array([0]), ("a",))
    values["phones"] = summary(())
    nothing = ("curves", "confusion", "mistakes", "pictures", "attention", "layers")
    text = rendered("evaluation/report.html.j2", **values, **dict.fromkeys(nothing, ()))
    assert "<td>int8</td><td>99.16%</td><td>99.72%</td><td>5.0e-01</td>" in text
    assert "<td>float32</td><td>-</td>" in text


def test_the_card_describes_the_files_and_their_limits(written):
    folder, descriptions, found = written
    text = (folder / "card.md").read_text()
    for name, row in zip(descriptions, table(descriptions, found)[1], strict=True):
        assert f"| `{name}` | {' | '.join(row[1:])} |" in text
        assert f"sha256 `{descriptions[name]['sha256']}`" in text
    of_float, of_int8 = (each["delegation"]["nodes"] for each in descriptions.values())
    [found, *_] = descriptions["int8"]["gpu"]
    for line in (
        "# `ViT-Pico_4` for LiteRT",
        "float32, `(pixel - 127.5) / 127.5`; whole image, resized (bilinear)",
        "- Classes, 10: `0`, `1`, `2`",
        "- Compared on: 359 images (`held-out images of digits`)",
        f"- Run by XNNPACK on CPUs (`float32`): all {of_float} operators, in 1 partition\n",
        f"- Run by XNNPACK on CPUs (`int8`): {of_int8 - 1} of {of_int8} operators, in 1 partition; "
        "all but:\n  - `CAST`",
        f"{found['effect']} (",
        f"`{found['operator']}` in `{found['layers'][0]}`: {found['reason']}",
        "- Made with: keras `3.15.1`\n",
        "![Size and latency against accuracy](plot.png)",
    ):
        assert line in text


def proven(name, count, images=359, **changes):
    """A description of a file that is wrong on `count` images where Keras is right."""
    targets = np.arange(images) % 10
    expected = np.eye(10)[targets] + np.arange(images)[:, None] / images
    found = expected.copy()
    found[np.arange(count), targets[:count]] -= 2
    verdict = compare(name, expected, found, targets)
    made = description(name, **changes)
    return made | {"parity": {"images_from": "images of digits", **verdict.to_dict()}}


def test_the_card_and_the_notes_say_which_drop_the_images_exclude():
    made = {"int8": proven("int8", 1), "dynamic": proven("dynamic", 1), "auto": proven("auto", 0)}
    lines = notes(made)
    assert len(lines) == 2
    assert lines[0].startswith(
        "Accuracy (`int8` and `dynamic`): a drop of up to 1.24 points cannot be excluded on 359 "
        "images (95% confidence): too few to exclude more than 0.5, which takes about "
    )
    assert lines[1].startswith("Accuracy (`auto`): a drop of up to 0.75 points cannot be excluded")
    text = card_of(made, {})
    for line in lines:
        assert f"- {line}\n" in text
    header, rows = table(made, {})
    assert [row[header.index("drop, 95%")] for row in rows] == ["1.24", "1.24", "0.75"]
    assert "- drop, 95%: a larger drop than this is excluded with a confidence of 95%" in text


def test_accuracy_no_better_than_the_majority_class_is_not_plotted():
    scores = np.random.default_rng(0).normal(0, 1, (50, 2))
    verdict = compare("int8", scores, scores, np.zeros(50, int))
    made = {"int8": description("int8")}
    made["int8"]["parity"] = {"images_from": "x", **verdict.to_dict()}
    [line] = notes(made)
    assert line.startswith("Accuracy: not judged: Keras is right on ")
    assert f"- {line}\n" in card_of(made, {})
    assert draw(made, {}).axes[0].get_ylabel() == "agreement, %"
    assert recommendation(made).endswith("the class that Keras finds for 100.00% of 50 pictures.")


ON_GPU = {
    **{"device": "SwiftShader", "problem": "", "images": 2, "scale": 10.0, "max_difference": 1e-4},
    "half_precision": [
        {"sums": "float32", "problem": "", "images": 2, "max_difference": 0.01},
        {"sums": "float16", "problem": "overflow in MEAN of encoderblock_0", "images": 1},
    ],
}


def test_the_card_says_what_was_compared_and_how_the_graph_was_made():
    layers = ["encoderblock_0/mlp/dense_0", "head"]
    changes = {"chosen_on": "24 other images of digits", "float_layers": layers, "rewritten": False}
    text = card_of({"auto": description("auto", images=3, comparisons=60, **changes)}, {})
    for line in (
        "3 images (`held-out images of digits`) with 60 tokens in total\n",
        "in float as its budget needs, chosen on `24 other images of digits`; "
        "float layers: `encoderblock_0/mlp/dense_0`, `head`; the graph was converted as it is",
    ):
        assert line in text


@pytest.mark.parametrize(
    ("gpu_run", "said"),
    [
        (
            ON_GPU,
            "- On a GPU: `SwiftShader` with LiteRT's accelerator takes the whole file; on 2 images "
            "scores differ from the CPU's by at most 1.0e-05 of their scale\n"
            "- A GPU's half precision, emulated: with `float32` sums scores change by at most "
            "0.10% of their scale; with `float16` sums `overflow in MEAN of encoderblock_0`",
        ),
        (
            ON_GPU | {"problem": "scores differ", "block": "encoderblock_3"},
            "accelerator: `scores differ`, from `encoderblock_3` on",
        ),
        ({"device": "", "problem": "no device"}, "On a GPU: not run: `no device`"),
        (
            {"device": "X", "problem": "", "half_precision": [{"sums": "float32", "problem": ""}]},
            "- On a GPU: `X` with LiteRT's accelerator: `no scores`\n"
            "- A GPU's half precision, emulated: with `float32` sums `no scores`; `float16` sums "
            "were not emulated",
        ),
    ],
    ids=["right", "wrong", "not run", "a damaged record"],
)
def test_the_card_says_what_a_gpu_did(gpu_run, said):
    assert said in card_of({"auto": description("auto", gpu_run=gpu_run)}, {})


def test_the_card_says_what_was_not_measured_or_calibrated():
    whole = card_of({"a": description()}, {"a": measured()})
    assert "- Not measured: phones and other processors; phones' GPUs and NPUs; energy;" in whole
    noise = description(**UNKNOWN, images_from="random images")
    calibrated = noise | {"calibration": {"images": 32, "sha256": "ab" * 32}}
    text = card_of({"a": noise, "b": calibrated}, {"b": measured()})
    for line in (
        "- Not measured: latency, load time and memory of `a`; accuracy; real images (noise was "
        "compared); phones",
        "- Labels: none, so accuracy is unknown",
        "- Calibrated on (`a`): no images",
        f"- Calibrated on (`b`): 32 images, sha256 `{'ab' * 32}`",
    ):
        assert line in text


HOSTILE = [
    "<script>alert(1)</script>",
    "[x](http://evil) ![y](http://evil) www.evil.com @someone #1",
    "a|b|c",
    "`code` ``more`` `",
    "**bold** _it_ ~~s~~ \\| &lt; $x$",
    "two\nlines\r# title\u2028- item",
    "\ud800\u202ereversed",
    " ",
    "",
    "a``b`",
]


def test_names_of_folders_are_never_markup():
    labels = tuple(HOSTILE)
    made = {name: description(name, model=HOSTILE[0]) for name in HOSTILE}
    for name, one in made.items():
        one["parity"]["images_from"] = name
        left_out = {"operator": name, "layer": name, "reason": "", "splits": True}
        one |= {"float_layers": [name], "made_with": {"keras": name}}
        one["delegation"] |= {"delegated": 97, "undelegated": [left_out]}
    text = card_of(made, {}, labels=labels, machine=HOSTILE[0])
    text.encode()
    renderer = MarkdownIt("commonmark", {"html": True, "linkify": False}).enable("table")
    tokens = renderer.parse(text)
    inline = [child for token in tokens for child in token.children or ()]
    kinds = {child.type for child in inline} | {token.type for token in tokens}
    assert not kinds & {"link_open", "html_inline", "html_block", "em_open", "strong_open"}
    assert [child.attrs["src"] for child in inline if child.type == "image"] == ["plot.png"]
    spans = {child.content for child in inline if child.type == "code_inline"}
    lines = ["".join(c if c.isprintable() else " " for c in name) for name in HOSTILE]
    shown = [" ".join(line.split()) or "?" for line in lines]
    assert spans.issuperset(shown)
    opened = [i for i, token in enumerate(tokens) if token.type == "tr_open"][1:]
    assert [[c.content for c in tokens[i + 2].children] for i in opened] == [[n] for n in shown]
    assert [t.tag for t in tokens if t.type == "heading_open"] == ["h1"] + ["h2"] * 5


def test_files_of_an_earlier_call_keep_their_measurements(tmp_path):
    first = {"int8": description("int8"), "float32": description()}
    for name, made in first.items():
        bundle(tmp_path / name, made)
    write_report(tmp_path, first, {"int8": measured(50.0), "float32": measured(100.0)})
    assert list(rows_of(tmp_path)) == ["float32", "int8"]
    second = {"float32": description(bytes=MIB)}
    write_report(tmp_path, second, {"float32": measured(90.0)})
    rows = rows_of(tmp_path)
    found = {name: (row["latency_ms"], row["earlier"]) for name, row in rows.items()}
    assert found == {"float32": (45.0, False), "int8": (25.0, True)}
    assert rows["float32"]["bytes"] == MIB
    text = (tmp_path / "card.md").read_text()
    assert "- Measured in an earlier call, not interleaved with others: `int8`." in text
    # A file that was replaced since then has no measurements; a deleted bundle has no row.
    (tmp_path / "int8" / "model.json").write_text(json.dumps(description("int8", sha256="other")))
    write_report(tmp_path, second, {"float32": measured()})
    replaced = rows_of(tmp_path)["int8"]
    assert (replaced["latency_ms"], replaced["measured"]) == (None, None)
    shutil.rmtree(tmp_path / "int8")
    write_report(tmp_path, second, {"float32": measured()})
    assert list(rows_of(tmp_path)) == ["float32"]


def test_bundles_of_another_model_are_left_out(tmp_path):
    for name, changes in (
        ("float32", {}),
        ("other", {"model": "ViT-B_16"}),
        ("retrained", {"weights_sha256": "6" * 64}),
        ("older", {"weights_sha256": None}),
        ("newer", {"format": 2}),
        (".float32.half", {}),
    ):
        bundle(tmp_path / name, description("int8", **changes))
    write_report(tmp_path, {"float32": description()}, {"float32": measured()})
    assert list(rows_of(tmp_path)) == ["float32"]


@pytest.mark.parametrize(
    "old",
    [
        "not JSON",
        '{"format": 2}',
        '{"format": 1, "rows": [{"precision": "int8"}]}',
        '{"format": 1, "rows": [{"sha256": "int8int8int8int8", "measured": {"latency": []}}]}',
        '{"format": 1, "rows": [{"sha256": "int8int8int8int8", "measured": {"latency": 1}}]}',
        '{"format": 1, "rows": ["int8"]}',
    ],
)
def test_an_unreadable_table_is_replaced(tmp_path, old):
    bundle(tmp_path / "int8", description("int8"))
    (tmp_path / "table.json").write_text(old)
    write_report(tmp_path, {"float32": description()}, {"float32": measured()})
    rows = rows_of(tmp_path)
    assert (list(rows), rows["int8"]["measured"]) == (["float32", "int8"], None)


def test_without_matplotlib_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match="pip install 'keras_vit"):
        write_report(tmp_path, {"float32": description()}, {"float32": measured()})
    assert list(tmp_path.iterdir()) == []


NAMES = ("qat-int8-on-many-threads", "$_$", "菊", *(each.name for each in PRECISIONS.values()))
drawn = own_settings()(draw)


def points(axis):
    """The files in a panel: colours and markers."""
    lines = [line for line in axis.lines if line.get_linestyle() == "None"]
    assert {line.get_markerfacecolor() for line in lines} == {"none"}
    return [(line.get_color(), line.get_marker()) for line in lines]


@pytest.mark.filterwarnings("ignore:Glyph")
def test_files_with_equal_figures_are_told_apart_in_both_panels_of_the_plot():
    found = {name: measured() for name in NAMES[1:]}
    figure = drawn({name: description(name) for name in NAMES}, found)
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(NAMES)
    styles = [(line.get_color(), line.get_marker()) for line in legend.get_lines()]
    assert len(set(styles)) == len(styles) == len(NAMES)
    sizes, latencies = figure.axes
    assert (points(sizes), points(latencies)) == (styles, styles[1:])
    box = legend.get_window_extent()
    assert not box.overlaps(sizes.bbox)
    assert not box.overlaps(latencies.bbox)
    assert figure.bbox.count_contains(box.corners()) == 4


@pytest.mark.filterwarnings("ignore:Glyph")
def test_the_plot_shows_agreement_without_labels():
    descriptions = {name: description(name, **UNKNOWN) for name in "ab"}
    figure = drawn(descriptions, {})
    assert [axis.get_ylabel() for axis in figure.axes] == ["agreement, %"]
    labelled = drawn({"c": description(), **descriptions}, {"c": measured()})
    assert labelled.axes[0].get_ylabel() == "accuracy, % (dashed: Keras)"
    assert [len(points(axis)) for axis in labelled.axes] == [1, 1]


def test_plots_are_reproducible_and_give_no_warning(recwarn):
    pictures = [plot({"菊": description()}, {"菊": measured()}) for _ in range(2)]
    assert pictures[0] == pictures[1]
    assert Image.open(io.BytesIO(pictures[0])).format == "PNG"
    assert not recwarn.list


def test_the_smallest_file_that_loses_little_is_recommended():
    made = {
        "float32": proven("float32", 0) | {"bytes": 8 * MIB},
        "int8": proven("int8", 1) | {"bytes": 2 * MIB, "sha256": "same"},
        "auto": proven("auto", 1) | {"bytes": 2 * MIB, "sha256": "same"},
        "int4": proven("int4", 9) | {"bytes": MIB},
    }
    assert recommendation(made) == (
        "Take int8: 25% of the size of the largest file, 0.28 points of accuracy lost on 359 "
        "pictures, which do not exclude 1.2 points. int8 and auto are the same file."
    )
    assert card_of(made, {}).splitlines()[2].startswith("Take `int8`: 25% of the size")
    del made["int8"], made["auto"], made["float32"]
    assert recommendation(made).startswith(
        "No file is within 0.5 points of Keras; the best is int4: 2.51 points of accuracy lost"
    )


def test_a_file_for_npus_is_recommended_for_these_alone():
    names = [row.name for row in PRECISIONS.values() if row.is_for_npus]
    slow = {name: proven(name, 0) | {"bytes": MIB} for name in names}
    made = {"int8": proven("int8", 1) | {"bytes": 2 * MIB}, **slow}
    first, second, *_ = recommendation(made).split(". ")
    assert (first[:9], second[:23]) == ("Take int8", "On an NPU, take int16x8")
    made["int16x8"] = proven("int16x8", 9)
    assert "On an NPU, take int8-full: no loss of accuracy seen" in recommendation(made)
    assert recommendation(slow).startswith("Take int16x8: no loss of accuracy seen")
    assert "NPU" not in recommendation({"int8": made["int8"]})


def test_the_recommendation_says_what_was_compared():
    assert recommendation({"int8": description("int8", **UNKNOWN)}) == (
        "Take int8: the class that Keras finds for 99.72% of 359 pictures."
    )
    features = description("int8", **UNKNOWN, agreement=None)
    assert recommendation({"a": features}) == "Take a: compared with Keras on 359 pictures."
    near = {
        name: description(name, **UNKNOWN, agreement=None, recall=recall, bytes=size)
        for name, recall, size in (("float16", 0.996, 2 * MIB), ("int8", 0.95, MIB))
    }
    assert recommendation(near) == (
        "Take float16: 99.60% of the nearest pictures by Keras, on 359 pictures."
    )
    noise = description("int8", images_from="random images", **UNKNOWN)
    assert "Keras on random images only: pass pictures" in recommendation({"a": noise})
