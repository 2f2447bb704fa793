"""Tests of all layers with one harness, then of each layer."""

import functools
import json
import unittest.mock
import warnings

import numpy as np
import pytest

from keras_vit import UsageError, layers
from keras_vit._keras import LEGACY, keras, ops
from keras_vit.encoder.patch_grids import Tokens
from keras_vit.encoder.positions import relative_index, sincos_2d
from keras_vit.layers.std_conv import BIT_CONV

pytestmark = pytest.mark.flavours

PATCHES, TOKENS, MAP = (6, 192), (7, 48), (6, 7, 8)
GRID, RELATIVE = {"grid": (2, 3)}, {"grid": (2, 3), "position_embedding": "relative"}
TURNED = {"grid": (2, 3), "rotation": "dinov3", "query_bias": False, "key_bias": False}
RATES = {"dropout": 0.1, "attention_dropout": 0.1, "drop_path": 0.1, "layer_norm_eps": 1e-12}


def row(shape, layer, *arguments, **keywords):
    """A layer's constructor, and the shape of its input."""
    return functools.partial(layer, *arguments, **keywords), shape


LAYERS = {
    "patches": row((24, 16, 3), layers.Patches, 8),
    "encoder": row(PATCHES, layers.PatchEncoder, 48),
    "encoder_gap": row(PATCHES, layers.PatchEncoder, 48, class_token=False),
    "encoder_bare": row(PATCHES, layers.PatchEncoder, 48, position_embedding="none"),
    "encoder_2d": row(PATCHES, layers.PatchEncoder, 48, position_embedding="learned2d", **GRID),
    "encoder_distilled": row(PATCHES, layers.PatchEncoder, 48, distillation_token=True),
    "encoder_registers": row(PATCHES, layers.PatchEncoder, 48, registers=4),
    "encoder_normed": row(PATCHES, layers.PatchEncoder, 48, embedding_norm=True, patch_bias=False),
    "encoder_waves": row(PATCHES, layers.PatchEncoder, 48, position_embedding="sincos2d", **GRID),
    "attention": row(TOKENS, layers.MultiHeadAttention, 3),
    "attention_relative": row(TOKENS, layers.MultiHeadAttention, 3, class_token=True, **RELATIVE),
    "attention_turned": row(TOKENS, layers.MultiHeadAttention, 3, class_token=True, **TURNED),
    "attention_normed": row(TOKENS, layers.MultiHeadAttention, 3, qk_norm=True),
    "mlp": row(TOKENS, layers.MLP, 112),
    "mlp_erf": row(TOKENS, layers.MLP, 112, activation="erf"),
    "mlp_gated": row(TOKENS, layers.MLP, 112, activation="silu", mlp_kind="gated"),
    "mlp_normed": row(TOKENS, layers.MLP, 112, mlp_kind="gated_norm", layer_norm_eps=1e-5),
    "mlp_quick": row(TOKENS, layers.MLP, 112, activation="quick"),
    "stochastic_depth": row(TOKENS, layers.StochasticDepth, 0.5),
    "block": row(TOKENS, layers.TransformerBlock, 3, 112),
    "block_scale": row(TOKENS, layers.TransformerBlock, 3, 112, layer_scale=1e-5),
    "block_normed": row(TOKENS, layers.TransformerBlock, 3, 112, qk_norm=True),
    "block_turned": row(TOKENS, layers.TransformerBlock, 3, 112, mlp_kind="gated_norm", **TURNED),
    "block_dropout": row(TOKENS, layers.TransformerBlock, 3, 112, **RATES),
    "block_relative": row((6, 48), layers.TransformerBlock, 3, 112, **RELATIVE),
    "queries": row(TOKENS, layers.QueryTokens, 7),
    "std_conv": row(MAP, layers.StdConv, 16, 3, strides=2),
    "std_conv_symmetric": row(MAP, layers.StdConv, 16, 3, 2, **BIT_CONV),
    "group_norm": row(MAP, layers.GroupNorm, 4),
    "residual_unit": row((4, 5, 128), layers.ResidualUnit, 32),
    "residual_unit_smaller": row((4, 5, 64), layers.ResidualUnit, 32, strides=2),
    "pre_activation_unit": row((4, 5, 128), layers.PreActivationUnit, 32),
    "pre_activation_unit_smaller": row((4, 5, 64), layers.PreActivationUnit, 32, strides=2),
    "token": row(TOKENS, layers.TokenPooling),
    "distilled": row(TOKENS, layers.DistilledPooling),
    "distilled_head": row((96,), layers.DistilledHead, 5, bias_initializer="ones"),
    "average": row(TOKENS, layers.AveragePooling),
    "average_registers": row(TOKENS, layers.AveragePooling, 4),
    "token_mean": row(TOKENS, layers.TokenMeanPooling, 5),
    "map": row(TOKENS, layers.MAPPooling, 3, 112),
}


