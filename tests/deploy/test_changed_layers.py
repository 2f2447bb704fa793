"""A keras_vit model with changed layers is exported without rewrites, and the file is correct."""

import dataclasses
import functools
import random
import threading

import numpy as np
import pytest

import keras_vit
from keras_vit import UsageError, deploy
from keras_vit._keras import LEGACY, keras
from keras_vit.deploy import Runner
from keras_vit.deploy.changed_layers import first_edit
from keras_vit.models.pretrained import model_class
from keras_vit.tflite.flatbuffer import operators

SPEC = keras_vit.ViTSpec(patch_size=8, hidden_dim=48, depth=2, num_heads=3, mlp_dim=64)


@pytest.fixture
def model(trained_like):
    return trained_like(keras_vit.ViT(SPEC, 5, (16, 24)))


class Pruned(keras.layers.Layer):
    """Computes with the largest weights of a Dense layer, as pruning wrappers do."""

    def __init__(self, dense):
        super().__init__()
        self.dense = dense
        kernel = np.array(dense.kernel)
        self.mask = (np.abs(kernel) > np.median(np.abs(kernel))).astype(np.float32)

    def call(self, x):
        return x @ (self.dense.kernel * self.mask) + self.dense.bias


def plain_norm(_):
    norm = keras.layers.LayerNormalization(epsilon=1e-6, center=False, scale=False)
    norm.build((None, 7, 48))
    return norm


def halved(call):
    return lambda x, training=None: 0.5 * call(x, training=training)


ACTIVATION, DENSE = "encoderblock_1.mlp.dense_0.activation", "encoderblock_1/mlp/dense_0"
QUICK = {ACTIVATION, "encoderblock_1.mlp"}
# The attribute of a layer or the layer that is replaced, by what, and the reason that is given.
EDITS = {
    ACTIVATION: (lambda _: keras.activations.relu, f"{DENSE} has activation='relu'"),
    "encoderblock_1.norm_mlp.epsilon": (lambda _: 0.5, "encoderblock_1/norm_mlp has epsilon=0.5"),
    "encoder_norm.epsilon": (lambda _: 0.5, "encoder_norm has epsilon=0.5, not 1e-06"),
    "encoderblock_1.mlp": (lambda _: keras.layers.Lambda(lambda x: 0.1 * x * x), "encoderblock_1"),
    "encoderblock_1.mlp.call": (halved, "encoderblock_1/mlp has another call"),
    "encoderblock_1.mlp.dense_0": (Pruned, f"{DENSE} is a Pruned, not a Dense"),
    "encoderblock_1.mlp.activation": (
        lambda _: "erf",
        "encoderblock_1 has activation='erf', not 'tanh'",
    ),
    "encoderblock_1.norm_attention": (plain_norm, "encoderblock_1/norm_attention has"),
    "head.activation": (lambda _: keras.activations.softplus, "head has activation='softplus'"),
}


def edit(model, place):
    name, *between, attribute = place.split(".")
    parent = functools.reduce(getattr, between, model.get_layer(name))
    if not LEGACY:  # Keras 3 locks the attributes of built layers
        parent._tracker.unlock()
    change, _ = EDITS[place]
    setattr(parent, attribute, change(getattr(parent, attribute)))


@pytest.mark.parametrize(
    "place", [pytest.param(p, marks=() if p in QUICK else pytest.mark.slow) for p in EDITS]
)
def test_an_edited_model_is_exported_as_it_is(place, model, inputs, tmp_path):
    _, note = EDITS[place]
    before = np.asarray(model(inputs, training=False))
    edit(model, place)
    expected = np.asarray(model(inputs, training=False))
    least = 1e-4 if place.endswith("activation") else 0.01  # the two forms of gelu differ little
    assert np.abs(expected - before).max() > least * np.abs(before).max()
    path = tmp_path / "m.tflite"
    with pytest.warns(UserWarning, match="exported as it is, without exact rewrites") as warned:
        verdict = keras_vit.export_tflite(model, path, representative_data=inputs)
    assert note in str(warned[0].message)
    assert warned[0].filename == __file__
    assert not verdict.rewritten
    assert note in verdict.note
    assert verdict.notes() == [f"converted as it is, without exact rewrites: {verdict.note}"]
    found = Runner(path).predict(inputs)
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.flavours
@pytest.mark.slow
def test_an_edited_model_has_its_own_probabilities_and_features(model, inputs, tmp_path):
    def scores(given, **options):
        path = tmp_path / "m.tflite"
        with pytest.warns(UserWarning, match="exported as it is"):
            keras_vit.export_tflite(model, path, representative_data=inputs, **options)
        return Runner(path).predict(given)

    edit(model, ACTIVATION)
    logits = np.asarray(model(inputs, training=False))
    expected = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    pixels = deploy.to_pixels(inputs, model.preprocessing)
    found = scores(pixels, input="uint8", output="probabilities", quantize="int8")
    np.testing.assert_allclose(found, expected, atol=0.1)
    expected = np.asarray(keras.Model(model.input, model.features)(inputs, training=False))
    np.testing.assert_allclose(scores(inputs, output="features"), expected, atol=1e-4)


