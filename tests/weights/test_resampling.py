"""Patch kernels of another size, and kernels of RGB images in models of other channels."""

import dataclasses
import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import keras_vit
from keras_vit.weights import resample_patches

SPECS = {
    "vit": keras_vit.ViTSpec(8, 48, 1, 3, 96),
    "hybrid": keras_vit.ViTSpec(1, 48, 1, 3, 96, stem=keras_vit.ResNetStem((1,))),
    "bit": keras_vit.ResNetSpec((1, 1)),
}
# The official key of the kernel that reads the image.
KEYS = {
    "vit": "embedding/kernel",
    "hybrid": "conv_root/kernel",
    "bit": "resnet/root_block/standardized_conv2d/kernel",
}


def make(name, **changes):
    """A model of 5 classes with changes of its spec."""
    spec = dataclasses.replace(SPECS[name], **changes)
    return (keras_vit.BiT if isinstance(spec, keras_vit.ResNetSpec) else keras_vit.ViT)(spec, 5, 32)


@pytest.mark.parametrize(("old", "new"), [(8, 12), (8, 16), (12, 8), (16, 5)])
def test_patch_kernels_are_resized_as_flexivit_does(old, new, rng):
    # As in big_vision: the matrix of tf.image.resize, from its results for unit images.
    import tensorflow as tf

    basis = np.eye(old * old, dtype=np.float32).reshape(-1, old, old, 1)
    resized = tf.image.resize(basis, (new, new), method="bilinear").numpy()
    inverse = np.linalg.pinv(resized.reshape(old * old, new * new).astype(np.float64))
    kernel = rng.normal(size=(old, old, 3, 4)).astype(np.float32)
    expected = np.einsum("ab,bcd->acd", inverse, kernel.reshape(old * old, 3, 4))
    actual = resample_patches(kernel, new)
    np.testing.assert_allclose(actual.reshape(new * new, 3, 4), expected, atol=2e-5)


@pytest.mark.parametrize("channels", [1, 2, 4, 7, 13])
@pytest.mark.parametrize("name", SPECS)
def test_a_kernel_is_folded_as_timm_folds_it(randomised, name, channels, tmp_path):
    model, file = randomised(make(name)), tmp_path / "rgb.npz"
    keras_vit.save_weights(model, file)
    kernel = np.load(file)[KEYS[name]]
    # timm: the sum for one channel, otherwise R, G, B, R, G, B ... times 3 / channels.
    if channels == 1:
        expected = kernel.sum(axis=2, keepdims=True)
    else:
        bands = [kernel[:, :, band % 3] * 3 / channels for band in range(channels)]
        expected = np.stack(bands, axis=2)
    built = make(name, in_channels=channels)
    record = keras_vit.load_weights(built, file)
    assert record.resampled == (f"channels 3 to {channels}",)
    for other in (built, keras_vit.model_from_weights(file, in_channels=channels)):
        assert other.input_shape == (None, 32, 32, channels)
        keras_vit.save_weights(other, tmp_path / "folded.npz")
        actual = np.load(tmp_path / "folded.npz")[KEYS[name]]
        np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-7)
        np.testing.assert_array_equal(other.get_weights()[-1], model.get_weights()[-1])


def test_patches_are_resized_and_folded_together(randomised, tmp_path, rng):
    file = tmp_path / "rgb.npz"
    keras_vit.save_weights(randomised(make("vit")), file)
    larger = dataclasses.replace(SPECS["vit"], patch_size=16)
    enlarged = keras_vit.ViT(larger, 5, 64)
    grey = keras_vit.ViT(dataclasses.replace(larger, in_channels=1), 5, 64)
    keras_vit.load_weights(enlarged, file, resize_patches=True)
    record = keras_vit.load_weights(grey, file, resize_patches=True)
    assert record.resampled == ("patches 8 x 8 to 16 x 16; channels 3 to 1",)
    # A grey image has the scores of three equal channels.
    images = rng.uniform(-1, 1, (3, 64, 64, 1)).astype(np.float32)
    expected = np.asarray(enlarged(np.repeat(images, 3, axis=-1), training=False))
    np.testing.assert_allclose(np.asarray(grey(images, training=False)), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("stored", "wanted", "end"),
    [
        ({"in_channels": 1}, {"in_channels": 3}, "in_channels 1, not 3; only kernels of 3 {}"),
        ({"in_channels": 4}, {"in_channels": 3}, "in_channels 4, not 3; only kernels of 3 {}"),
        ({"in_channels": 4}, {"in_channels": 1}, "in_channels 4, not 1; only kernels of 3 {}"),
        # Channels that would be folded are not named.
        ({}, {"hidden_dim": 24, "in_channels": 1}, "hidden_dim 48, not 24"),
    ],
)
def test_other_channels_than_three_are_not_folded(tmp_path, stored, wanted, end):
    keras_vit.save_weights(make("vit", **stored), tmp_path / "bands.npz")
    with pytest.raises(keras_vit.UsageError) as caught:
        keras_vit.load_weights(make("vit", **wanted), tmp_path / "bands.npz")
    end = end.format("channels are folded to other numbers")
    assert str(caught.value).splitlines()[0].endswith(end)


@pytest.mark.parametrize("channels", [1, 4])
@pytest.mark.parametrize("name", SPECS)
def test_channels_are_read_from_the_kernel(tmp_path, name, channels):
    model = make(name, in_channels=channels)
    keras_vit.save_weights(model, tmp_path / "saved.npz")
    np.savez(tmp_path / "bare.npz", **np.load(tmp_path / "saved.npz"))  # without metadata
    assert keras_vit.model_from_weights(tmp_path / "bare.npz").spec == model.spec


def test_a_constructor_takes_the_channels_of_the_file(tmp_path):
    keras_vit.save_weights(keras_vit.BiT_R8x1(5, in_channels=1), tmp_path / "grey.npz")
    model = keras_vit.BiT_R8x1(weights=tmp_path / "grey.npz")
    assert (model.spec.in_channels, model.preprocessing.channels) == (1, 1)
    with pytest.raises(keras_vit.UsageError, match="in_channels 1, not 3"):
        keras_vit.BiT_R8x1(weights=tmp_path / "grey.npz", in_channels=3)


def test_a_grey_file_of_timm_is_read_though_its_config_describes_rgb(tmp_path):
    grey = make("vit", activation="erf", in_channels=1, resampling="bicubic")
    keras_vit.save_weights(grey, tmp_path / "model.safetensors")
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["model_args"]["in_chans"] == 1
    assert config["pretrained_cfg"]["input_size"] == [1, 32, 32]
    cfg = {"input_size": [3, 32, 32], "mean": [0.4, 0.5, 0.6], "std": [0.2, 0.2, 0.5]}
    config["pretrained_cfg"] |= cfg
    (tmp_path / "config.json").write_text(json.dumps(config))
    arrays = load_file(tmp_path / "model.safetensors")
    save_file(arrays, tmp_path / "model.safetensors")  # without keras_vit's metadata
    model = keras_vit.model_from_weights(tmp_path)
    assert model.spec == grey.spec
    preprocessing = model.preprocessing
    assert preprocessing.channels == 1
    assert (preprocessing.mean, preprocessing.scale) == pytest.approx((127.5, 76.5))
