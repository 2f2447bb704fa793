"""timm's `Eva`: EVA (Fang et al. 2022), EVA-02 (2023), DINOv3, and ViTs with rotations.

Source: timm `models/eva.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from keras_vit._errors import UsageError, shown
from keras_vit.specs import ViTSpec
from keras_vit.weights.families import timm
from keras_vit.weights.families.family import (
    ANY,
    NOT_WEIGHTS,
    Family,
    Only,
    Places,
    ShapeOf,
    places_of,
)
from keras_vit.weights.hub_config import model_args
from keras_vit.weights.tensors import METADATA

_ENCODER = """
patch_encoder/class_token        cls_token          same
patch_encoder/register_tokens    reg_token          same
patch_encoder/positions          pos_embed          same
patch_encoder/projection         patch_embed.proj   conv
encoder_norm                     norm               flat
head                             head               in
"""
_BLOCK = """
norm_attention          norm1          flat
attention/query         attn.q_proj    in
attention/key           attn.k_proj    in
attention/value         attn.v_proj    in
attention/query_norm    attn.q_norm    flat
attention/key_norm      attn.k_norm    flat
attention/out           attn.proj      out
scale_attention         gamma_1        same
norm_mlp                norm2          flat
mlp/dense_0             mlp.fc1        in
mlp/norm                mlp.norm       flat
mlp/dense_1             mlp.fc2        in
scale_mlp               gamma_2        same
"""
_PREFIXES = ("encoderblock_{i}/", "blocks.{i}.")
# Query, key and value in one layer, whose key has no bias.
_FUSED = """
attention/query/kernel    attn.qkv.weight    in      0/3
attention/key/kernel      attn.qkv.weight    in      1/3
attention/value/kernel    attn.qkv.weight    in      2/3
attention/query/bias      attn.q_bias        flat
attention/value/bias      attn.v_bias        flat
"""
_GATED = """
mlp/gate       mlp.fc1_g    in
mlp/dense_0    mlp.fc1_x    in
"""
# The rotations of timm's architectures.
_ROTATIONS = {
    r"vit_\w+_dinov3\w*": "dinov3",
    r"eva02_(tiny|small|base|large)_patch14_\d+|vit_\w+_rope_reg\d_gap_\d+": "eva02",
    r"eva_giant_\w+": "none",
}
# For each rotation the architecture that is written, and what its arguments must be.
_ARCHITECTURES = {
    "dinov3": "vit_small_patch16_dinov3_qkvb",
    "eva02": "eva02_base_patch14_224",
    "none": "eva_giant_patch14_224",
}
_COMMON = {
    "attn_type": "eva",
    "scale_attn_inner": False,
    "use_post_norm": False,
    "use_pre_transformer_norm": False,
    "attn_only_layer_scale": False,
    "num_kv_heads": None,
    "rope_grid_offset": 0,
    "rope_grid_indexing": "ij",
}
_ARGUMENTS = {
    "dinov3": {
        **_COMMON,
        **{"use_rot_pos_emb": True, "rope_type": "dinov3", "rope_rotate_half": True},
        "rope_temperature": 100,
    },
    "eva02": {
        **_COMMON,
        **{"use_rot_pos_emb": True, "rope_type": "cat", "rope_rotate_half": False},
        **{"rope_temperature": 10_000, "ref_feat_shape": [16, 16]},
    },
    "none": {**_COMMON, "use_rot_pos_emb": False},
}
_POOLINGS = ("token", "token_gap", "gap", "none")
_EPSILONS = {"dinov3": 1e-5, "eva02": 1e-6, "none": 1e-6}


def _rotation(shape_of: ShapeOf, config: Mapping[str, Any]) -> str:
    """The rotation by the description of the model, by timm's architecture, or by the names."""
    own, name = config.get(METADATA, {}).get("spec", {}), config.get("architecture")
    if isinstance(own, dict) and own.get("rotation") in _ARGUMENTS:
        return own["rotation"]
    if name is None:
        return _rotation_by_names(shape_of)
    known = (kind for pattern, kind in _ROTATIONS.items() if re.fullmatch(pattern, str(name)))
    kind = next(known, None)
    if kind is None:
        raise UsageError(
            f"its architecture is {shown(name)}; of timm's Eva, EVA, EVA-02, DINOv3 and "
            "vit_..._rope_reg..._gap are supported."
        )
    for argument, expected in _ARGUMENTS[kind].items():
        stated = model_args(config).get(argument, expected)
        if stated != expected:
            raise UsageError(
                f"its config.json states {argument}={shown(stated)}; supported is {expected}."
            )
    return kind


def _rotation_by_names(shape_of: ShapeOf) -> str:
    # Of the published models.
    if shape_of("pos_embed") is None and shape_of("reg_token"):
        return "dinov3" if shape_of("cls_token") else "eva02"
    outputs, inputs = (shape_of(f"blocks.0.mlp.{name}.weight") for name in ("fc1", "fc2"))
    if shape_of(_GATE) or (outputs and inputs and outputs[0] == 2 * inputs[-1]):
        return "eva02"
    raise UsageError("its rotation is unknown; put its config.json in the same folder.")


