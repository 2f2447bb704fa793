"""The JSON files that timm and transformers read together with a model's safetensors file."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from keras_vit.specs import Preprocessing, ResNetSpec, ResNetStem, ViTSpec
from keras_vit.weights.dialects import TIMM_OPTIONS

# timm can build a ViT of any size from any ViT's name and these arguments. For hybrids, the name
# must have the right ResNet and patch size.
_TIMM_STEMS = {
    (ResNetStem(), 8): "vit_tiny_r_s16_p8_224",
    (ResNetStem((2, 2, 2, 2)), 1): "vit_base_r26_s32_224",
    (ResNetStem((3, 4, 9)), 1): "vit_base_r50_s16_224",
    (ResNetStem((3, 4, 6, 3)), 1): "vit_base_r50_s32_224",
}
_TIMM_BIT = {
    ResNetSpec((3, 4, 6, 3), 1): "resnetv2_50x1_bit",
    ResNetSpec((3, 4, 23, 3), 1): "resnetv2_101x1_bit",
    ResNetSpec((3, 4, 6, 3), 3): "resnetv2_50x3_bit",
    ResNetSpec((3, 4, 23, 3), 3): "resnetv2_101x3_bit",
    ResNetSpec((3, 8, 36, 3), 4): "resnetv2_152x4_bit",
}
# timm's names for the poolings that it has.
TIMM_POOLINGS = {"token": "token", "gap": "avg", "map": "map", "distilled": "token", "none": ""}
_TIMM_DISTILLED = "deit_base_distilled_patch16_224"
# The resizes that the hubs have, with the codes of PIL.Image.Resampling.
PIL_CODES = {"nearest": 0, "bilinear": 2, "bicubic": 3}


def timm_files(model: Any) -> dict[str, dict[str, Any]]:
    """config.json for `timm.create_model("local-dir:FOLDER")`; {} if timm has no such model."""
    spec = model.spec
    if isinstance(spec, ResNetSpec):
        architecture, arguments = _TIMM_BIT.get(dataclasses.replace(spec, in_channels=3)), {}
    else:
        hybrid = _TIMM_STEMS.get((spec.stem, spec.patch_size))
        plain = _TIMM_DISTILLED if spec.distillation_token else "vit_base_patch16_224"
        architecture = hybrid if spec.stem else plain
        arguments = _timm_arguments(model)
    if architecture is None:
        return {}
    if spec.in_channels != 3:
        arguments["in_chans"] = spec.in_channels
    config = {
        "architecture": architecture,
        "num_classes": model.num_classes,
        "model_args": arguments,
        "pretrained_cfg": _timm_preprocessing(model),
    }
    return {"config.json": config | ({"label_names": list(model.labels)} if model.labels else {})}


def transformers_files(model: Any) -> dict[str, dict[str, Any]]:
    """config.json and preprocessor_config.json of transformers, for a ViT without a stem."""
    spec, (height, width) = model.spec, model.image_size
    labels = model.labels or [f"LABEL_{i}" for i in range(model.num_classes)]
    config = {
        "architectures": ["ViTForImageClassification" if model.num_classes else "ViTModel"],
        "model_type": "vit",
        "hidden_size": spec.hidden_dim,
        "num_hidden_layers": spec.depth,
        "num_attention_heads": spec.num_heads,
        "intermediate_size": spec.mlp_dim,
        "hidden_act": {"erf": "gelu", "tanh": "gelu_pytorch_tanh"}[spec.gelu],
        "layer_norm_eps": spec.layer_norm_eps,
        "hidden_dropout_prob": spec.dropout,
        "attention_probs_dropout_prob": spec.attention_dropout,
        "image_size": height if height == width else [height, width],
        "patch_size": spec.patch_size,
        "num_channels": spec.in_channels,
        "qkv_bias": True,
        "pooler_output_size": spec.representation_dim or spec.hidden_dim,
        "pooler_act": "tanh",
        "id2label": {str(i): label for i, label in enumerate(labels)},
        "label2id": {label: i for i, label in enumerate(labels)},
    }
    files = {"config.json": config}
    preprocessing = model.preprocessing
    if preprocessing is not None and preprocessing.crop is None:
        files["preprocessor_config.json"] = {
            "image_processor_type": "ViTImageProcessor",
            "do_resize": True,
            "size": {"height": height, "width": width},
            "resample": PIL_CODES[preprocessing.interpolation],
            "do_rescale": True,
            "rescale_factor": 1 / 255,
            "do_normalize": True,
            "image_mean": _channels(preprocessing.mean, preprocessing.channels),
            "image_std": _channels(preprocessing.scale, preprocessing.channels),
        }
    return files


def _timm_arguments(model: Any) -> dict[str, Any]:
    spec: ViTSpec = model.spec
    arguments = {
        "img_size": list(model.image_size),
        "embed_dim": spec.hidden_dim,
        "depth": spec.depth,
        "num_heads": spec.num_heads,
        # timm truncates hidden * ratio; adding 0.5 protects against rounding errors.
        "mlp_ratio": (spec.mlp_dim + 0.5) / spec.hidden_dim,
        "class_token": spec.class_token,
        "global_pool": TIMM_POOLINGS[spec.pooling],
        "fc_norm": False,  # the norm precedes the pooling, as in the official code
        "act_layer": {"erf": "gelu", "tanh": "gelu_tanh"}[spec.gelu],
        "pos_embed": "learn" if spec.position_embedding == "learned" else "none",
    }
    for field, argument in TIMM_OPTIONS.items():
        if getattr(spec, field):
            arguments[argument] = getattr(spec, field)
    # For hybrids, the name determines the patch size.
    return arguments if spec.stem else arguments | {"patch_size": spec.patch_size}


def _timm_preprocessing(model: Any) -> dict[str, Any]:
    preprocessing: Preprocessing | None = model.preprocessing
    size = {"input_size": [model.spec.in_channels, *model.image_size]}
    if preprocessing is None:
        return size
    return size | {
        "interpolation": preprocessing.interpolation,
        "crop_pct": preprocessing.crop or 1.0,
        "crop_mode": "squash" if preprocessing.crop is None else "center",
        "mean": _channels(preprocessing.mean, preprocessing.channels),
        "std": _channels(preprocessing.scale, preprocessing.channels),
    }


def _channels(value: float | tuple[float, ...], channels: int) -> list[float]:
    # From pixel values in [0, 255] to [0, 1], one value for each channel.
    return (np.broadcast_to(value, channels) / 255).tolist()