@pytest.fixture(params=LAYERS)
def case(request, rng):
    build, shape = LAYERS[request.param]
    return build, rng.normal(size=(2, *shape)).astype(np.float32)


def test_symbolic_eager_and_computed_shapes_agree(case):
    build, x = case
    layer = build()
    symbolic = layer(keras.Input(x.shape[1:]))
    eager = layer(x)
    assert tuple(symbolic.shape)[1:] == tuple(eager.shape)[1:]
    if type(layer).compute_output_shape is not keras.layers.Layer.compute_output_shape:
        assert tuple(layer.compute_output_shape(x.shape)) == tuple(eager.shape)
    if not LEGACY:
        computed = layer.compute_output_spec(keras.KerasTensor(x.shape, "float32"))
        assert (computed.shape, computed.dtype) == (tuple(eager.shape), "float32")


def test_weights_do_not_depend_on_how_a_layer_is_built(case):
    build, x = case
    by_shape, by_call, by_symbol = build(), build(), build()
    by_shape.build(x.shape)
    by_call(x)
    by_symbol(keras.Input(x.shape[1:]))
    weights = [(tuple(w.shape), w.dtype) for w in by_shape.weights]
    for layer in (by_shape, by_call, by_symbol):
        assert layer.built
        assert not layer.non_trainable_weights
        assert [(tuple(w.shape), w.dtype) for w in layer.weights] == weights
        names = [w.name if LEGACY else w.path for w in layer.weights]
        assert len(set(names)) == len(names)


def test_config_builds_the_same_layer(case):
    layer = case[0]()
    for config in (layer.get_config(), json.loads(json.dumps(layer.get_config()))):
        again = type(layer).from_config(config)
        assert _attributes(again) == _attributes(layer)
        assert json.dumps(again.get_config()) == json.dumps(layer.get_config())


def test_a_saved_model_with_the_layer_gives_the_same_outputs(case, tmp_path):
    build, x = case
    inputs = keras.Input(x.shape[1:])
    model = keras.Model(inputs, build()(inputs))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(np.asarray(model(x)), np.asarray(again(x)))


def test_every_weight_gets_a_gradient(case, rng, randomised):
    import tensorflow as tf

    build, x = case
    inputs, layer = keras.Input(x.shape[1:]), build()
    model = randomised(keras.Model(inputs, layer(inputs)))  # a fresh unit's last scale is zero
    with tf.GradientTape() as tape:
        y = model(x, training=True)
        loss = tf.reduce_sum(y * rng.normal(size=y.shape).astype(np.float32))
    gradients = tape.gradient(loss, layer.trainable_weights)
    for weight, gradient in zip(layer.trainable_weights, gradients, strict=True):
        assert gradient is not None, weight.name
        assert np.any(np.asarray(gradient)), weight.name


