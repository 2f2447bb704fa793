"""transformers' DINOv3 (Simeoni et al. 2025, arXiv 2508.10104).

Source: transformers `models/dinov3_vit`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_vit._errors import UsageError, shown
from keras_vit.specs import ViTSpec
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
from keras_vit.weights.families.transformers import config_of

_ENCODER = """
patch_encoder/class_token        embeddings.cls_token          same
patch_encoder/register_tokens    embeddings.register_tokens    same
patch_encoder/projection         embeddings.patch_embeddings   conv
encoder_norm                     norm                          flat
"""
BLOCK = """
norm_attention     norm1                  flat
attention/query    attention.q_proj       in
attention/key      attention.k_proj       in
attention/value    attention.v_proj       in
attention/out      attention.o_proj       out
scale_attention    layer_scale1.lambda1   same
norm_mlp           norm2                  flat
mlp/gate           mlp.gate_proj          in
mlp/dense_0        mlp.up_proj            in
mlp/dense_1        mlp.down_proj          in
scale_mlp          layer_scale2.lambda1   same
"""
# The names of the modules in transformers 5, which `state_dict` has; files of the hub have others.
_BLOCKS_5 = places_of((BLOCK, "encoderblock_{i}/", "model.layer.{i}."))


def _other_places(shape_of: ShapeOf, config: Mapping[str, Any]) -> Places:
    return _BLOCKS_5 if shape_of("model.layer.0.norm1.weight") else {}


def shown_rotation(shape_of: ShapeOf, config: Mapping[str, Any]) -> dict[str, Any]:
    """The field of the spec that says how DINOv3 turns queries and keys."""
    parameters = config.get("rope_parameters")
    parameters = parameters if isinstance(parameters, dict) else {}
    theta = config.get("rope_theta", parameters.get("rope_theta", ROPE_THETA))
    if theta != ROPE_THETA:
        raise UsageError(f"its rope_theta is {shown(theta)}; supported is {ROPE_THETA}.")
    return {"rotation": "dinov3"}


def _refuses(model: Any) -> str | None:
    return "transformers' DINOv3 has no head" if model.num_classes else None


def _files(model: Any) -> dict[str, dict[str, Any]]:
    spec: ViTSpec = model.spec
    return config_of(
        model,
        "dinov3_vit",
        "DINOv3ViT",
        attention_dropout=spec.attention_dropout,
        drop_path_rate=spec.drop_path,
        rope_theta=ROPE_THETA,
        query_bias=spec.query_bias,
        key_bias=spec.key_bias,
        value_bias=spec.value_bias,
        proj_bias=True,
        mlp_bias=True,
        layerscale_value=spec.layer_scale,
        use_gated_mlp=spec.mlp_kind == "gated",
        num_register_tokens=spec.registers,
    )


ROPE_THETA = 100.0  # of the frequencies
DINOV3 = Family(
    "transformers DINOv3",
    "transformers",
    r"()embeddings\.patch_embeddings\.weight",
    places=places_of((_ENCODER, "", ""), (BLOCK, "encoderblock_{i}/", "layer.{i}.")),
    other_places=_other_places,
    shown=shown_rotation,
    not_weights=NOT_WEIGHTS,
    numerics={"activation": "erf", "layer_norm_eps": 1e-5},
    only={
        "rotation": Only("DINOv3's rotation", "dinov3".__eq__),
        "position_embedding": Only("no other positions", "none".__eq__),
        "layer_scale": Only("LayerScale", bool),
        "mlp_kind": PLAIN_OR_GATED,
        "registers": Only("registers", bool),
        **dict.fromkeys(("query_bias", "key_bias", "value_bias"), ANY),
    },
    refuses=_refuses,
    files=_files,
    # A corrupted patch in pre-training.
    unused=lambda model: {
        "embeddings.mask_token": np.zeros((1, 1, model.spec.hidden_dim), np.float32)
    },
)