def _other_places(shape_of: ShapeOf, config: Mapping[str, Any]) -> Places:
    fused = _FUSED_PLACES if shape_of("blocks.0.attn.qkv.weight") else {}
    gated = _GATED_PLACES if shape_of(_GATE) else {}
    # Unless it is stated, class token and registers have positions.
    config = {**config, "model_args": {"no_embed_class": False, **model_args(config)}}
    places = {**fused, **timm.other_places(shape_of, config), **gated}
    return _paired(places, _rotation(shape_of, config))


def _places_of_spec(spec: ViTSpec) -> Places:
    # As in the published models: those with a norm in the MLP have a layer each for query and key,
    # and only EVA-02's without a norm have one layer for the gate and what it multiplies.
    fused = {} if spec.mlp_kind == "gated_norm" else _FUSED_PLACES
    packed = spec.mlp_kind == "plain" or (spec.mlp_kind, spec.rotation) == ("gated", "eva02")
    places = {**fused, **timm.places_of_spec(spec), **({} if packed else _GATED_PLACES)}
    return _paired(places, spec.rotation)


def _paired(others: Places, rotation: str) -> Places:
    # EVA-02 turns pairs of neighbouring channels.
    if rotation != "eva02":
        return others
    return {
        key: place._replace(pairs=re.search("/(query|key)", key) is not None)
        for key, place in {**_PLACES, **others}.items()
    }


def _shown(shape_of: ShapeOf, config: Mapping[str, Any]) -> dict[str, Any]:
    rotation = _rotation(shape_of, config)
    return {
        **timm.norm_after_pooling(shape_of, config),
        **{"rotation": rotation, "layer_norm_eps": _EPSILONS[rotation]},
    }


def _refuses(model: Any) -> str | None:
    spec: ViTSpec = model.spec
    if spec.query_bias != spec.value_bias:
        return "timm's Eva has biases of queries and values, or neither"
    if spec.activation != ("erf" if spec.mlp_kind == "plain" else "silu"):
        return f"timm's Eva has GELU (erf), and SiLU in gated MLPs. Received: {spec.activation}"
    if spec.layer_norm_eps != _EPSILONS[spec.rotation]:
        return (
            f"timm's Eva with rotation={spec.rotation!r} has layer_norm_eps="
            f"{_EPSILONS[spec.rotation]}. Received: {spec.layer_norm_eps}"
        )
    return None


def _files(model: Any) -> dict[str, dict[str, Any]]:
    spec: ViTSpec = model.spec
    gated = spec.mlp_kind != "plain"
    arguments = timm.sizes_of(model) | {
        "patch_size": spec.patch_size,
        "use_fc_norm": spec.norm_after_pooling,
        "use_post_transformer_norm": not spec.norm_after_pooling,
        "num_reg_tokens": spec.registers,
        "no_embed_class": False,
        "use_abs_pos_emb": spec.position_embedding == "learned",
        "qkv_bias": spec.query_bias,
        "qkv_fused": spec.mlp_kind != "gated_norm",
        "swiglu_mlp": gated,
        "swiglu_align_to": int(gated and spec.rotation != "eva02"),
        "scale_mlp": spec.mlp_kind == "gated_norm",
        "dynamic_img_size": False,
        **_ARGUMENTS[spec.rotation],
    }
    return timm.config_of(model, _ARCHITECTURES[spec.rotation], arguments)


_GATE = "blocks.0.mlp.fc1_g.weight"
_FUSED_PLACES = places_of((_FUSED, *_PREFIXES))
_GATED_PLACES = places_of((_GATED, *_PREFIXES))
_PLACES = places_of((_ENCODER, "", ""), (_BLOCK, *_PREFIXES))
EVA = Family(
    "timm Eva",
    "timm",
    r"()blocks\.0\.(?:attn\.(?:q_bias|q_proj\.weight)|gamma_1|mlp\.fc1_g\.weight)",
    places=_PLACES,
    other_places=_other_places,
    places_of_spec=_places_of_spec,
    shown=_shown,
    not_weights=rf"{NOT_WEIGHTS}|mask_token|lm_head\..*|rope\.(?!freqs$).*|.*\.k_bias",
    numerics={"activation": "erf"},
    resampling="bicubic",
    only={
        "rotation": Only("rotation dinov3, eva02 or none", _ARGUMENTS.__contains__),
        "key_bias": Only("no biases of keys", lambda bias: not bias),
        "pooling": Only("pooling token, token_gap, gap or none", _POOLINGS.__contains__),
        "position_embedding": timm.TIMM.only["position_embedding"],
        "mlp_kind": Only("plain and gated MLPs", ("plain", "gated", "gated_norm").__contains__),
        **dict.fromkeys(("query_bias", "value_bias", "layer_scale", "registers"), ANY),
        **dict.fromkeys(("qk_norm", "norm_after_pooling"), ANY),
    },
    refuses=_refuses,
    files=_files,
)
