"""Masked patch prediction and the masked autoencoder, as models."""

import dataclasses
import operator

import numpy as np
import pytest
from safetensors.numpy import load_file

import keras_vit
from keras_vit import UsageError
from keras_vit._keras import keras
from keras_vit.layers.masking import CorruptedPatches, PatchNoise
from keras_vit.models.dtypes import dtype_policy
from keras_vit.models.masked_models import MaskedAutoencoder, MaskedPatchPredictor
from keras_vit.training.masked_tasks import normalised_patches, pixel_loss

pytestmark = pytest.mark.flavours

SPEC = keras_vit.ViTSpec(patch_size=8, hidden_dim=24, depth=1, num_heads=3, mlp_dim=32)
# The places of transformers' decoder weights in a `MaskedAutoencoder`.
_BLOCK = {
    "norm_attention": "layernorm_before", "norm_mlp": "layernorm_after",
    "attention.query": "attention.q_proj", "attention.key": "attention.k_proj",
    "attention.value": "attention.v_proj", "attention.out": "attention.o_proj",
    "mlp.dense_0": "mlp.fc1", "mlp.dense_1": "mlp.fc2",
}  # fmt: skip


@pytest.fixture(scope="module")
def reference(fixtures):
    """transformers' ViTMAEForPreTraining: its outputs, and a model with its weights."""
    vit = keras_vit.model_from_weights(fixtures / "hf_mae.safetensors", dtype="float32")
    model = MaskedAutoencoder(vit, 0.75, 32, 2, 2, 64)
    weights = load_file(fixtures / "hf_mae.safetensors")

    def fill(layer, key):
        # Kernels of Dense layers are transposed, the scales of norms are vectors.
        layer.set_weights([weights[f"decoder.{key}.weight"].T, weights[f"decoder.{key}.bias"]])

    fill(model.get_layer("decoder_embedding"), "decoder_embed")
    fill(model.get_layer("decoder_norm"), "decoder_norm")
    fill(model.get_layer("predictions"), "decoder_pred")
    model.get_layer("restored").mask_token.assign(weights["decoder.mask_token"])
    model.get_layer("restored").positions.assign(weights["decoder.decoder_pos_embed"])
    for i in range(2):
        for path, key in _BLOCK.items():
            layer = operator.attrgetter(path)(model.get_layer(f"decoderblock_{i}"))
            fill(layer, f"decoder_layers.{i}.{key}")
    with np.load(fixtures / "hf_mae.io.npz") as file:
        return model, dict(file)


def inputs(count, height, width, patches, channels=3):
    generator = np.random.default_rng(0)
    images = generator.normal(size=(count, height, width, channels)).astype(np.float32)
    return {"images": images, "noise": generator.normal(size=(count, patches)).astype(np.float32)}


def test_the_autoencoder_and_its_loss_equal_those_of_transformers(reference):
    import tensorflow as tf

    model, expected = reference
    outputs = model({"images": expected["images"], "noise": expected["noise"]})
    np.testing.assert_allclose(outputs["predictions"], expected["logits"], atol=2e-5)
    np.testing.assert_array_equal(outputs["mask"], expected["mask"])
    targets = normalised_patches(tf.constant(expected["images"]), 8)
    mask = np.asarray(outputs["mask"])[..., None]
    predictions = np.concatenate([np.asarray(outputs["predictions"]), mask], axis=-1)
    actual = np.asarray(pixel_loss(targets, predictions)).mean()
    assert actual == pytest.approx(float(expected["loss"]), abs=1e-6)


@pytest.mark.parametrize(
    "model",
    [
        lambda vit: MaskedAutoencoder(vit, decoder_dim=16, decoder_depth=1, decoder_heads=2),
        lambda vit: MaskedPatchPredictor(vit, "colours"),
    ],
    ids=["autoencoder", "masked patches"],
)
def test_a_saved_model_is_the_same(model, randomised, tmp_path):
    model, images = model(randomised(keras_vit.ViT(SPEC, 5, (16, 24)))), inputs(2, 16, 24, 6)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    for name, expected in model(images).items():
        np.testing.assert_allclose(again(images)[name], expected, atol=1e-6)


@pytest.mark.parametrize("spec", [SPEC, dataclasses.replace(SPEC, embedding_norm=True)])
def test_the_head_has_no_part_and_everything_else_is_trained(spec):
    vit = keras_vit.ViT(spec, 5, 16)
    for model in (MaskedAutoencoder(vit, 0.5, 16, 1, 2), MaskedPatchPredictor(vit)):
        trained = {id(v) for v in model.trainable_variables}
        of_vit = [v for layer in vit.layers for v in layer.trainable_variables]
        head = {id(v) for v in vit.get_layer("head").trainable_variables}
        assert {id(v) for v in of_vit} - trained == head


