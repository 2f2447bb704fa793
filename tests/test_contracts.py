"""Files of strangers: each wrong value in a run folder or in weights is refused in one line."""

import json
import re
import shutil
import zipfile

import pytest
import safetensors.numpy

import keras_vit
from keras_vit import UsageError, runs
from keras_vit.data import open_source
from keras_vit.labels import write_labels
from keras_vit.weights.checkpoint import open_checkpoint


@pytest.fixture
def run(trained_run, tmp_path):
    return shutil.copytree(trained_run.path, tmp_path / "run")


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"preprocessing": 5},
            r"spec.json: \$.preprocessing must be an object. Received: 5; write",
        ),
        ({"preprocessing": None}, r"\$.preprocessing must be an object. Received: None"),
        ({"num_classes": "10"}, r"\$.num_classes must be an integer. Received: '10'"),
        ({"image_size": [16, 0]}, r"\$.image_size\[1\] must be an integer >= 1. Received: 0"),
        ({"spec": {"layers": 5}}, r"\$.spec.layers must be a list. Received: 5"),
        ({"model": "a/b"}, r"\$.model must be text of one line without control .* and slashes"),
        ({"depth": 100_000}, "depth must be at most 256"),
        ({"depth": 256}, "does not fit the model in .* weights: .*: depth 1, not 256"),
        ({"mlp_dim": 200_000}, "mlp_dim 48, not 200000"),
    ],
)
def test_the_message_names_the_field_and_nothing_is_built(run, change, message, monkeypatch):
    monkeypatch.setattr(runs, "model_class", None)
    content = json.loads((run / "spec.json").read_text())
    changed = content["spec"] if change.keys() <= content["spec"].keys() else content
    changed.update(change)
    (run / "spec.json").write_text(json.dumps(content))
    with pytest.raises(UsageError, match=message):
        runs.open_run(run).model()


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
    with pytest.raises(UsageError, match=message):
        keras_vit.load_run(run)
    with pytest.raises(UsageError, match=message):
        keras_vit.model_from_weights(path)


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
