"""transformers' DINOv2 (Oquab et al. 2023, arXiv 2304.07193), with registers and without.

Sources: transformers `models/dinov2` and `models/dinov2_with_registers`.
"""

from __future__ import annotations

import collections
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_vit.weights.families.family import (
    NOT_WEIGHTS,
    PLAIN_OR_GATED,
    Family,
    Only,
    Places,
    ShapeOf,
    places_of,
)
from keras_vit.weights.families.transformers import config_of
from keras_vit.weights.places import Place

_PREFIXES = ("encoderblock_{i}/", "encoder.layer.{i}.")
_ENCODER = """
patch_encoder/class_token        embeddings.cls_token                     same
patch_encoder/register_tokens    embeddings.register_tokens               same
patch_encoder/positions          embeddings.position_embeddings           same
patch_encoder/projection         embeddings.patch_embeddings.projection   conv
encoder_norm                     layernorm                                flat
head                             classifier                               in
"""
_BLOCK = """
norm_attention     norm1                       flat
attention/query    attention.attention.query   in
attention/key      attention.attention.key     in
attention/value    attention.attention.value   in
attention/out      attention.output.dense      out
scale_attention    layer_scale1.lambda1        same
norm_mlp           norm2                       flat
mlp/dense_0        mlp.fc1                     in
mlp/dense_1        mlp.fc2                     in
scale_mlp          layer_scale2.lambda1        same
"""
GATE = """
mlp/gate       mlp.weights_in     in    0/2
mlp/dense_0    mlp.weights_in     in    1/2
mlp/dense_1    mlp.weights_out    in
"""
# The head of DINOv2's own segmenters, mmsegmentation's `BNHead`, beside the encoder.
_SEGMENTATION = {
    "segmentation/norm/scale": Place("decode_head.bn.weight", "flat"),
    "segmentation/norm/bias": Place("decode_head.bn.bias", "flat"),
    "segmentation/norm/mean": Place("decode_head.bn.running_mean", "flat"),
    "segmentation/norm/var": Place("decode_head.bn.running_var", "flat"),
    "segmentation/kernel": Place("decode_head.conv_seg.weight", "cells"),
    "segmentation/bias": Place("decode_head.conv_seg.bias", "flat"),
}
# The names of the modules in transformers 5, which `state_dict` has; files have those above.
_ATTENTION_5 = """
attention/query    attention.q_proj    in
attention/key      attention.k_proj    in
attention/value    attention.v_proj    in
attention/out      attention.o_proj    out
"""
GATE_5 = """
mlp/gate       mlp.gate_proj    in
mlp/dense_0    mlp.up_proj      in
mlp/dense_1    mlp.down_proj    in
"""
# Places that some files have instead, each with a name in the block that shows it.
_OTHERS = {
    "attention.q_proj": places_of((_ATTENTION_5, *_PREFIXES)),
    "mlp.weights_in": places_of((GATE, *_PREFIXES)),
    "mlp.gate_proj": places_of((GATE_5, *_PREFIXES)),
}


def _other_places(shape_of: ShapeOf, config: Mapping[str, Any]) -> Places:
    present = (places for name, places in _OTHERS.items() if shape_of(_FIRST.format(name)))
    return dict(collections.ChainMap(*present))


_FIRST = "encoder.layer.0.{}.weight"


def _refuses(model: Any) -> str | None:
    spec = model.spec
    if model.num_classes and spec.pooling != "token_mean":
        return (
            "transformers' DINOv2 has a head that reads the class token and the mean of the "
            f"patches. Received: pooling={spec.pooling!r}, not 'token_mean'"
        )
    if model.image_size[0] != model.image_size[1]:
        return f"transformers' DINOv2 has positions of square images. Received: {model.image_size}"
    return refused_mlp(spec, "transformers' DINOv2")


def refused_mlp(spec: Any, name: str) -> str | None:
    """What DINOv2's MLPs in a library cannot be, in words, or None."""
    gated = spec.mlp_kind == "gated"
    if _mlp_dim(spec.hidden_dim, mlp_ratio(spec), gated) != spec.mlp_dim:
        wide = "of two thirds of a multiple of hidden_dim, rounded up to a multiple of 8"
        return (
            f"{name} has MLPs {wide if gated else 'of a multiple of hidden_dim'}. "
            f"Received: mlp_dim={spec.mlp_dim}, hidden_dim={spec.hidden_dim}"
        )
    if gated and spec.activation != "silu":
        return f"{name} has gated MLPs with silu. Received: {spec.activation}"
    return None


def _mlp_dim(hidden_dim: int, ratio: int, gated: bool) -> int:
    return (int(hidden_dim * ratio * 2 / 3) + 7) // 8 * 8 if gated else hidden_dim * ratio


def mlp_ratio(spec: Any) -> int:
    """The MLP's width, or that before the two thirds of gated ones, in widths of the model."""
    return round(spec.mlp_dim / spec.hidden_dim * (1.5 if spec.mlp_kind == "gated" else 1))


def _files(model: Any) -> dict[str, dict[str, Any]]:
    spec = model.spec
    fields = {
        "mlp_ratio": mlp_ratio(spec),
        "layerscale_value": spec.layer_scale,
        "drop_path_rate": spec.drop_path,
        "use_swiglu_ffn": spec.mlp_kind == "gated",
        "qkv_bias": True,
    }
    if spec.registers:
        names = "dinov2_with_registers", "Dinov2WithRegisters"
        return config_of(model, *names, **fields, num_register_tokens=spec.registers)
    return config_of(model, "dinov2", "Dinov2", **fields)


_BOTH = {
    "places": places_of((_ENCODER, "", ""), (_BLOCK, *_PREFIXES)) | _SEGMENTATION,
    "other_places": _other_places,
    "places_of_spec": lambda spec: _OTHERS["mlp.weights_in"] if spec.mlp_kind == "gated" else {},
    "not_weights": rf"{NOT_WEIGHTS}|decode_head\.bn\.num_batches_tracked",
    "numerics": {"activation": "erf", "layer_norm_eps": 1e-6},
    "head_pooling": "token_mean",
    "refuses": _refuses,
    "files": _files,
    # A corrupted patch in pre-training.
    "unused": lambda model: {
        "embeddings.mask_token": np.zeros((1, model.spec.hidden_dim), np.float32)
    },
}
_ONLY = {
    "pooling": Only("pooling 'token' or 'token_mean'", ("token", "token_mean").__contains__),
    "layer_scale": Only("LayerScale", bool),
    "mlp_kind": PLAIN_OR_GATED,
}
DINOV2 = Family(
    "transformers DINOv2",
    "transformers",
    r"(|dinov2\.)encoder\.layer\.0\.layer_scale1\.lambda1",
    prefix="dinov2.",
    resampling="bicubic_sharp",
    only=_ONLY,
    **_BOTH,
)
DINOV2_WITH_REGISTERS = Family(
    "transformers DINOv2 with registers",
    "transformers",
    r"(|dinov2_with_registers\.)embeddings\.register_tokens",
    prefix="dinov2_with_registers.",
    resampling="bicubic",
    only=_ONLY | {"registers": Only("registers", bool)},
    **_BOTH,
)
