"""export/convert_checkpoint.py, as a user runs it."""

import json
import re

import numpy as np
import pytest

import keras_vit
from keras_vit._keras import keras
from keras_vit.weights import Checkpoint

COMMAND = "export/convert_checkpoint.py"


def facts(text):
    """The lines of a description: {name: text}."""
    return dict(re.split(r"\s{2,}", line, maxsplit=1) for line in text.splitlines())


def test_inspect_describes_a_file(done, fixtures):
    out, error = done(COMMAND, "--inspect", fixtures / "hybrid_stem_linen.weights.npz")
    shown = facts(out)
    assert error == ""
    assert shown["dialect"] == "npz, official (Linen names)"
    assert shown["model"].startswith("none of the table: ResNet stem of () units, hidden 48, 2 bl")
    assert (shown["resolution"], shown["classes"], shown["head"]) == ("64 x 64", "9", "trained")
    assert shown["parameters"] == "98,057"


def test_inspect_shows_variant_zero_head_and_ignored_keys(done, tmp_path):
    keras_vit.save_weights(keras_vit.ViT_Ti16(11), tmp_path / "shown.npz")
    arrays = {f"opt/target/{key}": array for key, array in np.load(tmp_path / "shown.npz").items()}
    np.savez(tmp_path / "file.npz", **arrays, **{"opt/state/step": np.zeros(1)})
    shown = facts(done(COMMAND, "--inspect", "file.npz")[0])
    assert shown["dialect"] == "npz, official (prefix opt/target/)"
    assert shown["model"].startswith("ViT-Ti_16: hidden 192")
    assert shown["resolution"] == "224 x 224"
    assert shown["head"] == "zero: all zeros, as pre-training files are"
    assert shown["ignored"] == "1 keys: opt/state/step"


def test_a_run_is_described_and_converted(done, trained_run, tmp_path):
    out, error = done(COMMAND, "--inspect", trained_run.path)
    run, file = out.split("\n\n")
    assert (error, "weights.npz" in file) == ("", True)
    shown = facts(run)
    assert shown["run"] == str(trained_run.path)
    assert (shown["model"], shown["image size"]) == ("ViT-Test_8", "16 x 16")
    assert (shown["data"], shown["classes"]) == ("digits", "10: 0, 1, 2, 3, 4, 5, 6, 7 ...")
    assert "duration 3 epochs" in shown["recipe"]
    last = trained_run.metrics()[-1]
    assert shown["trained"] == f"{last['step']} steps, 3 epochs"
    assert shown["accuracy"] == f"{last['val_accuracy']:.2%} of the held-out images"
    done(COMMAND, trained_run.path, "timm/model.safetensors")
    model = keras_vit.model_from_weights(tmp_path / "timm" / "model.safetensors")
    assert model.labels == trained_run.labels
    expected = trained_run.model()
    for one, other in zip(model.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("source", ["vit_token.weights.npz", "timm_token.safetensors"])
@pytest.mark.parametrize("target", ["out.npz", "timm/out.safetensors", "hf/model.safetensors"])
def test_weights_are_converted_between_layouts(done, fixtures, tmp_path, source, target):
    layout = ["--layout", "transformers"] if target.startswith("hf") else []
    out, error = done(COMMAND, fixtures / source, target, *layout)
    assert error == ""
    assert "\nloaded   40 weights from " in out
    assert "all 40 weights read back, bit-equal" in out
    expected = np.load(fixtures / f"{source.split('.')[0]}.io.npz")
    model = keras_vit.model_from_weights(tmp_path / target)
    found = np.asarray(model(expected["images"]))
    np.testing.assert_allclose(found, expected["logits"], atol=2e-5, rtol=0)


def test_a_keras_file_and_a_saved_model_give_the_references_logits(done, fixtures, tmp_path):
    import tensorflow as tf

    expected = np.load(fixtures / "vit_token.io.npz")
    for target in ("model.keras", "saved"):
        assert done(COMMAND, fixtures / "vit_token.weights.npz", target)[1] == ""
    logits = keras.models.load_model(tmp_path / "model.keras")(expected["images"])
    np.testing.assert_allclose(np.asarray(logits), expected["logits"], atol=2e-5, rtol=0)
    served = tf.saved_model.load(str(tmp_path / "saved")).signatures["serving_default"]
    for count in (1, 2):  # any batch size
        logits = served(images=tf.constant(expected["images"][:count]))["logits"]
        np.testing.assert_allclose(logits, expected["logits"][:count], atol=2e-5, rtol=0)


def test_resolution_and_classes_can_be_changed(done, fixtures, tmp_path):
    options = ["--image-size", "80", "48", "--num-classes", "3", "--positions", "bicubic"]
    out, _ = done(COMMAND, fixtures / "vit_token.weights.npz", "o.safetensors", *options)
    assert "80 x 48, 3 classes" in out
    config = json.loads((tmp_path / "o.config.json").read_text())
    assert config["model_args"]["img_size"] == [80, 48]
    model = keras_vit.model_from_weights(tmp_path / "o.safetensors")
    assert (model.image_size, model.num_classes) == ((80, 48), 3)
    assert not np.asarray(model.get_layer("head").kernel).any()


def test_positions_keep_their_size_though_the_processor_makes_smaller_images(
    done, fixtures, tmp_path
):
    for name, end in (("model.safetensors", "safetensors"), ("config.json", "config.json")):
        source = fixtures / f"hf_dinov2_registers.{end}"
        (tmp_path / name).write_bytes(source.read_bytes())
    processor = {"image_processor_type": "ViTImageProcessor", "size": 16}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(processor))
    assert "4 registers, positions learned" in done(COMMAND, tmp_path, "out.npz")[0]
    assert keras_vit.model_from_weights(tmp_path).image_size == (16, 16)
    assert keras_vit.model_from_weights(tmp_path / "out.npz").image_size == (32, 32)


