"""Loading of weights into a model: everything must match, and errors name the likely cause."""

import dataclasses
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import keras_vit
from keras_vit.weights import resample_patches, resample_positions


@pytest.fixture
def vit(small_spec):
    """Makes a ViT of another name with changes of the small spec."""

    def make(classes=5, size=16, *, labels=None, **changes):
        spec = dataclasses.replace(small_spec, **changes)
        return keras_vit.ViT(spec, classes, size, labels=labels, name="other")

    return make


def cause(model, path, **options):
    with pytest.raises(keras_vit.UsageError) as caught:
        keras_vit.load_weights(model, path, **options)
    return str(caught.value).splitlines()[0]


def resampled(model, path, **options):
    """What is resampled while a file is loaded."""
    return "; ".join(keras_vit.load_weights(model, path, **options).resampled)


def test_missing_unexpected_and_misshapen_weights_are_listed_and_none_is_loaded(model, saved):
    arrays = dict(np.load(saved))
    del arrays["cls"]
    arrays |= {"extra": np.zeros(3, np.float32), "head/bias": np.zeros(6, np.float32)}
    np.savez(saved, **arrays)
    before = model.get_weights()
    with pytest.raises(keras_vit.UsageError) as caught:
        keras_vit.load_weights(model, saved)
    assert str(caught.value).splitlines()[2:] == [
        "  - cls (1, 1, 48)",
        "  + extra",
        "  ! head/bias (6,), the model's is (5,)",
    ]
    np.testing.assert_equal(model.get_weights(), before)


@pytest.mark.flavours
@pytest.mark.parametrize("pooling", ["token", "distilled"])
def test_a_reset_head_is_zero_and_positions_of_tokens_are_kept(vit, randomised, tmp_path, pooling):
    model = randomised(vit(pooling=pooling))
    keras_vit.save_weights(model, tmp_path / "weights.npz")
    other = randomised(keras_vit.ViT(model.spec, 3, 24, head_bias=-10.0))
    report = keras_vit.load_weights(other, tmp_path / "weights.npz", "reset")
    heads = ["head", "head_dist"] if pooling == "distilled" else ["head"]
    dropped = [f"{head}/{part}" for head in heads for part in ("bias", "kernel")]
    assert (report.head, sorted(report.dropped)) == ("reset", dropped)
    assert report.resampled == ("positions 2 x 2 to 3 x 3 (bilinear)",)
    values = [np.asarray(w) for w in other.get_layer("head").weights]
    assert [np.unique(value).tolist() for value in values] == [[0], [-10]] * len(heads)
    one, two = (np.asarray(m.get_layer("patch_encoder").positions) for m in (model, other))
    np.testing.assert_array_equal(two[:, : len(heads)], one[:, : len(heads)])
    assert two.shape == (1, len(heads) + 9, 48)
    for head, message in (("keep", "head/kernel"), ("drop", '"keep" or "reset"')):
        with pytest.raises(keras_vit.UsageError, match=message):
            keras_vit.load_weights(other, tmp_path / "weights.npz", head)


def test_fine_tuning_drops_the_representation_with_the_head_and_the_record_says_so(fixtures):
    spec = keras_vit.ViTSpec(8, 64, 2, 4, 128)
    file = fixtures / "vit_token_prelogits.weights.npz"
    model = keras_vit.ViT(spec, 5, 48)
    assert str(keras_vit.load_weights(model, file, head="reset")) == (
        "38 weights from npz, official; positions 4 x 4 to 6 x 6 (bilinear); dropped head/bias, "
        "head/kernel, pre_logits/bias, pre_logits/kernel"
    )
    expected = np.load(fixtures / "vit_finetune_drophead.io.npz")
    assert not np.asarray(model(expected["images"])).any()  # uniform at first: the head is zero
    model.get_layer("head").set_weights([expected["head_kernel"], expected["head_bias"]])
    actual = np.asarray(model(expected["images"], training=False))
    np.testing.assert_allclose(actual, expected["logits"], atol=2e-5, rtol=0)
    positions = np.asarray(model.get_layer("patch_encoder").positions)
    np.testing.assert_allclose(positions, expected["pos_embedding"], atol=1e-6)
    with pytest.raises(keras_vit.UsageError, match=r"\+ pre_logits/bias") as caught:
        keras_vit.load_weights(keras_vit.ViT(spec, 7, 32), file)
    advice = "build the model with representation_dim=40, or drop it with head="
    assert advice in str(caught.value).splitlines()[0]


def test_an_absent_file_a_foreign_model_and_an_unknown_method_are_named(model, saved, tmp_path):
    assert "there is no such file" in cause(model, tmp_path / "none.npz")
    with pytest.raises(keras_vit.UsageError, match="expected a keras_vit.ViT.*Received: object"):
        keras_vit.save_weights(object(), tmp_path / "x.npz")
    # Even where nothing is resampled.
    assert "positions must be one of bilinear, bicubic" in cause(model, saved, positions="area")


