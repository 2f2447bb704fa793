"""export/convert_checkpoint.py, as a user runs it."""

from __future__ import annotations

import json
import re
import shutil

import numpy as np
import pytest

import keras_vit
from keras_vit._keras import keras
from keras_vit.weights import Checkpoint

COMMAND = "export/convert_checkpoint.py"


def test_inspect_describes_a_file(invoke, fixtures, tmp_path):
    file = fixtures / "hybrid_stem_linen.weights.npz"
    code, out, err = invoke(COMMAND, "--inspect", file, cwd=tmp_path)
    assert (code, err) == (0, "")
    lines = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in out.splitlines())
    assert lines["dialect"] == "npz, official (Linen names)"
    assert lines["model"].startswith("none of the table: ResNet stem of () units, hidden 48, 2 bl")
    assert (lines["resolution"], lines["classes"], lines["head"]) == ("64 x 64", "9", "trained")
    assert lines["parameters"] == "98,057"


def test_inspect_shows_variant_zero_head_and_ignored_keys(invoke, tmp_path):
    keras_vit.save_weights(keras_vit.ViT_Ti16(11), tmp_path / "shown.npz")
    arrays = {f"opt/target/{key}": array for key, array in np.load(tmp_path / "shown.npz").items()}
    np.savez(tmp_path / "file.npz", **arrays, **{"opt/state/step": np.zeros(1)})
    out = invoke(COMMAND, "--inspect", tmp_path / "file.npz", cwd=tmp_path)[1]
    assert "npz, official (prefix opt/target/)" in out
    assert "ViT-Ti_16: hidden 192" in out
    assert "224 x 224" in out
    assert "zero: all zeros, as pre-training files are" in out
    assert "1 keys: opt/state/step" in out