def test_corrupted_patches_are_replaced_exchanged_or_kept(rng):
    count, patches, width = 400, 20, 6
    encoder = keras_vit.layers.PatchEncoder(width, False, "none")
    encoder.build((None, patches, 12))
    layer = CorruptedPatches(encoder, 10)
    noise = rng.normal(size=(count, patches)).astype(np.float32)
    images = rng.normal(size=(count, patches, 12)).astype(np.float32)
    tokens, mask = map(np.asarray, layer([images, noise]))
    plain = np.asarray(encoder(images))
    learned = np.asarray(layer.embedding)[0, 0]
    places = noise.argsort(axis=1).argsort(axis=1)  # the place of each patch in the order
    np.testing.assert_array_equal(mask, places < 10)
    np.testing.assert_allclose(tokens[places >= 9], plain[places >= 9], atol=1e-6)
    np.testing.assert_allclose(tokens[places < 8], np.tile(learned, (8 * count, 1)), atol=1e-6)
    sources, further, corrupted = [], [], []
    for i, patch in np.argwhere(places == 8):  # one patch of each image is another one of it
        distances = np.abs(plain[i] - tokens[i, patch]).max(-1)
        assert distances.min() < 1e-6
        sources.append(distances.argmin())
        further.append((sources[-1] - patch) % patches)
        corrupted.append(mask[i, sources[-1]])
    # Every other patch is as likely: 20 or 21 of 400, give or take 4 standard deviations.
    assert np.bincount(sources, minlength=patches).min() > 2
    assert further.count(0) == 0
    assert np.bincount(further, minlength=patches)[1:].min() > 2
    assert np.bincount(further).max() < 42
    assert np.mean(corrupted) == pytest.approx(9 / 19, abs=0.1)  # a corrupted one, or not


@pytest.mark.parametrize("masked", [MaskedPatchPredictor, MaskedAutoencoder])
def test_masks_in_half_precision_are_those_of_the_noise(masked, rng):
    images = inputs(4, 32, 32, 64)
    # bfloat16 has no digits for the differences.
    images["noise"] = 1 + rng.uniform(0, 1e-3, (4, 64)).astype(np.float32)
    masks = []
    for policy in ("float32", "mixed_bfloat16"):
        with dtype_policy(policy):  # as a user's script sets it for all layers
            model = masked(keras_vit.ViT_Pico4(num_classes=0, image_size=32))
        masks.append(np.asarray(model(images)["mask"]))
    np.testing.assert_array_equal(*masks)


def test_noise_is_new_in_each_step_and_the_same_in_each_evaluation():
    layer = PatchNoise(9)
    images = np.zeros((4, 8, 8, 3), np.uint8)
    first, second = (np.asarray(layer(images, training=True)) for _ in range(2))
    assert first.shape == (4, 9)
    assert np.abs(first - second).min() > 0
    first, second = (np.asarray(layer(images, training=False)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert len(np.unique(first)) == 36  # images have different masks


def test_grey_pixels_are_predicted_and_colours_are_not():
    grey = keras_vit.create_model("ViT_Pico4", image_size=32, in_channels=1)
    for model in (MaskedAutoencoder(grey, 0.5, 16, 1, 2), MaskedPatchPredictor(grey, "pixels")):
        assert model(inputs(2, 32, 32, 64, 1))["predictions"].shape == (2, 64, 16)
    with pytest.raises(UsageError, match="those of RGB. Received: in_channels=1; choose masked_pi"):
        MaskedPatchPredictor(grey, "colour")


def test_models_that_cannot_be_masked_are_refused():
    hybrid = keras_vit.create_model("R+ViT-Pico_4", num_classes=2, image_size=32)
    with pytest.raises(UsageError, match="need a ViT without a stem.*Received: R_ViT-Pico_4"):
        MaskedPatchPredictor(hybrid)
    relative = keras_vit.create_model("ViT_Pico4", position_embedding="relative", image_size=32)
    message = "such as learned or sincos2d. Received: position_embedding='relative'"
    with pytest.raises(UsageError, match=message):
        MaskedAutoencoder(relative)
    after = keras_vit.ViT_Pico4(pooling="gap", norm_after_pooling=True, image_size=32)
    for kind in (MaskedAutoencoder, MaskedPatchPredictor):
        with pytest.raises(UsageError, match="norm precedes the pooling.*norm_after_pooling=True"):
            kind(after)
    plain = keras_vit.create_model("ViT_Pico4", image_size=32)
    with pytest.raises(UsageError, match="decoder_dim=30, decoder_heads=2"):
        MaskedAutoencoder(plain, decoder_dim=30, decoder_heads=2)
    with pytest.raises(UsageError, match=r"masked must lie in \(0, 1\). Received: masked=0"):
        MaskedAutoencoder(plain, masked=0)
    with pytest.raises(UsageError, match="images of two patches or more. Received: one patch"):
        MaskedAutoencoder(keras_vit.ViT(SPEC, 2, 8))
    with pytest.raises(UsageError, match="4 x 4 cells. Received: patch_size=6"):
        MaskedPatchPredictor(keras_vit.ViT(keras_vit.ViTSpec(6, 24, 1, 3, 32), 2, 12), "colours")
