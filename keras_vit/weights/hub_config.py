"""The JSON files of timm and transformers beside a model's weights, read and written.

Sources: timm `data/config.py` and `data/transforms_factory.py` (`transforms_imagenet_eval`);
transformers' image processors (`image_processing_vit.py` and its kin).

Both libraries resize the image to a whole number of pixels, then crop the centre at whole pixels;
`Preprocessing` resamples once, from a box around the exact centre. If both centres are the same,
results differ by 0.5 of 255 grey levels on average (photographs of 640 x 427 and smaller). If an
odd number of pixels is cut off, the libraries' centre is half a pixel to one side, and results
differ by 4.4. Without a crop (`crop=None`), results are equal.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn, get_args

import numpy as np

from keras_vit._checks import Interpolation
from keras_vit._errors import UsageError, shown
from keras_vit.specs import VARIANTS, Preprocessing, ResNetSpec, ResNetStem, ViTSpec

# Larger numbers in a file are refused.
_LARGEST = 65_536
# The codes of PIL.Image.Resampling.
_PILLOW = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}
# Those that this library has too, with their codes.
PIL_CODES = {name: code for code, name in _PILLOW.items() if name in get_args(Interpolation)}

# timm's defaults for absent or empty fields.
_TIMM_DEFAULTS = {
    "input_size": (3, 224, 224),
    "crop_pct": 0.875,
    "crop_mode": "center",
    "interpolation": "bicubic",
    "mean": (0.485, 0.456, 0.406),
    "std": (0.229, 0.224, 0.225),
}


class _Processor(NamedTuple):
    """The fields of an image processor of transformers, and their defaults."""

    size: dict[str, int]
    resample: int
    crop_size: int | None = None
    image_mean: float | tuple[float, ...] = 0.5
    image_std: float | tuple[float, ...] = 0.5
    do_center_crop: bool = False
    do_resize: bool = True
    do_rescale: bool = True
    rescale_factor: float = 1 / 255
    do_normalize: bool = True
    do_pad: bool = False
    rescale_offset: bool = False


_CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
_CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
_CLIP = _Processor({"shortest_edge": 224}, 3, 224, _CLIP_MEAN, _CLIP_STD, do_center_crop=True)
_PROCESSORS = {
    "ViT": _Processor({"height": 224, "width": 224}, 2),
    "DeiT": _Processor({"height": 256, "width": 256}, 3, 224, do_center_crop=True),
    **dict.fromkeys(("Bit", "ViTHybrid", "CLIP"), _CLIP),
}
# What the weights show, and what config.json calls it in transformers and in timm's model_args.
_SIZES = {
    "hidden_dim": "hidden_size embed_dim num_attention_heads num_heads",
    "depth": "num_hidden_layers depth",
    "mlp_dim": "intermediate_size mlp_ratio",
    "patch_size": "patch_size",
    "in_channels": "num_channels in_chans input_size",
}
_SIZE_OF = {key: size for size, keys in _SIZES.items() for key in keys.split()}
_DIVISORS = ("num_attention_heads", "num_heads")
# The kinds of GELU by the names of both libraries.
_GELU = {"gelu": "erf", "gelu_new": "tanh", "gelu_pytorch_tanh": "tanh", "gelu_tanh": "tanh"}
# timm can build a ViT of any size from any ViT's name and these arguments. For hybrids, the name
# must have the right ResNet and patch size.
_TIMM_STEMS = {
    (ResNetStem(), 8): "vit_tiny_r_s16_p8_224",
    (ResNetStem((2, 2, 2, 2)), 1): "vit_base_r26_s32_224",
    (ResNetStem((3, 4, 9)), 1): "vit_base_r50_s16_224",
    (ResNetStem((3, 4, 6, 3)), 1): "vit_base_r50_s32_224",
}
_TIMM_BIT = {
    VARIANTS[f"BiT-R{size}"]: f"resnetv2_{size}_bit"
    for size in ("50x1", "50x3", "101x1", "101x3", "152x4")
}
# timm's names for the poolings that it has.
TIMM_POOLINGS = {"token": "token", "gap": "avg", "map": "map", "distilled": "token", "none": ""}
_TIMM_DISTILLED = "deit_base_distilled_patch16_224"
# Arguments of timm's models for what a model may have besides the paper's, by the spec's fields.
_TIMM_OPTIONS = {"layer_scale": "init_values"}


def model_args(config: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that change the named architecture, in timm's config.json."""
    arguments = config.get("model_args")
    return arguments if isinstance(arguments, dict) else {}