def test_the_likely_cause_is_named(vit, saved, tmp_path):
    wider = vit(hidden_dim=96, num_heads=6)
    assert "hidden_dim 48, not 96; num_heads 3, not 6" in cause(wider, saved)
    assert "depth 2, not 3" in cause(vit(depth=3), saved)
    assert "pooling token, not gap" in cause(vit(pooling="gap"), saved)
    assert "pooling token, not distilled" in cause(vit(pooling="distilled"), saved)
    assert 'this file has 5 classes, not 6; head="reset"' in cause(vit(6), saved)
    keras_vit.save_weights(vit(0), tmp_path / "none.npz")
    assert 'no head; head="reset"' in cause(vit(6), tmp_path / "none.npz")
    keras_vit.save_weights(keras_vit.ViT_Ti16(3), tmp_path / "tiny.npz")
    line = cause(vit(3), tmp_path / "tiny.npz")
    assert "this file is ViT-Ti_16: hidden_dim 192, not 48; depth 12, not 2" in line
    assert line.endswith("; choose model='ViT-Ti_16'")
    bit = keras_vit.BiT(keras_vit.ResNetSpec((1, 1, 1, 1), 1), 5, 32)
    assert "this file is another architecture: a ViT, not a BiT ResNet" in cause(bit, saved)


@pytest.mark.parametrize(
    ("key", "part"),
    [
        ("rope.freqs", "rotations with learned frequencies"),
        ("blocks.0.attn.norm.weight", "normalises the outputs of attention"),
    ],
)
def test_unsupported_parts_are_named_before_an_unknown_size(fixtures, tmp_path, key, part):
    arrays = load_file(fixtures / "timm_token.safetensors") | {key: np.zeros(48, np.float32)}
    if "norm" in key:
        del arrays["blocks.0.mlp.fc1.bias"]  # which determines the size
    save_file(arrays, tmp_path / "other.safetensors")
    model = keras_vit.model_from_weights(fixtures / "timm_token.safetensors")
    assert part in cause(model, tmp_path / "other.safetensors")
    with pytest.raises(keras_vit.UsageError, match=f"unknown architecture: it .*{part}"):
        keras_vit.model_from_weights(tmp_path / "other.safetensors")


def test_keys_and_shapes_are_listed_as_the_file_writes_them(fixtures, vit):
    model = vit(7, 32, mlp_dim=128, activation="erf")
    with pytest.raises(keras_vit.UsageError) as caught:
        keras_vit.load_weights(model, fixtures / "timm_token.safetensors")
    lines = str(caught.value).splitlines()
    assert "mlp_dim 96, not 128" in lines[0]
    shapes = (
        "fc1.bias (96,), the model's is (128,)",
        "fc1.weight (96, 48), the model's is (128, 48)",
        "fc2.weight (48, 96), the model's is (48, 128)",
    )
    assert lines[2:] == [f"  ! blocks.{i}.mlp.{each}" for i in (0, 1) for each in shapes]


def test_numerics_stated_in_the_file_must_match_the_model(vit, fixtures, tmp_path):
    file = tmp_path / "erf.npz"
    keras_vit.save_weights(vit(activation="erf", layer_norm_eps=1e-12), file)
    assert "needs activation='erf', the model has 'tanh'" in cause(vit(layer_norm_eps=1e-12), file)
    assert "needs layer_norm_eps=1e-12" in cause(vit(activation="erf"), file)
    file = fixtures / "hf_classifier.safetensors"
    assert "needs activation='erf'" in cause(vit(7, 32, mlp_dim=96), file)
    heads = vit(7, 32, mlp_dim=96, num_heads=4, activation="erf", layer_norm_eps=1e-12)
    message = "needs num_heads=3, the model has 4; build the model with num_heads=3"
    assert message in cause(heads, file)


def test_numerics_of_a_layout_must_be_those_of_the_model(vit, fixtures, tmp_path):
    official = fixtures / "vit_token.weights.npz"
    exact = vit(10, 48, patch_size=16, activation="erf")
    assert "needs activation='tanh'" in cause(exact, official)
    coarse = vit(10, 48, patch_size=16, layer_norm_eps=1e-3)
    assert "needs layer_norm_eps=1e-06" in cause(coarse, official)
    # timm's are known without a config, but the number of heads is not.
    alone = tmp_path / "alone.safetensors"
    shutil.copy(fixtures / "timm_token.safetensors", alone)
    assert "needs activation='erf'" in cause(vit(7, 32, mlp_dim=96), alone)
    fewer = vit(5, 32, mlp_dim=96, num_heads=4, activation="erf")
    assert 'this file has 7 classes, not 5; head="reset"' in cause(fewer, alone)
    keras_vit.load_weights(vit(7, 32, mlp_dim=96, num_heads=4, activation="erf"), alone)


