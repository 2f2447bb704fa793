"""The emulation of a GPU's half precision: overflow, rounding, and what it does not compute."""

import numpy as np
import pytest
import tensorflow as tf

import keras_vit
from keras_vit import deploy
from keras_vit._errors import RefusedError
from keras_vit.deploy.graph.graph_options import GraphOptions
from keras_vit.deploy.graph.rewrites import REWRITES
from keras_vit.tflite.float16_emulation import emulate

SPECS = {
    "token": keras_vit.ViTSpec(8, 32, 2, 2, 48),
    "map": keras_vit.ViTSpec(8, 32, 2, 2, 48, pooling="map"),
    "gap": keras_vit.ViTSpec(8, 32, 2, 2, 48, pooling="gap", activation="erf"),
    "relative": keras_vit.ViTSpec(8, 32, 2, 2, 48, position_embedding="relative"),
    "bit": keras_vit.ResNetSpec((1, 1, 1, 1)),
}


@pytest.mark.parametrize("sums", ["float32", "float16"])
@pytest.mark.parametrize("name", SPECS)
def test_every_graph_is_computed_in_half_precision(graph_file, rng, name, sums):
    content = graph_file(SPECS[name], (32, 64) if name == "bit" else (16, 24))
    runner = deploy.Runner(content)
    images = rng.uniform(-1, 1, (2, *runner.input["shape"][1:])).astype(np.float32)
    expected, found = runner.predict(images), emulate(content, images, sums)
    assert found.overflow == ""
    difference = np.abs(found.scores - expected).max() / np.abs(expected).max()
    assert 1e-5 < difference < 0.03  # it is half precision, and the same function


def test_outlier_channels_overflow_only_without_the_scaling_of_the_stream(trained_like, pictures):
    model = trained_like(keras_vit.ViT(keras_vit.ViTSpec(8, 96, 2, 3, 80), 5, (16, 24)))
    encoder = model.get_layer("patch_encoder")
    for variable in (encoder.positions, encoder.class_token):
        array = np.array(variable)
        array[..., [3, 40]] += np.float32([1000, -1000])  # two channels of the residual stream
        variable.assign(array)
    images = pictures(2, (16, 24))
    undivided = GraphOptions(rewrites=frozenset(REWRITES) - {"scaled_stream"})
    divided = deploy.to_tflite(model)
    expected = deploy.Runner(divided).predict(images)
    for sums in ("float32", "float16"):
        found = emulate(deploy.to_tflite(model, options=undivided), images, sums)
        assert found.scores is None
        assert found.overflow.endswith("of encoderblock_0/norm_attention")
        found = emulate(divided, images, sums)
        assert found.overflow == ""
        assert np.abs(found.scores - expected).max() < 0.03 * np.ptp(expected)


def test_kernels_of_resnets_overflow_only_without_their_division(trained_like, pictures):
    model = trained_like(keras_vit.BiT(SPECS["bit"], 5, (32, 64)))
    for variable in model.variables:
        if "/gn2/gamma" in getattr(variable, "path", variable.name):
            variable.assign(8 * np.array(variable))
    images = pictures(1, (32, 64))
    undivided = GraphOptions(rewrites=frozenset(REWRITES) - {"standardised_kernels"})
    found = emulate(deploy.to_tflite(model, options=undivided), images, "float16")
    assert found.overflow.endswith("of block1_unit1/gn3")
    divided = deploy.to_tflite(model)
    expected, found = deploy.Runner(divided).predict(images), emulate(divided, images, "float16")
    assert found.overflow == ""
    assert np.abs(found.scores - expected).max() < 0.03 * np.ptp(expected)


@pytest.mark.parametrize("how", [{"half_pixel_centers": True}, {"align_corners": True}, {}])
def test_masks_are_resized_and_classified(converted, rng, how):
    resize = tf.raw_ops.ResizeBilinear
    scores = converted(lambda x: {"y": resize(images=x, size=(7, 9), **how)}, (1, 4, 5, 3))
    classes = converted(
        lambda x: {"y": tf.cast(tf.argmax(resize(images=x, size=(7, 9), **how), -1), tf.uint8)},
        (1, 4, 5, 3),
    )
    images = rng.normal(size=(2, 4, 5, 3)).astype(np.float32)
    expected, found = deploy.Runner(scores).predict(images), emulate(scores, images, "float16")
    np.testing.assert_allclose(found.scores, expected, atol=4e-3)
    named = emulate(classes, images, "float16").scores
    assert (named == deploy.Runner(classes).predict(images)).mean() > 0.97


def test_sums_in_float16_lose_what_float32_keeps(converted):
    # Adding 1 to 2048 changes nothing in float16.
    content = converted(lambda x: {"y": tf.matmul(x, np.ones((16384, 2), np.float32))}, (1, 16384))
    quarters = np.full((1, 16384), 0.25, np.float32)
    assert emulate(content, quarters, "float32").scores.max() == 4096
    assert emulate(content, quarters, "float16").scores.max() == 2048


def test_what_is_not_emulated_is_refused_in_one_line(sample, converted):
    with pytest.raises(RefusedError, match="not emulated for .*QUANTIZE"):
        emulate(sample.file("int8"), sample.images, "float32")
    content = converted(lambda x: {"y": tf.math.cumsum(x, 1) + 1}, (1, 8, 4))
    with pytest.raises(RefusedError, match="half precision is not emulated for CUMSUM"):
        emulate(content, np.ones((1, 8, 4), np.float32), "float32")
