"""Run folders that are incomplete, foreign or newer are refused in one line."""

import dataclasses
import json
import os
import shutil
import sys

import numpy as np
import pytest

import keras_vit
from keras_vit import UsageError, runs
from keras_vit.data import SOURCES, Opener, Source, digits, open_source, split_source


@pytest.fixture
def run(trained_run, tmp_path):
    return shutil.copytree(trained_run.path, tmp_path / "run")


def change(file, **values):
    """Replaces values of a JSON file."""
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


@pytest.mark.parametrize(
    "name", ["spec.json", "weights.npz", "labels.txt", "recipe.json", "split.json"]
)
def test_a_missing_file_is_named(run, name):
    (run / name).unlink()
    with pytest.raises(UsageError, match=f"not a complete run folder: {name} missing"):
        runs.open_run(run)


@pytest.mark.parametrize("name", ["spec.json", "recipe.json"])
def test_a_newer_format_asks_for_an_upgrade(run, name):
    change(run / name, format=2)
    with pytest.raises(UsageError, match=f"{name}: expected format 1. Received: 2; upgrade"):
        runs.open_run(run)


def test_labels_are_the_lines_of_their_file_and_as_many_as_the_classes(run):
    labels = [" a\u3000b ", "", *"cdefghij"]  # as of runs that were written by hand
    (run / "labels.txt").write_text("\n".join(labels))
    assert runs.open_run(run).labels == tuple(labels)
    (run / "labels.txt").write_text("a\nb\n")
    with pytest.raises(UsageError, match=r"expected 10 labels.*Received: 2"):
        runs.open_run(run)


def test_an_unknown_field_in_the_spec_is_refused(run):
    spec = json.loads((run / "spec.json").read_text())["spec"]
    change(run / "spec.json", spec={**spec, "colour": "blue"})
    with pytest.raises(UsageError, match=r"ViTSpec: unknown fields \['colour'\]"):
        runs.open_run(run).model()


@pytest.fixture
def imaginary(monkeypatch):
    """A source that consists of one function and one row."""

    def stripes():
        return Source(
            name="stripes",
            labels=("across", "down"),
            ids=tuple(map(str, range(8))),
            targets=np.arange(8) % 2,
            image=lambda i: np.full((8, 8, 3), i, np.uint8),
        )

    monkeypatch.setitem(SOURCES, "stripes", Opener(stripes))


@pytest.fixture
def create(tmp_path, small_spec):
    """Writes a run of two classes that was trained on a source."""

    def write(source):
        model, split = keras_vit.ViT(small_spec, 2, 16), split_source(source)
        runs.create_run(tmp_path / "run", model, source, split, {"recipe": {}}, "fresh")
        return runs.open_run(tmp_path / "run")

    return write


@pytest.mark.usefixtures("imaginary")
def test_a_source_is_added_by_a_function_and_a_row(create):
    source = open_source("stripes")
    run = create(source)
    assert run.recipe["data"] == "stripes"
    again = run.source()
    assert (again.name, again.locator, again.ids) == ("stripes", "stripes", source.ids)
    np.testing.assert_array_equal(run.split(again).held_out, split_source(source).held_out)


@pytest.mark.usefixtures("imaginary")
def test_names_of_classes_with_line_breaks_are_refused_before_a_run_is_written(create, tmp_path):
    source = dataclasses.replace(open_source("stripes"), labels=("across", "down\x85"))
    with pytest.raises(UsageError, match=r"stripes: .*line breaks. Received: 'down\\x85'; rename"):
        create(source)
    assert not (tmp_path / "run").exists()


def test_the_run_of_a_folder_remembers_its_path_and_shows_its_name(image_folder, create):
    run = create(open_source(image_folder))
    assert run.recipe["data"] == str(image_folder)
    assert run.source().name == "pictures"
    moved = image_folder.rename(image_folder.with_name("moved"))
    with pytest.raises(UsageError, match=f"{image_folder}, the folder .*, is gone; name"):
        run.source()
    assert run.source(moved).locator == str(moved)


def test_a_split_of_missing_images_or_of_other_values_is_refused(run):
    held_out = json.loads((run / "split.json").read_text())["held_out"]
    change(run / "split.json", held_out=[*held_out, "digits/9999"])
    with pytest.raises(UsageError, match="1 images of the run's split are missing.*digits/9999"):
        runs.open_run(run).split(digits())
    for value in (5, [5], {"a": 1}, None):
        change(run / "split.json", train=value)
        with pytest.raises(UsageError, match=r"split.json: \$.train.* must be (a list|text)"):
            runs.open_run(run).split(digits())


def test_the_newest_run_is_the_last_written_that_is_whole(run, tmp_path):
    shutil.copytree(run, tmp_path / ".run.abc")  # left by a killed process
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "spec.json").write_text("{}")
    assert runs.newest_run(tmp_path) == run
    other = shutil.copytree(run, tmp_path / "other")
    os.utime(run / "weights.npz", (2e9, 2e9))
    assert runs.newest_run(tmp_path) == run
    os.utime(other / "weights.npz", (2.1e9, 2.1e9))
    assert runs.newest_run(tmp_path) == other


