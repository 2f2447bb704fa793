"""ViT models: parity with the reference; poolings, position embeddings and policies; saving."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import keras_vit
from keras_vit._keras import keras
from keras_vit.parts.poolings import POOLINGS
from keras_vit.parts.positions import POSITION_EMBEDDINGS

FIXTURES = {
    "vit_token": ("vit_token", 10, 48, {}),
    "vit_token_unpooled": ("vit_token", 10, 48, {"pooling": "none"}),
    "vit_token_prelogits": (
        "vit_token_prelogits",
        7,
        32,
        {
            "patch_size": 8,
            "hidden_dim": 64,
            "mlp_dim": 128,
            "num_heads": 4,
            "representation_dim": 40,
        },
    ),
}


@pytest.fixture(params=FIXTURES)
def reference(request, fixtures):
    weights, num_classes, image_size, changes = FIXTURES[request.param]
    spec = {"patch_size": 16, "hidden_dim": 48, "depth": 2, "num_heads": 3, "mlp_dim": 112}
    model = keras_vit.ViT(keras_vit.ViTSpec(**{**spec, **changes}), num_classes, image_size)
    keras_vit.load_weights(model, fixtures / f"{weights}.weights.npz")
    return model, np.load(fixtures / f"{request.param}.io.npz")


@pytest.mark.flavours
def test_logits_equal_the_reference(reference):
    model, expected = reference
    logits = model.predict(expected["images"], verbose=0)
    np.testing.assert_allclose(logits, expected["logits"], atol=2e-5, rtol=0)


@pytest.mark.flavours
def test_intermediate_outputs_equal_the_reference(reference):
    model, expected = reference
    outputs = model.intermediates("encoded", "pre_logits")(expected["images"])
    for name in ("encoded", "pre_logits"):
        actual = np.asarray(outputs[name])
        np.testing.assert_allclose(actual, expected[name], atol=5e-5, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("mistake", [{"gelu": "erf"}, {"layer_norm_eps": 1e-3}])
def test_the_tolerance_detects_a_wrong_gelu_and_epsilon(fixtures, mistake):
    spec = {"patch_size": 16, "hidden_dim": 48, "depth": 2, "num_heads": 3, "mlp_dim": 112}
    model = keras_vit.ViT(keras_vit.ViTSpec(**spec, **mistake), 10, 48)
    right = keras_vit.ViT(keras_vit.ViTSpec(**spec), 10, 48)
    keras_vit.load_weights(right, fixtures / "vit_token.weights.npz")
    model.set_weights(right.get_weights())  # load_weights would refuse the mistake
    expected = np.load(fixtures / "vit_token.io.npz")
    logits = model.predict(expected["images"], verbose=0)
    assert np.abs(logits - expected["logits"]).max() > 2e-5


@pytest.mark.parametrize("pooling", POOLINGS)
def test_shapes_of_every_named_intermediate_output(small_spec, rng, pooling):
    width = None if pooling == "distilled" else 20
    spec = dataclasses.replace(small_spec, pooling=pooling, representation_dim=width)
    model = keras_vit.ViT(spec, 5, image_size=(16, 24))
    tokens = 6 + {"token": 1, "distilled": 2, "none": 1}.get(pooling, 0)
    actual = model.intermediates(*model.intermediate_names)(np.zeros((2, 16, 24, 3), np.float32))
    shapes = {name: tuple(tensor.shape) for name, tensor in actual.items()}
    head = (2, tokens) if pooling == "none" else (2,)
    assert shapes == {
        "patch_embeddings": (2, 6, 48),
        "embedded": (2, tokens, 48),
        "attention_0": (2, 3, tokens, tokens),
        "encoderblock_0": (2, tokens, 48),
        "attention_1": (2, 3, tokens, tokens),
        "encoderblock_1": (2, tokens, 48),
        "encoded": (2, tokens, 48),
        "pre_logits": (*head, width or 2 * 48),
        "logits": (*head, 5),
    }


@pytest.mark.parametrize("kind", POSITION_EMBEDDINGS)
@pytest.mark.parametrize("pooling", ["token", "gap"])
def test_moved_patches_change_the_logits_unless_there_are_no_positions(
    small_spec, randomised, rng, kind, pooling
):
    spec = dataclasses.replace(small_spec, position_embedding=kind, pooling=pooling)
    model = randomised(keras_vit.ViT(spec, 5, (16, 24)))
    images = rng.normal(size=(1, 16, 24, 3)).astype(np.float32)
    moved = np.roll(images, 8, axis=2)  # by one patch
    difference = np.abs(np.asarray(model(images)) - np.asarray(model(moved))).max()
    assert difference < 1e-5 if kind == "none" else difference > 1e-3


@pytest.mark.flavours
@pytest.mark.parametrize("kind", POSITION_EMBEDDINGS)
def test_saved_model_keeps_its_positions(small_spec, randomised, rng, tmp_path, kind):
    spec = dataclasses.replace(small_spec, position_embedding=kind)
    labels = ("a", "b", "c")
    model = randomised(keras_vit.ViT(spec, 3, (16, 24), labels=labels))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    images = rng.normal(size=(2, 16, 24, 3)).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(model(images)), np.asarray(again(images)))
    assert (again.spec, again.labels) == (spec, labels)


@pytest.mark.flavours
def test_attention_scores_contain_relative_positions_despite_attention_dropout(
    small_spec, randomised, rng
):
    changes = {"position_embedding": "relative", "attention_dropout": 0.5}
    model = randomised(keras_vit.ViT(dataclasses.replace(small_spec, **changes), 5, (16, 24)))
    images = rng.normal(size=(2, 16, 24, 3)).astype(np.float32)
    attention = np.asarray(model.intermediates("attention_0")(images)["attention_0"])
    table = model.get_layer("encoderblock_0").attention.relative_position_bias
    table.assign(np.zeros(tuple(table.shape)))
    without = np.asarray(model.intermediates("attention_0")(images)["attention_0"])
    assert np.abs(attention - without).max() > 1e-3


@pytest.mark.flavours
def test_intermediate_attention_scores_are_those_of_the_block(small_spec, rng, randomised):
    model = randomised(keras_vit.ViT(small_spec, 5, 32))
    images = rng.normal(size=(2, 32, 32, 3)).astype(np.float32)
    outputs = model.intermediates("embedded", "attention_0")(images)
    block = model.get_layer("encoderblock_0")
    y = np.asarray(block.norm_attention(outputs["embedded"]))
    heads = [
        np.asarray(projection(y)).reshape(2, 17, 3, 16).transpose(0, 2, 1, 3)
        for projection in (block.attention.query, block.attention.key)
    ]
    logits = heads[0] @ heads[1].transpose(0, 1, 3, 2) / 4
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(np.asarray(outputs["attention_0"]), weights, atol=1e-5)


def test_unknown_intermediate_output_names_the_nearest(small_spec):
    with pytest.raises(keras_vit.UsageError, match="did you mean attention_0"):
        keras_vit.ViT(small_spec, 5, 32).intermediates("atention_0")


@pytest.mark.flavours
def test_fresh_head_gives_uniform_predictions(small_spec, rng):
    model = keras_vit.ViT(small_spec, 5, 32)
    assert not model.predict(rng.normal(size=(2, 32, 32, 3)), verbose=0).any()


@pytest.mark.flavours
def test_head_bias_is_the_sigmoid_prior(small_spec):
    model = keras_vit.ViT(small_spec, 5, 32, head_bias=-10.0)
    np.testing.assert_array_equal(model.predict(np.zeros((1, 32, 32, 3)), verbose=0), -10)


@pytest.mark.flavours
def test_no_classes_gives_the_representation(small_spec):
    for pooling, width in (("token", 48), ("distilled", 2 * 48)):
        spec = dataclasses.replace(small_spec, pooling=pooling)
        model = keras_vit.ViT(spec, num_classes=0, image_size=32)
        assert tuple(model.output.shape)[1:] == (width,)


@pytest.mark.flavours
def test_both_classifiers_of_a_distilled_model_start_at_zero_with_the_bias(small_spec, rng):
    spec = dataclasses.replace(small_spec, pooling="distilled")
    model = keras_vit.ViT(spec, 3, 16, head_bias=-10.0, dtype="mixed_bfloat16")
    images = rng.normal(size=(2, 16, 16, 3)).astype(np.float32)
    both = model.get_layer("head")(keras.Model(model.input, model.features)(images), both=True)
    np.testing.assert_array_equal(np.asarray(both), np.full((2, 2, 3), -10, np.float32))
    assert np.asarray(model(images)).dtype == np.float32


@pytest.mark.flavours
@pytest.mark.parametrize("pooling", ["token", "map", "distilled"])
def test_saved_model_gives_the_same_logits(small_spec, rng, randomised, tmp_path, pooling):
    spec = dataclasses.replace(small_spec, pooling=pooling, gelu="erf", dropout=0.1, drop_path=0.1)
    model = randomised(keras_vit.ViT(spec, 5, image_size=(16, 24), name="mine"))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    images = rng.normal(size=(2, 16, 24, 3)).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(model(images)), np.asarray(again(images)))
    assert (type(again), again.spec, again.name) == (keras_vit.ViT, spec, "mine")
    assert again.preprocessing == model.preprocessing


@pytest.mark.flavours
@pytest.mark.parametrize(
    "pooling",
    [
        *("map", "distilled"),
        *(pytest.param(p, marks=pytest.mark.slow) for p in ("token", "gap", "none")),
    ],
)
def test_every_weight_learns(small_spec, rng, pooling):
    width = None if pooling == "distilled" else 20
    spec = dataclasses.replace(small_spec, pooling=pooling, representation_dim=width, drop_path=0.1)
    model = keras_vit.ViT(spec, 3, 16)
    images = rng.normal(size=(8, 16, 16, 3)).astype(np.float32)
    optimizer = keras.optimizers.Adam(1e-3)
    model.compile(optimizer=optimizer, loss=_crossentropy(), run_eagerly=True)
    before = [np.asarray(v).copy() for v in model.trainable_variables]
    shape = (8, 4 + spec.class_token) if pooling == "none" else (8,)
    targets = rng.integers(0, 3, shape)
    model.fit(images, targets, epochs=3, batch_size=8, verbose=0)
    still = [
        v.name
        for v, old in zip(model.trainable_variables, before, strict=True)
        if np.array_equal(np.asarray(v), old)
    ]
    assert not still


@pytest.mark.flavours
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_stays_near_float32(small_spec, rng, randomised, tmp_path, policy):
    model = randomised(keras_vit.ViT(small_spec, 5, 32))
    keras_vit.save_weights(model, tmp_path / "weights.npz")
    keras.mixed_precision.set_global_policy(policy)
    try:
        mixed = keras_vit.ViT(small_spec, 5, 32)
    finally:
        keras.mixed_precision.set_global_policy("float32")
    keras_vit.load_weights(mixed, tmp_path / "weights.npz")
    images = rng.normal(size=(2, 32, 32, 3)).astype(np.float32)
    logits = np.asarray(mixed(images, training=False))
    assert logits.dtype == np.float32
    expected = np.asarray(model(images, training=False))
    assert 0 < np.abs(logits - expected).max() < 0.05 * np.abs(expected).max()
    assert "float32" not in str(mixed.get_layer("encoderblock_0").output.dtype)


@pytest.mark.flavours
@pytest.mark.slow
def test_learns_to_distinguish_two_colours(small_spec):
    images = np.zeros((32, 16, 16, 3), np.float32)
    targets = np.arange(32) % 2
    images[targets == 1, ..., 0] = 1
    model = keras_vit.ViT(small_spec, 2, 16)
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)  # in the graph it would take twice as long
    model.compile(optimizer=optimizer, loss=_crossentropy(), metrics=["accuracy"])
    losses = model.fit(images, targets, epochs=6, batch_size=8, verbose=0).history["loss"]
    assert losses[-1] < 0.2 < 0.6 < losses[0]


def test_drop_path_rises_linearly(small_spec):
    spec = dataclasses.replace(small_spec, depth=5, drop_path=0.2)
    model = keras_vit.ViT(spec, 2, 16)
    rates = [model.get_layer(f"encoderblock_{i}").drop_path for i in range(5)]
    assert rates == pytest.approx([0, 0.05, 0.1, 0.15, 0.2])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"image_size": 30}, "multiple of patch_size=8. Received: 30 x 30; the nearest is 32 x 32"),
        ({"image_size": (16, 20)}, "Received: 16 x 20; the nearest is 16 x 16"),
        ({"image_size": (16, 16, 3)}, "positive integer, or .height, width."),
        ({"image_size": 0}, "must be a positive integer"),
        ({"num_classes": -1}, "num_classes must be 0"),
        ({"labels": ["a"]}, "labels must name each of the 2 classes. Received: 1 labels"),
        ({"num_classes": 2.5}, "num_classes must be 0"),
        (
            {"preprocessing": keras_vit.Preprocessing(16, 16), "image_size": 32},
            "preprocessing must be for image_size=32 x 32",
        ),
    ],
)
def test_refuses(small_spec, arguments, message):
    with pytest.raises(keras_vit.UsageError, match=message):
        keras_vit.ViT(small_spec, **{"num_classes": 2, **arguments})


def _crossentropy():
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@pytest.mark.flavours
def test_the_epsilon_reaches_every_layer_norm(small_spec):
    model = keras_vit.ViT(
        dataclasses.replace(small_spec, layer_norm_eps=1e-12, pooling="map"), 2, 16
    )
    norms = [model.get_layer("encoder_norm"), model.get_layer("pooling").norm]
    for i in range(small_spec.depth):
        block = model.get_layer(f"encoderblock_{i}")
        norms += [block.norm_attention, block.norm_mlp]
    assert [norm.epsilon for norm in norms] == [1e-12] * 6
