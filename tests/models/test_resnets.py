"""Hybrids and BiT as Keras models: intermediate outputs, policies, training, saving."""

from __future__ import annotations

import numpy as np
import pytest

import keras_vit
from keras_vit import ResNetSpec, ResNetStem, ViTSpec
from keras_vit._keras import keras

SPECS = {
    "hybrid": ViTSpec(1, 48, 1, 3, 96, stem=ResNetStem((1, 1))),
    "bit": ResNetSpec((1, 1, 1, 1)),
}


@pytest.fixture(params=SPECS)
def build(request):
    """Builds a small hybrid or BiT of 3 classes for images of 16 x 24 pixels."""
    spec = SPECS[request.param]
    kind = keras_vit.BiT if request.param == "bit" else keras_vit.ViT
    return lambda **changes: kind(spec, **{"num_classes": 3, "image_size": (16, 24), **changes})


@pytest.fixture
def images(rng):
    return rng.normal(size=(2, 16, 24, 3)).astype(np.float32)


@pytest.mark.flavours
def test_shapes_of_every_named_intermediate_output_of_a_hybrid():
    model = keras_vit.ViT(SPECS["hybrid"], 3, (16, 24))
    assert model.grid == (2, 3)
    assert _shapes(model) == {
        "gn_root": (2, 8, 12, 64),
        "block1_unit1": (2, 4, 6, 256),
        "block2_unit1": (2, 2, 3, 512),
        "patch_embeddings": (2, 6, 48),
        "embedded": (2, 7, 48),
        "attention_0": (2, 3, 7, 7),
        "encoderblock_0": (2, 7, 48),
        "encoded": (2, 7, 48),
        "pre_logits": (2, 48),
        "logits": (2, 3),
    }


@pytest.mark.flavours
def test_shapes_of_every_named_intermediate_output_of_a_bit():
    assert _shapes(keras_vit.BiT(SPECS["bit"], 3, (16, 25))) == {
        "conv_root": (2, 8, 13, 64),
        "block1_unit1": (2, 4, 7, 256),
        "block2_unit1": (2, 2, 4, 512),
        "block3_unit1": (2, 1, 2, 1024),
        "block4_unit1": (2, 1, 1, 2048),
        "encoded": (2, 1, 1, 2048),
        "pre_logits": (2, 2048),
        "logits": (2, 3),
    }


@pytest.mark.flavours
def test_gn_root_of_a_hybrid_is_its_output_before_the_relu(images):
    root = keras_vit.ViT(SPECS["hybrid"], 3, (16, 24)).intermediates("gn_root")(images)["gn_root"]
    assert np.asarray(root).min() < -1


def test_unknown_intermediate_output_of_a_bit_names_the_nearest():
    with pytest.raises(keras_vit.UsageError, match="did you mean block2_unit1"):
        keras_vit.BiT(SPECS["bit"], 3, 32).intermediates("block2_unit2")


def test_fresh_head_gives_uniform_predictions(build, images):
    assert not build().predict(images, verbose=0).any()


@pytest.mark.flavours
def test_no_classes_gives_the_representation(build):
    model = build(num_classes=0)
    assert (
        tuple(model.output.shape)[1:]
        == tuple(model.intermediates("pre_logits").outputs[0].shape)[1:]
    )


@pytest.mark.flavours
def test_saved_model_gives_the_same_logits(build, images, randomised, tmp_path):
    model = randomised(build(name="mine", labels=["a", "b", "c"]))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(np.asarray(model(images)), np.asarray(again(images)))
    assert type(again) is type(model)
    assert (again.spec, again.name, again.labels) == (model.spec, "mine", ("a", "b", "c"))


def test_weights_round_trip(build, randomised, tmp_path):
    model = randomised(build())
    keras_vit.save_weights(model, tmp_path / "weights.npz")
    again = build()
    keras_vit.load_weights(again, tmp_path / "weights.npz")
    for one, other in zip(model.weights, again.weights, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


@pytest.mark.flavours
@pytest.mark.slow
def test_every_weight_learns(build, images):
    model = build(name="R+ViT")  # TensorFlow refuses the plus in a scope
    before = [np.asarray(v).copy() for v in model.trainable_variables]
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        run_eagerly=True,  # tests/training traces them
    )
    # The head and the last scales start at zero, so the first steps change only these.
    model.fit(images, np.array([0, 2]), epochs=4, verbose=0)
    still = [
        v.name
        for v, old in zip(model.trainable_variables, before, strict=True)
        if np.array_equal(np.asarray(v), old)
    ]
    assert not still


