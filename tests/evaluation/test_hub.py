"""The folder for a hub: its card says what the run is, and its files hold the run's weights."""

import dataclasses
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import keras_vit
from keras_vit import UsageError, evaluation, runs
from keras_vit.evaluation.hub import hub_card


@pytest.fixture(scope="module")
def run(trained_run, tmp_path_factory):
    folder = shutil.copytree(trained_run.path, tmp_path_factory.mktemp("card") / "digits")
    run = runs.open_run(folder)
    evaluation.evaluate(run)
    return run


def test_the_files_hold_the_weights_of_the_run(run, rng, tmp_path):
    card = evaluation.write_hub_folder(run, tmp_path / "hub", "me/digits")
    assert card == tmp_path / "hub/README.md"
    images = rng.integers(0, 256, (2, 16, 16, 3)).astype(np.uint8)
    trained = run.model()
    expected = trained(keras_vit.preprocess(images, trained))
    for folder in ("", "transformers"):
        model = keras_vit.model_from_weights(tmp_path / "hub" / folder / "model.safetensors")
        actual = model(keras_vit.preprocess(images, model))
        np.testing.assert_allclose(actual, expected, atol=1e-5)
        assert model.labels == run.labels
        assert json.loads((tmp_path / "hub" / folder / "config.json").read_text())


def test_the_card_states_the_figures_of_the_report(run, tmp_path):
    text = evaluation.write_hub_folder(run, tmp_path / "hub", "me/digits", "MIT").read_text()
    report = json.loads((run.path / "report/report.json").read_text())
    assert f"Of 359 held-out images, {report['accuracy']:.2%} are right." in text
    seven = report["classes"][7]
    assert f"| `7` | {seven['precision']:.2%} | {seven['recall']:.2%} |" in text
    assert "1,438 for training" in text
    assert "- Start: random weights" in text
    header = text.split("---\n")[1]
    assert 'license: "mit"' in header
    assert f"value: {report['accuracy']:.4f}" in header
    assert str(run.path.parent) not in text  # no path of the machine
    missed = [c["label"] for c in report["classes"] if not c["recall"]]
    assert ("Never recognised" in text) == bool(missed)
    for program in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        compile(program, "card", "exec")
        assert "me/digits" in program


def test_the_card_says_how_pictures_are_prepared(run):
    model = run.model()
    model.preprocessing = dataclasses.replace(
        model.preprocessing, mean=(123.675, 116.28, 103.53), scale=(58, 57, 57), pad=True
    )
    text = hub_card(run, model, "me/x", {"timm": "", "transformers": ""})
    assert "to fit the model's size, and black pixels fill the rest (" in text
    assert "(pixel - 123.675, 116.28, 103.53) / 58, 57, 57 for pixels from 0 to 255" in text


def test_names_of_classes_are_never_markup(run, tmp_path):
    other = runs.open_run(shutil.copytree(run.path, tmp_path / "run"))
    report = json.loads((other.path / "report/report.json").read_text())
    report["classes"][7]["label"] = "a|b"
    (other.path / "report/report.json").write_text(json.dumps(report))
    labels = ("a|b", "<script>", "[x](http://y)", "`tick`", *run.labels[4:])
    text = card_of(runs.Run(other.path, run.spec, labels, run.recipe))
    for name in ("`<script>`", "`` `tick` ``", "`[x](http://y)`"):
        assert name in text
    assert "\n| `a\\|b` | " in text  # the bar adds no column


def test_phones_are_a_table_that_says_how_to_fill_it(run):
    other = runs.open_run(shutil.copytree(run.path, run.path.parent / "phones"))
    text = card_of(other)
    assert "## Measured on phones\n\nNone yet. Connect a phone that allows USB" in text
    assert "`keras-vit bench --bundle RUN/export/int8` measures it" in text
    bundle = other.path / "export/int8"
    bundle.mkdir(parents=True)
    (bundle / "model.json").write_text(json.dumps({"format": 1, "sha256": "a" * 64}))
    record = json.loads((Path(__file__).parents[1] / "fixtures/phone/record.json").read_text())
    phone = record["phone"] | {"manufacturer": "a|b", "model": "<b>[x](http://y)"}
    [cpu] = record["backends"]
    gpu = cpu | {"backend": "GPU", "golden": cpu["golden"] | {"score_difference": 9}}
    (bundle / "phones").mkdir()
    for i, backends in enumerate([[cpu], [cpu, gpu]]):
        changed = record | {"phone": phone, "backends": backends}
        (bundle / f"phones/{i}.json").write_text(json.dumps(changed))
    text = card_of(other)
    assert "None yet" not in text
    name = "a\\|b <b>[x](http://y), Android 16"  # the bar adds no column
    about = "`Tensor G3` | `LiteRT 2.3.0` | `int8` | `CPU`"
    times = "23.0 | 3.14 | 4.00 | 1,234 | 60"
    row = f"| `{name}` | {about} | {times} | 28 to 33 |"
    assert row in text.splitlines()
    refused = "`a|b <b>[x](http://y), Android 16: int8 on GPU`"
    assert f"- Refused, because its scores differ too much: {refused}.\n" in text
    header, rule = re.search(r"\n(\| phone \|.*)\n(\|.*)\n", text).groups()
    assert header.count("|") == rule.count("|") == row.replace("\\|", "").count("|") == 12