def test_a_head_of_other_classes_is_refused(vit, tmp_path):
    keras_vit.save_weights(vit(2, labels=["cat", "dog"]), tmp_path / "pets.npz")
    days = vit(2, labels=["day", "night"])
    line = cause(days, tmp_path / "pets.npz")
    assert "has other classes ('cat' ...) than the model ('day' ...); head=\"reset\"" in line
    keras_vit.load_weights(days, tmp_path / "pets.npz", head="reset")
    keras_vit.load_weights(vit(2), tmp_path / "pets.npz")


@pytest.mark.parametrize("method", ["bilinear", "bicubic"])
def test_positions_are_resampled_by_the_chosen_method(fixtures, vit, method):
    model = vit(10, (80, 64), patch_size=16)
    keras_vit.load_weights(model, fixtures / "vit_token.weights.npz", positions=method)
    table = np.load(fixtures / "vit_token.weights.npz")["Transformer/posembed_input/pos_embedding"]
    expected = resample_positions(table, (3, 3), (5, 4), method=method)
    actual = np.asarray(model.get_layer("patch_encoder").positions)
    np.testing.assert_array_equal(actual, expected)


def test_a_grid_that_is_not_square_is_saved(vit, randomised, tmp_path):
    # 2 x 8 and 4 x 4 are both 16 positions: only what the file says tells them apart.
    keras_vit.save_weights(randomised(vit(size=(16, 64))), tmp_path / "wide.npz")
    square, wide = vit(size=32), vit(size=(16, 64))
    assert resampled(square, tmp_path / "wide.npz") == "positions 2 x 8 to 4 x 4 (bilinear)"
    assert resampled(wide, tmp_path / "wide.npz") == ""
    assert keras_vit.model_from_weights(tmp_path / "wide.npz").image_size == (16, 64)


def test_an_unknown_grid_must_be_square_or_passed(vit, tmp_path):
    def mute(size):  # what another program writes: no comment
        path = tmp_path / "mute.npz"
        keras_vit.save_weights(vit(size=size), path)
        np.savez(path, **dict(np.load(path)))
        return path

    # A table that fits is taken as it is, as in the official code, also where 16 is a square.
    wide, rows = vit(size=(16, 64)), vit(size=(8, 24))
    assert resampled(wide, mute((16, 64))) == ""
    assert resampled(wide, mute(32), grid=(4, 4)) == "positions 4 x 4 to 2 x 8 (bilinear)"
    assert resampled(wide, mute(24)) == "positions 3 x 3 to 2 x 8 (bilinear)"
    assert resampled(rows, mute((8, 24))) == ""
    assert "(1, 7, 48), do not form a square grid; pass grid=" in cause(rows, mute((16, 24)))
    assert resampled(rows, mute((16, 24)), grid=(2, 3)) == "positions 2 x 3 to 1 x 3 (bilinear)"


def test_patches_of_another_size_are_resized_only_if_requested(vit, saved, tmp_path):
    twelve = vit(size=24, patch_size=12)
    assert "patch_size 8, not 12" in cause(twelve, saved)
    assert resampled(twelve, saved, resize_patches=True) == "patches 8 x 8 to 12 x 12"
    keras_vit.save_weights(twelve, tmp_path / "twelve.npz")
    before, after = dict(np.load(saved)), dict(np.load(tmp_path / "twelve.npz"))
    before["embedding/kernel"] = resample_patches(before["embedding/kernel"], 12)
    np.testing.assert_equal(after, before)


@pytest.mark.parametrize(
    ("kind", "pooling"),
    [
        ("relative", "token"),
        ("learned2d", "distilled"),
        pytest.param("learned2d", "token", marks=pytest.mark.slow),
        pytest.param("learned2d", "gap", marks=pytest.mark.slow),
        pytest.param("relative", "gap", marks=pytest.mark.slow),
    ],
)
def test_other_positions_are_resampled_too(vit, randomised, tmp_path, rng, kind, pooling):
    how = {"position_embedding": kind, "pooling": pooling}
    model = randomised(vit(size=(16, 24), **how))
    keras_vit.save_weights(model, tmp_path / "small.npz")
    larger = vit(size=(40, 48), **how)
    assert resampled(larger, tmp_path / "small.npz") == "positions 2 x 3 to 5 x 6 (bilinear)"
    # And back: every other position of the finer grid is an old one where the corners stay.
    finer, again = vit(size=(24, 40), **how), vit(size=(16, 24), **how)
    keras_vit.load_weights(finer, tmp_path / "small.npz")
    keras_vit.save_weights(finer, tmp_path / "finer.npz")
    keras_vit.load_weights(again, tmp_path / "finer.npz")
    images = rng.normal(size=(2, 16, 24, 3)).astype(np.float32)
    np.testing.assert_allclose(np.asarray(again(images)), np.asarray(model(images)), atol=2e-4)
