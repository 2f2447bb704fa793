"""Preprocessing from config files, compared with the steps of timm and transformers."""

import math

import numpy as np
import pytest
from PIL import Image

from keras_vit import Preprocessing, UsageError
from keras_vit.data import preprocess
from keras_vit.weights.hub_config import stated_numerics
from keras_vit.weights.hub_preprocessing import timm_preprocessing, transformers_preprocessing

HALF = [0.5, 0.5, 0.5]
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
IMAGENET = {"mean": (123.675, 116.28, 103.53), "scale": (58.395, 57.12, 57.375)}
# `vit_base_patch16_224.augreg_in21k_ft_in1k`.
AUGREG = {"input_size": [3, 224, 224], "interpolation": "bicubic", "mean": HALF, "std": HALF}
AUGREG |= {"crop_pct": 0.9, "crop_mode": "center"}
# `google/vit-base-patch16-224` in the spelling of 2021, `google/bit-50` in today's.
OLD_VIT = {"do_normalize": True, "do_resize": True, "image_mean": HALF, "image_std": HALF}
OLD_VIT |= {"size": 224}
BIT = OLD_VIT | {
    "crop_size": {"height": 448, "width": 448},
    "do_center_crop": True,
    "do_convert_rgb": True,
    "do_rescale": True,
    "image_processor_type": "BitImageProcessor",
    "resample": 2,
    "rescale_factor": 0.00392156862745098,
    "size": {"shortest_edge": 448},
}
PLAIN = Preprocessing(224, 224)
# Of panoptic EoMTs, and of semantic ones, which see windows of 512 pixels.
EOMT = {"image_processor_type": "EomtImageProcessorFast", "do_pad": True}
WINDOWS = {"do_pad": False, "do_split_image": True, "size": {"shortest_edge": 512}}
PADS_96 = Preprocessing(96, 96, pad=True, **IMAGENET)
STRETCHED, CROPPED = (Preprocessing(224, 224, crop, "bicubic") for crop in (None, 0.875))
OLD_IMAGENET = OLD_VIT | {"image_mean": MEAN, "image_std": STD}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, Preprocessing(224, 224, 224 / 248, "bicubic")),
        ({"mean": MEAN, "std": STD}, Preprocessing(224, 224, 224 / 248, "bicubic", **IMAGENET)),
        ({"crop_mode": "squash", "crop_pct": 1.0}, Preprocessing(224, 224, None, "bicubic")),
        ({"crop_pct": 1.0}, Preprocessing(224, 224, 1.0, "bicubic")),
        (
            {"input_size": [3, 256, 128], "interpolation": "bilinear", "crop_pct": 0.5},
            Preprocessing(256, 128, 0.5, "bilinear"),
        ),
    ],
)
def test_timm_maps_to_pixel_values(change, expected):
    stated = AUGREG | change
    assert timm_preprocessing(stated) == expected
    assert timm_preprocessing({"architecture": "vit", "pretrained_cfg": stated}) == expected


def test_absent_fields_have_the_defaults_of_timm():
    expected = Preprocessing(224, 224, 0.875, "bicubic", **IMAGENET)
    for config in ({"pretrained_cfg": {}}, {"crop_pct": None, "crop_mode": ""}):
        assert timm_preprocessing(config) == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"crop_mode": "border"}, "is not supported. Received: crop_mode='border'"),
        ({"crop_mode": "squash"}, "Received: crop_mode='squash' with crop_pct=0.9; pass prepro"),
        ({"interpolation": "lanczos"}, "Received: interpolation='lanczos'"),
        ({"interpolation": ["bicubic"]}, "Received: interpolation="),
        ({"crop_pct": 1.2}, r"crop_pct must lie in \[0.01, 1\]. Received: crop_pct=1.2"),
        ({"crop_pct": 1e-320}, r"crop_pct must lie in \[0.01, 1\]"),
        ({"crop_pct": "0.9"}, "crop_pct must be a number"),
        ({"input_size": [4, 28, 28]}, r"input_size must be \[3 or 1, height, width\]"),
        ({"input_size": [3, 10**12, 1]}, "input_size must be 1 to 65536 pixels"),
        ({"input_size": [3, True, 1]}, "input_size must be 1 to 65536 pixels"),
        ({"mean": [0.5, 0.5]}, r"mean must be a number or three. Received: mean=\[0.5, 0.5\]"),
        ({"std": [0.5, 0.5, 0]}, "scale must be positive"),
        ({"std": [0.5, "x" * 10_000, 0]}, "std must be a number"),
        ({"mean": 10**4000}, "mean must be a number. Received: mean=an integer of 13,288 bits"),
        ({"pretrained_cfg": []}, r"pretrained_cfg must be an object. Received: \[\]"),
    ],
)
def test_unsupported_timm_preprocessing_is_refused_in_one_line(change, message):
    with pytest.raises(UsageError, match=message) as refusal:
        timm_preprocessing(AUGREG | change)
    assert "\n" not in str(refusal.value)


