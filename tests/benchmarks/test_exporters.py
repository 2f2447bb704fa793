"""benchmarks/exporters.py, as a user runs it, on a tiny model."""

import json
from unittest import mock

import contenders
import pytest

from keras_vit._errors import UsageError
from keras_vit.deploy.graph.rewrites import REWRITES
from keras_vit.specs import ResNetSpec
from keras_vit.variant_specs import VARIANTS

pytestmark = pytest.mark.soak(of="benchmarks")

FEW = ("--image-size", "8", "--rounds", "2", "--threads", "1")


@pytest.fixture
def compare(invoke, tiny_model, tmp_path):
    """Runs the command on the tiny model, or on the model of the arguments."""

    def run(*arguments):
        words = arguments if "--model" in arguments else ("--model", tiny_model, *arguments)
        return invoke("benchmarks/exporters.py", *words, cwd=tmp_path)

    return run


@pytest.fixture
def others(monkeypatch):
    """A contender whose package is not installed, and one that has no such model."""
    build = mock.Mock(side_effect=UsageError("it has only larger models."))
    monkeypatch.setitem(contenders.CONTENDERS, "missing", ("no_such_package", build))
    monkeypatch.setitem(contenders.CONTENDERS, "larger", (None, build))


def test_contenders_are_timed_on_the_smallest_images_and_written(
    compare, tiny_model, others, tmp_path
):
    names = ("VIT FLOAT32", "converted plainly", "alone", "missing", "larger")
    code, out, err = compare(*FEW, "--contenders", *names, "--json", "figures.json")
    assert code == 0
    assert err.splitlines() == [
        "  left out: missing needs no_such_package: pip install no-such-package",
        "  left out: it has only larger models.",
    ]
    assert f"{tiny_model} at 8 x 8, " in out
    figures = json.loads((tmp_path / "figures.json").read_text())
    rows = figures.pop("rows")
    assert figures.keys() == {"format", "model", "image_size", "outliers", "machine", "versions"}
    assert (figures["format"], figures["model"], figures["image_size"]) == (1, tiny_model, 8)
    assert "tensorflow" in figures["versions"]
    assert "1 threads" in figures["machine"]
    assert list(rows) == ["keras_vit float32", "matrix products alone", "Keras, converted plainly"]
    for name, row in rows.items():
        assert row.keys() == {"ms", "ratio", "bytes", "cosine"}
        assert row["ms"] > 0
        assert row["ratio"] > 0
        assert any(line.startswith(f"{name}  ") for line in out.splitlines())
    assert rows["keras_vit float32"]["ratio"] == 1
    floor = rows.pop("matrix products alone")
    assert floor["bytes"] is floor["cosine"] is None
    for row in rows.values():
        assert row["bytes"] > 10_000
        assert row["cosine"] > 0.99999


def test_ablation_leaves_out_what_changes_something(compare, monkeypatch, tmp_path):
    two = ("centre", "standardised_kernels")
    monkeypatch.setattr(contenders, "REWRITES", {name: REWRITES[name] for name in two})
    code, out, err = compare(*FEW, "--ablation", "--json", "figures.json")
    assert (code, err) == (0, "")
    rows = json.loads((tmp_path / "figures.json").read_text())["rows"]
    assert list(rows) == ["all rewrites", "without centre"]
    assert rows["all rewrites"]["bytes"] < rows["without centre"]["bytes"]
    assert min(row["cosine"] for row in rows.values()) > 0.99999
    equal = "left out, its graph equals that of"
    assert f"  without standardised_kernels: {equal} 'all rewrites'" in out
    assert f"  none: {equal} 'without centre'" in out


def test_no_contender_at_all_is_one_line_more(compare, others):
    code, _, err = compare(*FEW, "--contenders", "missing", "larger")
    assert code == 2
    assert len(err.splitlines()) == 3
    assert err.splitlines()[-1].startswith("exporters.py: every contender was left out")


BIT = ("--model", "BiT-Test", "--image-size", "32")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--outliers", "inf"], "--outliers must be a number. Received: --outliers=inf"),
        (["--outliers", "nan"], "--outliers must be a number. Received: --outliers=nan"),
        (["--outliers", "0.5"], "--outliers must lie in [1, 10000]. Received: --outliers=0.5"),
        (["--outliers", "1e30"], "--outliers must lie in [1, 10000]. Received: --outliers=1e+30"),
        ([*BIT, "--outliers", "50"], ": outliers are for ViTs. Received: --outliers=50.0 and a B"),
        (["--rounds", "0"], "--rounds must be a positive integer. Received: --rounds=0"),
        (["--image-size", "0"], "--image-size must be a positive integer. Received: "),
        (["--image-size", "17"], "--image-size must be a multiple of patch_size=8. Received: 17"),
        (["--contenders", "float32", "nowhere"], "OpenVINO bfloat16. Received: 'nowhere'."),
        (["--ablation", "--contenders", "float32"], "--ablation only compares files of keras_vit"),
    ],
)
def test_a_mistake_is_one_line(compare, monkeypatch, arguments, message):
    monkeypatch.setitem(VARIANTS, "BiT-Test", ResNetSpec((1, 1, 1, 1)))
    code, _, err = compare(*arguments)
    assert code == 2
    [line] = err.splitlines()
    assert message in line
