"""timm's ViTs, hybrids and BiTs.

Sources: timm `models/vision_transformer.py`, `deit.py` and `resnetv2.py`.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any

from keras_vit.specs import ResNetStem, ViTSpec
from keras_vit.variant_specs import VARIANTS
from keras_vit.weights.families.family import (
    ANY,
    NOT_WEIGHTS,
    PLAIN_OR_GATED,
    Family,
    Only,
    Places,
    ShapeOf,
    places_of,
)
from keras_vit.weights.hub_config import model_args
from keras_vit.weights.hub_preprocessing import timm_config
from keras_vit.weights.names import POSITION_TABLE
from keras_vit.weights.places import Place
from keras_vit.weights.tensors import METADATA

_ENCODER = """
patch_encoder/class_token          cls_token          same
patch_encoder/distillation_token   dist_token         same
patch_encoder/register_tokens      reg_token          same
patch_encoder/positions            pos_embed          same
patch_encoder/projection           patch_embed.proj   conv
patch_encoder/norm                 norm_pre           flat
encoder_norm                       norm               flat
pooling/probe                      attn_pool.latent   same
pooling/attention/query            attn_pool.q        in
pooling/attention/key              attn_pool.kv       in     0/2
pooling/attention/value            attn_pool.kv       in     1/2
pooling/attention/out              attn_pool.proj     out
pooling/norm                       attn_pool.norm     flat
pooling/mlp/dense_0                attn_pool.mlp.fc1  in
pooling/mlp/dense_1                attn_pool.mlp.fc2  in
head                               head               in
head/distillation_kernel           head_dist.weight   in
head/distillation_bias             head_dist.bias     flat
"""
_BLOCK = """
norm_attention     norm1      flat
attention/query    attn.qkv   in    0/3
attention/key      attn.qkv   in    1/3
attention/value    attn.qkv   in    2/3
attention/out      attn.proj  out
attention/query_norm    attn.q_norm    flat
attention/key_norm      attn.k_norm    flat
scale_attention    ls1.gamma  same
norm_mlp           norm2      flat
mlp/dense_0        mlp.fc1    in
mlp/dense_1        mlp.fc2    in
scale_mlp          ls2.gamma  same
"""
# A layer of both, with the gate first.
_GATE = """
mlp/gate       mlp.fc1    in    0/2
mlp/dense_0    mlp.fc1    in    1/2
"""
_ROOT = """
conv_root    conv    conv
gn_root      norm    flat
"""
_UNIT = """
conv1        conv1              conv
gn1          norm1              flat
conv2        conv2              conv
gn2          norm2              flat
conv3        conv3              conv
gn3          norm3              flat
conv_proj    downsample.conv    conv
gn_proj      downsample.norm    flat
"""
_BIT = """
conv_root     stem.conv   conv
group_norm    norm        flat
head          head.fc     conv
"""
_UNITS = "block{i}_unit{j}/"
# timm can build a ViT of any size from any ViT's name and these arguments. For hybrids, the name
# must have the right ResNet and patch size.
_PLAIN, _DISTILLED = "vit_base_patch16_224", "deit_base_distilled_patch16_224"
_GATED, _CLIP = "vit_giant_patch14_dinov2", "vit_base_patch16_clip_224"
_STEMS = {
    (ResNetStem(), 8): "vit_tiny_r_s16_p8_224",
    (ResNetStem((2, 2, 2, 2)), 1): "vit_base_r26_s32_224",
    (ResNetStem((3, 4, 9)), 1): "vit_base_r50_s16_224",
    (ResNetStem((3, 4, 6, 3)), 1): "vit_base_r50_s32_224",
}
_RESNETS = {
    VARIANTS[f"BiT-R{size}"]: f"resnetv2_{size}_bit"
    for size in ("50x1", "50x3", "101x1", "101x3", "152x4")
}
_POOLINGS = {
    **{"token": "token", "gap": "avg", "token_gap": "avg", "map": "map", "distilled": "token"},
    "none": "",
}
_ACTIVATIONS = {"erf": "gelu", "tanh": "gelu_tanh", "quick": "quick_gelu", "silu": "silu"}


def _files(model: Any) -> dict[str, dict[str, Any]]:
    spec: ViTSpec = model.spec
    kinds = (
        (spec.stem, _STEMS.get((spec.stem, spec.patch_size))),
        (spec.distillation_token, _DISTILLED),
        (_is_gated(spec), _GATED),
        (spec.embedding_norm, _CLIP),
        (True, _PLAIN),
    )
    architecture = next(name for applies, name in kinds if applies)
    return config_of(model, architecture, _arguments(model))


def _arguments(model: Any) -> dict[str, Any]:
    spec: ViTSpec = model.spec
    # Both halves of a gated MLP are one layer.
    arguments = sizes_of(model, layers=1 + _is_gated(spec)) | {
        "fc_norm": spec.norm_after_pooling,
        "act_layer": _ACTIVATIONS[spec.activation],
        "pos_embed": "learn" if spec.position_embedding == "learned" else "none",
    }
    if spec.registers:
        arguments |= {"reg_tokens": spec.registers, "no_embed_class": False}
    # For hybrids, the name determines the patch size.
    return arguments if spec.stem else arguments | {"patch_size": spec.patch_size}


def sizes_of(model: Any, layers: int = 1) -> dict[str, Any]:
    """The arguments that timm's ViTs share; `layers` of the width mlp_dim are one layer there."""
    spec: ViTSpec = model.spec
    return {
        "img_size": list(model.image_size),
        "embed_dim": spec.hidden_dim,
        "depth": spec.depth,
        "num_heads": spec.num_heads,
        # timm truncates hidden * ratio; adding 0.5 protects against rounding errors.
        "mlp_ratio": (layers * spec.mlp_dim + 0.5) / spec.hidden_dim,
        "class_token": spec.class_token,
        "global_pool": _POOLINGS[spec.pooling],
        "qk_norm": spec.qk_norm,
        "init_values": spec.layer_scale,
    }


