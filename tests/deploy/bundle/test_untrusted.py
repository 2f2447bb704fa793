"""Bundles of strangers: each wrong value is refused in one line.

A file that ends the process that runs it, or never finishes, does so in another process.
"""

import json
import random
import shutil
import sys
from pathlib import Path

import pytest

from keras_vit import UsageError, deploy
from keras_vit._errors import RefusedError
from keras_vit.deploy.bundle import opened_bundle
from keras_vit.deploy.bundle.export_report import write_report
from keras_vit.deploy.bundle.golden import check_golden
from keras_vit.deploy.convert.float_layers import read_recipe

LARGE, TALL = {"height": 8192, "width": 8192}, {"height": 10**6}


def some(variants, count=175):
    variants = list(variants)
    return random.Random(0).sample(variants, min(count, len(variants)))


def refused(read, description):
    """Whether these values are refused, which they must be in one line."""
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


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("model.json", deploy.open_bundle),  # which is faster
        ("golden.json", check_golden),
        ("recipe.json", lambda folder: read_recipe(folder / "recipe.json", "ViT-Test", ["int8"])),
    ],
)
def test_wrong_values_are_refused_in_one_line(bundle, name, read, variants, monkeypatch):
    monkeypatch.setattr("keras_vit.deploy.bundle.golden._TIMED", 1)
    recipe = {"format": 1, "base": "int8", "model": "ViT-Test", "chosen_on": "2 images"}
    recipe |= {"float_layers": ["head"], "sensitivity": {"head": 0.5}}
    (bundle / "recipe.json").write_text(json.dumps(recipe))
    good, count = (bundle / name).read_bytes(), 0
    for description, content in some(variants(good)):
        (bundle / name).write_bytes(content)
        count += refused(lambda: read(bundle), description)
    assert count > 20
    (bundle / name).write_bytes(good)
    assert check_golden(bundle).passed


def test_a_card_leaves_out_earlier_bundles_with_wrong_values(bundle, variants, monkeypatch):
    monkeypatch.setattr("keras_vit.deploy.bundle.export_report.plot", lambda *values: b"")
    export, described = bundle.parent, (bundle / "model.json").read_bytes()
    shutil.copytree(bundle, export / "int8")
    write_report(export, {"float32": json.loads(described)}, {})
    table = (export / "table.json").read_bytes()
    for name, good, count in (("int8/model.json", described, 40), ("table.json", table, 20)):
        for what, content in some(variants(good), count):
            (export / name).write_bytes(content)
            assert not refused(
                lambda: write_report(export, {"float32": json.loads(described)}, {}), what
            )
        shutil.rmtree(export / "int8", ignore_errors=True)


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("model.json", {"input": LARGE}, r": \$.input must be of \(16, 24, 3\), the inp"),
        ("model.json", {"input": TALL}, r": \$.input.height must be an integer <= 65536"),
        ("model.json", {"input": {"mean": [0]}}, r": \$.input.mean must be a list of length >= 3"),
        ("model.json", {"format": 2}, ": expected format 1. Received: 2"),
        ("golden.json", {"tensor": {"dtype": "object"}}, r": \$.tensor"),
        ("golden.json", {"tensor": {"shape": [10**12]}}, r": \$.tensor"),
        ("golden.json", {"tensor": {"shape": "4"}}, r": \$.tensor"),
        ("golden.json", {"tensor": {"shape": [4]}}, ": expected .* fit each other"),
        ("golden.json", {"tensor": {"base64": "*"}}, ": expected .* fit each other"),
        ("labels.txt", b"a\n" * 9, ": expected 10 names, the classes of model.tflite. Received: 9"),
        ("labels.txt", b"a\rb\n" + b"c\n" * 9, ": expected 10 names.* Received: 11"),
        ("labels.txt", b"a\0\n" * 10, r": labels must be .* Received: labels\[0\]='a\\x00'"),
        ("labels.txt", b"\xff\n" * 10, " is not text in UTF-8"),
    ],
)
def test_files_that_do_not_fit_are_refused(bundle, changed, file, change, message):
    if file == "labels.txt":
        (bundle / file).write_bytes(change)
    else:
        changed(file, **change)
    with pytest.raises(UsageError, match=f"{file}{message}"):
        deploy.open_bundle(bundle)


def test_a_good_file_passes_without_a_word_or_local_imports(sample, tmp_path, monkeypatch, capfd):
    for name in ("numpy", "ai_edge_litert", "pathlib"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')")
    (tmp_path / "model.tflite").write_bytes(sample.file("int8").read_bytes())
    monkeypatch.chdir(tmp_path)
    capfd.readouterr()  # what the converter said, if this test is the first to need the file
    opened_bundle.try_file(Path("model.tflite"))
    assert not (tmp_path / "imported").exists()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo a >&2; echo No memory >&2; exit 1", "m.tflite is damaged: .* with 'No memory'; ex"),
        ("kill -ABRT $$", "m.tflite is damaged: .* is ended by SIGABRT; exp"),
        ("kill -KILL $$", "m.tflite is damaged: .* is ended by SIGKILL; exp"),
        ("echo 'node 3 is no node.'; exit 3", "refuses .*m.tflite: node 3 is no node;"),
    ],
)
def test_how_the_process_ended_is_said(program, tmp_path, monkeypatch, script, message):
    monkeypatch.setattr(sys, "executable", program("python", script))
    with pytest.raises(RefusedError, match=message):
        opened_bundle.try_file(tmp_path / "m.tflite")


def test_a_file_that_does_not_finish_is_refused(program, tmp_path, monkeypatch):
    monkeypatch.setattr(opened_bundle, "_SECONDS", 0.2)
    monkeypatch.setattr(sys, "executable", program("python", "exec sleep 60"))
    with pytest.raises(RefusedError, match="a process that runs it does not finish within 0.2 s"):
        opened_bundle.try_file(tmp_path / "m.tflite")


def test_what_is_no_model_is_not_loaded_here(tmp_path):
    file = tmp_path / "broken.tflite"
    file.write_bytes(b"no model")
    with pytest.raises(UsageError, match="broken.tflite is not a TFLite model: The model is not"):
        opened_bundle.try_file(file)


def test_only_untrusted_bundles_are_tried(bundle, monkeypatch):
    tried = []
    monkeypatch.setattr("keras_vit.deploy.bundle.opened_bundle.try_file", tried.append)
    deploy.open_bundle(bundle)
    assert not tried
    deploy.open_bundle(bundle, trusted=False)
    assert tried == [bundle / "model.tflite"]