def test_a_folder_without_runs_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="no run under .*; train a model first"):
        runs.newest_run(tmp_path / "runs")
    with pytest.raises(UsageError, match="expected a run folder; there is no such folder"):
        runs.open_run(tmp_path / "none")
    (tmp_path / "model.tflite").touch()
    with pytest.raises(UsageError, match=r"expected a run folder. Received: an exported bundle"):
        runs.open_run(tmp_path)


@pytest.mark.flavours
def test_a_run_loads_as_its_trained_model_with_labels_and_preprocessing(trained_run):
    model = keras_vit.load_run(trained_run.path)
    source = digits()
    inputs = keras_vit.preprocess([source.image(i) for i in range(8)], model)
    scores = model.predict(inputs, verbose=0)
    expected = trained_run.model().predict(inputs, verbose=0)
    np.testing.assert_array_equal(scores, expected)
    named = [best[0][0] for best in keras_vit.decode_predictions(scores, model)]
    assert named == [str(i) for i in expected.argmax(-1)]


def test_a_run_is_described_in_one_line(run):
    os.utime(run / "weights.npz", (1e9, 1e9))
    assert str(runs.open_run(run)).startswith(
        f"{run}: ViT-Test_8, 16 x 16 pixels, 10 classes, trained on digits, saved 2001-09-"
    )


def test_the_run_folder_is_checked_before_anything_is_written(run, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "a.txt").write_text("years of work")
    data = tmp_path / "data"
    for out, message in (
        (run, "is a run; choose"),
        (tmp_path / "thesis", "is not empty and is not a run"),
        (tmp_path / "file", "file is a file"),
        (tmp_path / "file" / "below" / "run", "file is a file"),
        (data / "run", "lies inside the data"),
        (data, "lies inside the data"),
    ):
        with pytest.raises(UsageError, match=message):
            runs.check_out(out, data)
    runs.check_out(run, data, overwrite=True)
    runs.check_out(tmp_path / "new" / "deep" / "run", data)
    assert not (tmp_path / "new").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
def test_a_folder_that_not_even_root_can_write_to_is_named():
    with pytest.raises(UsageError, match="/proc cannot be written to; choose another folder"):
        runs.check_out("/proc/run", "digits")


def test_a_setting_that_a_run_does_not_have_is_named(run):
    change(run / "recipe.json", recipe={})
    opened = runs.open_run(run)
    assert opened.setting("jit", True) is True
    with pytest.raises(UsageError, match="recipe.json has no setting 'batch_size'; train again"):
        opened.setting("batch_size")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"batch_size": "64"}, r"\$.recipe.batch_size must be an integer. Received: '64'"),
        ({"learning_rate": [0.1]}, r"\$.recipe.learning_rate must be a number. Received"),
        ({"loss": 5}, r"\$.recipe.loss must be text. Received: 5"),
        ({"optimizer": "adagrad"}, r"\$.recipe.optimizer.* Received: 'adagrad'; use the version"),
    ],
)
def test_a_setting_of_another_type_is_refused(run, setting, message):
    known = runs.open_run(run).recipe["recipe"]
    known |= {"head_bias": -10, "setting of a later version": {}}
    change(run / "recipe.json", recipe=known)
    runs.open_run(run)
    change(run / "recipe.json", recipe=known | setting)
    with pytest.raises(UsageError, match=f"recipe.json: {message}"):
        runs.open_run(run)


def test_the_log_is_read_at_once_and_names_the_line_that_is_wrong(run):
    log = run / "metrics.jsonl"
    log.write_text('{"step": 1, "loss": NaN}\n{"step": 2}\n{"step": 3, "lo')
    assert [record["step"] for record in runs.open_run(run).log()] == [1, 2]
    for line, message in (
        ('{"step": 2,}', r"metrics.jsonl is not valid JSON: .* line 2 column 12"),
        ('{"step": "2"}', r"metrics.jsonl: \$\[1\].step must be an integer.* Received: '2'"),
    ):
        log.write_text(f'{{"step": 1}}\n{line}\n{{"step": 3}}\n')
        with pytest.raises(UsageError, match=message):
            runs.open_run(run).log()


@pytest.mark.usefixtures("imaginary")
def test_a_run_that_could_not_be_read_again_or_replaces_a_device_is_not_written(
    create, tmp_path, monkeypatch
):
    os.mkfifo(tmp_path / "run")
    with pytest.raises(UsageError, match="run is not a folder; choose another"):
        create(open_source("stripes"))
    assert (tmp_path / "run").is_fifo()
    (tmp_path / "run").unlink()
    monkeypatch.setattr(runs, "_MOST_SPLIT", 100)
    with pytest.raises(UsageError, match=r"stripes: expected images whose names fit into 100 by"):
        create(open_source("stripes"))
    assert not [*tmp_path.iterdir()]
