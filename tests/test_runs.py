"""Run folders and weights that are incomplete, newer or of strangers are refused in one line."""

import dataclasses
import functools
import json
import os
import re
import shutil
import sys
import zipfile

import numpy as np
import pytest
import safetensors.numpy

import keras_vit
from keras_vit import UsageError, deploy, runs
from keras_vit.data import SOURCES, Opener, digits, open_source, split_source
from keras_vit.labels import write_labels
from keras_vit.weights.checkpoint import open_checkpoint


@pytest.fixture
def run(trained_run, tmp_path):
    return shutil.copytree(trained_run.path, tmp_path / "run")


def change(file, place, value):
    """Sets a value of a JSON file, at a place such as "spec.depth"."""
    content = json.loads(file.read_text())
    *above, key = place.split(".")
    functools.reduce(dict.get, above, content)[key] = value
    file.write_text(json.dumps(content))


@pytest.mark.parametrize(
    "name", ["spec.json", "weights.npz", "labels.txt", "recipe.json", "split.json"]
)
def test_a_missing_file_is_named(run, name):
    (run / name).unlink()
    with pytest.raises(UsageError, match=f"not a complete run folder: {name} missing"):
        runs.open_run(run)


@pytest.mark.parametrize(
    ("file", "place", "value", "message"),  # in which {} is the file and the place
    [
        ("spec", "preprocessing", 5, "{} must be an object. Received: 5; write"),
        ("spec", "preprocessing", None, "{} must be an object. Received: None"),
        ("spec", "num_classes", "10", "{} must be an integer. Received: '10'"),
        ("spec", "image_size", [16, 0], r"{}\[1\] must be an integer >= 1. Received: 0"),
        ("spec", "spec", {"layers": 5}, "{}.layers must be a list. Received: 5"),
        ("spec", "model", "a/b", "{} must be text of one line without control .* and slashes"),
        ("spec", "spec.depth", 100_000, "depth must be at most 256"),
        ("spec", "spec.depth", 256, "does not fit the model in .* weights: .*: depth 1, not 256"),
        ("spec", "spec.mlp_dim", 200_000, "mlp_dim 48, not 200000"),
        ("spec", "spec.colour", "blue", r"ViTSpec: unknown fields \['colour'\]"),
        ("spec", "format", 2, "spec.json: expected format 1. Received: 2; upgrade"),
        ("recipe", "format", 2, "recipe.json: expected format 1. Received: 2; upgrade"),
        ("recipe", "recipe.batch_size", "64", "{} must be an integer. Received: '64'"),
        ("recipe", "recipe.learning_rate", [0.1], "{} must be a number. Received"),
        ("recipe", "recipe.loss", 5, "{} must be text. Received: 5"),
        ("recipe", "recipe.optimizer", "adagrad", "{}.* Received: 'adagrad'; use the version"),
        ("split", "train", 5, "{} must be a list. Received: 5"),
        ("split", "train", [5], r"{}\[0\] must be text. Received: 5"),
    ],
)
def test_the_message_names_the_field_and_nothing_is_built(
    run, file, place, value, message, monkeypatch
):
    monkeypatch.setattr(runs, "model_class", None)
    change(run / f"{file}.json", place, value)
    with pytest.raises(UsageError, match=message.format(rf"{file}.json: \$.{place}")):
        opened = runs.open_run(run)
        opened.split(digits())
        opened.model()


def test_labels_are_the_lines_of_their_file_and_as_many_as_the_classes(run):
    labels = [" a\u3000b ", "", *"cdefghij"]  # as of runs that were written by hand
    (run / "labels.txt").write_text("\n".join(labels))
    assert runs.open_run(run).labels == tuple(labels)
    (run / "labels.txt").write_text("a\nb\n")
    with pytest.raises(UsageError, match=r"expected 10 labels.*Received: 2"):
        runs.open_run(run)


@pytest.fixture
def create(tmp_path, small_spec):
    """Writes a run that was trained on a source."""

    def write(source):
        model, split = keras_vit.ViT(small_spec, len(source.labels), 16), split_source(source)
        runs.create_run(tmp_path / "run", model, source, split, {"recipe": {}}, "fresh")
        return runs.open_run(tmp_path / "run")

    return write


