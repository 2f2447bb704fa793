"""The costs of layers: the formula equals what TensorFlow's graph and XLA count."""

from dataclasses import replace

import numpy as np
import pytest

import keras_vit
from keras_vit.evaluation.flops import counted_flops, layer_flops
from keras_vit.models import profile
from keras_vit.models.pretrained import model_class
from keras_vit.training import Recipe
from keras_vit.training.costs import training_flops
from keras_vit.variant_specs import VARIANTS
from keras_vit.weights import parameter_count

SMALL = keras_vit.ViTSpec(8, 96, 2, 3, 384)
STEM = keras_vit.ResNetStem((1, 1))
CASES = {
    "token": (SMALL, (48, 80)),
    "map": (replace(SMALL, pooling="map", representation_dim=64), (48, 48)),
    "none": (replace(SMALL, pooling="none"), (48, 48)),
    "bands": (replace(SMALL, in_channels=5), (48, 48)),
    "distilled": (replace(SMALL, pooling="distilled"), (32, 32)),
    "dinov2": (
        replace(SMALL, registers=4, layer_scale=0.1, mlp_kind="gated", pooling="token_mean"),
        (32, 48),
    ),
    "timm": (
        replace(SMALL, registers=2, qk_norm=True, pooling="gap", norm_after_pooling=True),
        (32, 32),
    ),
    "eva02": (
        replace(SMALL, rotation="eva02", mlp_kind="gated_norm", pooling="token_gap"),
        (32, 48),
    ),
    "clip": (
        replace(SMALL, embedding_norm=True, patch_bias=False, projection_dim=64),
        (32, 32),
    ),
    "relative": (replace(SMALL, position_embedding="relative"), (32, 32)),
    "hybrid": (replace(SMALL, patch_size=4, depth=1, stem=STEM), (40, 56)),
    "bit": (keras_vit.ResNetSpec((1, 2, 1, 1)), (70, 96)),
}


def count_under_jax():
    import jax

    for name, (spec, size) in CASES.items():
        model = model_class(spec)(spec, 5, size)
        images = np.zeros((4, *size, spec.in_channels), np.float32)
        weights = [variable.value for variable in model.trainable_variables]
        others = [variable.value for variable in model.non_trainable_variables]

        def forward(weights, model=model, others=others, images=images):
            return model.stateless_call(weights, others, images, training=True)[0]

        gradients = jax.grad(lambda weights, forward=forward: forward(weights).sum())
        xla = [jax.jit(f).lower(weights).cost_analysis()["flops"] for f in (forward, gradients)]
        layers = profile.profile(spec, 5, size)
        counted = [4 * sum(layer.flops for layer in layers), 4 * training_flops(layers, Recipe())]
        # XLA also counts additions and norms, and leaves out the zeros around images.
        assert counted == pytest.approx(xla, rel=0.04), (name, counted, xla)


@pytest.mark.soak(of="trainings")
def test_operations_are_those_that_xla_counts(python):
    program = f"import runpy; runpy.run_path({__file__!r})['count_under_jax']()"
    python("-c", program, KERAS_BACKEND="jax", JAX_PLATFORMS="cpu")


@pytest.mark.parametrize(
    ("name", "published"),  # GFLOPs as timm and big_transfer's readers count them: 2 x GMACs
    [("ViT-S_16", 2 * 4.6), ("ViT-B_16", 2 * 17.6), ("ViT-L_16", 2 * 61.6), ("BiT-R50x1", 2 * 4.1)],
)
def test_operations_are_near_the_published_ones(name, published):
    counted = sum(profile.forward_flops(VARIANTS[name]).values())
    assert counted / 1e9 == pytest.approx(published, rel=0.05)


@pytest.mark.flavours
@pytest.mark.parametrize("name", CASES)
def test_operations_by_layer_are_those_of_the_graph(name):
    spec, size = CASES[name]
    assert counted_flops(model_class(spec)(spec, 5, size)) == profile.forward_flops(spec, 5, size)