@pytest.mark.slow
def test_layers_of_every_kind_train_under_xla_for_several_steps_at_once(rng):
    names = ("encoder_2d", "block_relative", "block_dropout", "map")
    names += ("residual_unit_smaller", "pre_activation_unit_smaller", "std_conv_symmetric")
    inputs = [keras.Input(LAYERS[name][1]) for name in names]
    outputs = [LAYERS[name][0]()(x) for name, x in zip(names, inputs, strict=True)]
    merged = keras.layers.Concatenate()([keras.layers.Flatten()(y) for y in outputs])
    model = keras.Model(inputs, keras.layers.Dense(1)(merged))
    before = model.get_weights()
    optimizer = keras.optimizers.SGD(0.01)
    model.compile(optimizer=optimizer, loss="mse", jit_compile=True, steps_per_execution=2)
    x = [rng.normal(size=(2, *LAYERS[name][1])).astype(np.float32) for name in names]
    model.fit(x, np.ones((2, 1), np.float32), batch_size=1, verbose=0)
    assert int(optimizer.iterations) == 2
    moved = [np.abs(a - b).max() for a, b in zip(model.get_weights(), before, strict=True)]
    assert np.isfinite(moved).all()
    # In a new residual unit, weights before the scale of zero have no gradient yet.
    assert np.mean(np.array(moved) > 0) > 0.8


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16", "bfloat16"])
def test_layer_and_sublayers_compute_in_the_policy(case, policy):
    build, x = case
    policy = keras.mixed_precision.Policy(policy)
    config = {**build().get_config(), "dtype": policy}
    layer = type(build()).from_config(config)
    y = layer(x)  # float32, which the layer casts
    assert policy.compute_dtype in str(y.dtype)
    assert np.isfinite(np.asarray(ops.cast(y, "float32"))).all()
    if not LEGACY:
        assert layer.compute_output_spec(ops.convert_to_tensor(x)).dtype == policy.compute_dtype
    assert all(policy.variable_dtype in str(w.dtype) for w in layer.weights)
    below = [each for each in layer._flatten_layers() if each.name != "head"]
    assert {each.compute_dtype for each in below} == {policy.compute_dtype}
    assert {each.variable_dtype for each in below} == {policy.variable_dtype}


@pytest.mark.skipif(LEGACY, reason="tf_keras has no quantize")
def test_int8_quantisation_gives_no_warning_and_similar_outputs(case):
    build, x = case
    inputs = keras.Input(x.shape[1:])
    layer = build()
    model = keras.Model(inputs, layer(inputs))
    expected = np.asarray(model(x, training=False))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.quantize("int8")
    warned = [n for n in layers.__all__ if any(f"Layer {n} " in str(w.message) for w in caught)]
    assert not warned
    dense = [each for each in layer._flatten_layers() if isinstance(each, keras.layers.Dense)]
    assert all(each.quantization_mode == "int8" for each in dense)
    actual = np.asarray(model(x, training=False))
    assert np.abs(actual - expected).max() <= 0.05 * np.abs(expected).max()
    assert (actual != expected).any() == bool(dense)


def test_patches_crop_pixels_that_do_not_fill_a_patch_and_refuse_other_images(rng):
    images = rng.normal(size=(2, 25, 23, 3)).astype(np.float32)
    patches = layers.Patches(8)
    actual = np.asarray(patches(images))
    np.testing.assert_array_equal(actual, np.asarray(layers.Patches(8)(images[:, :24, :16])))
    with pytest.raises(ValueError, match="expected axis -1 of input shape to have value 3"):
        patches(images[..., :1])
    with pytest.raises(UsageError, match="smaller than patch_size=16. Received: 12 x 32"):
        layers.Patches(16)(np.zeros((1, 12, 32, 3), np.float32))
    with pytest.raises(UsageError, match="of known size"):
        layers.Patches(16).compute_output_shape((None, None, 32, 3))


def test_an_encoder_saved_before_there_was_a_distillation_token_has_none():
    config = layers.PatchEncoder(4).get_config()
    del config["distillation_token"]
    layer = layers.PatchEncoder.from_config(config)
    assert layer(np.zeros((1, 2, 3), np.float32)).shape == (1, 3, 4)