def test_what_a_file_does_not_state_can_be_an_option(done, refused, fixtures, tmp_path):
    (tmp_path / "in.safetensors").write_bytes((fixtures / "timm_token.safetensors").read_bytes())
    inspect = (COMMAND, "--inspect", "in.safetensors")
    assert "pass --num-heads=N, or put its config.json" in refused(*inspect)
    assert "3 heads" in done(*inspect, "--num-heads", 3)[0]
    options = ["--num-heads", 4, "--activation", "tanh", "--layer-norm-eps", "1e-5"]
    assert done(COMMAND, "in.safetensors", "out.npz", *options)[1] == ""
    spec = keras_vit.model_from_weights(tmp_path / "out.npz").spec
    assert (spec.num_heads, spec.activation, spec.layer_norm_eps) == (4, "tanh", 1e-5)


def test_nonfinite_values_are_accepted_only_if_allowed(done, refused, fixtures, tmp_path):
    arrays = dict(np.load(fixtures / "vit_token.weights.npz"))
    arrays["cls"][0, 0, 0] = np.nan
    np.savez(tmp_path / "bad.npz", **arrays)
    line = refused(COMMAND, "bad.npz", "out.npz")
    assert "has 1 NaN or infinite values in 1 arrays, the first in cls" in line
    assert not (tmp_path / "out.npz").exists()
    assert "bit-equal" in done(COMMAND, "bad.npz", "out.npz", "--allow-nonfinite")[0]
    assert np.isnan(np.load(tmp_path / "out.npz")["cls"][0, 0, 0])


@pytest.mark.slow
def test_an_existing_file_is_replaced_only_with_overwrite(done, refused, fixtures):
    first, second = fixtures / "vit_token.weights.npz", fixtures / "timm_map.safetensors"
    for target in ("out.npz", "out.keras", "saved"):
        done(COMMAND, first, target)
        line = refused(COMMAND, second, target)
        assert "exists; choose another OUT or --overwrite it" in line
        done(COMMAND, second, target, "--overwrite")


def test_a_file_that_reads_back_differently_is_removed(refused, fixtures, tmp_path, monkeypatch):
    monkeypatch.setattr(Checkpoint, "read", lambda self, key, shape: np.ones(shape, np.float32))
    for target in ("out.npz", "out.safetensors"):
        line = refused(COMMAND, fixtures / "timm_map.safetensors", target, code=3)
        assert "was not read back as written" in line
        assert not (tmp_path / target).exists()
