"""The table of variants: names, exact sizes, constructors."""

import functools
import itertools
import re
from pathlib import Path

import numpy as np
import pytest

import keras_vit
from keras_vit import ResNetSpec, ResNetStem, models
from keras_vit.encoder.positions import POSITION_EMBEDDINGS
from keras_vit.models.pretrained import model_class
from keras_vit.variant_specs import VARIANTS, find_variant
from keras_vit.weights import parameter_count

# At 224 pixels and 1000 classes; google-research/vision_transformer `models_test.py`, timm's
# `resnetv2_*_bit` for BiT and `Eva` for DINOv3 and EVA-02 (`qkvb`, and `vit_7b` without these
# biases), transformers' DINOv2 without its mask token. Pico by hand: 3,072 + 64
# (patches) + 64 (class token) + 64 * 3137 (positions) + 4 * 33,472 (blocks) + 128 (norm) + 65,000
# (head); in its hybrid 64 * (147 + 2) of the stem and 64 * 65 replace the patches' weights. The
# page has all but four of these counts.
PAGE = (Path(__file__).parents[2] / "docs/models.md").read_text()
COUNTS = re.findall(r"\| (\S+)(?: \(for tiny images\))? \| ([\d,]+)(?= \|)", PAGE)
PARAMETERS = {name: int(count.replace(",", "")) for name, count in COUNTS} | {
    "ViT-S_16-gap": 22_049_896,
    "ViT-S_32-gap": 22_878_184,
    "ViT-B_16-gap": 86_566_120,
    "ViT-B_32-gap": 88_222_696,
}
BIT = ResNetSpec((1, 1, 1, 1))


@pytest.mark.parametrize("name", VARIANTS)
def test_exact_parameter_count_without_building(name):
    assert parameter_count(VARIANTS[name]) == PARAMETERS[name]


def hybrid(pooling, positions="learned"):
    width = None if pooling == "distilled" else 20
    stem = ResNetStem((1, 1))
    return keras_vit.ViTSpec(1, 48, 2, 3, 112, pooling, width, positions, stem=stem)


@pytest.mark.flavours
@pytest.mark.parametrize("num_classes", [0, 5])
@pytest.mark.parametrize(
    "spec",
    [
        *itertools.starmap(hybrid, itertools.product(("token", "gap"), POSITION_EMBEDDINGS)),
        *map(hybrid, ("map", "distilled", "distilled_token", "none", "token_mean")),
        keras_vit.ViTSpec(8, 48, 2, 3, 112, registers=4, layer_scale=0.1, mlp_kind="gated"),
        keras_vit.ViTSpec(8, 48, 2, 3, 112, "token_gap", mlp_kind="gated_norm", key_bias=False),
        keras_vit.ViTSpec(8, 48, 2, 3, 112, "gap", qk_norm=True, norm_after_pooling=True),
        keras_vit.ViTSpec(8, 48, 2, 3, 112, embedding_norm=True, patch_bias=False),
        keras_vit.ViTSpec(8, 48, 2, 3, 112, "map", projection_dim=40),
        ResNetSpec((2, 1, 1, 1), width=2),
    ],
)
def test_parameter_count_equals_the_built_model(spec, num_classes):
    model = model_class(spec)(spec, num_classes, (16, 24))
    assert parameter_count(spec, num_classes, (16, 24)) == model.count_params()


