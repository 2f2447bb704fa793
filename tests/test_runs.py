"""Run folders that are incomplete, foreign or newer are refused in one line."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from keras_vit import UsageError, runs


@pytest.fixture
def run(trained_run, tmp_path):
    return shutil.copytree(trained_run.path, tmp_path / "run")


@pytest.mark.parametrize(
    "name", ["spec.json", "weights.npz", "labels.txt", "recipe.json", "split.json"]
)
def test_a_missing_file_is_named(run, name):
    (run / name).unlink()
    with pytest.raises(UsageError, match=f"not a whole run folder: {name} missing"):
        runs.open_run(run)


@pytest.mark.parametrize("name", ["spec.json", "recipe.json"])
def test_a_newer_format_asks_for_an_upgrade(run, name):
    content = json.loads((run / name).read_text())
    (run / name).write_text(json.dumps({**content, "format": 2}))
    with pytest.raises(UsageError, match=f"{name}: expected format 1. Received: 2; upgrade"):
        runs.open_run(run)


def test_labels_must_be_as_many_as_the_classes(run):
    (run / "labels.txt").write_text("a\nb\n")
    with pytest.raises(UsageError, match=r"expected 10 labels.*Received: 2"):
        runs.open_run(run)


def test_an_unknown_field_in_the_spec_is_refused(run):
    content = json.loads((run / "spec.json").read_text())
    content["spec"]["colour"] = "blue"
    (run / "spec.json").write_text(json.dumps(content))
    with pytest.raises(UsageError, match=r"ViTSpec: unknown fields \['colour'\]"):
        runs.open_run(run).model()


def test_images_that_are_gone_are_named(run):
    split = json.loads((run / "split.json").read_text())
    split["held_out"].append("digits/9999")
    (run / "split.json").write_text(json.dumps(split))
    opened = runs.open_run(run)
    with pytest.raises(UsageError, match="1 images of the run's split are gone.*digits/9999"):
        opened.split(opened.source())


def test_the_newest_run_is_the_last_written(run, tmp_path):
    other = shutil.copytree(run, tmp_path / "other")
    os.utime(run / "weights.npz", (2e9, 2e9))
    assert runs.newest_run(tmp_path) == run
    os.utime(other / "weights.npz", (2.1e9, 2.1e9))
    assert runs.newest_run(tmp_path) == other


def test_leftovers_of_killed_processes_are_no_runs(run, tmp_path):
    shutil.copytree(run, tmp_path / ".run.abc")
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "spec.json").write_text("{}")
    assert runs.newest_run(tmp_path) == run


def test_no_run_says_how_to_make_one(tmp_path):
    with pytest.raises(UsageError, match="no run under .*train/fit.py --data digits"):
        runs.newest_run(tmp_path / "runs")
    with pytest.raises(UsageError, match=r"expected a run folder; there is none. train/fit.py"):
        runs.open_run(tmp_path / "none")