def test_a_source_is_added_by_a_function_and_a_row(create, monkeypatch):
    figures = dataclasses.replace(digits(), name="figures", locator="figures")
    monkeypatch.setitem(SOURCES, "figures", Opener(lambda: figures))
    source = open_source("figures")
    run = create(source)
    assert run.recipe["data"] == "figures"
    again = run.source()
    assert (again.name, again.locator, again.ids) == ("figures", "figures", source.ids)
    np.testing.assert_array_equal(run.split(again).held_out, split_source(source).held_out)


def test_names_of_classes_with_line_breaks_are_refused_before_a_run_is_written(create, tmp_path):
    source = dataclasses.replace(digits(), labels=("a\x85", *"bcdefghij"))
    with pytest.raises(UsageError, match=r"digits: .*line breaks. Received: 'a\\x85'; rename"):
        create(source)
    assert not (tmp_path / "run").exists()


def test_the_run_of_a_folder_remembers_its_path_and_shows_its_name(image_folder, create):
    run = create(open_source(image_folder))
    assert run.recipe["data"] == str(image_folder)
    assert run.source().name == "pictures"
    moved = image_folder.rename(image_folder.with_name("moved"))
    with pytest.raises(UsageError, match=f"in {image_folder}, a folder that is not there; name"):
        run.source()
    assert run.source(moved).locator == str(moved)


def test_a_split_of_missing_images_is_refused(run):
    held_out = json.loads((run / "split.json").read_text())["held_out"]
    change(run / "split.json", "held_out", [*held_out, "digits/9999"])
    with pytest.raises(UsageError, match="1 images of the run's split are missing.*digits/9999"):
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


def test_the_loss_of_a_run_says_what_its_logits_mean(run):
    assert keras_vit.load_run(run).head_activation == "softmax"
    recipe = json.loads((run / "recipe.json").read_text())
    recipe["recipe"]["loss"] = "sigmoid"
    (run / "recipe.json").write_text(json.dumps(recipe))
    # Older runs say it nowhere else.
    assert keras_vit.load_run(run).head_activation == "sigmoid"
    assert deploy.of_run(run, image_size=(24, 16)).load().head_activation == "sigmoid"


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
    change(run / "recipe.json", "recipe", {})
    opened = runs.open_run(run)
    assert opened.setting("jit", True) is True
    with pytest.raises(UsageError, match="recipe.json has no setting 'batch_size'; train again"):
        opened.setting("batch_size")


def test_an_integer_and_a_setting_of_a_later_version_are_read(run):
    change(run / "recipe.json", "recipe.head_bias", -10)
    change(run / "recipe.json", "recipe.setting of a later version", {})
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


def test_a_run_that_could_not_be_read_again_or_replaces_a_device_is_not_written(
    create, tmp_path, monkeypatch
):
    os.mkfifo(tmp_path / "run")
    with pytest.raises(UsageError, match="run is not a folder; choose another"):
        create(digits())
    assert (tmp_path / "run").is_fifo()
    (tmp_path / "run").unlink()
    monkeypatch.setattr(runs, "_MOST_SPLIT", 100)
    with pytest.raises(UsageError, match=r"digits: expected images whose names fit into 100 by"):
        create(digits())
    assert not [*tmp_path.iterdir()]


@pytest.fixture
def refused(variants):
    """Writes each wrong value; counts those that are refused, which must be in one short line."""

    def count(good, write, read):
        found = 0
        for description, content in variants(good):
            write(content)
            try:
                read()
            except UsageError as error:
                message = str(error).splitlines()[0]
                assert message.isprintable(), description
                assert len(message) < 1_000, description
                found += 1
            except Exception as error:
                raise AssertionError(f"{description}: {error!r}") from error
        write(good)
        return found

    return count


def read_weights(path):
    with open_checkpoint(path) as file:
        return file.spec, file.stated, file.image_size, file.labels, file.preprocessing


def comment_of(path, content=None):
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = archive.comment if content is None else content
        return archive.comment


