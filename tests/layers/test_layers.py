"""Every layer through one harness, then what each does on its own."""

from __future__ import annotations

import numpy as np
import pytest

from keras_vit import UsageError, layers
from keras_vit._keras import keras, ops

LAYERS = {
    "patches": (lambda: layers.Patches(8), (24, 16, 3)),
    "encoder": (lambda: layers.PatchEncoder(48), (6, 192)),
    "encoder_gap": (lambda: layers.PatchEncoder(48, class_token=False), (6, 192)),
    "encoder_bare": (lambda: layers.PatchEncoder(48, position_embedding="none"), (6, 192)),
    "attention": (lambda: layers.MultiHeadAttention(3), (7, 48)),
    "mlp": (lambda: layers.MLP(112), (7, 48)),
    "mlp_erf": (lambda: layers.MLP(112, gelu="erf"), (7, 48)),
    "stochastic_depth": (lambda: layers.StochasticDepth(0.5), (7, 48)),
    "block": (lambda: layers.TransformerBlock(3, 112), (7, 48)),
    "block_dropout": (
        lambda: layers.TransformerBlock(
            3, 112, dropout=0.1, attention_dropout=0.1, drop_path=0.1, layer_norm_eps=1e-12
        ),
        (7, 48),
    ),
    "token": (lambda: layers.TokenPooling(), (7, 48)),
    "average": (lambda: layers.AveragePooling(), (7, 48)),
    "map": (lambda: layers.MAPPooling(3, 112), (7, 48)),
}
WITHOUT_WEIGHTS = {"patches", "stochastic_depth", "token", "average"}


@pytest.fixture(params=LAYERS)
def case(request, rng):
    build, shape = LAYERS[request.param]
    return build, rng.normal(size=(2, *shape)).astype(np.float32)


def test_symbolic_shape_is_the_eager_shape(case):
    build, x = case
    layer = build()
    symbolic = layer(keras.Input(x.shape[1:]))
    assert tuple(symbolic.shape)[1:] == tuple(layer(x).shape)[1:]


def test_config_builds_the_same_layer(case):
    build, x = case
    layer = build()
    layer(x)
    again = type(layer).from_config(layer.get_config())
    again(x)
    again.set_weights(layer.get_weights())
    assert again.get_config() == layer.get_config()
    expected = np.asarray(layer(x, training=False) if _has_mode(layer) else layer(x))
    found = np.asarray(again(x, training=False) if _has_mode(again) else again(x))
    np.testing.assert_array_equal(found, expected)


def test_model_with_layer_survives_saving(case, tmp_path):
    build, x = case
    inputs = keras.Input(x.shape[1:])
    model = keras.Model(inputs, build()(inputs))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(model.predict(x, verbose=0), again.predict(x, verbose=0))


@pytest.mark.parametrize("name", sorted(LAYERS.keys() - WITHOUT_WEIGHTS))
def test_every_weight_gets_a_gradient(name, rng):
    build, shape = LAYERS[name]
    x = rng.normal(size=(2, *shape)).astype(np.float32)
    layer = build()
    layer(x)
    model = keras.Sequential([keras.Input(x.shape[1:]), layer, keras.layers.Flatten()])
    model.add(keras.layers.Dense(1, kernel_initializer=keras.initializers.RandomNormal(seed=1)))
    before = layer.get_weights()
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse")
    model.fit(x, np.ones((2, 1), np.float32), epochs=2, verbose=0)
    moved = [np.abs(a - b).max() for a, b in zip(layer.get_weights(), before, strict=True)]
    names = [w.name for w in layer.weights]
    still = [n for n, change in zip(names, moved, strict=True) if change == 0]
    assert not still


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_computes_in_the_policy_and_keeps_float32_weights(case, policy):
    _, x = case
    keras.mixed_precision.set_global_policy(policy)
    try:
        layer = case[0]()
        inputs = ops.cast(x, layer.compute_dtype)
        y = layer(inputs)
    finally:
        keras.mixed_precision.set_global_policy("float32")
    assert layer.compute_dtype == policy.removeprefix("mixed_")
    assert policy.removeprefix("mixed_") in str(y.dtype)
    assert all("float32" in str(w.dtype) for w in layer.weights)


def test_patches_match_a_strided_convolution(rng):
    images = rng.normal(size=(2, 24, 16, 3)).astype(np.float32)
    kernel = rng.normal(size=(8, 8, 3, 5)).astype(np.float32)
    conv = keras.layers.Conv2D(5, 8, strides=8, use_bias=False)
    conv.build((None, 24, 16, 3))
    conv.set_weights([kernel])
    found = np.asarray(layers.Patches(8)(images)) @ kernel.reshape(-1, 5)
    expected = np.asarray(conv(images)).reshape(2, 6, 5)  # raster order
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_patches_refuse_a_size_they_do_not_divide():
    with pytest.raises(UsageError, match="patch_size=16 does not divide.*20 x 32"):
        layers.Patches(16)(np.zeros((1, 20, 32, 3), np.float32))


