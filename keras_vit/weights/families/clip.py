"""The image towers of transformers' CLIP (Radford et al. 2021, arXiv 2103.00020) and SigLIP (Zhai
et al. 2023, arXiv 2303.15343), of which SigLIP 2 (arXiv 2502.14786) with fixed sizes is one.

Sources: transformers `models/clip` and `models/siglip`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keras_vit._errors import UsageError
from keras_vit.specs import ViTSpec
from keras_vit.weights.families.family import ANY, NOT_WEIGHTS, Family, Only, ShapeOf, places_of
from keras_vit.weights.families.transformers import config_of
from keras_vit.weights.names import pooling_rows
from keras_vit.weights.places import Place

_ENCODER = """
patch_encoder/class_token   embeddings.class_embedding              flat
patch_encoder/positions     embeddings.position_embedding.weight    table
patch_encoder/projection    embeddings.patch_embedding              conv
patch_encoder/norm          pre_layrnorm                            flat
encoder_norm                post_layernorm                          flat
pooling/probe               head.probe                              same
pooling/attention/out       head.attention.out_proj                 out
pooling/norm                head.layernorm                          flat
pooling/mlp/dense_0         head.mlp.fc1                            in
pooling/mlp/dense_1         head.mlp.fc2                            in
projection                  visual_projection                       in
head                        classifier                              in
"""
# One array of each kind for all three.
_STACKED = """
pooling/attention/query/kernel    head.attention.in_proj_weight    in      0/3
pooling/attention/key/kernel      head.attention.in_proj_weight    in      1/3
pooling/attention/value/kernel    head.attention.in_proj_weight    in      2/3
pooling/attention/query/bias      head.attention.in_proj_bias      flat    0/3
pooling/attention/key/bias        head.attention.in_proj_bias      flat    1/3
pooling/attention/value/bias      head.attention.in_proj_bias      flat    2/3
"""
BLOCK = """
norm_attention     layer_norm1          flat
attention/query    self_attn.q_proj     in
attention/key      self_attn.k_proj     in
attention/value    self_attn.v_proj     in
attention/out      self_attn.out_proj   out
norm_mlp           layer_norm2          flat
mlp/dense_0        mlp.fc1              in
mlp/dense_1        mlp.fc2              in
"""


def _of_clip(shape_of: ShapeOf, config: Mapping[str, Any]) -> dict[str, Any]:
    if shape_of("classifier.weight"):
        raise UsageError(
            "its head reads the mean of the patches before the last norm, which keras_vit does not "
            "do; load CLIP itself and train a new head."
        )
    return {}


def _of_siglip(shape_of: ShapeOf, config: Mapping[str, Any]) -> dict[str, Any]:
    if len(shape_of("embeddings.patch_embedding.weight")) == 2:
        raise UsageError(
            "it is a SigLIP 2 of variable sizes (NaFlex), which keras_vit does not have; choose "
            "one of a fixed size."
        )
    return {}


def _without_pooling(shape_of: ShapeOf, config: Mapping[str, Any]) -> dict[str, Place | None]:
    # A classifier reads the mean of the patches; the pooling that the file may have is not used.
    classifies = shape_of("classifier.weight") is not None
    return {row.key: None for row in pooling_rows("map")} if classifies else {}


def _clip_refuses(model: Any) -> str | None:
    if model.num_classes:
        return "transformers' CLIP has no head that reads the class token"
    return _is_not_square(model)


def _siglip_refuses(model: Any) -> str | None:
    if model.num_classes and model.spec.pooling != "gap":
        return (
            "transformers' SigLIP has a head that reads the mean of the patches. Received: "
            f"pooling={model.spec.pooling!r}, not 'gap'"
        )
    return _is_not_square(model)


def _is_not_square(model: Any) -> str | None:
    if model.image_size[0] != model.image_size[1]:
        return f"transformers' CLIP and SigLIP have square images. Received: {model.image_size}"
    return None


def _clip_files(model: Any) -> dict[str, dict[str, Any]]:
    spec: ViTSpec = model.spec
    fields = {"attention_dropout": spec.attention_dropout}
    if spec.projection_dim:
        fields |= {"architectures": ["CLIPVisionModelWithProjection"]}
        fields |= {"projection_dim": spec.projection_dim}
    return config_of(model, "clip_vision_model", "CLIPVision", **fields)


def _siglip_files(model: Any) -> dict[str, dict[str, Any]]:
    spec: ViTSpec = model.spec
    fields = {"architectures": ["SiglipVisionModel"], "vision_use_head": spec.pooling == "map"}
    fields |= {"attention_dropout": spec.attention_dropout}
    files = config_of(model, "siglip_vision_model", "SiglipVision", **fields)
    if model.num_classes:
        tower = files["config.json"]
        shared = {name: tower.pop(name) for name in ("id2label", "label2id")}
        names = {"architectures": ["SiglipForImageClassification"], "model_type": "siglip"}
        files["config.json"] = {**names, **shared, "vision_config": tower}
    return files


_PREFIX = "vision_model."
_BOTH = {
    "places": places_of(
        (_ENCODER, "", ""), (_STACKED, "", ""), (BLOCK, "encoderblock_{i}/", "encoder.layers.{i}.")
    ),
    "prefix": _PREFIX,
    "headless_prefix": _PREFIX,
    "resampling": "bicubic_sharp",
}
# The text tower, and what compares both.
_TEXT = r"text_model\..*|text_projection\.weight|logit_scale|logit_bias"
CLIP = Family(
    "transformers CLIP",
    "transformers",
    r"(|vision_model\.)embeddings\.class_embedding",
    shown=_of_clip,
    not_weights=rf"{NOT_WEIGHTS}|{_TEXT}",
    numerics={"activation": "quick", "layer_norm_eps": 1e-5},
    only={
        "embedding_norm": Only("a norm before the blocks", bool),
        "patch_bias": Only("no bias of patches", lambda bias: not bias),
        "projection_dim": ANY,
    },
    refuses=_clip_refuses,
    files=_clip_files,
    **_BOTH,
)
SIGLIP = Family(
    "transformers SigLIP",
    "transformers",
    r"(|vision_model\.)embeddings\.patch_embedding\.weight",
    other_places=_without_pooling,
    shown=_of_siglip,
    not_weights=rf"{NOT_WEIGHTS}|{_TEXT}|(.*\.)?head\.(probe|attention|layernorm|mlp)\b.*",
    numerics={"activation": "tanh", "layer_norm_eps": 1e-6},
    only={"pooling": Only("pooling 'map' or 'gap'", ("map", "gap").__contains__)},
    refuses=_siglip_refuses,
    files=_siglip_files,
    **_BOTH,
)