SIZES = {"hidden_dim": 48, "depth": 2, "mlp_dim": 96, "patch_size": 8, "in_channels": 3}
SIZES |= {"registers": 0, "mlp_kind": "plain", "query_bias": True}
GATED = {"mlp_dim": 128, "mlp_kind": "gated"}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"hidden_size": 96}, "hidden_size=96, .* whose hidden_dim is 48"),
        ({"num_hidden_layers": 3}, "num_hidden_layers=3, .* whose depth is 2"),
        ({"num_attention_heads": 5}, "num_attention_heads=5, .* whose hidden_dim is 48"),
        ({"intermediate_size": 192}, "intermediate_size=192, .* whose mlp_dim is 96"),
        ({"patch_size": [16, 16]}, r"patch_size=\[16, 16\], .* whose patch_size is 8"),
        ({"num_channels": 1}, "num_channels=1, .* whose in_channels is 3"),
        ({"model_args": {"embed_dim": "48"}}, "embed_dim='48', .* whose hidden_dim is 48"),
        ({"model_args": {"depth": 3}}, "depth=3, .* whose depth is 2"),
        ({"model_args": {"num_heads": 5}}, "num_heads=5, .* whose hidden_dim is 48"),
        ({"model_args": {"in_chans": 1}}, "in_chans=1, .* whose in_channels is 3"),
        ({"model_args": {"mlp_ratio": 4.0}}, "mlp_ratio=4.0, .* whose mlp_dim is 96"),
        ({"pretrained_cfg": {"input_size": [1, 9, 9]}}, r"=\[1, 9, 9\], .* whose in_channels is 3"),
        # The keys of a model that pools in another way are the same.
        ({"global_pool": "max"}, "it has a class token and the pooling 'max'"),
        ({"model_args": {"global_pool": "map"}}, "it has a class token and the pooling 'map'"),
        ({"num_register_tokens": 4}, "num_register_tokens=4, .* whose registers is 0"),
        ({"model_args": {"reg_tokens": 4}}, "reg_tokens=4, .* whose registers is 0"),
        ({"use_swiglu_ffn": True}, "use_swiglu_ffn=True, .* whose mlp_kind is plain"),
        ({"model_args": {"qkv_bias": False}}, "qkv_bias=False, .* whose query_bias is True"),
        ({"hidden_act": "relu"}, "its activation is 'relu'; supported are gelu, "),
        ({"hidden_act": ["gelu"]}, "its activation is .*; supported are gelu"),
        ({"hidden_act": 3}, "its activation is 3; supported are gelu"),
        ({"model_args": {"norm_layer": "rmsnorm"}}, "its norm is 'rmsnorm'; supported are layern"),
        ({"layer_norm_eps": "small"}, "its epsilon is 'small'; expected a number between 0 and 1"),
        ({"layer_norm_eps": 0.0}, "its epsilon is 0.0; expected a number between 0 and 1"),
    ],
)
def test_a_config_that_contradicts_the_weights_or_the_library_is_refused(config, message):
    message = message.replace(", .* whose", ", which contradicts the weights, whose")
    with pytest.raises(UsageError, match=message):
        stated_numerics(config, SIZES, class_token=True)