def stated_numerics(
    config: Mapping[str, Any], sizes: Mapping[str, int], class_token: bool
) -> dict[str, Any]:
    """The values of gelu, layer_norm_eps and num_heads that a config.json has.

    Args:
        config, sizes: as in `check_sizes`.
        class_token: whether the weights have one.

    Raises:
        UsageError: the config contradicts the weights, or states what keras_vit does not have.
    """
    arguments = model_args(config)
    pool = config.get("global_pool", arguments.get("global_pool", "token"))
    # A model that pools in another way can have the same keys, but its logits are different.
    if class_token and pool not in ("token", ""):
        raise UsageError(
            f"it has a class token and the pooling {shown(pool)}, which keras_vit does not have."
        )
    check_sizes(config, sizes)
    name = config.get("hidden_act") or arguments.get("act_layer")
    if name is not None and (not isinstance(name, str) or name not in _GELU):
        raise UsageError(f"its activation is {shown(name)}; only GELU is supported.")
    numerics = {
        "gelu": _GELU.get(name),
        "layer_norm_eps": config.get("layer_norm_eps"),
        "num_heads": config.get("num_attention_heads", arguments.get("num_heads")),
    }
    return {field: value for field, value in numerics.items() if value is not None}


def check_sizes(config: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
    """Checks that a config.json can belong to weights of these sizes.

    Args:
        config: its content; {} if there is none.
        sizes: the fields of the spec that shapes of weights show.

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


def timm_preprocessing(config: dict[str, Any]) -> Preprocessing:
    """The preprocessing that timm uses in evaluation.

    Args:
        config: the content of timm's config.json, or its "pretrained_cfg": input_size (3 or 1,
            height, width), crop_pct, crop_mode "center" or "squash", interpolation, and mean and
            std of pixels in [0, 1].

    Returns:
        The equivalent for pixels in [0, 255]; mean and scale are one number if all channels are
        equal.

    Raises:
        UsageError: a field is invalid, or `Preprocessing` does not support it, such as crop_mode
            "border" or lanczos.
    """
    stated = config.get("pretrained_cfg", config)
    if not isinstance(stated, dict):
        raise UsageError(f"pretrained_cfg must be an object. Received: {shown(stated)}.")
    fields = {name: stated.get(name) or default for name, default in _TIMM_DEFAULTS.items()}
    size = fields["input_size"]
    if not isinstance(size, (list, tuple)) or len(size) != 3 or size[0] not in (1, 3):
        raise UsageError(f"input_size must be [3 or 1, height, width]. Received: {shown(size)}.")
    height, width = (_side("input_size", side) for side in size[1:])
    return Preprocessing(
        height,
        width,
        _timm_crop(min(height, width), fields["crop_pct"], fields["crop_mode"]),
        _interpolation("interpolation", fields["interpolation"]),
        _per_channel("mean", fields["mean"], 255),
        _per_channel("std", fields["std"], 255),
    )


def transformers_preprocessing(config: dict[str, Any]) -> Preprocessing:
    """The preprocessing of a transformers image processor.

    Args:
        config: the content of a preprocessor_config.json, for an image processor or (in old files)
            a feature extractor of ViT, DeiT, ViTHybrid, BiT or CLIP; default: ViT.

    Returns:
        The equivalent as one crop, one resize and (x - mean) / scale for pixels in [0, 255]; mean
        and scale are one number if all channels are equal.

    Raises:
        UsageError: a field is invalid, or `Preprocessing` does not support it, such as a centre
            crop of a stretched image, lanczos, padding, or no rescaling.
    """
    defaults = _processor(config)
    stated = {name: value for name, value in config.items() if value is not None}
    fields = defaults._asdict() | stated
    for name in ("do_resize", "do_rescale", "do_pad", "rescale_offset"):
        if bool(fields[name]) != getattr(defaults, name):
            _refuse(name, fields[name])
    factor = _number("rescale_factor", fields["rescale_factor"])
    if factor <= 0:
        raise UsageError(f"rescale_factor must be positive. Received: rescale_factor={factor}.")
    if not fields["do_normalize"]:
        fields |= {"image_mean": 0.0, "image_std": 1.0}
    resample = fields["resample"]
    if isinstance(resample, int):
        resample = _PILLOW.get(resample, resample)
    return Preprocessing(
        *_transformers_geometry(fields, "shortest_edge" in defaults.size),
        _interpolation("resample", resample),
        _per_channel("image_mean", fields["image_mean"], 1 / factor),
        _per_channel("image_std", fields["image_std"], 1 / factor),
    )


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


def _fits(key: str, value: Any, sizes: Mapping[str, int]) -> bool:
    size = sizes[_SIZE_OF[key]]
    if key == "mlp_ratio" and "hidden_dim" not in sizes:  # the weights of the patches are damaged
        return True
    if key == "mlp_ratio":  # timm rounds the product down
        return isinstance(value, (int, float)) and -1e-3 < value * sizes["hidden_dim"] - size < 1
    if key in _DIVISORS:
        return type(value) is int and value > 0 and size % value == 0
    if key == "input_size":  # timm keeps its default of 3 for models of other channels
        return not isinstance(value, list) or value[:1] in ([size], [3])
    return value in (size, [size, size])


def _timm_crop(side: int, fraction: Any, mode: Any) -> float | None:
    if not 0.01 <= _number("crop_pct", fraction) <= 1:
        raise UsageError(f"crop_pct must lie in [0.01, 1]. Received: crop_pct={shown(fraction)}.")
    if mode == "center":
        return side / math.floor(side / fraction)
    if mode != "squash" or fraction != 1:
        _refuse("crop_mode", mode, f"with crop_pct={shown(fraction)}")
    return None


def _processor(config: dict[str, Any]) -> _Processor:
    name = config.get("image_processor_type") or config.get("feature_extractor_type") or "ViT"
    family = re.sub(r"(ImageProcessor(Fast|Pil)?|FeatureExtractor)$", "", str(name))
    if family not in _PROCESSORS:
        _refuse("image_processor_type", name)
    return _PROCESSORS[family]


def _transformers_geometry(
    fields: dict[str, Any], number_is_edge: bool
) -> tuple[int, int, float | None]:
    """Height and width of the input, and the crop fraction."""
    size, edge = fields["size"], None
    if number_is_edge and isinstance(size, int):
        size = {"shortest_edge": size}
    if isinstance(size, dict) and size.keys() == {"shortest_edge"}:
        edge = _side("size", size["shortest_edge"])
    if not fields["do_center_crop"]:
        if edge:
            _refuse("size", size, "without do_center_crop")
        return *_sides("size", size), None
    height, width = _sides("crop_size", fields["crop_size"])
    if edge and height == width <= edge:
        return height, width, height / edge
    if edge or (height, width) != _sides("size", size):
        _refuse("crop_size", fields["crop_size"], f"of size={shown(size)}")
    return height, width, None


def _interpolation(field: str, name: Any) -> str:
    if not isinstance(name, str) or name not in PIL_CODES:
        _refuse(field, name)
    return name


def _per_channel(field: str, values: Any, unit: float) -> float | tuple[float, ...]:
    # Rounded, because 1/255 as written in JSON gives 103.53000000000002.
    values = values if isinstance(values, (list, tuple)) else [values] * 3
    if len(values) not in (1, 3):
        raise UsageError(f"{field} must be a number or three. Received: {field}={shown(values)}.")
    scaled = tuple(round(_number(field, value) * unit, 6) for value in values)
    return scaled[0] if len(set(scaled)) == 1 else scaled


def _sides(field: str, size: Any) -> tuple[int, int]:
    if isinstance(size, int):
        size = {"height": size, "width": size}
    if not isinstance(size, dict) or size.keys() != {"height", "width"}:
        _refuse(field, size)
    return _side(field, size["height"]), _side(field, size["width"])


def _side(field: str, value: Any) -> int:
    if type(value) is not int or not 0 < value <= _LARGEST:
        raise UsageError(
            f"{field} must be 1 to {_LARGEST} pixels. Received: {field}={shown(value)}."
        )
    return value


def _number(field: str, value: Any) -> float:
    if type(value) not in (int, float) or not abs(value) <= _LARGEST:
        raise UsageError(f"{field} must be a number. Received: {field}={shown(value)}.")
    return value


def _refuse(field: str, value: Any, detail: str = "") -> NoReturn:
    received = f"{field}={shown(value)} {detail}".rstrip()
    raise UsageError(
        f"the preprocessing in the config file is not supported. Received: {received}; "
        "pass preprocessing=keras_vit.Preprocessing(...) with the closest settings."
    )


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
    options = {name: getattr(spec, field) for field, name in _TIMM_OPTIONS.items()}
    arguments |= {name: value for name, value in options.items() if value}
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