@pytest.mark.flavours
@pytest.mark.parametrize(
    "policy", ["mixed_bfloat16", pytest.param("mixed_float16", marks=pytest.mark.slow)]
)
def test_mixed_precision_stays_near_float32(build, images, randomised, tmp_path, policy):
    model = randomised(build())
    keras_vit.save_weights(model, tmp_path / "weights.npz")
    keras.mixed_precision.set_global_policy(policy)
    try:
        mixed = build()
    finally:
        keras.mixed_precision.set_global_policy("float32")
    keras_vit.load_weights(mixed, tmp_path / "weights.npz")
    logits = np.asarray(mixed(images, training=False))
    assert logits.dtype == np.float32
    expected = np.asarray(model(images, training=False))
    assert 0 < np.abs(logits - expected).max() < 0.05 * np.abs(expected).max()
    unit = mixed.get_layer("block2_unit1")
    assert "float32" not in str(unit.output.dtype)
    assert all("float32" in str(w.dtype) for w in unit.weights)


def _shapes(model):
    images = np.zeros((2, *model.image_size, 3), np.float32)
    actual = model.intermediates(*model.intermediate_names)(images)
    return {name: tuple(tensor.shape) for name, tensor in actual.items()}


ODD = {
    "root alone": (ResNetStem(width=0.5), 2, (27, 33), (3, 4)),
    "stages": (ResNetStem((1, 1, 1), width=0.5), 1, (33, 49), (3, 4)),
    "cut off": (ResNetStem((1,), width=1.5), 3, (45, 50), (4, 4)),
}


@pytest.fixture(params=ODD)
def odd(request, randomised):
    """A hybrid with a fractional width, for a size that its strides do not divide."""
    stem, patch, size, grid = ODD[request.param]
    model = randomised(keras_vit.ViT(ViTSpec(patch, 48, 1, 3, 96, stem=stem), 5, size))
    assert model.grid == grid
    return model


def test_a_hybrid_takes_any_size_as_the_official_code_does(odd, rng):
    images = rng.normal(size=(2, *odd.image_size, 3)).astype(np.float32)
    last = odd.layers[[layer.name for layer in odd.layers].index("patches") - 1].name
    last = "gn_root" if last == "pool_root" else last
    actual = odd.intermediates(last, "patch_embeddings")(images)
    x = np.asarray(actual[last])
    if last == "gn_root":
        x = np.asarray(keras.layers.MaxPooling2D(3, 2, "same")(np.maximum(x, 0)))
    stride, (height, width) = odd.spec.stem.stride, odd.image_size
    assert x.shape[1:3] == (-(-height // stride), -(-width // stride))
    patch, projection = odd.spec.patch_size, odd.get_layer("patch_encoder").projection
    kernel = np.asarray(projection.kernel).reshape(patch, patch, -1, 48)
    conv = keras.layers.Conv2D(48, patch, strides=patch)  # "valid", as the official embedding
    conv.build(x.shape)
    conv.set_weights([kernel, np.asarray(projection.bias)])
    expected = np.asarray(conv(x))
    assert expected.shape[1:3] == odd.grid
    np.testing.assert_allclose(
        np.asarray(actual["patch_embeddings"]), expected.reshape(2, -1, 48), atol=1e-4, rtol=1e-5
    )


@pytest.mark.parametrize("layout", ["weights.npz", "plain.npz"])
def test_weights_of_odd_hybrids_round_trip(odd, tmp_path, layout, rng):
    keras_vit.save_weights(odd, tmp_path / "weights.npz")
    arrays = np.load(tmp_path / "weights.npz")
    assert arrays["conv_root/kernel"].shape[-1] == 64 * odd.spec.stem.width
    np.savez(tmp_path / "plain.npz", **arrays)  # without what only our files say
    arguments = {} if layout == "weights.npz" else {"image_size": odd.image_size}
    again = keras_vit.model_from_weights(tmp_path / layout, num_heads=3, **arguments)
    assert (again.spec, again.image_size) == (odd.spec, odd.image_size)
    images = rng.normal(size=(2, *odd.image_size, 3)).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(odd(images)), np.asarray(again(images)))