def config_of(model: Any, architecture: str | None, arguments: dict[str, Any]) -> dict[str, Any]:
    """config.json for `timm.create_model("local-dir:FOLDER")`; {} without an architecture."""
    if architecture is None:
        return {}
    if model.spec.in_channels != 3:
        arguments["in_chans"] = model.spec.in_channels
    config = {
        "architecture": architecture,
        "num_classes": model.num_classes,
        "model_args": arguments,
        "pretrained_cfg": timm_config(model),
    }
    return {"config.json": config | ({"label_names": list(model.labels)} if model.labels else {})}


def _refuses(model: Any) -> str | None:
    spec: ViTSpec = model.spec
    if spec.distillation_token and (spec.stem or spec.position_embedding != "learned"):
        return "timm's distilled ViT has learned positions and no ResNet"
    if _is_gated(spec) and (spec.stem or spec.distillation_token):
        return "timm's ViT with gated MLPs has no ResNet and no distillation token"
    if spec.embedding_norm == spec.patch_bias or (spec.embedding_norm and spec.stem):
        return (
            "timm's ViT has a bias of patches or, without a ResNet, a norm before the blocks. "
            f"Received: patch_bias={spec.patch_bias}, embedding_norm={spec.embedding_norm}"
        )
    if spec.embedding_norm and (_is_gated(spec) or spec.distillation_token):
        return "timm's ViT with a norm before the blocks has plain MLPs and no distillation token"
    epsilon = spec.layer_norm_eps
    if epsilon != _CLIP_EPSILON if spec.embedding_norm else epsilon > _EPSILON:
        return (
            f"timm has a LayerNorm epsilon of {_EPSILON}, or of {_CLIP_EPSILON} with a norm before "
            f"the blocks, so its outputs would differ. Received: layer_norm_eps={epsilon}"
        )
    return None


def _is_gated(spec: ViTSpec) -> bool:
    return spec.mlp_kind == "gated"


def other_places(shape_of: ShapeOf, config: Mapping[str, Any]) -> Places:
    """See `Family.other_places`."""
    root = _ROOT_ALONE if shape_of("patch_embed.backbone.conv.weight") else {}
    outputs, inputs = (shape_of(f"blocks.0.mlp.fc{i}.weight") for i in (1, 2))
    gate = _PACKED if outputs and inputs and outputs[0] == 2 * inputs[-1] else {}
    tokens = shape_of("reg_token") or ()
    registers = tokens[1] if len(tokens) == 3 else 0
    if _only_patches_have_positions(shape_of, config):
        positions = {POSITION_TABLE: Place("pos_embed", "grid")} if shape_of("cls_token") else {}
    else:
        positions = _register_positions(bool(shape_of("cls_token")), registers)
    norm = _NORM_AFTER if shape_of(_FC_NORM) else {}
    return {**root, **gate, **positions, **norm}