def card_of(run, **reasons):
    """The card; `reasons` are those for which a library cannot load the model."""
    spec, size = keras_vit.ViTSpec(**run.spec["spec"]), tuple(run.spec["image_size"])
    model = keras_vit.ViT(spec, len(run.labels), size)
    return hub_card(run, model, "me/x", {"timm": "", "transformers": "", **reasons})


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        ({"keras_flavour": "keras", "backend": "tensorflow"}, "keras `3`, tensorflow `2`, "),
        ({"keras_flavour": "keras", "backend": "jax"}, "keras `3`, jax `0`, "),
        ({"keras_flavour": "tf_keras", "backend": "tensorflow"}, "tf_keras `1`, tensorflow `2`, "),
        ({"keras_flavour": "python", "backend": "<b>"}, ""),
        ({}, ""),  # a run of an old version
    ],
)
def test_only_the_libraries_that_trained_a_run_are_named(run, recorded, expected):
    installed = {"keras": "3", "tf_keras": "1", "tensorflow": "2", "jax": "0", "numpy": "1"}
    versions = {"keras_vit": "4", "python": "5", **installed, **recorded}
    text = card_of(runs.Run(run.path, run.spec, run.labels, {**run.recipe, "versions": versions}))
    assert f"- Versions: keras_vit `4`, {expected}python `5`\n" in text


def test_a_library_that_cannot_load_the_model_is_named_with_the_reason(run):
    reason = "transformers has no gap pooling"
    text = card_of(run, transformers=reason)
    assert f"transformers cannot load it: `{reason}`." in text
    assert "AutoModel" not in text
    assert "library_name: timm\n" in text
    assert "library_name: keras\n" in card_of(run, timm=reason)


def test_a_run_without_a_report_says_how_to_get_figures(invoke, trained_run, tmp_path):
    words = ("--run", trained_run.path, "--out", tmp_path / "hub", "--name", "me/digits")
    code, out, error = invoke("export/hub_card.py", *words, cwd=tmp_path)
    assert code == 0, error
    assert "the card has no figures; write them first with" in error
    assert "hf upload me/digits" in out
    assert invoke("export/hub_card.py", *words, cwd=tmp_path)[0] == 0  # it replaces its own
    (tmp_path / "hub" / "notes.txt").write_text("mine")
    code, _, error = invoke("export/hub_card.py", *words, cwd=tmp_path)
    assert (code, "has other files than those of a card, such as 'notes.txt'" in error) == (2, True)
    assert (tmp_path / "hub" / "notes.txt").read_text() == "mine"
    code, _, error = invoke("export/hub_card.py", *words[:2], "--license", "MIT 2", cwd=tmp_path)
    assert (code, "of letters, digits, dots, + and -, such as" in error) == (2, True)
    licensed = (*words[:3], tmp_path / "licensed", *words[4:], "--license", "Apache-2.0")
    assert invoke("export/hub_card.py", *licensed, cwd=tmp_path)[0] == 0
    assert 'license: "apache-2.0"' in (tmp_path / "licensed" / "README.md").read_text()
    code, _, error = invoke("export/hub_card.py", "--name", "digits", cwd=tmp_path)
    assert (code, "--name must be USER/NAME" in error) == (2, True)


def test_a_run_without_classes_has_no_card(run, tmp_path):
    recipe = {**run.recipe, "recipe": {**run.recipe["recipe"], "loss": "mae"}}
    other = runs.Run(run.path, run.spec, run.labels, recipe)
    with pytest.raises(UsageError, match="was trained without classes"):
        evaluation.write_hub_folder(other, tmp_path / "hub", "me/digits")