@pytest.mark.skipif(LEGACY, reason="tf_keras has no fused attention")
@pytest.mark.parametrize("tokens", [8, 9])
def test_gradients_of_an_odd_number_of_tokens_do_not_use_fused_attention(rng, monkeypatch, tokens):
    attention = unittest.mock.Mock(side_effect=lambda query, *_, **__: query)
    monkeypatch.setattr(keras.ops, "dot_product_attention", attention)
    layer = layers.MultiHeadAttention(2)
    x = rng.normal(size=(1, tokens, 8)).astype("float32")
    layer(x, training=True)
    layer(x, training=False)
    asked = [call.kwargs["flash_attention"] for call in attention.call_args_list]
    assert asked == [False if tokens == 9 else None, None]


@pytest.mark.parametrize("position_embedding", ["none", "relative"])
def test_fused_and_explicit_attention_are_the_softmax_of_scaled_products(rng, position_embedding):
    layer = layers.MultiHeadAttention(3, 0.0, position_embedding, (2, 3), class_token=True)
    x = rng.normal(size=(2, 7, 48)).astype(np.float32)
    layer.build(x.shape)
    heads = [
        np.asarray(projection(x)).reshape(2, 7, 3, 16).transpose(0, 2, 1, 3)
        for projection in (layer.query, layer.key)
    ]
    logits = heads[0] @ heads[1].transpose(0, 1, 3, 2) / 4
    if position_embedding == "relative":
        table = rng.normal(size=(3 * 5 + 3, 3)).astype(np.float32)
        layer.relative_position_bias.assign(table)
        logits += table[relative_index(Tokens((2, 3), 1))].transpose(2, 0, 1)
    explicit, weights = layer(x, training=False, return_attention_scores=True)
    expected = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    np.testing.assert_allclose(np.asarray(weights), expected, atol=1e-5)
    np.testing.assert_allclose(np.asarray(layer(x)), np.asarray(explicit), atol=1e-5)


def test_column_and_row_tables_are_concatenated_and_not_added_to_the_class_token():
    layer = layers.PatchEncoder(4, position_embedding="learned2d", grid=(2, 3))
    layer(np.zeros((1, 6, 5), np.float32))
    layer.class_token.assign(np.full((1, 1, 4), 10.0))
    layer.columns.assign([[0, 0], [1, 1], [2, 2]])
    layer.rows.assign([[0, 5], [0, 6]])
    actual = np.asarray(layer(np.zeros((1, 6, 5), np.float32)))[0]
    np.testing.assert_array_equal(actual[0], 10)
    columns, rows = [0, 1, 2, 0, 1, 2], [5, 5, 5, 6, 6, 6]
    expected = [[c, c, 0, r] for c, r in zip(columns, rows, strict=True)]
    np.testing.assert_array_equal(actual[1:], expected)


def test_fixed_positions_are_not_added_to_the_class_token_and_are_not_a_weight():
    layer = layers.PatchEncoder(8, position_embedding="sincos2d", grid=(2, 3))
    actual = np.asarray(layer(np.zeros((1, 6, 5), np.float32)))[0]
    assert not actual[0].any()
    np.testing.assert_allclose(actual[1:], sincos_2d((2, 3), 8), atol=1e-6)
    assert len(layer.weights) == 3  # kernel, bias, class token


def test_group_norm_keeps_float32_statistics_in_half_precision(rng):
    # Squares of values around 30000 overflow in float16, and bfloat16 rounds the deviations away.
    x = (30_000 + 256 * rng.integers(-8, 9, size=(2, 8, 8, 8))).astype(np.float32)
    expected = np.asarray(layers.GroupNorm(4)(x))
    for dtype in ("mixed_float16", "mixed_bfloat16"):
        layer = layers.GroupNorm(4, dtype=keras.mixed_precision.Policy(dtype))
        actual = np.asarray(ops.cast(layer(ops.cast(x, layer.compute_dtype)), "float32"))
        np.testing.assert_allclose(actual, expected, atol=0.05)


