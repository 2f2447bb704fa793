"""What a model is, as data: its hyperparameters, its preprocessing, and the table of variants.

Sources: Dosovitskiy et al. 2021, table 1; google-research/vision_transformer `configs/models.py`;
big_vision `models/vit.py`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, get_args

from keras_vit._checks import number, positive_integer, share
from keras_vit._errors import UsageError, did_you_mean, squeeze

Pooling = Literal["token", "gap", "map", "none"]
PositionEmbedding = Literal["learned", "none"]
Gelu = Literal["tanh", "erf"]


@dataclasses.dataclass(frozen=True)
class ViTSpec:
    """The hyperparameters of a Vision Transformer: everything but image size and classes.

    Attributes:
        patch_size: side of a square patch, in pixels.
        hidden_dim: width of the residual stream.
        depth: number of transformer blocks.
        num_heads: attention heads in each block; divides `hidden_dim`.
        mlp_dim: width of the MLP's hidden layer.
        pooling: what the head reads. "token": the class token. "gap": the mean of all tokens
            (there is no class token). "map": multihead attention pooling (none either; Zhai et
            al. 2022, big_vision). "none": every token, the class token included.
        representation_dim: width of the tanh layer before the head, used in pre-training; None
            for no such layer.
        position_embedding: "learned" (one vector a position) or "none".
        gelu: "tanh", the approximation that the official JAX models use, or "erf", the exact
            function of PyTorch's models. They differ by up to 4.7e-4.
        layer_norm_eps: added to the variance in each LayerNorm.
        dropout: rate after the position embedding, the attention's output and both MLP layers.
        attention_dropout: rate on the attention weights.
        drop_path: stochastic depth: the last block's rate, rising linearly from 0 in the first.

    Raises:
        UsageError: a field is of the wrong type or out of range, or the heads do not divide the
            width.
    """

    patch_size: int
    hidden_dim: int
    depth: int
    num_heads: int
    mlp_dim: int
    pooling: Pooling = "token"
    representation_dim: int | None = None
    position_embedding: PositionEmbedding = "learned"
    gelu: Gelu = "tanh"
    layer_norm_eps: float = 1e-6
    dropout: float = 0.0
    attention_dropout: float = 0.0
    drop_path: float = 0.0

    def __post_init__(self):
        for field in ("patch_size", "hidden_dim", "depth", "num_heads", "mlp_dim"):
            positive_integer(field, getattr(self, field))
        if self.representation_dim is not None:
            positive_integer("representation_dim", self.representation_dim)
        for field, choices in (
            ("pooling", Pooling),
            ("position_embedding", PositionEmbedding),
            ("gelu", Gelu),
        ):
            if getattr(self, field) not in get_args(choices):
                raise UsageError(
                    f"{field} must be one of {', '.join(get_args(choices))}. "
                    f"Received: {field}={getattr(self, field)!r}."
                )
        for field in ("dropout", "attention_dropout", "drop_path"):
            share(field, getattr(self, field))
        if not number("layer_norm_eps", self.layer_norm_eps) > 0:
            raise UsageError(
                f"layer_norm_eps must be positive. Received: layer_norm_eps={self.layer_norm_eps}."
            )
        if self.hidden_dim % self.num_heads:
            width, heads = self.hidden_dim, self.num_heads
            divisors = [n for n in range(1, width + 1) if width % n == 0]
            below = [n for n in divisors if n < heads]
            near = below[-1:] + [n for n in divisors if n > heads][:3]
            raise UsageError(
                f"num_heads={heads} does not divide hidden_dim={width}; choose {_or(near)}."
            )

    @property
    def class_token(self) -> bool:
        """Whether a learned token stands before the patches."""
        return self.pooling in ("token", "none")

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.hidden_dim // self.num_heads

    def grid(self, image_size: int | tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of patches in an image of `image_size` (height, width) pixels.

        Raises:
            UsageError: the patches do not divide the image.
        """
        height, width = as_size(image_size)
        if height % self.patch_size or width % self.patch_size:
            nearest = " x ".join(
                str(max(round(side / self.patch_size), 1) * self.patch_size)
                for side in (height, width)
            )
            raise UsageError(
                f"image_size must be a multiple of patch_size={self.patch_size}. "
                f"Received: {height} x {width}; the nearest is {nearest}."
            )
        return height // self.patch_size, width // self.patch_size

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain JSON values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> ViTSpec:
        """The spec of `to_dict`; unknown and missing fields raise a `UsageError`."""
        return from_fields(cls, fields)