SPELLINGS = {
    "ViT-B_16": ("B/16", "B_16"),
    "ViT-Ti_16": ("Ti/16", "ViT_Ti16", "vit-ti/16", "ViT-Ti_16", "VITTI16"),
    "ViT-S_16-gap": ("s/16-gap",),
    "R50+ViT-L_32": ("R50+L/32", "R50_L_32", "R50_ViT_L32"),
    "R+ViT-Ti_16": ("R_Ti_16",),
    "R26+ViT-S_32": ("R26+ViT-S/32",),
    "DINOv2-S_14": ("dinov2-s14", "DINOv2_S14"),
    "DINOv2-G_14-reg4": ("dinov2-g14-reg4",),
    "DINOv3-S_16": ("dinov3-s16",),
    "DINOv3-S_16-plus": ("dinov3-s16-plus", "DINOv3_S16_plus"),
    "DINOv3-7B_16": ("dinov3-7b16",),
    "CLIP-B_16": ("clip-b16", "CLIP_B16"),
    "SigLIP-So400m_14": ("siglip-so400m/14", "SigLIP_So400m14"),
    "EVA02-B_14": ("eva02-b14", "EVA02_B14"),
    "BiT-R50x1": ("bit_r50x1",),
    "BiT-R152x4": ("R152x4",),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_spellings(name):
    # TensorFlow refuses the plus in scopes, so models have another name.
    for spelling in (name, name.replace("+", "_"), *SPELLINGS.get(name, ())):
        assert find_variant(spelling) == name


def test_constructors_are_the_table():
    assert keras_vit.list_models() == list(VARIANTS)
    assert VARIANTS.keys() == PARAMETERS.keys()
    constructors = {
        n for n in models.__all__ if re.match(r"(R\d*_)?ViT_|BiT_|DINOv\d_|EVA02_|(Sig|C)LIP_", n)
    }
    assert len(constructors) == len(VARIANTS)
    for name in constructors:
        assert getattr(keras_vit, name).__name__ == name
    model = keras_vit.R_ViT_Ti16(num_classes=3, image_size=32)
    assert model.count_params() == parameter_count(VARIANTS["R+ViT-Ti_16"], 3, 32)
    assert model.name == "R_ViT-Ti_16"


def test_unknown_name_suggests_the_nearest_or_lists_all():
    for name, message in (
        ("ViT_B61", "did you mean .*ViT-B_16"),
        ("ViT-L15", "did you mean .*ViT-L_16"),
        ("resnet50", "choose one of ViT-Pico_4, .*BiT-R152x4"),
    ):
        with pytest.raises(keras_vit.UsageError, match=message):
            keras_vit.create_model(name)


def test_overrides_reach_the_spec():
    model = keras_vit.ViT_Pico4(2, pooling="gap", dropout=0.2)
    assert (model.spec.pooling, model.spec.dropout) == ("gap", 0.2)
    assert model.image_size == (32, 32)  # the smallest model is for tiny images
    assert keras_vit.create_model("vit_pico4", 2, 16).image_size == (16, 16)


@pytest.fixture
def constructors(small_spec, tmp_path):
    """All that build a model of some classes and an image size, with the name in their errors."""
    keras_vit.save_weights(keras_vit.ViT(small_spec, 2, 16), tmp_path / "w.npz")
    return [
        ("ViT", functools.partial(keras_vit.ViT, small_spec)),
        ("BiT", functools.partial(keras_vit.BiT, BIT)),
        ("ViT-Pico_4", keras_vit.ViT_Pico4),
        ("ViT-Pico_4", functools.partial(keras_vit.create_model, "pico/4")),
        ("model_from_weights", functools.partial(keras_vit.model_from_weights, tmp_path / "w.npz")),
    ]


ARGUMENTS = ["num_classes", "image_size", "preprocessing", "labels", "head_bias", "dtype", "name"]


@pytest.mark.parametrize(
    ("keyword", "meant"),
    [
        ("classes", "num_classes"),
        ("droput", "dropout"),
        ("image_sise", "image_size"),
        ("include_top", r"num_classes \(0 for no head\)"),
        ("input_shape", "image_size"),
        ("label", "labels"),
        ("optimizer", None),
    ],
)
def test_an_unknown_keyword_names_the_nearest_and_lists_all(constructors, keyword, meant):
    for name, build in constructors:
        with pytest.raises(keras_vit.UsageError) as raised:
            build(2, 16, **{keyword: 5})
        message = str(raised.value)
        known = meant and not (name == "BiT" and meant == "dropout")
        suggestion = rf"\. Did you mean {meant}[^.]*\?" if known else r"\."
        assert re.match(rf"{name} has no argument '{keyword}'{suggestion} Arguments: ", message)
        listed = message.split("Arguments: ")[1]
        for argument in [*ARGUMENTS, "width" if name == "BiT" else "dropout"]:
            assert argument in listed


@pytest.mark.flavours
def test_arguments_after_the_image_size_are_keywords(constructors):
    for _, build in constructors:
        with pytest.raises(TypeError, match="positional arguments but"):
            build(2, 16, None)


@pytest.mark.flavours
def test_every_constructor_reaches_the_head_bias_the_policy_and_the_name(constructors):
    for _, build in constructors:
        model = build(3, 16, head_bias=-10.0, dtype="mixed_bfloat16", name="mine")
        np.testing.assert_array_equal(np.asarray(model.get_layer("head").bias), -10)
        assert model.name == "mine"
        assert model.dtype_policy.name == "mixed_bfloat16"


@pytest.mark.flavours
@pytest.mark.parametrize("channels", [1, 4, 13])
@pytest.mark.parametrize("name", ["ViT-Pico_4", "R+ViT-Pico_4", "BiT-R8x1"])
def test_a_model_reads_the_channels_of_its_spec(name, channels):
    model = keras_vit.create_model(name, 5, in_channels=channels)
    assert model(np.zeros((2, 32, 32, channels), np.float32)).shape == (2, 5)
    assert model.count_params() == parameter_count(model.spec, 5, 32)
    again = type(model).from_config(model.get_config())
    assert (again.spec, again.preprocessing) == (model.spec, model.preprocessing)
    made_from_pictures = keras_vit.Preprocessing(32, 32, channels=1) if channels == 1 else None
    assert model.preprocessing == made_from_pictures


@pytest.mark.parametrize(("channels", "advice"), [(1, "set its channels=1"), (4, "leave it out")])
def test_a_preprocessing_for_other_channels_is_refused(channels, advice):
    message = f"in_channels={channels}. Received: channels=3; {advice}"
    own = keras_vit.Preprocessing(32, 32)
    with pytest.raises(keras_vit.UsageError, match=message):
        keras_vit.create_model("ViT-Pico_4", in_channels=channels, preprocessing=own)
