"""Heads with an answer for each place, against NumPy and against DINOv2's own head."""

import shutil

import numpy as np
import pytest

import keras_vit
from keras_vit import UsageError, ViTSpec
from keras_vit._keras import keras
from keras_vit.models.dense_head_layers import scores_of_pixels
from keras_vit.models.profile import profile
from keras_vit.weights.names import parameter_count

CLASSES, CELLS = 5, 4
SIZE = (24, 40)  # 3 x 5 patches


@pytest.fixture
def segmenter(small_spec, rng):
    """A segmenter whose head and its norm are not those of a new one."""
    import dataclasses

    spec = dataclasses.replace(
        small_spec, dense_head="linear", head_cells=CELLS, head_norm=True, registers=2
    )
    model = keras_vit.ViT(spec, CLASSES, SIZE)
    for variable in (*model.get_layer("head").weights, *model.get_layer("head_norm").weights):
        variable.assign(rng.uniform(0.5, 1.5, tuple(variable.shape)).astype(np.float32))
    return model


@pytest.fixture
def images(rng):
    return rng.normal(size=(2, *SIZE, 3)).astype(np.float32)


@pytest.mark.flavours
def test_scores_are_a_linear_layer_on_each_patch(segmenter, images):
    """The norm as in inference, then for each cell of a patch its own classes."""
    parts = segmenter.intermediates("encoded", "pre_logits", "scores").predict(images, verbose=0)
    patches = parts["encoded"][:, segmenter.spec.prefix_tokens :]
    np.testing.assert_array_equal(parts["pre_logits"], patches)
    norm, head = (segmenter.get_layer(name) for name in ("head_norm", "head"))
    gamma, beta, mean, variance = (np.asarray(weight) for weight in norm.weights)
    x = (patches - mean) / np.sqrt(variance + 1e-5) * gamma + beta
    kernel, bias = (np.asarray(weight) for weight in head.weights)
    cells = (x @ kernel + bias).reshape(2, 3, 5, CELLS, CELLS, CLASSES)
    expected = cells.transpose(0, 1, 3, 2, 4, 5).reshape(2, 3 * CELLS, 5 * CELLS, CLASSES)
    np.testing.assert_allclose(parts["scores"], expected, atol=1e-4)
    actual = segmenter.predict(images, verbose=0)
    assert list(actual) == ["scores"]
    assert actual["scores"].dtype == np.float32


@pytest.mark.flavours
@pytest.mark.parametrize("kind", ["weights.npz", "model.keras"])
def test_saved_segmenters_are_loaded(segmenter, images, tmp_path, kind):
    file, expected = tmp_path / kind, segmenter.predict(images, verbose=0)["scores"]
    if kind == "model.keras":
        segmenter.save(file)
        loaded = keras.models.load_model(file)
    else:
        keras_vit.save_weights(segmenter, file)
        loaded = keras_vit.model_from_weights(file)
    assert loaded.spec == segmenter.spec
    np.testing.assert_array_equal(loaded.predict(images, verbose=0)["scores"], expected)


def test_the_encoder_of_a_segmenter_gets_other_heads(segmenter, images, tmp_path):
    file = tmp_path / "weights.npz"
    keras_vit.save_weights(segmenter, file)
    more = keras_vit.model_from_weights(file, num_classes=7)
    assert more.output["scores"].shape == (None, 12, 20, 7)
    assert not np.asarray(more.get_layer("head").kernel).any()
    norm = more.get_layer("head_norm")
    np.testing.assert_array_equal(norm.gamma, np.ones(48))
    np.testing.assert_array_equal(norm.moving_mean, np.zeros(48))
    classifier = keras_vit.model_from_weights(file, num_classes=7, dense_head="none")
    assert classifier.output_shape == (None, 7)
    names = ("encoded",)
    np.testing.assert_array_equal(
        classifier.intermediates(*names).predict(images, verbose=0)["encoded"],
        segmenter.intermediates(*names).predict(images, verbose=0)["encoded"],
    )


@pytest.mark.parametrize("pooling", ["map", "token", "gap", "distilled_token"])
def test_a_classifier_becomes_a_segmenter(small_spec, tmp_path, images, pooling):
    """What follows the patches is dropped, also the weights of a pooling."""
    import dataclasses

    model = keras_vit.ViT(dataclasses.replace(small_spec, pooling=pooling), CLASSES, SIZE)
    file = tmp_path / "weights.npz"
    keras_vit.save_weights(model, file)
    dense = keras_vit.model_from_weights(file, num_classes=CLASSES, dense_head="linear")
    prefix = model.spec.prefix_tokens
    np.testing.assert_allclose(
        dense.intermediates("pre_logits").predict(images, verbose=0)["pre_logits"],
        model.intermediates("encoded").predict(images, verbose=0)["encoded"][:, prefix:],
        atol=1e-6,
    )
    assert not any(layer.name == "pooling" for layer in dense.layers)


def test_dinov2s_own_segmenter_is_read(fixtures, tmp_path):
    """Its encoder in transformers' names, beside mmsegmentation's `BNHead`."""
    for name, kind in (("config.json", "config.json"), ("model.safetensors", "safetensors")):
        shutil.copy(fixtures / f"dinov2_linear.{kind}", tmp_path / name)
    expected = np.load(fixtures / "dinov2_linear.io.npz")
    inputs = expected["pixel_values"].transpose(0, 2, 3, 1)
    model = keras_vit.model_from_weights(tmp_path, image_size=(32, 48))
    assert (model.num_classes, model.spec.head_norm, model.task) == (5, True, "segmentation")
    scores = model.predict(inputs, verbose=0)["scores"].transpose(0, 3, 1, 2)
    np.testing.assert_allclose(scores, expected["low_logits"], atol=2e-5)
    whole = keras.Model(model.input, scores_of_pixels(model.output["scores"], model.spec))
    pixels = whole.predict(inputs, verbose=0)
    np.testing.assert_allclose(pixels.transpose(0, 3, 1, 2), expected["logits"], atol=2e-5)
    np.testing.assert_array_equal(pixels.argmax(-1), expected["segmentation"])


def test_parameters_and_operations_are_counted(segmenter):
    assert parameter_count(segmenter.spec, CLASSES, SIZE) == segmenter.count_params()
    head = profile(segmenter.spec, CLASSES, SIZE)[-1]
    assert (head.name, head.flops) == ("head", 2 * 15 * 48 * CELLS**2 * CLASSES)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dense_head": "lineal"}, "dense_head must be"),
        ({"head_cells": 2}, "for dense_head='linear' or 'eomt'. Received: dense_head='none' and h"),
        ({"head_norm": True}, "head_norm is for dense_head='linear'"),
        ({"dense_head": "linear", "head_cells": 3}, "must divide the 8 pixels of a patch"),
        ({"dense_head": "linear", "representation_dim": 9}, "Received: representation_dim=9"),
        ({"dense_head": "linear", "normalized_features": True}, "normalized_features=True"),
    ],
)
def test_contradictions_are_refused(fields, message):
    with pytest.raises(UsageError, match=message):
        ViTSpec(patch_size=8, hidden_dim=48, depth=2, num_heads=3, mlp_dim=96, **fields)


def test_patches_must_cover_the_image():
    hybrid = {"dense_head": "linear", "num_classes": 3}
    with pytest.raises(UsageError, match=r"cover the image.*the nearest is \(48, 48\)"):
        keras_vit.create_model("R+ViT-Pico_4", image_size=45, **hybrid)