@dataclasses.dataclass(frozen=True)
class Preprocessing:
    """How a uint8 RGB image becomes a model's input: crop, resize, then (x - mean) / scale.

    Attributes:
        height, width: the model's input size in pixels.
        crop: None stretches the whole image to the size, as the official fine-tuning code does
            at evaluation. A fraction resizes the short side to size / crop and takes the centre,
            as big_vision does (0.875 for 224 out of 256).
        interpolation: "bilinear" or "bicubic" (antialiased when shrinking, as Pillow's are),
            or "nearest".
        mean, scale: a value or one per channel, in pixel values of [0, 255].
    """

    height: int
    width: int
    crop: float | None = None
    interpolation: Literal["nearest", "bilinear", "bicubic"] = "bilinear"
    mean: float = 127.5
    scale: float = 127.5

    def __post_init__(self):
        positive_integer("height", self.height)
        positive_integer("width", self.width)
        if self.crop is not None and not 0 < number("crop", self.crop) <= 1:
            raise UsageError(f"crop must be None or lie in (0, 1]. Received: crop={self.crop!r}.")
        if self.interpolation not in ("nearest", "bilinear", "bicubic"):
            raise UsageError(
                "interpolation must be nearest, bilinear or bicubic. "
                f"Received: interpolation={self.interpolation!r}."
            )
        number("mean", self.mean)
        if not number("scale", self.scale) > 0:
            raise UsageError(f"scale must be positive. Received: scale={self.scale!r}.")

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain JSON values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Preprocessing:
        """The preprocessing of `to_dict`; unknown and missing fields raise a `UsageError`."""
        return from_fields(cls, fields)


def as_size(image_size: int | tuple[int, int]) -> tuple[int, int]:
    """(height, width) from one number or two."""
    pair = (image_size, image_size) if isinstance(image_size, int) else tuple(image_size)
    if len(pair) != 2:
        raise UsageError(f"image_size must be one number or two. Received: {image_size!r}.")
    for side in pair:
        positive_integer("image_size", side)
    return pair


def find_variant(name: str) -> str:
    """The table's name for `name`, however it is spelled: "ViT_B16", "vit-b/16", "ViT-B_16".

    Raises:
        UsageError: there is no such variant; the message names the nearest.
    """
    found = {squeeze(known): known for known in VARIANTS}.get(squeeze(name))
    if found is None:
        raise UsageError(f"unknown model {name!r}; {did_you_mean(name, VARIANTS)}")
    return found


def from_fields(cls: type, fields: dict[str, Any]) -> Any:
    """A frozen dataclass from JSON fields, strictly: no field missing, none unknown."""
    known = {f.name: f for f in dataclasses.fields(cls)}
    unknown = sorted(set(fields) - set(known))
    missing = sorted(
        name
        for name, f in known.items()
        if f.default is dataclasses.MISSING
        and f.default_factory is dataclasses.MISSING
        and name not in fields
    )
    if unknown or missing:
        raise UsageError(f"{cls.__name__}: unknown fields {unknown}, missing fields {missing}.")
    return cls(**fields)


def _or(values: list[int]) -> str:
    return " or ".join(filter(None, [", ".join(map(str, values[:-1])), str(values[-1])]))


# name: hidden_dim, depth, num_heads, mlp_dim (table 1 of the paper; Ti and S from DeiT and AugReg).
# Pico is for tiny images such as the digits: no published weights.
_SIZES = {
    "Pico": (64, 4, 4, 128),
    "Ti": (192, 12, 3, 768),
    "S": (384, 12, 6, 1536),
    "B": (768, 12, 12, 3072),
    "L": (1024, 24, 16, 4096),
    "H": (1280, 32, 16, 5120),
}
_PATCHES = {"Pico": (4,), "Ti": (16,), "S": (16, 32), "B": (8, 16, 32), "L": (16, 32), "H": (14,)}
_GAP = {"S": (16, 32), "B": (16, 32)}
# Dropout of the published models; 0 where a variant is absent.
_DROPOUT = {"L_16": 0.1, "H_14": 0.1}


def _variant(size: str, patch: int, pooling: Pooling = "token") -> ViTSpec:
    hidden_dim, depth, num_heads, mlp_dim = _SIZES[size]
    return ViTSpec(
        patch,
        hidden_dim,
        depth,
        num_heads,
        mlp_dim,
        pooling,
        dropout=_DROPOUT.get(f"{size}_{patch}", 0.0),
    )


VARIANTS: dict[str, ViTSpec] = {
    **{f"ViT-{s}_{p}": _variant(s, p) for s, patches in _PATCHES.items() for p in patches},
    **{f"ViT-{s}_{p}-gap": _variant(s, p, "gap") for s, patches in _GAP.items() for p in patches},
}