@pytest.mark.parametrize("name", ["spec.json", "recipe.json", "split.json", "metrics.jsonl"])
def test_wrong_values_in_a_run_are_refused_in_one_line(run, name, monkeypatch, refused):
    # Building the same small model thousands of times would only take time.
    monkeypatch.setattr(runs, "load_weights", lambda model, path: None)
    monkeypatch.setattr(runs, "model_class", lambda spec: lambda *arguments, **options: None)
    source, lines = open_source("digits"), name == "metrics.jsonl"

    def write(content):
        (run / name).write_bytes(content.replace(b"\n", b" ") if lines else content)

    def read():
        opened = runs.open_run(run)
        opened.model()
        opened.split(source)
        opened.metrics()
        str(opened)

    good = (run / name).read_bytes().partition(b"\n{")[0]
    assert refused(good, write, read) > 100 or lines
    read()


def test_wrong_values_in_the_metadata_of_weights_are_refused_in_one_line(run, refused):
    path = run / "weights.npz"

    def write(content):
        comment_of(path, content[:60_000])

    assert refused(comment_of(path), write, lambda: read_weights(path)) > 100
    read_weights(path)


@pytest.mark.parametrize("value", [5, None])
def test_metadata_with_a_wrong_preprocessing_is_refused_by_every_reader(run, value):
    path = run / "weights.npz"
    comment_of(path, json.dumps(json.loads(comment_of(path)) | {"preprocessing": value}).encode())
    message = re.escape(f"weights.npz: $.preprocessing must be an object. Received: {value}; save")
    for read, where in ((keras_vit.load_run, run), (keras_vit.model_from_weights, path)):
        with pytest.raises(UsageError, match=message):
            read(where)


@pytest.mark.parametrize("layout", ["timm", "transformers"])
def test_wrong_values_in_the_files_of_a_hub_are_refused_in_one_line(run, tmp_path, layout, refused):
    path = tmp_path / "hub" / "model.safetensors"
    keras_vit.save_weights(keras_vit.load_run(run), path, layout)
    safetensors.numpy.save_file(safetensors.numpy.load_file(path), path)  # without our metadata
    for sidecar in path.parent.glob("*.json"):
        good = sidecar.read_bytes()
        assert refused(good, sidecar.write_bytes, lambda: read_weights(path)) > 50, sidecar.name


# Ends of lines, control characters, marks of direction, what nobody sees, half of a surrogate.
NOT_LABELS = ["a\nb", "a\rb", "a\u2028b", "a\0", "\x1b[2Ja", "a\x85", "\u202ea", "a\ufeff", "a\xad"]
NOT_LABELS += ["a\u2063", "a\U000e0001", "a\ud800", "a" * 10**6]


@pytest.mark.parametrize("label", NOT_LABELS, ids=lambda label: ascii(label[:9]))
def test_a_label_is_text_of_one_line(run, label):
    labels = [label, *"bcdefghij"]
    with pytest.raises(UsageError, match=r"labels\[\d\]='.*'; rename the class"):
        keras_vit.ViT(keras_vit.ViTSpec(8, 32, 1, 2, 48), 10, 16, labels=labels)
    path = run / "weights.npz"
    good = comment_of(path)
    comment_of(path, json.dumps(json.loads(good) | {"labels": labels}).encode()[:65_535])
    if len(label) < 10_000:  # a longer comment does not fit into an archive
        message = r"weights.npz: \$.labels\[0\] must be text of one line"
        with pytest.raises(UsageError, match=message):
            keras_vit.model_from_weights(path)
    comment_of(path, good)
    text = "".join(f"{each}\n" for each in labels).encode("utf-8", "surrogatepass")
    (run / "labels.txt").write_bytes(text)
    with pytest.raises(UsageError, match="labels.txt"):  # or their number is another
        keras_vit.load_run(run)


def test_labels_of_any_language_are_kept(run):
    labels = ("tench, Tinca tinca", "猫", "кот", "الكلب", "👩‍🔬", "", "زنبق\u200cها", "👩\u200d🌾")
    labels += ("ផ្កា\u200bកូឡាប", "daisy (white), 5\xa0cm")
    write_labels(run / "labels.txt", labels)
    assert runs.open_run(run).labels == labels
