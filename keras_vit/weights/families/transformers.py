"""transformers' ViT and DeiT (Touvron et al. 2021), and what its families share.

Sources: transformers `models/vit` and `models/deit`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from keras_vit.weights.families.family import (
    ANY,
    NOT_WEIGHTS,
    Family,
    Only,
    Places,
    ShapeOf,
    places_of,
)
from keras_vit.weights.hub_preprocessing import processor_config

_ENCODER = """
patch_encoder/class_token   embeddings.cls_token                     same
patch_encoder/positions     embeddings.position_embeddings           same
patch_encoder/projection    embeddings.patch_embeddings.projection   conv
encoder_norm                layernorm                                flat
pre_logits                  pooler.dense                             in
head                        classifier                               in
"""
_DISTILLED = """
patch_encoder/distillation_token   embeddings.distillation_token    same
head                               cls_classifier                   in
head/distillation_kernel           distillation_classifier.weight   in
head/distillation_bias             distillation_classifier.bias     flat
"""
_BLOCK = """
norm_attention     layernorm_before            flat
attention/query    attention.attention.query   in
attention/key      attention.attention.key     in
attention/value    attention.attention.value   in
attention/out      attention.output.dense      out
norm_mlp           layernorm_after             flat
mlp/dense_0        intermediate.dense          in
mlp/dense_1        output.dense                in
"""
# The names of the modules in transformers 5, which `state_dict` has; files of the hubs have those
# above.
_BLOCK_5 = """
norm_attention     layernorm_before    flat
attention/query    attention.q_proj    in
attention/key      attention.k_proj    in
attention/value    attention.v_proj    in
attention/out      attention.o_proj    out
norm_mlp           layernorm_after     flat
mlp/dense_0        mlp.fc1             in
mlp/dense_1        mlp.fc2             in
"""


def config_of(model: Any, kind: str, name: str, **fields: Any) -> dict[str, dict[str, Any]]:
    """config.json and preprocessor_config.json of a model.

    Args:
        model: the model.
        kind: transformers' `model_type`.
        name: what its classes are called: "ViT" for ViTModel.
        fields: further fields, or others.
    """
    spec, (height, width) = model.spec, model.image_size
    labels = model.labels or [f"LABEL_{i}" for i in range(model.num_classes)]
    config = {
        "architectures": [f"{name}{'ForImageClassification' if model.num_classes else 'Model'}"],
        "model_type": kind,
        "hidden_size": spec.hidden_dim,
        "num_hidden_layers": spec.depth,
        "num_attention_heads": spec.num_heads,
        "intermediate_size": spec.mlp_dim,
        "hidden_act": _ACTIVATIONS[spec.activation],
        "layer_norm_eps": spec.layer_norm_eps,
        "hidden_dropout_prob": spec.dropout,
        "attention_probs_dropout_prob": spec.attention_dropout,
        "image_size": height if height == width else [height, width],
        "patch_size": spec.patch_size,
        "num_channels": spec.in_channels,
        "id2label": {str(i): label for i, label in enumerate(labels)},
        "label2id": {label: i for i, label in enumerate(labels)},
    }
    return {"config.json": config | fields, **processor_config(model)}


def _refuses(model: Any) -> str | None:
    if model.spec.representation_dim and model.num_classes:
        return "transformers has no representation before the head of an image classifier"
    return None


def _files(kind: str, name: str) -> Callable[[Any], dict[str, dict[str, Any]]]:
    def files(model: Any) -> dict[str, dict[str, Any]]:
        pooler = {
            "pooler_output_size": model.spec.representation_dim or model.spec.hidden_dim,
            "pooler_act": "tanh",
            "qkv_bias": True,
        }
        teacher = model.spec.two_classifiers and model.num_classes
        names = {"architectures": [f"{name}ForImageClassificationWithTeacher"]} if teacher else {}
        return config_of(model, kind, name, **pooler, **names)

    return files


_ACTIVATIONS = {"erf": "gelu", "tanh": "gelu_pytorch_tanh", "quick": "quick_gelu", "silu": "silu"}
_BLOCKS = ("encoderblock_{i}/", "encoder.layer.{i}.")
_PLACES = places_of((_ENCODER, "", ""), (_BLOCK, *_BLOCKS))
_PLACES_5 = places_of((_BLOCK_5, "encoderblock_{i}/", "layers.{i}."))
_QUERY_5 = "layers.0.attention.q_proj.weight"
_HEAD = places_of(("head classifier in", "", ""))


def _other_places(shape_of: ShapeOf, config: Mapping[str, Any]) -> Places:
    blocks = _PLACES_5 if shape_of(_QUERY_5) else {}
    return blocks | (_HEAD if shape_of("classifier.weight") else {})


_BOTH = {
    "other_places": _other_places,
    "not_weights": NOT_WEIGHTS,
    "numerics": {"activation": "erf", "layer_norm_eps": 1e-12},
    "resampling": "bicubic_sharp",
    "refuses": _refuses,
}
VIT = Family(
    "transformers ViT",
    "transformers",
    r"(|vit\.)embeddings\.patch_embeddings\.projection\.weight",
    places=_PLACES,
    prefix="vit.",
    only={"representation_dim": ANY},
    files=_files("vit", "ViT"),
    **_BOTH,
)
_POOLINGS = ("distilled", "distilled_token")
DEIT = Family(
    "transformers DeiT",
    "transformers",
    r"(|deit\.)embeddings\.distillation_token",
    places=_PLACES | places_of((_DISTILLED, "", "")),
    places_of_spec=lambda spec: {} if spec.two_classifiers else _HEAD,
    prefix="deit.",
    only={
        "pooling": Only("pooling 'distilled' or 'distilled_token'", _POOLINGS.__contains__),
        "representation_dim": ANY,
    },
    files=_files("deit", "DeiT"),
    **_BOTH,
)