@pytest.mark.slow
def test_bundles_of_an_edited_model_warn_and_record_the_reason(model, inputs, tmp_path):
    edit(model, ACTIVATION)
    with pytest.warns(UserWarning, match="exported as it is, without exact rewrites") as warned:
        found = deploy.export_bundles(model, tmp_path, "none", inputs, threads=(1,))
    assert warned[0].filename == __file__
    written, _ = deploy.read_bundle(tmp_path / "float32")
    assert written == found.written["float32"]
    note = written["parity"]["note"]
    assert f"{DENSE} has activation='relu'" in note
    assert "note" not in written["half_precision"]
    assert f"without exact rewrites: `{note}`" in (tmp_path / "card.md").read_text()


@pytest.mark.flavours
@pytest.mark.slow
def test_a_changed_layer_class_is_noticed_in_the_scores(model, inputs, tmp_path, monkeypatch):
    # The class itself is changed, so a new model has the same layers.
    monkeypatch.setattr(keras_vit.layers.MLP, "call", lambda self, x, training=None: x)
    assert first_edit(model) == ""
    expected = np.asarray(model(inputs, training=False))
    path = tmp_path / "m.tflite"
    with pytest.warns(UserWarning, match="rebuilt from its spec gives other scores"):
        verdict = keras_vit.export_tflite(model, path, representative_data=inputs)
    assert not verdict.rewritten
    np.testing.assert_allclose(Runner(path).predict(inputs), expected, atol=1e-4)


@pytest.mark.flavours
@pytest.mark.slow
@pytest.mark.parametrize("quantize", [None, "int8"])
def test_rewrite_false_exports_keras_own_graph(model, inputs, tmp_path, quantize):
    path = tmp_path / "m.tflite"
    verdict = keras_vit.export_tflite(model, path, quantize, inputs, rewrite=False)
    assert (verdict.rewritten, verdict.note) == (False, "rewrite=False")
    # Keras' graph contains different operators for a LayerNorm.
    assert "SQUARED_DIFFERENCE" in operators(path.read_bytes())
    assert keras_vit.export_tflite(model, path, quantize, inputs).rewritten
    assert "SQUARED_DIFFERENCE" not in operators(path.read_bytes())


@pytest.mark.flavours
def test_settings_used_only_in_training_are_not_edits(model):
    block = model.get_layer("encoderblock_1")
    model.trainable = False
    block.trainable = True
    block.drop_attention.rate = block.dropout = 0.5
    block.mlp.dense_0.kernel_regularizer = keras.regularizers.L2(0.1)
    model.compile("adam", "mse")
    assert first_edit(model) == ""


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        (keras_vit.ResNetSpec((1, 1, 1, 1)), (32, 64)),
        ({"patch_size": 2, "stem": keras_vit.ResNetStem((1,), 0.5), "activation": "erf"}, (33, 62)),
        ({"pooling": "map", "position_embedding": "learned2d", "drop_path": 0.3}, (16, 24)),
        ({"pooling": "none", "position_embedding": "relative", "dropout": 0.1}, (16, 24)),
    ],
    ids=["bit", "hybrid", "map", "none"],
)
def test_an_unchanged_model_has_no_edit(kind, size):
    spec = dataclasses.replace(SPEC, **kind) if isinstance(kind, dict) else kind
    model = model_class(spec)(spec, 5, size)
    assert first_edit(model) == ""
    assert first_edit(type(model).from_config(model.get_config())) == ""


@pytest.mark.flavours
@pytest.mark.parametrize("threads", [1, 2])
def test_first_edit_restores_the_random_state_of_the_only_thread(model, monkeypatch, threads):
    monkeypatch.setattr(threading, "active_count", lambda: threads)
    before = random.getstate()
    first_edit(model)
    # tf_keras draws nothing from this generator.
    assert (random.getstate() == before) == (threads == 1 or LEGACY)


@pytest.mark.flavours
@pytest.mark.slow
@pytest.mark.skipif(LEGACY, reason="tf_keras has no quantize")
@pytest.mark.parametrize("rewrite", [True, False])
def test_a_model_that_keras_has_quantised_is_refused(model, tmp_path, rewrite):
    # TFLite's converter does not support Keras' integer products.
    model.quantize("int8")
    with pytest.raises(UsageError, match="that Keras has quantised .int8., which TFLite cannot"):
        keras_vit.export_tflite(model, tmp_path / "m.tflite", rewrite=rewrite)


def test_other_backends_refuse_an_edited_model(model, tmp_path, monkeypatch):
    from keras_vit.deploy import resolve as module

    edit(model, ACTIVATION)
    monkeypatch.setattr(module, "backend", lambda: "jax")
    with pytest.raises(UsageError, match="only an unchanged keras_vit model .* activation='relu'"):
        keras_vit.export_tflite(model, tmp_path / "m.tflite")