def test_patches_refuse_an_unknown_size():
    with pytest.raises(UsageError, match="of known size"):
        layers.Patches(16).compute_output_shape((None, None, 32, 3))


def test_class_token_stands_first_and_has_its_own_position():
    layer = layers.PatchEncoder(4)
    layer(np.zeros((1, 2, 3), np.float32))
    layer.class_token.assign(np.full((1, 1, 4), 10.0))
    layer.positions.assign(np.arange(12, dtype=np.float32).reshape(1, 3, 4))
    found = np.asarray(layer(np.zeros((1, 2, 3), np.float32)))
    np.testing.assert_array_equal(found[0, 0], [10, 11, 12, 13])
    np.testing.assert_array_equal(found[0, 1:], np.arange(4, 12).reshape(2, 4))


def test_fused_attention_equals_the_explicit_one(rng):
    x = rng.normal(size=(2, 7, 48)).astype(np.float32)
    layer = layers.MultiHeadAttention(3)
    fused = np.asarray(layer(x))
    explicit, weights = layer(x, training=False, return_attention_weights=True)
    np.testing.assert_allclose(fused, np.asarray(explicit), atol=1e-5)
    np.testing.assert_allclose(np.asarray(weights).sum(-1), 1, atol=1e-5)
    assert weights.shape == (2, 3, 7, 7)


def test_attention_refuses_heads_that_do_not_divide_the_width():
    with pytest.raises(ValueError, match="num_heads=5 does not divide the width 48"):
        layers.MultiHeadAttention(5)(np.zeros((1, 7, 48), np.float32))


def test_attention_dropout_acts_in_training_only(rng):
    x = rng.normal(size=(2, 7, 48)).astype(np.float32)
    layer = layers.MultiHeadAttention(3, dropout=0.5)
    still = np.asarray(layer(x, training=False))
    np.testing.assert_array_equal(still, np.asarray(layer(x, training=False)))
    assert np.abs(np.asarray(layer(x, training=True)) - still).max() > 1e-3


def test_stochastic_depth_drops_whole_examples_and_scales_the_rest():
    x = np.ones((64, 5, 6), np.float32)
    y = np.asarray(layers.StochasticDepth(0.25)(x, training=True)).reshape(64, -1)
    assert set(np.round(np.unique(y), 5)) == {0.0, np.float32(1.33333)}
    assert (y == y[:, :1]).all()
    assert 4 < (y[:, 0] == 0).sum() < 30
    np.testing.assert_array_equal(layers.StochasticDepth(0.25)(x, training=False), x)


def test_gelu_follows_its_name():
    x = np.full((1, 1), 2.7, np.float32)
    exact, approximate = (
        _identity_mlp(layers.MLP(1, gelu=gelu))(x, training=False) for gelu in ("erf", "tanh")
    )
    assert float(exact[0, 0]) == pytest.approx(2.6906391, abs=1e-6)
    assert float(exact[0, 0] - approximate[0, 0]) == pytest.approx(-4.73e-4, abs=2e-6)


def test_initialisers_are_the_official_ones():
    layer = layers.TransformerBlock(4, 1024)
    layer.build((None, 10, 256))
    limit = np.sqrt(6 / (256 + 256))
    for name in ("query", "key", "value", "out"):
        kernel = np.asarray(getattr(layer.attention, name).kernel)
        assert 0.98 * limit < np.abs(kernel).max() <= limit
        assert not np.asarray(getattr(layer.attention, name).bias).any()
    kernel = np.asarray(layer.mlp.dense_0.kernel)
    assert np.abs(kernel).max() <= np.sqrt(6 / (256 + 1024))
    assert 0.5e-6 < np.asarray(layer.mlp.dense_0.bias).std() < 2e-6
    encoder = layers.PatchEncoder(256)
    encoder.build((None, 196, 768))
    assert np.asarray(encoder.projection.kernel).std() == pytest.approx(768**-0.5, rel=0.03)
    assert np.asarray(encoder.positions).std() == pytest.approx(0.02, rel=0.03)
    assert not np.asarray(encoder.class_token).any()


def _identity_mlp(mlp):
    mlp.build((None, 1))
    for dense in (mlp.dense_0, mlp.dense_1):
        dense.set_weights([np.ones((1, 1)), np.zeros(1)])
    return mlp


def _has_mode(layer):
    return isinstance(layer, (layers.MLP, layers.StochasticDepth, layers.TransformerBlock))