def test_kernels_are_standardised_in_float32_under_mixed_precision(rng):
    # The mean is much larger than the deviations, so rounding to bfloat16 first would lose them.
    kernel = (100 + rng.normal(size=(1, 1, 64, 5))).astype(np.float32)
    x = np.eye(64, dtype=np.float32).reshape(64, 1, 1, 64)
    actual = []
    for policy in ("float32", "mixed_bfloat16"):
        layer = layers.StdConv(5, 1, dtype=keras.mixed_precision.Policy(policy))
        layer.build((None, 1, 1, 64))
        layer.set_weights([kernel])
        actual.append(np.asarray(ops.cast(layer(ops.cast(x, layer.compute_dtype)), "float32")))
    np.testing.assert_allclose(actual[1], actual[0], atol=0.02)


def test_fresh_residual_unit_returns_the_residual(rng):
    x = rng.normal(size=(2, 4, 5, 128)).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(layers.ResidualUnit(32)(x)), np.maximum(x, 0))


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


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: layers.MLP(8, activation="relu"), "activation must be one of tanh, erf"),
        (lambda: layers.MLP(0), "mlp_dim must be a positive integer"),
        (lambda: layers.PatchEncoder(8, position_embedding="lerned"), "must be one of learned"),
        (lambda: layers.MultiHeadAttention(2.5), "num_heads must be a positive integer"),
        (lambda: layers.StochasticDepth(0.1, noise_shape=(None, 7, 1)), "one draw per example"),
        (
            lambda: layers.GroupNorm().build((1, 4, 4, 48)),
            "groups=32 does not divide the channels. Received: 48",
        ),
        (lambda: layers.DistilledHead(3).build((None, 7)), "two halves.* Received: 7 channels"),
    ],
)
def test_layers_refuse(build, message):
    with pytest.raises(UsageError, match=message):
        build()


@pytest.mark.parametrize("kind", ["learned2d", "sincos2d", "relative"])
def test_grid_positions_need_the_grid(kind):
    layer = layers.MultiHeadAttention if kind == "relative" else layers.PatchEncoder
    with pytest.raises(UsageError, match=f"position_embedding='{kind}' needs the patches' grid"):
        layer(8, position_embedding=kind)


def test_attention_refuses_heads_that_do_not_divide_the_width():
    with pytest.raises(ValueError, match="num_heads=5 does not divide the width 48"):
        layers.MultiHeadAttention(5)(np.zeros((1, 7, 48), np.float32))


def test_layers_accept_numpy_numbers():
    for layer in (
        layers.MLP(np.int64(8)),
        layers.MultiHeadAttention(np.int64(2), grid=(np.int64(2), 3.0)),
        layers.Patches(np.float32(8)),
        layers.GroupNorm(np.int64(4)),
        layers.ResidualUnit(np.int64(32), np.int64(2)),
        layers.PatchEncoder(np.int64(48), grid=(np.int64(2), 3)),
    ):
        json.dumps(layer.get_config())


def test_attention_scores_are_built_again_from_their_configuration(rng):
    block = layers.TransformerBlock(3, 112, layer_scale=0.1, name="block")
    scores, x = layers.AttentionScores(block), rng.normal(size=(2, 7, 48)).astype(np.float32)
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(scores)))
    again = keras.saving.deserialize_keras_object(config)
    assert again.block.get_config() == block.get_config()
    assert tuple(again(x).shape) == tuple(scores(x).shape) == (2, 3, 7, 7)
    assert again.compute_output_shape((2, 7, 48)) == (2, 3, 7, 7)
    again.set_weights(scores.get_weights())
    np.testing.assert_array_equal(np.asarray(again(x)), np.asarray(scores(x)))


def _attributes(layer):
    # Python adds __annotations__ to a class when it is first read.
    return set(dir(layer)) - {"__annotations__"}
