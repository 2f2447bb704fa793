"""Bundles of strangers: each wrong value is refused in one line."""

from __future__ import annotations

import json
import random
import shutil

import numpy as np
import pytest

from keras_vit import UsageError, deploy
from keras_vit._errors import RefusedError
from keras_vit.deploy.bundle.export_report import write_report
from keras_vit.deploy.bundle.golden import check_golden
from keras_vit.deploy.bundle.writing import write_bundle
from keras_vit.deploy.convert.auto import read_recipe


@pytest.fixture
def bundle(sample, tmp_path, rng):
    """A bundle, and the folder of two bundles that an earlier export left."""
    picture = rng.integers(0, 255, (50, 40, 3)).astype(np.uint8)
    write_bundle(tmp_path / "export" / "float32", sample.exported("none"), picture)
    return tmp_path / "export" / "float32"


def some(variants, count=150):
    return random.Random(0).sample(list(variants), count)


def refused(read, description):
    try:
        read()
    except (UsageError, RefusedError) as error:
        message = str(error)
    except Exception as error:
        raise AssertionError(f"{description}: {error!r}") from error
    else:
        return False
    assert message.isprintable(), description
    assert len(message) < 1_000, description
    return True


@pytest.mark.parametrize("name", ["model.json", "golden.json"])
def test_wrong_values_in_a_bundle_are_refused_in_one_line(bundle, name, variants, monkeypatch):
    monkeypatch.setattr("keras_vit.deploy.bundle.golden._TIMED", 1)
    read = check_golden if name == "golden.json" else deploy.open_bundle  # which is faster
    good, count = (bundle / name).read_bytes(), 0
    for description, content in some(variants(good)):
        (bundle / name).write_bytes(content)
        count += refused(lambda: read(bundle), description)
    assert count > 20
    (bundle / name).write_bytes(good)
    assert check_golden(bundle).passed


def test_a_card_leaves_out_earlier_bundles_with_wrong_values(bundle, variants, monkeypatch):
    monkeypatch.setattr("keras_vit.deploy.bundle.export_report.plot", lambda *values: b"")
    export, description = bundle.parent, json.loads((bundle / "model.json").read_text())
    shutil.copytree(bundle, export / "int8")
    for what, content in some(variants((bundle / "model.json").read_bytes()), 40):
        (export / "int8" / "model.json").write_bytes(content)
        assert not refused(lambda: write_report(export, {"float32": description}, {}), what)
    shutil.rmtree(export / "int8")
    table = (export / "table.json").read_bytes()
    for what, content in some(variants(table), 20):
        (export / "table.json").write_bytes(content)
        assert not refused(lambda: write_report(export, {"float32": description}, {}), what)


def test_wrong_values_in_a_recipe_are_refused_in_one_line(tmp_path, variants):
    recipe = {
        "format": 1,
        "base": "int8",
        "model": "ViT-Test",
        "chosen_on": "2 images",
        "float_layers": ["head"],
        "sensitivity": {"head": 0.5},
    }
    for description, content in variants(json.dumps(recipe).encode()):
        (tmp_path / "recipe.json").write_bytes(content)
        refused(lambda: read_recipe(tmp_path / "recipe.json", "ViT-Test", ["int8"]), description)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"height": 8192, "width": 8192},
            r"model.json: \$.input must be of \(16, 24, 3\), the inp",
        ),
        ({"height": 10**6}, r"model.json: \$.input.height must be an integer <= 65536"),
        ({"mean": [0, 0]}, r"model.json: \$.input.mean must be a list of length >= 3"),
    ],
)
def test_a_description_of_another_input_is_refused(bundle, change, message):
    content = json.loads((bundle / "model.json").read_text())
    content["input"] |= change
    (bundle / "model.json").write_text(json.dumps(content))
    with pytest.raises(UsageError, match=message):
        deploy.open_bundle(bundle)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\n" * 9, r"labels.txt: expected 10 names, the classes of model.tflite. Received: 9"),
        (b"a\rb\n" + b"c\n" * 9, "labels.txt: expected 10 names.* Received: 11"),
        (b"a\0\n" * 10, r"labels.txt: labels must be .* Received: labels\[0\]='a\\x00'"),
        (b"\xff\n" * 10, "labels.txt is not text in UTF-8"),
    ],
)
def test_labels_of_another_model_are_refused(bundle, content, message):
    (bundle / "labels.txt").write_bytes(content)
    with pytest.raises(UsageError, match=message):
        deploy.open_bundle(bundle)


def test_an_export_refuses_labels_of_several_lines(sample, tmp_path):
    with pytest.raises(UsageError, match=r"labels\[0\]='a\\nb'; rename the class"):
        deploy.export_bundles(
            sample.model, tmp_path / "out", ["none"], labels=["a\nb", *"cdefghijk"]
        )
    assert not (tmp_path / "out" / "float32").exists()