@pytest.mark.parametrize(
    ("config", "width", "heads"),
    [
        ({"architecture": "vit_little_patch16_reg4_gap_256"}, 320, 5),
        ({"architecture": "vit_wee_patch16_reg1_gap_256"}, 256, 4),
        ({"architecture": "vit_medium_patch16_rope_reg1_gap_256"}, 512, 8),
        ({"architecture": "vit_base_patch16_224"}, 288, None),
        ({"architecture": "vit_base_patch16_224", "model_args": {"embed_dim": 320}}, 320, None),
        ({"architecture": "vit_base_patch16_224", "model_args": {"num_heads": 10}}, 320, 10),
        ({"hidden_size": 320}, 320, None),
    ],
)
def test_heads_of_timms_architectures_are_known(config, width, heads):
    stated = stated_numerics(config, {**SIZES, "hidden_dim": width}, class_token=False)
    assert stated.get("num_heads") == heads


@pytest.mark.parametrize(
    ("config", "changes"),
    [
        ({"hidden_size": None, "layer_norm_eps": None}, {}),
        ({"patch_size": [8, 8]}, {}),
        ({"pretrained_cfg": {"input_size": None}}, {}),
        ({"model_args": {"patch_size": [8, 8], "in_chans": 3}}, {}),
        ({"model_args": {"mlp_ratio": 2.01}}, {}),
        # A gated MLP has two thirds of the width, or timm counts its two layers.
        ({"mlp_ratio": 4, "use_swiglu_ffn": True}, GATED),
        ({"model_args": {"mlp_ratio": 5.34}}, GATED),
        # timm's EVA-02 counts one.
        ({"model_args": {"mlp_ratio": 2.67, "swiglu_mlp": True}}, GATED),
        # A ratio of an unknown width, and timm's default of three channels.
        ({"model_args": {"mlp_ratio": 3}}, {"hidden_dim": None}),
        ({"pretrained_cfg": {"input_size": [3, 28, 28]}}, {"in_channels": 1}),
    ],
)
def test_sizes_may_be_written_in_other_ways(config, changes):
    sizes = {name: size for name, size in (SIZES | changes).items() if size}
    gated = {"activation": "silu"} if "use_swiglu_ffn" in config else {}
    assert stated_numerics(config, sizes, class_token=True) == gated


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (OLD_VIT, PLAIN),
        ({}, PLAIN),
        (BIT, Preprocessing(448, 448, 1.0)),
        (
            {"image_processor_type": "DINOv3ViTImageProcessorFast"},
            Preprocessing(224, 224, **IMAGENET),
        ),
        ({"image_processor_type": "SiglipImageProcessor"}, STRETCHED),
        ({"image_processor_type": "SiglipImageProcessorFast", "resample": 2}, PLAIN),
        ({"image_processor_type": "DeiTImageProcessor"}, CROPPED),
        ({"feature_extractor_type": "DeiTFeatureExtractor", "size": 256}, CROPPED),
        (OLD_IMAGENET, Preprocessing(224, 224, **IMAGENET)),
        (OLD_VIT | {"size": {"height": 32, "width": 48}}, Preprocessing(32, 48)),
        (OLD_VIT | {"resample": 3}, Preprocessing(224, 224, interpolation="bicubic")),
        (OLD_VIT | {"resample": 0}, Preprocessing(224, 224, interpolation="nearest")),
        (OLD_VIT | {"do_normalize": False}, Preprocessing(224, 224, mean=0.0, scale=255.0)),
        (OLD_VIT | {"rescale_factor": 1 / 127.5, "image_mean": 1, "image_std": 1.0}, PLAIN),
        (OLD_VIT | {"do_center_crop": True, "crop_size": 224}, PLAIN),
        (BIT | {"size": 512}, Preprocessing(448, 448, 0.875)),
        ({"feature_extractor_type": "ViTFeatureExtractor", "image_std": None}, PLAIN),
        (
            {"image_processor_type": "ViTHybridImageProcessorFast", "image_mean": 0.5},
            Preprocessing(224, 224, 1.0, "bicubic", 127.5, (68.500533, 66.632158, 70.323163)),
        ),
        (EOMT, Preprocessing(640, 640, pad=True, **IMAGENET)),
        (EOMT | {"size": {"shortest_edge": 96, "longest_edge": 96}, "do_pad": True}, PADS_96),
        (EOMT | WINDOWS, Preprocessing(512, 512, crop=1.0, **IMAGENET)),
    ],
)
def test_transformers_maps_to_pixel_values(config, expected):
    assert transformers_preprocessing(config) == expected


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (OLD_VIT | {"do_rescale": False}, "is not supported. Received: do_rescale=False; pass"),
        (OLD_VIT | {"do_resize": False}, "Received: do_resize=False"),
        (OLD_VIT | {"do_pad": True}, "Received: do_pad=True"),
        (OLD_VIT | {"rescale_offset": True}, "Received: rescale_offset=True"),
        (OLD_VIT | {"resample": 1}, "Received: resample='lanczos'"),
        (OLD_VIT | {"resample": 9}, "Received: resample=9"),
        (OLD_VIT | {"size": {"shortest_edge": 224}}, "'shortest_edge': 224} without do_center_cr"),
        (OLD_VIT | {"size": {"longest_edge": 224}}, "Received: size={'longest_edge': 224}"),
        (OLD_VIT | {"size": {"height": -1, "width": 2}}, "size must be 1 to 65536 pixels"),
        (OLD_VIT | {"rescale_factor": 0}, "rescale_factor must be positive"),
        (BIT | {"crop_size": 500}, "Received: crop_size=500 of size={'shortest_edge': 448}"),
        (BIT | {"crop_size": {"height": 200, "width": 100}}, "Received: crop_size="),
        (
            {"image_processor_type": "DINOv3ViTImageProcessor", "do_center_crop": True}
            | {"crop_size": 200},
            "Received: crop_size=200 of size={'heig",
        ),
        ({"image_processor_type": "ConvNextImageProcessor"}, "Received: image_processor_type='Co"),
        ({"image_processor_type": ["ViT"] * 1000}, "Received: image_processor_type="),
        (EOMT | {"size": {"shortest_edge": 96, "longest_edge": 128}}, "with do_split_image=False"),
        (EOMT | WINDOWS | {"do_pad": True}, "Received: do_pad=True with do_split_image"),
        (EOMT | {"size": {"height": 96, "width": 96}}, "Received: size={'height': 96"),
        (OLD_VIT | {"do_split_image": True}, "Received: do_split_image=True"),
        (OLD_VIT | {"image_mean": [0.5] * 4}, "image_mean must be a number or three"),
        (OLD_VIT | {"image_mean": {"r": 1}}, "image_mean must be a number"),
    ],
)
def test_unsupported_transformers_preprocessing_is_refused_in_one_line(config, message):
    with pytest.raises(UsageError, match=message) as refusal:
        transformers_preprocessing(config)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize("size", [(640, 424), (424, 640), (424, 424)])
@pytest.mark.parametrize("crop_pct", [0.875, 0.9, 1.0])
def test_a_crop_has_the_pixels_of_timm(size, crop_pct):
    from sklearn.datasets import load_sample_image

    photograph = Image.fromarray(load_sample_image("china.jpg"))
    image = photograph.resize(size, Image.Resampling.BICUBIC)
    actual = preprocess(np.asarray(image), timm_preprocessing(AUGREG | {"crop_pct": crop_pct}))
    # timm resizes the short side, and the other as torchvision rounds it; then it cuts. Of these
    # sizes it cuts off an even number of pixels, which is not rounded.
    sides = [math.floor(224 / crop_pct) * side // min(size) for side in size]
    left, top = (round((side - 224) / 2) for side in sides)
    resized = image.resize(sides, Image.Resampling.BICUBIC)
    expected = np.asarray(resized.crop((left, top, left + 224, top + 224)), np.float64)
    assert np.abs(actual[0] * 127.5 + 127.5 - expected).mean() < 0.001  # of 255
