"""Files of strangers: each wrong value in a run folder or in weights is refused in one line."""

from __future__ import annotations

import json
import re
import shutil
import zipfile

import pytest

import keras_vit
from keras_vit import UsageError, runs
from keras_vit.data import open_source
from keras_vit.labels import read_labels, write_labels
from keras_vit.weights.checkpoint import open_checkpoint


@pytest.fixture
def run(trained_run, tmp_path):
    return shutil.copytree(trained_run.path, tmp_path / "run")


def refused_or_read(read, description):
    """Calls `read`; returns the message if it refuses, which must be one short line."""
    try:
        read()
    except UsageError as error:
        message = str(error).splitlines()[0]
        assert message.isprintable(), description
        assert len(message) < 1_000, description
        return message
    except Exception as error:
        raise AssertionError(f"{description}: {error!r}") from error
    return None


@pytest.mark.parametrize("name", ["spec.json", "recipe.json", "split.json", "metrics.jsonl"])
def test_wrong_values_in_a_run_are_refused_in_one_line(run, name, monkeypatch, variants):
    # Building the same small model thousands of times would only take time.
    monkeypatch.setattr(runs, "load_weights", lambda model, path: None)
    monkeypatch.setattr(runs, "model_class", lambda spec: lambda *arguments, **options: None)
    source = open_source("digits")

    def read():
        opened = runs.open_run(run)
        opened.model()
        opened.split(source)
        opened.metrics()
        str(opened)

    good = (run / name).read_bytes().partition(b"\n{")[0]
    refused = 0
    for description, content in variants(good):
        (run / name).write_bytes(
            content.replace(b"\n", b" ") if name == "metrics.jsonl" else content
        )
        refused += refused_or_read(read, description) is not None
    assert refused > 100 or name == "metrics.jsonl"
    (run / name).write_bytes(good)
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
    ],
)
def test_the_message_names_the_field(run, change, message):
    content = json.loads((run / "spec.json").read_text()) | change
    (run / "spec.json").write_text(json.dumps(content))
    with pytest.raises(UsageError, match=message):
        runs.open_run(run)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"depth": 100_000}, "depth must be at most 256"),
        ({"depth": 256}, "does not fit the model in .* weights: .*: depth 1, not 256"),
        ({"mlp_dim": 200_000}, "mlp_dim 48, not 200000"),
    ],
)
def test_a_spec_that_the_weights_do_not_fit_builds_nothing(run, change, message, monkeypatch):
    monkeypatch.setattr(runs, "model_class", None)
    content = json.loads((run / "spec.json").read_text())
    content["spec"] |= change
    (run / "spec.json").write_text(json.dumps(content))
    with pytest.raises(UsageError, match=message):
        runs.open_run(run).model()


def comment_of(path, content=None):
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = archive.comment if content is None else content
        return archive.comment


def test_wrong_values_in_the_metadata_of_weights_are_refused_in_one_line(run, variants):
    path = run / "weights.npz"

    def read():
        with open_checkpoint(path) as file:
            return file.spec, file.stated, file.image_size, file.labels, file.preprocessing

    good, refused = comment_of(path), 0
    for description, content in variants(good):
        comment_of(path, content[:60_000])
        refused += refused_or_read(read, description) is not None
    assert refused > 100
    comment_of(path, good)
    read()


@pytest.mark.parametrize("value", [5, None])
def test_metadata_with_a_wrong_preprocessing_is_refused_by_every_reader(run, value):
    content = json.loads(comment_of(run / "weights.npz"))
    comment_of(run / "weights.npz", json.dumps(content | {"preprocessing": value}).encode())
    message = re.escape(f"weights.npz: $.preprocessing must be an object. Received: {value}; save")
    for read in (
        keras_vit.load_run,
        lambda path: keras_vit.model_from_weights(path / "weights.npz"),
    ):
        with pytest.raises(UsageError, match=message):
            read(run)


@pytest.mark.parametrize("layout", ["timm", "transformers"])
def test_wrong_values_in_the_files_of_a_hub_are_refused_in_one_line(
    run, tmp_path, layout, variants
):
    import safetensors.numpy

    path = tmp_path / "hub" / "model.safetensors"
    keras_vit.save_weights(keras_vit.load_run(run), path, layout)
    safetensors.numpy.save_file(safetensors.numpy.load_file(path), path)  # without our metadata

    def read():
        with open_checkpoint(path) as file:
            return file.spec, file.stated, file.image_size, file.labels, file.preprocessing

    for sidecar in path.parent.glob("*.json"):
        good, refused = sidecar.read_bytes(), 0
        for description, content in variants(good):
            sidecar.write_bytes(content)
            refused += refused_or_read(read, f"{sidecar.name}, {description}") is not None
        assert refused > 50
        sidecar.write_bytes(good)


LABELS = {
    "line breaks": "a\nb",
    "carriage returns": "a\rb",
    "zero": "a\0",
    "escape sequences": "\x1b[2Ja",
    "C1 controls": "a\x85",
    "line separators": "a\u2028b",
    "marks of direction": "\u202ea",
    "byte order marks": "a\ufeff",
    "soft hyphens": "a\xad",
    "invisible operators": "a\u2063",
    "tags of languages": "a\U000e0001",
    "half surrogates": "a\ud800",
    "a million characters": "a" * 10**6,
}


@pytest.mark.parametrize(
    "label", ["زنبق\u200cها", "👩\u200d🌾", "ផ្កា\u200bកូឡាប", "daisy (white), 5\xa0cm"]
)
def test_labels_of_any_language_are_kept(tmp_path, label):
    write_labels(tmp_path / "labels.txt", [label])
    assert read_labels(tmp_path / "labels.txt") == (label,)


@pytest.mark.parametrize("label", LABELS.values(), ids=LABELS.keys())
def test_a_label_is_text_of_one_line(run, label):
    labels = [label, *"bcdefghij"]
    message = r"labels\[\d\]='.*'; rename the class"
    with pytest.raises(UsageError, match=message):
        keras_vit.ViT(keras_vit.ViTSpec(8, 32, 1, 2, 48), 10, 16, labels=labels)
    path = run / "weights.npz"
    good = comment_of(path)
    comment_of(path, json.dumps(json.loads(good) | {"labels": labels}).encode()[:65_535])
    if len(label) < 10_000:  # a longer comment does not fit into an archive
        with pytest.raises(
            UsageError, match=r"weights.npz: \$.labels\[0\] must be text of one line"
        ):
            keras_vit.model_from_weights(path)
    comment_of(path, good)
    text = "".join(f"{each}\n" for each in labels).encode("utf-8", "surrogatepass")
    (run / "labels.txt").write_bytes(text)
    with pytest.raises(UsageError, match="labels.txt"):  # or their number is another
        keras_vit.load_run(run)


def test_labels_in_any_alphabet_are_kept(run):
    labels = ("tench, Tinca tinca", "猫", "кот", "الكلب", "👩‍🔬", "a\u00a0b", "", "h", "i", "j")
    (run / "labels.txt").write_text("".join(f"{label}\n" for label in labels))
    assert runs.open_run(run).labels == labels
