"""Preprocessing as timm and transformers describe it in JSON files, read and written.

Sources: timm `data/config.py` and `data/transforms_factory.py` (`transforms_imagenet_eval`);
transformers' image processors (`image_processing_vit.py` and its kin).

Results are those of transformers' processors: on photographs they differ by 0.0002 of 255 grey
levels on average if Pillow resizes there in the same order of axes, and by 0.004 if torchvision
does; DINOv3's processor does not round resized pixels (0.3 levels). timm rounds the place of the
crop in another way, as torchvision does: every fourth picture is cut one pixel further to the
bottom or to the right.

transformers' DeiT stretches pictures before it crops them. DeiT's own code and timm keep their
proportions, and so does `Preprocessing`.
"""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple, NoReturn, get_args

import numpy as np

from keras_vit._checks import Interpolation
from keras_vit._errors import UsageError, shown
from keras_vit.specs import Preprocessing

# Larger numbers in a file are refused.
_LARGEST = 65_536
# The codes of PIL.Image.Resampling.
_PILLOW = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}
# Those that this library has too, with their codes.
PIL_CODES = {name: code for code, name in _PILLOW.items() if name in get_args(Interpolation)}

# Of ImageNet's pixels.
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# timm's defaults for absent or empty fields.
_TIMM_DEFAULTS = {
    "input_size": (3, 224, 224),
    "crop_pct": 0.875,
    "crop_mode": "center",
    "interpolation": "bicubic",
    "mean": _MEAN,
    "std": _STD,
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
    do_split_image: bool = False
    rescale_offset: bool = False


_CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
_CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
_CLIP = _Processor({"shortest_edge": 224}, 3, 224, _CLIP_MEAN, _CLIP_STD, do_center_crop=True)
_PROCESSORS = {
    "ViT": _Processor({"height": 224, "width": 224}, 2),
    "DeiT": _Processor({"height": 256, "width": 256}, 3, 224, do_center_crop=True),
    "DINOv3ViT": _Processor({"height": 224, "width": 224}, 2, None, _MEAN, _STD),
    "Siglip": _Processor({"height": 224, "width": 224}, 3),
    "Eomt": _Processor({"shortest_edge": 640, "longest_edge": 640}, 2, None, _MEAN, _STD),
    **dict.fromkeys(("Bit", "ViTHybrid", "CLIP"), _CLIP),
}


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
            a feature extractor of ViT, DeiT, ViTHybrid, BiT, CLIP, SigLIP, DINOv3 or EoMT; default:
            ViT. Where EoMT's cuts pictures into windows along their longer side, the central one
            remains.

    Returns:
        The equivalent as one crop, one resize and (x - mean) / scale for pixels in [0, 255]; mean
        and scale are one number if all channels are equal.

    Raises:
        UsageError: a field is invalid, or `Preprocessing` does not support it, such as a centre
            crop of a stretched image, lanczos, padding, or no rescaling.
    """
    kind, defaults = _processor(config)
    stated = {name: value for name, value in config.items() if value is not None}
    fields = defaults._asdict() | stated
    own = ("do_pad", "do_split_image") if kind == "Eomt" else ()
    for name in ("do_resize", "do_rescale", "do_pad", "do_split_image", "rescale_offset"):
        if bool(fields[name]) != getattr(defaults, name) and name not in own:
            _refuse(name, fields[name])
    if kind == "DeiT" and fields["do_center_crop"]:
        fields["size"] = {"shortest_edge": min(_sides("size", fields["size"]))}
    factor = _number("rescale_factor", fields["rescale_factor"])
    if factor <= 0:
        raise UsageError(f"rescale_factor must be positive. Received: rescale_factor={factor}.")
    if not fields["do_normalize"]:
        fields |= {"image_mean": 0.0, "image_std": 1.0}
    resample = fields["resample"]
    if isinstance(resample, int):
        resample = _PILLOW.get(resample, resample)
    if kind == "Eomt":
        height, width, crop = _eomt_geometry(fields)
    else:
        height, width, crop = _transformers_geometry(fields, "shortest_edge" in defaults.size)
    return Preprocessing(
        height,
        width,
        crop,
        _interpolation("resample", resample),
        _per_channel("image_mean", fields["image_mean"], 1 / factor),
        _per_channel("image_std", fields["image_std"], 1 / factor),
        pad=kind == "Eomt" and crop is None,
    )


def timm_config(model: Any) -> dict[str, Any]:
    """The fields of "pretrained_cfg" for a model."""
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


def processor_config(model: Any) -> dict[str, dict[str, Any]]:
    """preprocessor_config.json by its name; {} if transformers cannot do the same."""
    preprocessing: Preprocessing | None = model.preprocessing
    geometry = None if preprocessing is None else _processor_geometry(model, preprocessing)
    if geometry is None:
        return {}
    return {
        "preprocessor_config.json": {
            **geometry,
            "do_resize": True,
            "resample": PIL_CODES[preprocessing.interpolation],
            "do_rescale": True,
            "rescale_factor": 1 / 255,
            "do_normalize": True,
            "image_mean": _channels(preprocessing.mean, preprocessing.channels),
            "image_std": _channels(preprocessing.scale, preprocessing.channels),
        }
    }


def _processor_geometry(model: Any, preprocessing: Preprocessing) -> dict[str, Any] | None:
    size = {"height": preprocessing.height, "width": preprocessing.width}
    if preprocessing.pad:
        edges = dict.fromkeys(("shortest_edge", "longest_edge"), preprocessing.height)
        is_square = preprocessing.height == preprocessing.width
        geometry = {"image_processor_type": "EomtImageProcessor", "size": edges, "do_pad": True}
        return geometry if is_square else None
    if preprocessing.crop is None:
        return {"image_processor_type": "ViTImageProcessor", "size": size}
    if preprocessing.height != preprocessing.width:
        return None
    if preprocessing.crop == 1 and getattr(model.spec, "num_queries", 0):  # the central window
        edges = {"shortest_edge": preprocessing.height, "longest_edge": None}
        windows = {"do_split_image": True, "do_pad": False}
        return {"image_processor_type": "EomtImageProcessor", "size": edges, **windows}
    return {
        "image_processor_type": "BitImageProcessor",
        "size": {"shortest_edge": preprocessing.uncropped[0]},
        "do_center_crop": True,
        "crop_size": size,
    }


def _timm_crop(side: int, fraction: Any, mode: Any) -> float | None:
    if not 0.01 <= _number("crop_pct", fraction) <= 1:
        raise UsageError(f"crop_pct must lie in [0.01, 1]. Received: crop_pct={shown(fraction)}.")
    if mode == "center":
        return side / math.floor(side / fraction)
    if mode != "squash" or fraction != 1:
        _refuse("crop_mode", mode, f"with crop_pct={shown(fraction)}")
    return None


def _processor(config: dict[str, Any]) -> tuple[str, _Processor]:
    name = config.get("image_processor_type") or config.get("feature_extractor_type") or "ViT"
    family = re.sub(r"(ImageProcessor(Fast|Pil)?|FeatureExtractor)$", "", str(name))
    if family not in _PROCESSORS:
        _refuse("image_processor_type", name)
    return family, _PROCESSORS[family]


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


def _eomt_geometry(fields: dict[str, Any]) -> tuple[int, int, float | None]:
    """Height and width of the input, and the crop fraction, of EoMT's image processor."""
    size, windows = fields["size"], bool(fields["do_split_image"])
    known = {"shortest_edge", "longest_edge"}
    if not isinstance(size, dict) or not {"shortest_edge"} <= size.keys() <= known:
        _refuse("size", size)
    side, longest = _side("size", size["shortest_edge"]), size.get("longest_edge")
    if longest not in ((None,) if windows else (None, side)):
        _refuse("size", size, f"with do_split_image={windows}")
    if windows and fields["do_pad"]:
        _refuse("do_pad", True, "with do_split_image")
    return side, side, 1.0 if windows else None


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


def _channels(value: float | tuple[float, ...], channels: int) -> list[float]:
    # From pixel values in [0, 255] to [0, 1], one value for each channel.
    return (np.broadcast_to(value, channels) / 255).tolist()