def _only_patches_have_positions(shape_of: ShapeOf, config: Mapping[str, Any]) -> bool:
    stated = model_args(config).get("no_embed_class", False if METADATA in config else None)
    if stated is not None or shape_of("dist_token"):
        return stated is True
    # As big_vision decides it: the number of positions is a square. All published files with
    # registers are of this kind.
    table = shape_of("pos_embed") or ()
    is_square = len(table) == 3 and math.isqrt(table[1]) ** 2 == table[1]
    return is_square or shape_of("reg_token") is not None


def places_of_spec(spec: ViTSpec) -> Places:
    """See `Family.places_of_spec`."""
    root = _ROOT_ALONE if spec.stem and not spec.stem.stages else {}
    gate = _PACKED if _is_gated(spec) else {}
    norm = _NORM_AFTER if spec.norm_after_pooling else {}
    return {**root, **gate, **norm, **_register_positions(spec.class_token, spec.registers)}


def _shown(shape_of: ShapeOf, config: Mapping[str, Any]) -> dict[str, Any]:
    epsilon = {"layer_norm_eps": _CLIP_EPSILON} if shape_of("norm_pre.weight") else {}
    name = str(config.get("architecture"))
    kinds = [kind for pattern, kind in _ACTIVATION_OF.items() if re.fullmatch(pattern, name)]
    activation = {"activation": kinds[0]} if kinds else {}
    return {**norm_after_pooling(shape_of, config), **epsilon, **activation}


def norm_after_pooling(shape_of: ShapeOf, config: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the spec that timm's `fc_norm` shows."""
    after = shape_of(_FC_NORM) is not None
    return {"norm_after_pooling": after, **({"pooling": "token_gap"} if after else {})}


def _register_positions(class_token: bool, registers: int) -> Places:
    # timm's registers have positions, unless the class token has none either.
    return (
        {POSITION_TABLE: Place("pos_embed", zeros=(int(class_token), registers))}
        if registers
        else {}
    )


_ROOT_ALONE = places_of((_ROOT, "", "patch_embed.backbone."))
_PACKED = places_of((_GATE, "encoderblock_{i}/", "blocks.{i}."))
_NORM_AFTER = places_of(("encoder_norm fc_norm flat", "", ""))
_FC_NORM = "fc_norm.weight"
_EPSILON, _CLIP_EPSILON = 1e-6, 1e-5
# The activations of architectures by their names, where they are not GELU; the config.json of a
# published model does not state them.
_ACTIVATION_OF = {
    r"vit_.*_clip_quickgelu_.*": "quick",
    r"vit_(base_patch32|so400m_patch16|giantopt_patch16)_siglip_.*": "tanh",
    r"vit_large_patch16_siglip_(gap_)?512": "tanh",
}
TIMM = Family(
    "timm",
    "timm",
    r"()patch_embed\.(?:proj|backbone\.(?:stem\.)?conv)\.weight",
    places=places_of(
        (_ENCODER, "", ""),
        (_BLOCK, "encoderblock_{i}/", "blocks.{i}."),
        (_ROOT, "", "patch_embed.backbone.stem."),
        (_UNIT, _UNITS, "patch_embed.backbone.stages.{i0}.blocks.{j0}."),
    ),
    other_places=other_places,
    places_of_spec=places_of_spec,
    shown=_shown,
    not_weights=NOT_WEIGHTS,
    numerics={"activation": "erf", "layer_norm_eps": 1e-6},
    resampling="bicubic",
    only={
        "pooling": Only(f"pooling {', '.join(_POOLINGS)}", _POOLINGS.__contains__),
        "position_embedding": Only("learned positions or none", ("learned", "none").__contains__),
        "mlp_kind": PLAIN_OR_GATED,
        **dict.fromkeys(("stem", "layer_scale", "registers", "qk_norm", "norm_after_pooling"), ANY),
        **dict.fromkeys(("patch_bias", "embedding_norm"), ANY),
    },
    refuses=_refuses,
    files=_files,
)
TIMM_BIT = Family(
    "timm BiT",
    "timm",
    r"()stem\.conv\.weight",
    bit=True,
    places=places_of((_BIT, "", ""), (_UNIT, _UNITS, "stages.{i0}.blocks.{j0}."), bit=True),
    not_weights=NOT_WEIGHTS,
    files=lambda model: config_of(
        model, _RESNETS.get(dataclasses.replace(model.spec, in_channels=3)), {}
    ),
)