def test_a_run_is_described_and_converted(invoke, trained_run, tmp_path):
    code, out, error = invoke(COMMAND, "--inspect", trained_run.path, cwd=tmp_path)
    assert (code, error) == (0, "")
    run, file = out.split("\n\n")
    shown = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in run.splitlines())
    assert shown["run"] == str(trained_run.path)
    assert (shown["model"], shown["image size"], shown["data"]) == (
        "ViT-Test_8",
        "16 x 16",
        "digits",
    )
    assert shown["classes"] == "10: 0, 1, 2, 3, 4, 5, 6, 7 ..."
    assert "duration 3 epochs" in shown["recipe"]
    last = trained_run.metrics()[-1]
    assert shown["trained"] == f"{last['step']} steps, 3 epochs"
    assert shown["accuracy"] == f"{last['val_accuracy']:.2%} of the held-out images"
    assert "weights.npz" in file
    code, out, error = invoke(COMMAND, trained_run.path, "timm/model.safetensors", cwd=tmp_path)
    assert code == 0, error
    model = keras_vit.model_from_weights(tmp_path / "timm" / "model.safetensors")
    assert model.labels == trained_run.labels
    expected = trained_run.model()
    for one, other in zip(model.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_bundle_says_what_to_give_instead(invoke, tmp_path):
    (tmp_path / "int8").mkdir()
    (tmp_path / "int8" / "model.tflite").write_bytes(b"")
    for arguments in (("--inspect", "int8"), ("int8", "out.npz")):
        code, _, error = invoke(COMMAND, *arguments, cwd=tmp_path)
        assert code == 2
        assert "int8 is an exported bundle, which cannot be converted back; give the run" in error


@pytest.mark.parametrize("source", ["vit_token.weights.npz", "timm_token.safetensors"])
@pytest.mark.parametrize("target", ["out.npz", "timm/out.safetensors", "hf/model.safetensors"])
def test_weights_are_converted_between_layouts(invoke, fixtures, tmp_path, source, target):
    layout = ["--layout", "transformers"] if target.startswith("hf") else []
    code, out, err = invoke(COMMAND, fixtures / source, target, *layout, cwd=tmp_path)
    assert (code, err) == (0, "")
    assert "all 40 weights read back, bit-equal" in out
    expected = np.load(fixtures / f"{source.split('.')[0]}.io.npz")
    model = keras_vit.model_from_weights(tmp_path / target)
    found = np.asarray(model(expected["images"]))
    np.testing.assert_allclose(found, expected["logits"], atol=2e-5, rtol=0)


def test_a_keras_file_and_a_saved_model_give_the_references_logits(invoke, fixtures, tmp_path):
    import tensorflow as tf

    expected = np.load(fixtures / "vit_token.io.npz")
    for target in ("model.keras", "saved"):
        code, out, err = invoke(COMMAND, fixtures / "vit_token.weights.npz", target, cwd=tmp_path)
        assert (code, err) == (0, ""), out
    logits = keras.models.load_model(tmp_path / "model.keras")(expected["images"])
    np.testing.assert_allclose(np.asarray(logits), expected["logits"], atol=2e-5, rtol=0)
    served = tf.saved_model.load(str(tmp_path / "saved")).signatures["serving_default"]
    for count in (1, 2):  # any batch size
        logits = served(images=tf.constant(expected["images"][:count]))["logits"]
        np.testing.assert_allclose(logits, expected["logits"][:count], atol=2e-5, rtol=0)


def test_resolution_and_classes_can_be_changed(invoke, fixtures, tmp_path):
    options = ["--image-size", "80", "48", "--num-classes", "3", "--positions", "bicubic"]
    code, out, _ = invoke(
        COMMAND, fixtures / "vit_token.weights.npz", "o.safetensors", *options, cwd=tmp_path
    )
    assert code == 0
    assert "80 x 48, 3 classes" in out
    config = json.loads((tmp_path / "o.config.json").read_text())
    assert config["model_args"]["img_size"] == [80, 48]
    model = keras_vit.model_from_weights(tmp_path / "o.safetensors")
    assert (model.image_size, model.num_classes) == ((80, 48), 3)
    assert not np.asarray(model.get_layer("head").kernel).any()


def test_what_a_file_does_not_state_can_be_an_option(invoke, fixtures, tmp_path):
    (tmp_path / "in.safetensors").write_bytes((fixtures / "timm_token.safetensors").read_bytes())
    code, _, err = invoke(COMMAND, "--inspect", "in.safetensors", cwd=tmp_path)
    assert (code, "pass --num-heads=N, or put its config.json" in err) == (2, True)
    code, out, _ = invoke(COMMAND, "--inspect", "in.safetensors", "--num-heads", 3, cwd=tmp_path)
    assert (code, "3 heads" in out) == (0, True)
    options = ["--num-heads", 4, "--gelu", "tanh", "--layer-norm-eps", "1e-5"]
    code, _, err = invoke(COMMAND, "in.safetensors", "out.npz", *options, cwd=tmp_path)
    assert (code, err) == (0, "")
    spec = keras_vit.model_from_weights(tmp_path / "out.npz").spec
    assert (spec.num_heads, spec.gelu, spec.layer_norm_eps) == (4, "tanh", 1e-5)


def test_a_prefix_that_was_taken_off_is_shown(invoke, fixtures, tmp_path):
    arrays = dict(np.load(fixtures / "vit_token.weights.npz"))
    np.savez(tmp_path / "in.npz", **{f"model.{key}": array for key, array in arrays.items()})
    code, out, _ = invoke(COMMAND, "--inspect", "in.npz", cwd=tmp_path)
    assert (code, "npz, official (prefix model.)" in out) == (0, True)
    code, out, _ = invoke(COMMAND, "in.npz", "out.npz", cwd=tmp_path)
    assert (code, "40 weights from npz, official (prefix model.)" in out) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected IN and OUT, or --inspect FILE"),
        (["in.npz"], "expected IN and OUT, or --inspect FILE"),
        (["in.npz", "out.npz", "--inspect", "in.npz"], "--inspect FILE writes nothing"),
        (["in.npz", "in.npz"], "in.npz is IN itself; choose another OUT"),
        (["run", "run/weights.npz", "--overwrite"], "run/weights.npz is IN itself; choose"),
        (["in.npz", "run/more.npz"], "run/more.npz would be a file of the run run; choose"),
        (["in.npz", "in.npz/out.npz"], "in.npz is a file; choose another folder"),
        (["--inspect", "in.npz", "--gelu", "erf"], "--inspect FILE writes nothing; leave --gelu o"),
        (["--inspect", "in.npz", "--to", "npz"], "--inspect FILE writes nothing; leave --to out"),
        (["in.npz", "there.npz"], "there.npz exists; choose another OUT or --overwrite it"),
        (["in.npz", "out.h5"], "expected .npz, .safetensors, .keras or a folder, or pass --to"),
        (["in.npz", "out.h5", "--to", "keras"], "expected a name that ends in .keras"),
        (["in.npz", "full", "--overwrite"], "full is not empty and holds no SavedModel"),
        (["in.npz", "out.npz", "--image-size", "40"], "--image-size must be a multiple of patch"),
        (
            ["in.npz", "out.npz", "--image-size", "1", "2", "3"],
            "--image-size takes 1 value or 2.",
        ),
        (["in.npz", "out.npz", "--num-classes", "-1"], "must not be negative"),
        (["bad.npz", "out.npz"], "has 1 NaN or infinite values in 1 arrays, the first in cls"),
        (["--inspect", "runs"], "runs holds runs; give one of them: runs/digits."),
        (["runs", "out.npz"], "runs holds runs; give one of them: runs/digits."),
        (["--inspect", "full/notes.txt"], "is not a complete .npz or .safetensors file"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(
    invoke, fixtures, trained_run, tmp_path, arguments, message
):
    shutil.copytree(trained_run.path, tmp_path / "run")
    (tmp_path / "in.npz").write_bytes((fixtures / "vit_token.weights.npz").read_bytes())
    arrays = dict(np.load(tmp_path / "in.npz"))
    arrays["cls"][0, 0, 0] = np.nan
    np.savez(tmp_path / "bad.npz", **arrays)
    (tmp_path / "there.npz").write_bytes(b"there")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine, all mine")
    (tmp_path / "runs" / "digits").mkdir(parents=True)
    for name in ("spec.json", "weights.npz"):
        (tmp_path / "runs" / "digits" / name).write_text("{}")
    before = {f: f.read_bytes() for f in tmp_path.rglob("*") if f.is_file()}
    code, _, err = invoke(COMMAND, *arguments, cwd=tmp_path)
    assert code == 2
    assert len(err.splitlines()) == 1
    assert message in err
    assert {f: f.read_bytes() for f in tmp_path.rglob("*") if f.is_file()} == before


def test_nonfinite_values_are_accepted_if_allowed(invoke, fixtures, tmp_path):
    arrays = dict(np.load(fixtures / "vit_token.weights.npz"))
    arrays["cls"][0, 0, 0] = np.nan
    np.savez(tmp_path / "bad.npz", **arrays)
    code, out, _ = invoke(COMMAND, "bad.npz", "out.npz", "--allow-nonfinite", cwd=tmp_path)
    assert code == 0
    assert "bit-equal" in out
    assert np.isnan(np.load(tmp_path / "out.npz")["cls"][0, 0, 0])


@pytest.mark.slow
def test_an_existing_file_is_replaced_only_with_overwrite(invoke, fixtures, tmp_path):
    first, second = fixtures / "vit_token.weights.npz", fixtures / "timm_map.safetensors"
    for target in ("out.npz", "out.keras", "saved"):
        assert invoke(COMMAND, first, target, cwd=tmp_path)[0] == 0
        code, _, err = invoke(COMMAND, second, target, cwd=tmp_path)
        assert (code, "exists; choose another OUT or --overwrite it" in err) == (2, True)
        assert invoke(COMMAND, second, target, "--overwrite", cwd=tmp_path)[0] == 0


def test_a_file_that_reads_back_differently_is_removed(invoke, fixtures, tmp_path, monkeypatch):
    monkeypatch.setattr(Checkpoint, "read", lambda self, key, shape: np.ones(shape, np.float32))
    for target in ("out.npz", "out.safetensors"):
        code, _, err = invoke(COMMAND, fixtures / "timm_map.safetensors", target, cwd=tmp_path)
        assert code == 3
        assert "was not read back as written" in err
        assert not (tmp_path / target).exists()


@pytest.mark.slow
def test_runs_as_a_process_from_any_folder(command, fixtures, tmp_path):
    file = fixtures / "timm_map.safetensors"
    out = command(COMMAND, file, "out.npz", cwd=tmp_path, check=0).stdout
    assert "read " in out
    assert (tmp_path / "out.npz").is_file()