@pytest.mark.parametrize("spec", [SMALL, replace(SMALL, projection_dim=40)])
def test_operations_of_an_autoencoder_are_those_of_its_layers(spec):
    vit = keras_vit.ViT(spec, 0, (32, 48))  # 24 patches
    model = keras_vit.MaskedAutoencoder(vit, 0.75, 32, 2, 4)
    layers = profile.autoencoder_profile(spec, (32, 48), 6, 32, 2, 4)
    assert sum(each.parameters for each in layers) == model.count_params()
    tokens = {"encoderblock": (7, 96), "decoder_embedding": (7, 96), "decoderblock": (25, 32)}
    tokens |= {"patch_encoder": (24, 192), "predictions": (24, 32)}
    for name, flops in {each.name: each.flops for each in layers if each.flops}.items():
        shape = next(shape for begin, shape in tokens.items() if name.startswith(begin))
        layer = (vit if name == "patch_encoder" else model).get_layer(name)
        assert layer_flops(layer, shape) == flops, name
    layers = profile.masked_patch_profile(spec, (32, 48), 512)
    masked = {each.name: each.flops for each in layers}
    predictor = keras_vit.MaskedPatchPredictor(vit)
    assert sum(each.parameters for each in layers) == predictor.count_params()
    assert layer_flops(predictor.get_layer("predictions"), (24, 96)) == masked["predictions"]
    assert layer_flops(vit.get_layer("encoderblock_1"), (25, 96)) == masked["encoderblock_1"]


def test_a_block_holds_what_was_fitted_to_xla():
    tokens, dropping = 1 + 6 * 10, replace(SMALL, dropout=0.1, attention_dropout=0.1)
    for spec, width, hidden, scores in ((SMALL, 10, 3, 3.5), (dropping, 12, 5, 5.5)):
        held = {layer.name: layer.held for layer in profile.profile(spec, 5, (48, 80))}
        block = tokens * (width * 96 + hidden * 384) + round(scores * 3 * tokens**2)
        expected = {"images": 3 * 48 * 80, "encoderblock_0": block, "encoderblock_1": block}
        assert {name: n for name, n in held.items() if n} == expected
    held = {layer.name: layer.held for layer in profile.profile(CASES["bit"][0], 5, (70, 96))}
    assert held["conv_root"] == 4 * 35 * 48 * 64
    assert held["block2_unit1"] == 4 * (18 * 24 * 128 + 9 * 12 * (128 + 512 + 512))


@pytest.mark.parametrize("name", ["ViT-B_16", "R50+ViT-B_16", "BiT-R50x1"])
def test_the_layers_have_all_parameters_in_the_order_of_the_model(name):
    layers = profile.profile(VARIANTS[name])
    assert sum(layer.parameters for layer in layers) == parameter_count(VARIANTS[name])
    names = [layer.name for layer in layers]
    assert (names[0], names[-1]) == ("images", "head")
    if "R50+" in name:
        assert names.index("block3_unit9") < names.index("patch_encoder")
    joined = profile.grouped(layers)
    for field in ("parameters", "flops", "held"):
        totals = [sum(getattr(each, field) for each in of) for of in (layers, joined)]
        assert totals[0] == totals[1] > 0
    assert len(joined) < len(layers)


def test_operations_are_counted_on_tensorflow_only(invoke, monkeypatch, tmp_path):
    monkeypatch.setattr("keras_vit.evaluation.flops.backend", lambda: "jax")
    expected = (
        "operations are counted in TensorFlow's graph, which needs KERAS_BACKEND=tensorflow. "
        "Received: KERAS_BACKEND=jax."
    )
    words = ("--model", "ViT_Pico4", "--count")
    code, out, error = invoke("train/profile_model.py", *words, cwd=tmp_path)
    assert (code, out, len(error.splitlines())) == (2, "", 1)
    assert expected in error


def test_the_command_prints_a_table_and_counts(invoke, tmp_path):
    words = ("--model", "ViT_Pico4", "--image-size", "32", "--num-classes", "10", "--count")
    code, out, error = invoke("train/profile_model.py", *words, cwd=tmp_path)
    assert code == 0, error
    line = next(line for line in out.splitlines() if line.startswith("encoderblock_0 to 3"))
    assert line.split()[3:5] == ["133,888", "21.4"]
    total = sum(profile.forward_flops(VARIANTS["ViT-Pico_4"], 10, 32).values())
    assert f"TensorFlow's graph has the same {total:,} operations" in out
