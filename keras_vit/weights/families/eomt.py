"""EoMT (Kerssies et al. 2025, arXiv 2503.19108): in transformers, and its own files.

Sources: transformers `models/eomt` and `models/eomt_dinov3`; tue-mps/eomt `models/eomt.py`, whose
encoder is timm's DINOv2 with registers or transformers' DINOv3.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_vit._errors import UsageError, shown
from keras_vit.encoder.poolings import POOLINGS
from keras_vit.specs import Preprocessing, ViTSpec
from keras_vit.weights.families import dinov2, dinov3, timm
from keras_vit.weights.families.family import (
    ANY,
    NOT_WEIGHTS,
    PLAIN_OR_GATED,
    Family,
    Only,
    Places,
    ReadIgnored,
    ShapeOf,
    places_of,
)
from keras_vit.weights.families.transformers import config_of
from keras_vit.weights.names import POSITION_TABLE
from keras_vit.weights.places import Place

_HEAD = """
query_tokens/tokens               query.weight                      table
mask_dense_0                      mask_head.fc1                     in
mask_dense_1                      mask_head.fc2                     in
mask_dense_2                      mask_head.fc3                     in
upscaling_{i}_conv_transpose      upscale_block.block.{i}.conv1     conv
upscaling_{i}_depthwise           upscale_block.block.{i}.conv2     conv
upscaling_{i}_norm                upscale_block.block.{i}.layernorm2d   flat
"""
_OWN_HEAD = """
query_tokens/tokens               q.weight              table
mask_dense_0                      mask_head.0           in
mask_dense_1                      mask_head.2           in
mask_dense_2                      mask_head.4           in
upscaling_{i}_conv_transpose      upscale.{i}.conv1     conv
upscaling_{i}_depthwise           upscale.{i}.conv2     conv
upscaling_{i}_norm                upscale.{i}.norm      flat
"""
_DINOV2 = """
patch_encoder/class_token        embeddings.cls_token                     same
patch_encoder/register_tokens    embeddings.register_tokens               same
patch_encoder/projection         embeddings.patch_embeddings.projection   conv
encoder_norm                     layernorm                                flat
"""
_DINOV2_BLOCK = """
norm_attention     norm1                  flat
attention/query    attention.q_proj       in
attention/key      attention.k_proj       in
attention/value    attention.v_proj       in
attention/out      attention.out_proj     out
scale_attention    layer_scale1.lambda1   same
norm_mlp           norm2                  flat
mlp/dense_0        mlp.fc1                in
mlp/dense_1        mlp.fc2                in
scale_mlp          layer_scale2.lambda1   same
"""
_DINOV3 = """
patch_encoder/class_token        embeddings.cls_token          same
patch_encoder/register_tokens    embeddings.register_tokens    same
patch_encoder/projection         embeddings.patch_embeddings   conv
encoder_norm                     layernorm                     flat
"""
_OWN_DINOV3 = """
patch_encoder/class_token        patch_embed.cls_token          same
patch_encoder/register_tokens    patch_embed.register_tokens    same
patch_encoder/projection         patch_embed.patch_embeddings   conv
encoder_norm                     norm                           flat
"""
_BLOCK, _LAYER, _BACKBONE = "encoderblock_{i}/", "layers.{i}.", "encoder.backbone."
_PROBABILITIES = "attn_mask_probs"
_GATES = {
    "gate_proj": places_of((dinov2.GATE_5, _BLOCK, _LAYER)),
    "weights_in": places_of((dinov2.GATE, _BLOCK, _LAYER)),
}


def _head_places(table: str, classifier: str) -> Places:
    # `places_of` takes the layer "head" for that of a classifier.
    return places_of((table, "", "")) | {
        "panoptic/classes/kernel": Place(f"{classifier}.weight", "in"),
        "panoptic/classes/bias": Place(f"{classifier}.bias", "flat"),
    }


def _query_blocks(shape_of: ShapeOf, config: Mapping[str, Any]) -> dict[str, Any]:
    """The number of blocks with queries: one probability each, which training ends at zero."""
    shape, stated = shape_of(_PROBABILITIES), config.get("num_blocks")
    count = shape[0] if shape and len(shape) == 1 else stated
    if type(count) is not int or count < 1 or stated not in (None, count):
        raise UsageError(
            f"num_blocks, the number of blocks with queries, must be stated in config.json, as "
            f"{_PROBABILITIES} has it. Received: {shown(stated)} and {shape}."
        )
    return {"query_blocks": count}


def _shown(shape_of: ShapeOf, config: Mapping[str, Any]) -> dict[str, Any]:
    activation = config.get("hidden_act", "gelu")
    if activation != "gelu":
        raise UsageError(
            f"EoMT's head has the exact GELU. Received: hidden_act={shown(activation)}."
        )
    return _query_blocks(shape_of, config)


def _dinov3_shown(shape_of: ShapeOf, config: Mapping[str, Any]) -> dict[str, Any]:
    return _shown(shape_of, config) | dinov3.shown_rotation(shape_of, config)


def _own_shown(shape_of: ShapeOf, config: Mapping[str, Any]) -> dict[str, Any]:
    rotation = {} if shape_of(f"{_BACKBONE}pos_embed") else {"rotation": "dinov3"}
    return _query_blocks(shape_of, config) | rotation


def _gate(shape_of: ShapeOf, config: Mapping[str, Any]) -> Places:
    found = (gate for name, gate in _GATES.items() if shape_of(f"layers.0.mlp.{name}.weight"))
    return next(found, {})


def _of_backbone(places: Places) -> Places:
    """Places in the encoder of the original code, which has no head."""
    return {
        key: place._replace(key=_BACKBONE + place.key)
        for key, place in places.items()
        if place is not None and not key.startswith("head")
    }


def _own_places(shape_of: ShapeOf, config: Mapping[str, Any]) -> Places:
    return _of_backbone(timm.other_places(lambda name: shape_of(_BACKBONE + name), {}))


def _own_places_of_spec(spec: ViTSpec) -> Places:
    gate = timm.places_of_spec(dataclasses.replace(spec, registers=0))
    return _of_backbone({**gate, POSITION_TABLE: Place("pos_embed", "grid")})


def _refuses(model: Any) -> str | None:
    spec: ViTSpec = model.spec
    if not model.num_classes:
        return "EoMT has a head, which this model lacks"
    if model.image_size[0] != model.image_size[1]:
        return f"EoMT has square images. Received: {model.image_size}"
    activation = "silu" if spec.mlp_kind == "gated" else "erf"
    if spec.activation != activation:
        return f"EoMT's MLPs have {activation!r} here. Received: activation={spec.activation!r}"
    return None


def _dinov2_refuses(model: Any) -> str | None:
    return _refuses(model) or dinov2.refused_mlp(model.spec, "transformers' EoMT")


def _own_refuses(model: Any) -> str | None:
    spec: ViTSpec = model.spec
    epsilon, upscalings = _EPSILONS[spec.rotation], max(1, spec.patch_size.bit_length() - 3)
    if spec.layer_norm_eps != epsilon:
        return f"EoMT's encoder has layer_norm_eps={epsilon}. Received: {spec.layer_norm_eps}"
    if spec.upscalings != upscalings:
        return (
            f"EoMT has head_cells={1 << upscalings} for patch_size={spec.patch_size}. "
            f"Received: head_cells={spec.head_cells}"
        )
    return _refuses(model)


def _files(kind: str, name: str, **further: Any) -> dict[str, dict[str, Any]]:
    """config.json and preprocessor_config.json; `further` has the model and other fields."""
    model = further.pop("model")
    spec: ViTSpec = model.spec
    fields = {
        "architectures": [f"{name}ForUniversalSegmentation"],
        "hidden_act": "gelu",
        "attention_dropout": spec.attention_dropout,
        "drop_path_rate": spec.drop_path,
        "layerscale_value": spec.layer_scale,
        "num_blocks": spec.query_blocks,
        "num_queries": spec.num_queries,
        "num_register_tokens": spec.registers,
        "num_upscale_blocks": spec.upscalings,
    }
    return config_of(model, kind, name, **fields, **further)


def _dinov2_files(model: Any) -> dict[str, dict[str, Any]]:
    gated = {"use_swiglu_ffn": model.spec.mlp_kind == "gated"}
    ratio = dinov2.mlp_ratio(model.spec)
    return _files("eomt", "Eomt", model=model, mlp_ratio=ratio, **gated)


def _dinov3_files(model: Any) -> dict[str, dict[str, Any]]:
    biases = {name: getattr(model.spec, name) for name in ("query_bias", "key_bias", "value_bias")}
    rope = {"rope_theta": dinov3.ROPE_THETA, "rope_type": "default"}
    options = {"proj_bias": True, "mlp_bias": True, "use_gated_mlp": False}
    name = "eomt_dinov3", "EomtDinov3"
    return _files(*name, model=model, rope_parameters=rope, **options, **biases)


def _unused(model: Any) -> dict[str, np.ndarray]:
    weights = np.ones(model.num_classes + 1, np.float32)
    weights[-1] = 0.1  # of "nothing" in the loss
    zeros = np.zeros(model.spec.query_blocks, np.float32)
    return {_PROBABILITIES: zeros, "criterion.empty_weight": weights}


def _own_unused(model: Any) -> dict[str, np.ndarray]:
    preprocessing: Preprocessing = model.preprocessing or _PIXELS
    statistics = {"mean": preprocessing.mean, "std": preprocessing.scale}
    pixels = {
        # (3,) to (1, 3, 1, 1)
        f"encoder.pixel_{name}": np.float32(np.broadcast_to(values, 3) / 255).reshape(1, 3, 1, 1)
        for name, values in statistics.items()
    }
    return {_PROBABILITIES: np.zeros(model.spec.query_blocks, np.float32), **pixels}


def _own_preprocessing(read: ReadIgnored) -> Preprocessing | None:
    """Of a whole picture, padded."""
    mean, std = read("encoder.pixel_mean"), read("encoder.pixel_std")
    if mean is None or std is None or mean.size != 3 or std.size != 3:
        return None
    levels = (tuple(round(float(x) * 255, 4) for x in each.ravel()) for each in (mean, std))
    mean, scale = levels
    return dataclasses.replace(_PIXELS, mean=mean, scale=scale)


_PIXELS = Preprocessing(
    640, 640, mean=(123.675, 116.28, 103.53), scale=(58.395, 57.12, 57.375), pad=True
)
_EPSILONS = {"none": 1e-6, "dinov3": 1e-5}
_HEAD_PLACES = _head_places(_HEAD, "class_predictor")
_OWN_HEAD_PLACES = _head_places(_OWN_HEAD, "class_head")
_POOLINGS = [name for name, kind in POOLINGS.items() if kind.tokens == ("class_token",)]
_BOTH = {
    "not_weights": rf"{NOT_WEIGHTS}|(network\.)?({_PROBABILITIES}|encoder\.pixel_(mean|std))"
    r"|criterion\.empty_weight|(network\.)?encoder\.backbone\.rope_embeddings\..*",
    "resampling": "bicubic",
}
_ONLY = {
    "dense_head": Only("a head of queries", "eomt".__eq__),
    **dict.fromkeys(("head_cells", "num_queries", "query_blocks"), ANY),
    "pooling": Only("a class token", _POOLINGS.__contains__),
    "layer_scale": Only("LayerScale", bool),
    "registers": Only("registers", bool),
}
_ROTATED = {
    "rotation": Only("DINOv3's rotation", "dinov3".__eq__),
    "position_embedding": Only("no other positions", "none".__eq__),
    **dict.fromkeys(("query_bias", "key_bias", "value_bias"), ANY),
}
EOMT = Family(
    "transformers EoMT",
    "transformers",
    r"()embeddings\.position_embeddings\.weight",
    places=_HEAD_PLACES
    | places_of((_DINOV2, "", ""), (_DINOV2_BLOCK, _BLOCK, _LAYER))
    | {POSITION_TABLE: Place("embeddings.position_embeddings.weight", "rows")},
    other_places=_gate,
    places_of_spec=lambda spec: _GATES["gate_proj"] if spec.mlp_kind == "gated" else {},
    shown=_shown,
    numerics={"activation": "erf", "layer_norm_eps": 1e-6},
    only={**_ONLY, "mlp_kind": PLAIN_OR_GATED},
    refuses=_dinov2_refuses,
    files=_dinov2_files,
    unused=_unused,
    masks_attention=True,
    **_BOTH,
)
EOMT_DINOV3 = Family(
    "transformers EoMT with DINOv3",
    "transformers",
    r"()class_predictor\.weight",
    places=_HEAD_PLACES | places_of((_DINOV3, "", ""), (dinov3.BLOCK, _BLOCK, _LAYER)),
    shown=_dinov3_shown,
    numerics={"activation": "erf", "layer_norm_eps": 1e-6},
    only={**_ONLY, **_ROTATED},
    refuses=_refuses,
    files=_dinov3_files,
    unused=_unused,
    masks_attention=True,
    **_BOTH,
)
EOMT_OWN = Family(
    "EoMT's own",
    "eomt",
    r"(|network\.)encoder\.backbone\.pos_embed",
    places=_OWN_HEAD_PLACES | _of_backbone(timm.TIMM.places),
    other_places=_own_places,
    places_of_spec=_own_places_of_spec,
    shown=_own_shown,
    numerics={"activation": "erf", "layer_norm_eps": _EPSILONS["none"]},
    only={**_ONLY, "mlp_kind": PLAIN_OR_GATED},
    refuses=_own_refuses,
    unused=_own_unused,
    preprocessing=_own_preprocessing,
    **_BOTH,
)
EOMT_OWN_DINOV3 = Family(
    "EoMT's own with DINOv3",
    "eomt",
    r"(|network\.)encoder\.backbone\.patch_embed\.register_tokens",
    places=_OWN_HEAD_PLACES
    | _of_backbone(places_of((_OWN_DINOV3, "", ""), (dinov3.BLOCK, _BLOCK, "blocks.{i}."))),
    shown=_own_shown,
    numerics={"activation": "erf", "layer_norm_eps": _EPSILONS["dinov3"]},
    only={**_ONLY, **_ROTATED},
    refuses=_own_refuses,
    unused=_own_unused,
    preprocessing=_own_preprocessing,
    differences=True,
    **_BOTH,
)
