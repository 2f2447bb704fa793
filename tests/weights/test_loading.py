"""Loading of weights into a model: everything must match, and errors name the likely cause."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import keras_vit
from keras_vit.weights import resample_positions


@pytest.mark.flavours
def test_keys_and_shapes_are_the_official_ones(tmp_path, fixtures):
    spec = keras_vit.ViTSpec(16, 48, 2, 3, 112)
    model = keras_vit.ViT(spec, 10, 48)
    keras_vit.load_weights(model, fixtures / "vit_token.weights.npz")
    keras_vit.save_weights(model, tmp_path / "again.npz")
    expected, actual = np.load(fixtures / "vit_token.weights.npz"), np.load(tmp_path / "again.npz")
    assert sorted(actual.files) == sorted(expected.files)
    for key in expected.files:  # a round trip is bit-equal
        np.testing.assert_array_equal(actual[key], expected[key], strict=True)


@pytest.mark.parametrize("pooling", ["token", "gap", "map", "distilled", "none"])
def test_round_trip_of_every_weight(small_spec, randomised, tmp_path, pooling):
    width = None if pooling == "distilled" else 20
    spec = dataclasses.replace(small_spec, pooling=pooling, representation_dim=width)
    model = randomised(keras_vit.ViT(spec, 5, (16, 24)))
    keras_vit.save_weights(model, tmp_path / "weights.npz")
    again = keras_vit.ViT(spec, 5, (16, 24))
    keras_vit.load_weights(again, tmp_path / "weights.npz")
    for one, other in zip(model.weights, again.weights, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def test_missing_unexpected_and_misshapen_weights_are_listed_and_none_is_loaded(
    model, saved, rewrite
):
    def change(arrays):
        del arrays["cls"]
        arrays["extra"] = np.zeros(3, np.float32)
        arrays["head/bias"] = np.zeros(6, np.float32)

    rewrite(saved, change)
    before = model.get_weights()
    with pytest.raises(keras_vit.UsageError) as caught:
        keras_vit.load_weights(model, saved)
    lines = str(caught.value).splitlines()[2:]
    assert lines == [
        "  - cls (1, 1, 48)",
        "  + extra",
        "  ! head/bias (6,), the model's is (5,)",
    ]
    for one, other in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.flavours
def test_head_reset_starts_at_zero(small_spec, saved, randomised):
    other = randomised(keras_vit.ViT(small_spec, 3, 16, head_bias=-10.0))
    assert np.asarray(other.get_layer("head").kernel).any()
    assert keras_vit.load_weights(other, saved, head="reset").head == "reset"
    np.testing.assert_array_equal(np.asarray(other.get_layer("head").bias), [-10.0] * 3)
    other = randomised(keras_vit.ViT(small_spec, 3, 16))
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


def test_absent_file_and_foreign_model_are_named(model, tmp_path):
    with pytest.raises(keras_vit.UsageError, match="there is no such file"):
        keras_vit.load_weights(model, tmp_path / "none.npz")
    with pytest.raises(keras_vit.UsageError, match="expected a keras_vit.ViT.*Received: object"):
        keras_vit.save_weights(object(), tmp_path / "x.npz")


def test_weights_load_into_a_renamed_model(small_spec, tmp_path):
    other = keras_vit.ViT(small_spec, 5, 16, name="other")
    keras_vit.save_weights(other, tmp_path / "w.npz")
    model = keras_vit.ViT(small_spec, 5, 16)
    keras_vit.load_weights(model, tmp_path / "w.npz")
    for expected, actual in zip(other.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(actual, expected)


def cause(model, path, **options):
    with pytest.raises(keras_vit.UsageError) as caught:
        keras_vit.load_weights(model, path, **options)
    return str(caught.value).splitlines()[0]


def test_the_likely_cause_is_named(small_spec, saved, tmp_path):
    wider = dataclasses.replace(small_spec, hidden_dim=96, num_heads=6)
    assert "hidden_dim 48, not 96; num_heads 3, not 6" in cause(keras_vit.ViT(wider, 5, 16), saved)
    deeper = dataclasses.replace(small_spec, depth=3)
    assert "depth 2, not 3" in cause(keras_vit.ViT(deeper, 5, 16), saved)
    averaged = dataclasses.replace(small_spec, pooling="gap")
    assert "pooling token, not gap" in cause(keras_vit.ViT(averaged, 5, 16), saved)
    distilled = keras_vit.ViT(dataclasses.replace(small_spec, pooling="distilled"), 5, 16)
    assert "pooling token, not distilled" in cause(distilled, saved)
    more = keras_vit.ViT(small_spec, 6, 16)
    assert 'this file has 5 classes, not 6; head="reset"' in cause(more, saved)
    keras_vit.save_weights(keras_vit.ViT(small_spec, 0, 16), tmp_path / "none.npz")
    assert 'no head; head="reset"' in cause(more, tmp_path / "none.npz")
    bit = keras_vit.BiT(keras_vit.ResNetSpec((1, 1, 1, 1), 1), 5, 32)
    assert "this file is another architecture: a ViT, not a BiT ResNet" in cause(bit, saved)


def test_the_likely_cause_is_named_for_a_file_that_does_not_state_its_heads(fixtures, tmp_path):
    alone = tmp_path / "alone.safetensors"
    alone.write_bytes((fixtures / "timm_token.safetensors").read_bytes())
    spec = keras_vit.ViTSpec(8, 48, 2, 4, 96, gelu="erf")
    assert 'this file has 7 classes, not 5; head="reset"' in cause(
        keras_vit.ViT(spec, 5, 32), alone
    )
    keras_vit.load_weights(keras_vit.ViT(spec, 7, 32), alone)


def test_a_published_size_is_called_by_its_name(small_spec, tmp_path):
    keras_vit.save_weights(keras_vit.ViT_Ti16(3), tmp_path / "tiny.npz")
    line = cause(keras_vit.ViT(small_spec, 3, 16), tmp_path / "tiny.npz")
    assert "this file is ViT-Ti_16: hidden_dim 192, not 48; depth 12, not 2" in line
    assert line.endswith("; choose model='ViT-Ti_16'")


def test_a_pre_logits_that_the_model_lacks_is_explained(fixtures):
    model = keras_vit.ViT(keras_vit.ViTSpec(8, 64, 2, 4, 128), 7, 32)
    line = cause(model, fixtures / "vit_token_prelogits.weights.npz")
    assert "build the model with representation_dim=40, or drop it with head=" in line


@pytest.mark.parametrize(
    ("key", "cause_part"),
    [
        ("layer.0.layer_scale1.lambda1", "LayerScale"),
        ("reg_token", "register tokens"),
        ("fc_norm.weight", "normalises after pooling"),
        ("blocks.1.attn.q_norm.weight", "normalises queries and keys"),
        ("embeddings.distillation_token", "only reads in timm's layout"),
    ],
)
def test_unsupported_parts_are_named(fixtures, tmp_path, key, cause_part):
    from safetensors.numpy import load_file, save_file

    arrays = load_file(fixtures / "timm_token.safetensors")
    save_file(arrays | {key: np.zeros(48, np.float32)}, tmp_path / "other.safetensors")
    model = keras_vit.model_from_weights(fixtures / "timm_token.safetensors")
    assert cause_part in cause(model, tmp_path / "other.safetensors")


def test_keys_and_shapes_are_listed_as_the_file_writes_them(fixtures, small_spec):
    spec = dataclasses.replace(small_spec, mlp_dim=128, gelu="erf")
    with pytest.raises(keras_vit.UsageError) as caught:
        keras_vit.load_weights(keras_vit.ViT(spec, 7, 32), fixtures / "timm_token.safetensors")
    lines = str(caught.value).splitlines()
    assert "mlp_dim 96, not 128" in lines[0]
    assert lines[2:] == [
        f"  ! blocks.{i}.mlp.{rest}"
        for i in (0, 1)
        for rest in (
            "fc1.bias (96,), the model's is (128,)",
            "fc1.weight (96, 48), the model's is (128, 48)",
            "fc2.weight (48, 96), the model's is (48, 128)",
        )
    ]


def test_gelu_and_epsilon_stated_in_the_file_must_match_the_model(small_spec, fixtures, tmp_path):
    spec = dataclasses.replace(small_spec, gelu="erf", layer_norm_eps=1e-12)
    keras_vit.save_weights(keras_vit.ViT(spec, 5, 16), tmp_path / "erf.npz")
    for field, expected in (("gelu", "'erf', the model has 'tanh'"), ("layer_norm_eps", "1e-12")):
        other = dataclasses.replace(spec, **{field: getattr(small_spec, field)})
        model = keras_vit.ViT(other, 5, 16)
        assert f"needs {field}={expected}" in cause(model, tmp_path / "erf.npz")
    transformers = keras_vit.ViT(keras_vit.ViTSpec(8, 48, 2, 3, 96), 7, 32)
    assert "needs gelu='erf'" in cause(transformers, fixtures / "hf_classifier.safetensors")
    without_config = tmp_path / "timm.safetensors"  # timm's numerics are known without a config
    without_config.write_bytes((fixtures / "timm_token.safetensors").read_bytes())
    assert "needs gelu='erf'" in cause(transformers, without_config)


def test_num_heads_stated_in_the_config_must_match_the_model(fixtures, tmp_path):
    spec = keras_vit.ViTSpec(8, 48, 2, 4, 96, gelu="erf", layer_norm_eps=1e-12)
    model = keras_vit.ViT(spec, 7, 32)
    line = cause(model, fixtures / "hf_classifier.safetensors")
    assert "needs num_heads=3, the model has 4; build the model with num_heads=3" in line


def test_a_head_of_other_classes_is_refused(small_spec, tmp_path):
    pets = keras_vit.ViT(small_spec, 2, 16, labels=["cat", "dog"])
    keras_vit.save_weights(pets, tmp_path / "pets.npz")
    days = keras_vit.ViT(small_spec, 2, 16, labels=["day", "night"])
    line = cause(days, tmp_path / "pets.npz")
    assert "has other classes ('cat' ...) than the model ('day' ...); head=\"reset\"" in line
    keras_vit.load_weights(days, tmp_path / "pets.npz", head="reset")
    keras_vit.load_weights(keras_vit.ViT(small_spec, 2, 16), tmp_path / "pets.npz")


def test_official_files_need_the_official_numerics(small_spec, fixtures):
    spec = keras_vit.ViTSpec(16, 48, 2, 3, 112)
    for field, value in (("gelu", "erf"), ("layer_norm_eps", 1e-3)):
        model = keras_vit.ViT(dataclasses.replace(spec, **{field: value}), 10, 48)
        line = cause(model, fixtures / "vit_token.weights.npz")
        assert f"needs {field}=" in line


def test_the_record_describes_the_loading(fixtures, small_spec):
    model = keras_vit.ViT(keras_vit.ViTSpec(8, 64, 2, 4, 128), 5, (48, 16))
    report = keras_vit.load_weights(
        model, fixtures / "vit_token_prelogits.weights.npz", head="reset"
    )
    assert str(report) == (
        "38 weights from npz, official; positions 4 x 4 to 6 x 2 (bilinear); dropped head/bias, "
        "head/kernel, pre_logits/bias, pre_logits/kernel"
    )


@pytest.mark.parametrize("method", ["bilinear", "bicubic"])
def test_positions_are_resampled_by_the_chosen_method(fixtures, method):
    model = keras_vit.ViT(keras_vit.ViTSpec(16, 48, 2, 3, 112), 10, (80, 64))
    keras_vit.load_weights(model, fixtures / "vit_token.weights.npz", positions=method)
    table = np.load(fixtures / "vit_token.weights.npz")["Transformer/posembed_input/pos_embedding"]
    expected = resample_positions(table, (3, 3), (5, 4), method=method)
    actual = np.asarray(model.get_layer("patch_encoder").positions)
    np.testing.assert_array_equal(actual, expected)


def test_an_unknown_method_is_refused_even_where_nothing_is_resampled(model, saved):
    assert 'positions must be "bilinear" or "bicubic"' in cause(model, saved, positions="area")


def test_a_grid_that_is_not_square_is_saved(small_spec, randomised, tmp_path):
    # 2 x 8 and 4 x 4 are both 16 positions: only what the file says tells them apart.
    model = randomised(keras_vit.ViT(small_spec, 5, (16, 64)))
    keras_vit.save_weights(model, tmp_path / "wide.npz")
    square = keras_vit.ViT(small_spec, 5, 32)
    report = keras_vit.load_weights(square, tmp_path / "wide.npz")
    assert report.resampled == ("positions 2 x 8 to 4 x 4 (bilinear)",)
    same = keras_vit.ViT(small_spec, 5, (16, 64))
    assert keras_vit.load_weights(same, tmp_path / "wide.npz").resampled == ()
    assert keras_vit.model_from_weights(tmp_path / "wide.npz").image_size == (16, 64)


def test_an_unknown_grid_must_be_square_or_passed(small_spec, tmp_path):
    def mute(size):  # what another program writes: no comment
        path = tmp_path / "mute.npz"
        keras_vit.save_weights(keras_vit.ViT(small_spec, 5, size), path)
        np.savez(path, **dict(np.load(path)))
        return path

    # A table that fits is taken as it is, as in the official code, also where 16 is a square.
    wide = keras_vit.ViT(small_spec, 5, (16, 64))
    assert keras_vit.load_weights(wide, mute((16, 64))).resampled == ()
    report = keras_vit.load_weights(wide, mute(32), grid=(4, 4))
    assert report.resampled == ("positions 4 x 4 to 2 x 8 (bilinear)",)
    report = keras_vit.load_weights(wide, mute(24))
    assert report.resampled == ("positions 3 x 3 to 2 x 8 (bilinear)",)
    rows = keras_vit.ViT(small_spec, 5, (8, 24))
    assert keras_vit.load_weights(rows, mute((8, 24))).resampled == ()
    assert "(1, 7, 48), do not form a square grid; pass grid=" in cause(rows, mute((16, 24)))
    report = keras_vit.load_weights(rows, mute((16, 24)), grid=(2, 3))
    assert report.resampled == ("positions 2 x 3 to 1 x 3 (bilinear)",)


def test_patches_of_another_size_are_resized_only_if_requested(
    small_spec, randomised, tmp_path, rng
):
    model = randomised(keras_vit.ViT(small_spec, 5, 16))
    keras_vit.save_weights(model, tmp_path / "eight.npz")
    twelve = keras_vit.ViT(dataclasses.replace(small_spec, patch_size=12), 5, 24)
    assert "patch_size 8, not 12" in cause(twelve, tmp_path / "eight.npz")
    report = keras_vit.load_weights(twelve, tmp_path / "eight.npz", resize_patches=True)
    assert report.resampled == ("patches 8 x 8 to 12 x 12",)
    # FlexiViT's promise: an image enlarged with its patches gives what it gave before.
    import tensorflow as tf

    images = rng.normal(size=(2, 2, 8, 2, 8, 3)).astype(np.float32)
    larger = np.zeros((2, 2, 12, 2, 12, 3), np.float32)
    for row in range(2):
        for column in range(2):
            patch = images[:, row, :, column]
            larger[:, row, :, column] = tf.image.resize(patch, (12, 12), method="bilinear").numpy()
    before = np.asarray(model(images.reshape(2, 16, 16, 3), training=False))
    after = np.asarray(twelve(larger.reshape(2, 24, 24, 3), training=False))
    np.testing.assert_allclose(after, before, atol=1e-4)


@pytest.mark.parametrize(
    ("kind", "pooling"),
    [
        ("relative", "token"),
        ("learned2d", "distilled"),
        *(
            pytest.param(*p, marks=pytest.mark.slow)
            for p in (("learned2d", "token"), ("learned2d", "gap"), ("relative", "gap"))
        ),
    ],
)
def test_other_positions_are_resampled_too(small_spec, randomised, tmp_path, rng, kind, pooling):
    spec = dataclasses.replace(small_spec, position_embedding=kind, pooling=pooling)
    model = randomised(keras_vit.ViT(spec, 5, (16, 24)))
    keras_vit.save_weights(model, tmp_path / "small.npz")
    larger = keras_vit.ViT(spec, 5, (40, 48))
    report = keras_vit.load_weights(larger, tmp_path / "small.npz")
    assert report.resampled == ("positions 2 x 3 to 5 x 6 (bilinear)",)
    # And back: every other position of the finer grid is an old one where the corners stay.
    finer = keras_vit.ViT(spec, 5, (24, 40))
    keras_vit.load_weights(finer, tmp_path / "small.npz")
    keras_vit.save_weights(finer, tmp_path / "finer.npz")
    again = keras_vit.ViT(spec, 5, (16, 24))
    keras_vit.load_weights(again, tmp_path / "finer.npz")
    images = rng.normal(size=(2, 16, 24, 3)).astype(np.float32)
    np.testing.assert_allclose(np.asarray(again(images)), np.asarray(model(images)), atol=2e-4)


@pytest.mark.flavours
def test_both_classifiers_of_a_distilled_model_are_reset_and_positions_of_both_tokens_kept(
    small_spec, randomised, tmp_path
):
    spec = dataclasses.replace(small_spec, pooling="distilled")
    model = randomised(keras_vit.ViT(spec, 5, 16))
    keras_vit.save_weights(model, tmp_path / "weights.npz")
    other = randomised(keras_vit.ViT(spec, 3, 24, head_bias=-10.0))
    report = keras_vit.load_weights(other, tmp_path / "weights.npz", "reset")
    assert sorted(report.dropped) == [
        "head/bias", "head/kernel", "head_dist/bias", "head_dist/kernel",
    ]  # fmt: skip
    assert report.resampled == ("positions 2 x 2 to 3 x 3 (bilinear)",)
    values = [np.asarray(w) for w in other.get_layer("head").weights]
    assert [np.unique(value).tolist() for value in values] == [[0], [-10], [0], [-10]]
    one, two = (np.asarray(m.get_layer("patch_encoder").positions) for m in (model, other))
    np.testing.assert_array_equal(two[:, :2], one[:, :2])
    assert two.shape == (1, 2 + 9, 48)
