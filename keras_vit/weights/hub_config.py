"""What config.json of timm and of transformers says of a model's architecture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keras_vit._errors import UsageError, shown

# What the weights show, and what config.json calls it in transformers and in timm's model_args.
_SIZES = {
    "hidden_dim": "hidden_size embed_dim num_attention_heads num_heads",
    "depth": "num_hidden_layers depth",
    "mlp_dim": "intermediate_size mlp_ratio",
    "patch_size": "patch_size",
    "in_channels": "num_channels in_chans input_size",
    "registers": "num_register_tokens reg_tokens num_reg_tokens",
    "mlp_kind": "use_swiglu_ffn use_gated_mlp swiglu_mlp",
    "query_bias": "query_bias qkv_bias",
    "key_bias": "key_bias",
    "value_bias": "value_bias",
    "projection_dim": "projection_dim",
    "num_queries": "num_queries",
    "head_cells": "num_upscale_blocks",
}
_SIZE_OF = {key: size for size, keys in _SIZES.items() for key in keys.split()}
_GATED = _SIZES["mlp_kind"].split()
_DIVISORS = ("num_attention_heads", "num_heads")
# Activations by the names of both libraries.
_ACTIVATIONS = {
    **{"gelu": "erf", "gelu_new": "tanh", "gelu_pytorch_tanh": "tanh", "gelu_tanh": "tanh"},
    **{"quick_gelu": "quick", "silu": "silu", "swish": "silu"},
}
# Heads of timm's architectures of no variant's size (wee, little, medium ...), by their width.
_TIMM_HEADS = {256: 4, 320: 5, 512: 8, 640: 10, 896: 14}
_NORMS = ("layernorm", "layernormfp32")


def of_images(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a config.json says of images, if it describes a model of images and texts."""
    tower = config.get("vision_config")
    return {**tower, **config} if isinstance(tower, dict) else dict(config)


def model_args(config: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that change the named architecture, in timm's config.json."""
    arguments = config.get("model_args")
    return arguments if isinstance(arguments, dict) else {}


def stated_numerics(
    config: Mapping[str, Any], sizes: Mapping[str, Any], class_token: bool
) -> dict[str, Any]:
    """The values of activation, layer_norm_eps, num_heads and pooling that a config.json has.

    Args:
        config, sizes: as in `check_sizes`.
        class_token: whether the weights have one.

    Raises:
        UsageError: the config contradicts the weights, or states what keras_vit does not have.
    """
    arguments = model_args(config)
    pool = config.get("global_pool", arguments.get("global_pool", "token"))
    # A model that pools in another way can have the same keys, but its logits are different.
    if class_token and pool not in ("token", "avg", ""):
        raise UsageError(
            f"it has a class token and the pooling {shown(pool)}, which keras_vit does not have."
        )
    check_sizes(config, sizes)
    name = config.get("hidden_act") or arguments.get("act_layer")
    if config.get("use_swiglu_ffn"):
        name = "silu"  # whatever the config states
    if name is not None and (not isinstance(name, str) or name not in _ACTIVATIONS):
        known = ", ".join(_ACTIVATIONS)
        raise UsageError(f"its activation is {shown(name)}; supported are {known}.")
    norm, epsilon = arguments.get("norm_layer"), config.get("layer_norm_eps")
    if norm not in (None, *_NORMS):
        raise UsageError(f"its norm is {shown(norm)}; supported are {', '.join(_NORMS)}.")
    if epsilon is not None and not (type(epsilon) in (int, float) and 0 < epsilon < 1):
        raise UsageError(f"its epsilon is {shown(epsilon)}; expected a number between 0 and 1.")
    heads = arguments.get("num_heads")
    if heads is None and "architecture" in config and "embed_dim" not in arguments:
        heads = _TIMM_HEADS.get(sizes.get("hidden_dim"))
    numerics = {
        "activation": _ACTIVATIONS.get(name),
        "layer_norm_eps": epsilon,
        "num_heads": config.get("num_attention_heads", heads),
        "pooling": "token_gap" if pool == "avg" else None,
    }
    return {field: value for field, value in numerics.items() if value is not None}


def check_sizes(config: Mapping[str, Any], sizes: Mapping[str, Any]) -> None:
    """Checks that a config.json can belong to weights of these sizes.

    Args:
        config: its content; {} if there is none.
        sizes: the fields of the spec that names and shapes of weights show.

    Raises:
        UsageError: a size in the config contradicts the weights.
    """
    pretrained = config.get("pretrained_cfg")
    pretrained = pretrained if isinstance(pretrained, dict) else {}
    for key, value in {**config, **pretrained, **model_args(config)}.items():
        size = sizes.get(_SIZE_OF.get(key))
        if size is not None and value is not None and not _fits(key, value, sizes):
            raise UsageError(
                f"its config.json states {key}={shown(value)}, which contradicts the weights, "
                f"whose {_SIZE_OF[key]} is {size}; use the config.json that belongs to them."
            )


def _fits(key: str, value: Any, sizes: Mapping[str, Any]) -> bool:
    size = sizes[_SIZE_OF[key]]
    if key == "mlp_ratio" and "hidden_dim" not in sizes:  # the weights of the patches are damaged
        return True
    if key == "mlp_ratio":
        return isinstance(value, (int, float)) and _has_width(value * sizes["hidden_dim"], sizes)
    if key in _GATED:
        return bool(value) == (size != "plain")
    if key == "num_upscale_blocks":
        return type(value) is int and 0 <= value < size == 1 << value
    if key in _DIVISORS:
        return type(value) is int and value > 0 and size % value == 0
    if key == "input_size":  # timm keeps its default of 3 for models of other channels
        return not isinstance(value, list) or value[:1] in ([size], [3])
    return value in (size, [size, size])


def _has_width(product: float, sizes: Mapping[str, Any]) -> bool:
    """Whether mlp_dim is what a library makes of mlp_ratio * hidden_dim."""
    width = sizes["mlp_dim"]
    if -1e-3 < product - width < 1:  # timm rounds the product down
        return True
    if sizes.get("mlp_kind") != "gated":
        return False
    # timm's ViT counts both halves; transformers' DINOv2 takes two thirds of a multiple of 8.
    return -1e-3 < product - 2 * width < 1 or (int(int(product) * 2 / 3) + 7) // 8 * 8 == width
