"""The official `.npz` layout: strict, whole, and without pickles."""

from __future__ import annotations

import dataclasses
import zipfile

import numpy as np
import pytest

import keras_vit


@pytest.fixture
def model(small_spec, randomised):
    return randomised(keras_vit.ViT(small_spec, 5, 16))


@pytest.fixture
def saved(model, tmp_path):
    keras_vit.save_weights(model, tmp_path / "weights.npz")
    return tmp_path / "weights.npz"


def rewrite(path, change):
    """The file at `path` with its dict of arrays changed."""
    arrays = dict(np.load(path))
    change(arrays)
    np.savez(path, **arrays)


def test_keys_and_shapes_are_the_official_ones(tmp_path, fixtures):
    spec = keras_vit.ViTSpec(16, 48, 2, 3, 112)
    model = keras_vit.ViT(spec, 10, 48)
    keras_vit.load_weights(model, fixtures / "vit_token.weights.npz")
    keras_vit.save_weights(model, tmp_path / "again.npz")
    expected, found = np.load(fixtures / "vit_token.weights.npz"), np.load(tmp_path / "again.npz")
    assert sorted(found.files) == sorted(expected.files)
    for key in expected.files:  # a round trip is bit-equal
        np.testing.assert_array_equal(found[key], expected[key], strict=True)


@pytest.mark.parametrize("pooling", ["token", "gap", "map", "none"])
def test_round_trip_of_every_weight(small_spec, randomised, tmp_path, pooling):
    spec = dataclasses.replace(small_spec, pooling=pooling, representation_dim=20)
    model = randomised(keras_vit.ViT(spec, 5, (16, 24)))
    keras_vit.save_weights(model, tmp_path / "weights.npz")
    again = keras_vit.ViT(spec, 5, (16, 24))
    keras_vit.load_weights(again, tmp_path / "weights.npz")
    for one, other in zip(model.weights, again.weights, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def test_missing_unexpected_and_misshapen_are_listed_and_nothing_is_loaded(model, saved):
    def change(arrays):
        del arrays["cls"]
        arrays["extra"] = np.zeros(3, np.float32)
        arrays["head/bias"] = np.zeros(6, np.float32)

    rewrite(saved, change)
    before = model.get_weights()
    with pytest.raises(keras_vit.UsageError) as caught:
        keras_vit.load_weights(model, saved)
    lines = str(caught.value).splitlines()[1:]
    assert lines == [
        "  - cls (1, 1, 48)",
        "  + extra",
        "  ! head/bias (6,), the model's is (5,)",
    ]
    for one, other in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(one, other)


def test_head_reset_keeps_the_models_own(small_spec, saved):
    other = keras_vit.ViT(small_spec, 3, 16)
    keras_vit.load_weights(other, saved, head="reset")
    assert not np.asarray(other.get_layer("head").kernel).any()
    with pytest.raises(keras_vit.UsageError, match="head/kernel"):
        keras_vit.load_weights(other, saved, head="keep")
    with pytest.raises(keras_vit.UsageError, match='"keep" or "reset"'):
        keras_vit.load_weights(other, saved, head="drop")


def test_fine_tuning_drops_the_representation_with_the_head(fixtures):
    spec = keras_vit.ViTSpec(8, 64, 2, 4, 128)
    model = keras_vit.ViT(spec, 5, 32)
    keras_vit.load_weights(model, fixtures / "vit_token_prelogits.weights.npz", head="reset")
    assert not np.asarray(model.get_layer("head").kernel).any()
    with pytest.raises(keras_vit.UsageError, match=r"\+ pre_logits/bias"):
        keras_vit.load_weights(model, fixtures / "vit_token_prelogits.weights.npz")


def test_a_scalar_head_is_refused(model, saved):
    rewrite(saved, lambda arrays: arrays.update({"head/bias": np.float32(1)}))
    with pytest.raises(keras_vit.UsageError, match="head/bias must have one dimension"):
        keras_vit.ViT_Pico4(weights=saved, image_size=16)


def test_pickles_are_refused(model, saved):
    rewrite(saved, lambda arrays: arrays.update({"cls": np.array([{"a": 1}], object)}))
    with pytest.raises(keras_vit.UsageError, match="cls"):
        keras_vit.load_weights(model, saved)


def test_an_object_array_of_the_right_shape_is_refused(model, saved):
    evil = np.empty((1, 1, 48), object)
    rewrite(saved, lambda arrays: arrays.update({"cls": evil}))
    with pytest.raises(keras_vit.UsageError, match="cls cannot be read"):
        keras_vit.load_weights(model, saved)


def test_integers_are_refused(model, saved):
    rewrite(saved, lambda arrays: arrays.update({"cls": np.zeros((1, 1, 48), int)}))
    with pytest.raises(keras_vit.UsageError, match="cls must hold floats. Received: int64"):
        keras_vit.load_weights(model, saved)


def test_a_header_that_lies_about_its_size_costs_no_memory(model, saved):
    huge = b"\x93NUMPY\x01\x00"
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1000000000000), }"
    header += b" " * (117 - len(header)) + b"\n"
    rewrite(saved, lambda arrays: arrays.pop("cls"))
    with zipfile.ZipFile(saved, "a") as file:
        file.writestr("cls.npy", huge + len(header).to_bytes(2, "little") + header)
    with pytest.raises(keras_vit.UsageError, match=r"! cls \(1, 1, 1000000000000\)"):
        keras_vit.load_weights(model, saved)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 not a zip", b"\x93NUMPY"])
def test_files_that_are_no_npz_are_refused(model, tmp_path, content):
    (tmp_path / "bad.npz").write_bytes(content)
    with pytest.raises(keras_vit.UsageError, match=r"bad.npz is not a whole .npz file"):
        keras_vit.load_weights(model, tmp_path / "bad.npz")


def test_truncated_file_is_refused(model, saved):
    saved.write_bytes(saved.read_bytes()[:-1000])
    with pytest.raises(keras_vit.UsageError, match="weights.npz"):
        keras_vit.load_weights(model, saved)


def test_flipped_bit_is_noticed(model, saved):
    content = bytearray(saved.read_bytes())
    content[len(content) // 2] ^= 1
    saved.write_bytes(content)
    with pytest.raises(keras_vit.UsageError, match="cannot be read"):
        keras_vit.load_weights(model, saved)


def test_absent_file_and_foreign_model_are_named(model, tmp_path):
    with pytest.raises(keras_vit.UsageError, match="there is no such file"):
        keras_vit.load_weights(model, tmp_path / "none.npz")
    with pytest.raises(keras_vit.UsageError, match="expected a keras_vit.ViT.*Received: object"):
        keras_vit.save_weights(object(), tmp_path / "x.npz")


def test_weights_hold_under_a_renamed_model(small_spec, tmp_path):
    keras_vit.save_weights(keras_vit.ViT(small_spec, 5, 16, name="other"), tmp_path / "w.npz")
    keras_vit.load_weights(keras_vit.ViT(small_spec, 5, 16), tmp_path / "w.npz")
