"""Models as data: hyperparameters and preprocessing."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Annotated, Any, NamedTuple, get_args

from msgspec import Meta, Struct

from keras_vit._checks import (
    LONGEST_SIDE,
    MOST_CLASSES,
    MOST_PIXELS,
    PICTURE_CHANNELS,
    Interpolation,
    Resampling,
    choice,
    flag,
    fraction,
    integer,
    number,
    positive_integer,
    positive_number,
)
from keras_vit._errors import UsageError, nearest, shown
from keras_vit._json import Name, Sides, Text, check
from keras_vit.encoder.block import MLPS
from keras_vit.encoder.dense_heads import (
    DENSE_FIELDS,
    DENSE_HEADS,
    MOST_UPSCALINGS,
    NO_DENSE_HEAD,
    DenseHead,
)
from keras_vit.encoder.ops import Activation, HeadActivation
from keras_vit.encoder.patch_grids import Tokens
from keras_vit.encoder.poolings import POOLINGS
from keras_vit.encoder.positions import POSITION_EMBEDDINGS, ROTATIONS
from keras_vit.encoder.weight_rows import with_present_names

# Files may claim any size; larger models are refused before anything is built. The largest
# published ViT has 48 blocks and 22 billion parameters.
MOST_PARAMETERS, MOST_TOKENS = 30_000_000_000, 1 << 16
MOST_BLOCKS, MOST_CHANNELS, _MOST_STAGES, _MOST_REGISTERS = 256, 1 << 18, 8, 1 << 10
_MOST_QUERIES = 1 << 12
RATES = ("dropout", "attention_dropout", "drop_path")  # fields of a ViTSpec, only for training


class _Fields:
    """What the frozen dataclasses below share: checked fields, also from and to JSON."""

    def __new__(cls, *values: Any, **fields: Any):
        # The error of `__init__` for an unknown field would neither suggest nor list any.
        known = [f.name for f in dataclasses.fields(cls)]
        if name := next((name for name in fields if name not in known), None):
            near = nearest(name, known)
            raise UsageError(
                f"{cls.__name__} has no field {shown(name)}."
                f"{f' Did you mean {near}?' if near else ''} Fields: {', '.join(known)}."
            )
        return super().__new__(cls)

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain JSON values."""
        return dataclasses.asdict(self, dict_factory=_json_fields)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Any:
        """The record of `to_dict`; unknown and missing fields raise a `UsageError`."""
        known = dataclasses.fields(cls)
        unknown = sorted(set(fields) - {f.name for f in known})
        needed = {f.name for f in known if f.default is dataclasses.MISSING}
        missing = sorted(needed - set(fields))
        if unknown or missing:
            raise UsageError(
                f"{cls.__name__}: unknown fields {shown(unknown)}, missing fields {shown(missing)}."
            )
        return cls(**fields)

    def _check(self, checks: Mapping[str, Callable[[str, Any], Any]]) -> None:
        """Gives fields the values that their checks return; None by default is not checked."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in checks and (value is not None or field.default is not None):
                self._set(field.name, checks[field.name](field.name, value))

    def _set(self, field: str, value: Any) -> None:
        object.__setattr__(self, field, value)  # for `__post_init__`, because records are frozen


def _json_fields(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fields}


class ResNetUnit(NamedTuple):
    """One bottleneck unit of a ResNet: `features` channels inside, 4 * `features` at its output."""

    block: int
    unit: int
    inputs: int
    features: int
    strides: int

    @property
    def name(self) -> str:
        """The layer's name in a model; block and unit count from 1."""
        return f"block{self.block}_unit{self.unit}"

    @property
    def projects(self) -> bool:
        """Whether the residual needs a projection because channels or size change."""
        return self.strides != 1 or self.inputs != 4 * self.features


@dataclasses.dataclass(frozen=True)
class ResNetStem(_Fields):
    """The ResNet that a hybrid cuts its patches from: a root of stride 4, then stages of units.

    Attributes:
        stages: number of units in each stage; every stage after the first halves the size. ()
            means only the root.
        width: multiplies the root's 64 channels, like the official `width_factor`; may be a
            fraction. The number of channels is rounded down, and the width is set to match it.

    Raises:
        UsageError: a field has the wrong type, or the number of channels is not a multiple of 32,
            the number of groups in GroupNorm.
    """

    stages: tuple[int, ...] = ()
    width: float = 1

    def __post_init__(self):
        self._check({"stages": _counts, "width": number})
        channels = int(64 * self.width)
        if len(self.stages) > _MOST_STAGES or 4 * channels * 2 ** len(self.stages) > MOST_CHANNELS:
            raise UsageError(
                f"a stem has at most {_MOST_STAGES} stages and {MOST_CHANNELS:,} channels. "
                f"Received: stages={self.stages}, width={shown(self.width)}."
            )
        if channels < 32 or channels % 32:
            raise UsageError(
                "width must make 64 * width, rounded down, a multiple of 32. "
                f"Received: width={shown(self.width)}, which makes {channels}."
            )
        width = channels / 64
        self._set("width", int(width) if width.is_integer() else width)

    @property
    def stride(self) -> int:
        """The size of the image divided by the size of the output, along one side."""
        return 4 * 2 ** max(len(self.stages) - 1, 0)

    @property
    def root_channels(self) -> int:
        """Channels of the root's output."""
        return int(64 * self.width)

    @property
    def channels(self) -> int:
        """Channels of the output."""
        return 4 * self.units[-1].features if self.stages else self.root_channels

    @property
    def units(self) -> list[ResNetUnit]:
        """All units, from input to output."""
        return _units(self.stages, self.root_channels)


@dataclasses.dataclass(frozen=True)
class ViTSpec(_Fields):
    """The hyperparameters of a Vision Transformer: everything but image size and classes.

    >>> spec = keras_vit.ViTSpec(
    ...     patch_size=16, hidden_dim=48, depth=2, num_heads=3, mlp_dim=112, pooling="gap"
    ... )
    >>> spec.grid((48, 80))  # patches in height and width
    (3, 5)

    Attributes:
        patch_size: side of a square patch in pixels; after a stem, in positions of its output.
        hidden_dim: width of the residual stream.
        depth: number of transformer blocks.
        num_heads: attention heads in each block; divides `hidden_dim`.
        mlp_dim: width of the MLP's hidden layer.
        pooling: the input of the head, a name in `POOLINGS`. "token": the class token. "gap": the
            mean of all patches, without a class token. "token_gap": the same beside a class token,
            which the head does not read (EVA-02). "token_mean": the class token and the mean
            of all patches, as DINOv2's classifiers have it (2 * hidden_dim). "map": multihead
            attention pooling, without a class token (Zhai et al. 2022, big_vision). "distilled":
            the class token and a distillation token, each with its own classifier (DeiT, Touvron
            et al. 2021). "distilled_token": the class token beside a distillation token, which the
            head does not read. "none": every token, including the class token.
        representation_dim: width of the tanh layer before the head, used in pre-training; None
            for no such layer.
        position_embedding: a name in `POSITION_EMBEDDINGS`. "learned": one vector per position.
            "learned2d": one half vector per row and one per column, concatenated (paper, appendix
            D.4). "sincos2d": fixed sines and cosines (big_vision). "relative": for each head, a
            learned bias that depends on the offset between two patches; no published official
            file has it. "none": no positions.
        activation: of the MLPs. "tanh": GELU by the approximation in the official JAX models.
            "erf": the exact GELU of PyTorch's models; the two differ by up to 4.7e-4. "quick":
            x * sigmoid(1.702 x), as in CLIP. "silu": x * sigmoid(x), for gated MLPs.
        layer_norm_eps: added to the variance in each LayerNorm.
        dropout: rate after the position embedding, the attention's output and both MLP layers.
        attention_dropout: rate on the attention scores.
        drop_path: stochastic depth: the rate in the last block; it rises linearly from 0 in the
            first.
        stem: the ResNet that a hybrid cuts its patches from; None cuts them from the image.
        in_channels: channels of the image: 3 for RGB, 1 for grey pictures, any other number for
            float inputs of one's own, such as the bands of a satellite.
        layer_scale: initial value of LayerScale's factors, which multiply the channels at the end
            of both branches of each block (Touvron et al. 2021, CaiT); None for no such factors.
        mlp_kind: the MLP of each block, a name in `MLPS`. "plain": two layers, as in the paper.
            "gated": the hidden layer's activations multiply those of another layer (SwiGLU, with
            activation="silu"). "gated_norm": a LayerNorm follows the product (EVA-02).
        rotation: rotary positions, a name in `ROTATIONS`, besides those of `position_embedding`.
            "dinov3": by the place of the patch's centre in the image. "eva02": by the patch's row
            and column in a grid of 16 x 16. "none": no rotation.
        registers: number of learned tokens without positions between the class token and the
            patches (Darcet et al. 2024).
        qk_norm: whether a LayerNorm of each head normalises queries and keys (ViT-22B, Dehghani et
            al. 2023).
        query_bias, key_bias, value_bias: whether these layers of the blocks have biases. A key's
            bias has an effect only with a rotation; DINOv3 and EVA-02 have none.
        patch_bias: whether the projection of the patches has a bias; CLIP's has none.
        embedding_norm: whether a LayerNorm of all tokens precedes the first block (CLIP,
            transformers' `pre_layrnorm`, timm's `norm_pre`).
        projection_dim: width of a projection without a bias after the pooling, such as CLIP's, to
            the space that images and texts share; None for no such layer.
        norm_after_pooling: whether the last LayerNorm follows the pooling instead of preceding it,
            for pooling="gap" and "token_gap" only (timm's `fc_norm`).
        normalized_features: whether the head's input, the output without a head, is divided by its
            L2 norm, as CLIP and SigLIP compare images and texts.
        head_activation: the function that makes probabilities of logits: "softmax" if each image
            has one class, "sigmoid" if classes do not exclude each other.
        resampling: how positions in a file of this model are resampled to another image size, as
            the code that belongs to its family does it; see `resample_positions`.
        dense_head: a head with an answer for each place of the image, a name in `DENSE_HEADS`, in
            place of the pooling and what follows it. "linear": the classes of each patch, or of
            `head_cells` x `head_cells` cells in it. "eomt": `num_queries` learned tokens precede
            all others in the last `query_blocks` blocks; each of them has a mask, with a value for
            each cell, and a class (EoMT, Kerssies et al. 2025). "none": a classifier of the image.
        head_cells: see `dense_head`; of "linear" it divides the stride, of "eomt" it is a power of
            two.
        head_norm: whether a BatchNorm precedes the linear layer of the dense head, as in DINOv2's.
        num_queries: see `dense_head`. EoMT's published models have 200, semantic ones 100.
        query_blocks: see `dense_head`. EoMT has 3 in S and B, 4 in L, 5 in g.

    Raises:
        UsageError: a field has the wrong type or is out of range, num_heads does not divide
            hidden_dim, positions need another hidden_dim, there are two layers after the pooling,
            or "distilled" has one, has normalized_features or has positions in attention; or there
            is one beside a dense head, its cells do not divide a patch, or fields belong to another
            one.
    """

    patch_size: int
    hidden_dim: int
    depth: int
    num_heads: int
    mlp_dim: int
    pooling: str = "token"
    representation_dim: int | None = None
    position_embedding: str = "learned"
    activation: Activation = "tanh"
    layer_norm_eps: float = 1e-6
    dropout: float = 0.0
    attention_dropout: float = 0.0
    drop_path: float = 0.0
    stem: ResNetStem | None = None
    in_channels: int = 3
    layer_scale: float | None = None
    mlp_kind: str = "plain"
    rotation: str = "none"
    registers: int = 0
    qk_norm: bool = False
    query_bias: bool = True
    key_bias: bool = True
    value_bias: bool = True
    patch_bias: bool = True
    embedding_norm: bool = False
    projection_dim: int | None = None
    norm_after_pooling: bool = False
    normalized_features: bool = False
    head_activation: HeadActivation = "softmax"
    resampling: Resampling = "bilinear"
    dense_head: str = NO_DENSE_HEAD
    head_cells: int = 1
    head_norm: bool = False
    num_queries: int = 0
    query_blocks: int = 0

    def __post_init__(self):
        self._check(_VIT_CHECKS)
        if self.hidden_dim % self.num_heads:
            width, heads = self.hidden_dim, self.num_heads
            divisors = [n for n in range(1, width + 1) if width % n == 0]
            smaller = [n for n in divisors if n < heads]
            choices = smaller[-1:] + [n for n in divisors if n > heads][:3]
            raise UsageError(
                f"num_heads={heads} does not divide hidden_dim={width}; choose {_or(choices)}."
            )
        multiple = POSITION_EMBEDDINGS[self.position_embedding].width_multiple
        if self.hidden_dim % multiple:
            raise UsageError(
                f"position_embedding={self.position_embedding!r} needs a hidden_dim that is a "
                f"multiple of {multiple}. Received: hidden_dim={self.hidden_dim}."
            )
        if ROTATIONS[self.rotation] and self.head_dim % 4:
            raise UsageError(
                f"rotation={self.rotation!r} needs heads whose width is a multiple of 4. Received: "
                f"hidden_dim={self.hidden_dim} / num_heads={self.num_heads} = {self.head_dim}."
            )
        self._check_tokens()
        self._check_dense_head()
        if self.norm_after_pooling and not POOLINGS[self.pooling].averages:
            raise UsageError(
                "norm_after_pooling is for pooling='gap' and 'token_gap'. Received: "
                f"pooling={self.pooling!r}; leave one of them out."
            )
        if self.stem is not None and not isinstance(self.stem, ResNetStem):
            raise UsageError(
                f"stem must be a ResNetStem or None. Received: stem={shown(self.stem)}."
            )

    @property
    def cell(self) -> int:
        """Height and width of the cells for which a linear head has scores, in pixels."""
        return self.stride // self.head_cells

    @property
    def dense(self) -> DenseHead | None:
        """The head with an answer for each place of the image; None for a classifier."""
        return DENSE_HEADS.get(self.dense_head)

    @property
    def upscalings(self) -> int:
        """How often EoMT's head doubles rows and columns of the patches, to those of its cells."""
        return self.head_cells.bit_length() - 1

    @property
    def class_token(self) -> bool:
        """Whether a learned token precedes the patches."""
        return "class_token" in POOLINGS[self.pooling].tokens

    @property
    def distillation_token(self) -> bool:
        """Whether a second learned token, which learns from a teacher, follows the class token."""
        return "distillation_token" in POOLINGS[self.pooling].tokens

    @property
    def two_classifiers(self) -> bool:
        """Whether both of these tokens have a classifier of their own."""
        return POOLINGS[self.pooling].two_classifiers

    @property
    def prefix_tokens(self) -> int:
        """The number of learned tokens before the patches."""
        return POOLINGS[self.pooling].prefix_tokens + self.registers

    @property
    def unread_tokens(self) -> int:
        """How many of these tokens, the last ones, the head does not read."""
        return POOLINGS[self.pooling].unread_tokens + self.registers

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.hidden_dim // self.num_heads

    @property
    def stride(self) -> int:
        """Side of a patch in pixels of the image, including the stem's stride."""
        return self.patch_size * (self.stem.stride if self.stem else 1)

    def tokens(self, image_size: int | tuple[int, int]) -> Tokens:
        """The tokens of an image of `image_size` (height, width) pixels."""
        return Tokens(self.grid(image_size), self.prefix_tokens, self.registers)

    def grid(self, image_size: int | tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of patches in an image of `image_size` (height, width) pixels.

        A stem accepts any size. As in the official code, its strides round up, and positions at
        the bottom and at the right of its output that do not fill a patch are cut off.

        Raises:
            UsageError: the patches do not divide the image, or the stem's output is smaller than
                a patch.
        """
        height, width = as_size(image_size)
        if self.stem is not None:
            return self._hybrid_grid(height, width)
        patch = self.patch_size
        if height % patch or width % patch:
            nearest = " x ".join(
                str(max(round(side / patch), 1) * patch) for side in (height, width)
            )
            raise UsageError(
                f"image_size must be a multiple of patch_size={patch}. "
                f"Received: {height} x {width}; the nearest is {nearest}."
            )
        return height // patch, width // patch

    def _check_tokens(self) -> None:
        between = {name: getattr(self, name) for name in ("representation_dim", "projection_dim")}
        between = [f"{name}={width}" for name, width in between.items() if width is not None]
        if len(between) > 1:
            raise UsageError(
                "the pooling is followed by a representation or by a projection. "
                f"Received: {' and '.join(between)}; leave one of them out."
            )
        between += ["normalized_features=True"] if self.normalized_features else []
        if self.two_classifiers and between:
            raise UsageError(
                f"pooling={self.pooling!r} has two classifiers and no representation before them. "
                f"Received: {between[0]}; leave it out."
            )
        most = POSITION_EMBEDDINGS[self.position_embedding].most_prefix_tokens
        others = self.registers or self.num_queries
        if self.prefix_tokens > most or (others and most < math.inf):
            raise UsageError(
                f"position_embedding={self.position_embedding!r} has entries for a class token and "
                f"no further learned tokens. Received: pooling={self.pooling!r}, registers="
                f"{self.registers} and num_queries={self.num_queries}; choose others."
            )

    def _check_dense_head(self) -> None:
        own = ("dense_head", *(self.dense.fields if self.dense else ()))
        for name in DENSE_FIELDS.keys() - set(own):
            if getattr(self, name) != DENSE_FIELDS[name]:
                heads = [head for head, kind in DENSE_HEADS.items() if name in kind.fields]
                raise UsageError(
                    f"{name} is for dense_head={_or([repr(head) for head in heads])}. Received: "
                    f"dense_head={self.dense_head!r} and {name}={getattr(self, name)}."
                )
        if self.dense is None:
            return
        between = [name for name in _BEFORE_A_CLASSIFIER if getattr(self, name)]
        if between:
            raise UsageError(
                f"dense_head={self.dense_head!r} reads the patches. Received: {between[0]}="
                f"{getattr(self, between[0])!r}, which precedes a classifier; leave it out."
            )
        if "num_queries" in self.dense.fields:
            self._check_queries()
        elif self.stride % self.head_cells:
            raise UsageError(
                f"head_cells must divide the {self.stride} pixels of a patch. "
                f"Received: head_cells={self.head_cells}."
            )

    def _check_queries(self) -> None:
        if not self.num_queries or not 0 < self.query_blocks <= self.depth:
            raise UsageError(
                f"dense_head={self.dense_head!r} needs num_queries, such as 100 or 200, and "
                f"query_blocks, 1 to {self.depth}. Received: num_queries={self.num_queries} and "
                f"query_blocks={self.query_blocks}."
            )
        if self.head_cells != 1 << self.upscalings or self.upscalings > MOST_UPSCALINGS:
            raise UsageError(
                f"head_cells of dense_head={self.dense_head!r} must be a power of two, at most "
                f"{1 << MOST_UPSCALINGS}. Received: head_cells={self.head_cells}."
            )
        if self.norm_after_pooling:
            raise UsageError(
                f"dense_head={self.dense_head!r} has no pooling. "
                "Received: norm_after_pooling=True; leave it out."
            )

    def _hybrid_grid(self, height: int, width: int) -> tuple[int, int]:
        stride, patch = self.stem.stride, self.patch_size
        rows, columns = (-(-side // stride) // patch for side in (height, width))
        if not (rows and columns):
            least = stride * (patch - 1) + 1
            raise UsageError(
                f"image_size must be at least {least} (patch_size={patch}, stem {stride}). "
                f"Received: {height} x {width}."
            )
        return rows, columns

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> ViTSpec:
        """The spec of `to_dict`; unknown and missing fields raise a `UsageError`."""
        if isinstance(fields.get("stem"), dict):
            fields = {**fields, "stem": ResNetStem.from_dict(fields["stem"])}
        return super().from_dict(with_present_names(fields))


_channels = functools.partial(positive_integer, most=MOST_CHANNELS)
_BEFORE_A_CLASSIFIER = ("representation_dim", "projection_dim", "normalized_features")
_VIT_CHECKS = {
    "patch_size": functools.partial(positive_integer, most=LONGEST_SIDE),
    "depth": functools.partial(positive_integer, most=MOST_BLOCKS),
    **dict.fromkeys(["hidden_dim", "num_heads", "mlp_dim"], _channels),
    **dict.fromkeys(["representation_dim", "projection_dim"], _channels),
    "in_channels": _channels,
    "pooling": functools.partial(choice, choices=POOLINGS),
    "position_embedding": functools.partial(choice, choices=POSITION_EMBEDDINGS),
    "activation": functools.partial(choice, choices=get_args(Activation)),
    "mlp_kind": functools.partial(choice, choices=MLPS),
    "rotation": functools.partial(choice, choices=ROTATIONS),
    "resampling": functools.partial(choice, choices=get_args(Resampling)),
    **dict.fromkeys(
        ["qk_norm", "query_bias", "key_bias", "value_bias", "patch_bias", "embedding_norm"], flag
    ),
    **dict.fromkeys(["norm_after_pooling", "normalized_features", "head_norm"], flag),
    "dense_head": lambda field, value: choice(field, value, (NO_DENSE_HEAD, *DENSE_HEADS)),
    "head_cells": functools.partial(positive_integer, most=LONGEST_SIDE),
    "head_activation": functools.partial(choice, choices=get_args(HeadActivation)),
    **dict.fromkeys(RATES, fraction),
    **dict.fromkeys(["layer_norm_eps", "layer_scale"], positive_number),
    "registers": lambda field, value: _count(field, value, _MOST_REGISTERS),
    "num_queries": lambda field, value: _count(field, value, _MOST_QUERIES),
    "query_blocks": lambda field, value: _count(field, value, MOST_BLOCKS),
}


@dataclasses.dataclass(frozen=True)
class ResNetSpec(_Fields):
    """The hyperparameters of a BiT ResNet-V2: everything but image size and classes.

    Attributes:
        layers: bottleneck units in each block, one to four; every block after the first halves
            the size. BiT has four.
        width: multiplies every number of channels but the image's.
        in_channels: channels of the image, as in `ViTSpec`.
    """

    layers: tuple[int, ...]
    width: int = 1
    in_channels: int = 3
    dense = None  # only ViTs have dense heads

    def __post_init__(self):
        width = functools.partial(positive_integer, most=MOST_CHANNELS // 4096)
        self._check({"layers": _counts, "width": width, "in_channels": _channels})
        if not 1 <= len(self.layers) <= 4:
            raise UsageError(f"layers must be one to four numbers. Received: layers={self.layers}.")

    @property
    def channels(self) -> int:
        """Channels of the last block's output, which the head reads."""
        return 4 * self.units[-1].features

    @property
    def units(self) -> list[ResNetUnit]:
        """All units, from input to output."""
        return _units(self.layers, 64 * self.width)


Spec = ViTSpec | ResNetSpec


def head_activation(spec: Spec, classes: int) -> HeadActivation:
    """What makes probabilities of a model's logits; of a single one it is the sigmoid."""
    return "sigmoid" if classes == 1 else getattr(spec, "head_activation", "softmax")


def activation_of_loss(spec: Spec, loss: str) -> dict[str, str]:
    """The field of a ViT's spec that says what logits mean that are trained with a loss, if any."""
    says = isinstance(spec, ViTSpec) and loss in get_args(HeadActivation)
    return {"head_activation": loss} if says else {}


def spec_from_dict(fields: dict[str, Any]) -> Spec:
    """The ViTSpec or ResNetSpec whose `to_dict` returned the fields."""
    return (ResNetSpec if "layers" in fields else ViTSpec).from_dict(fields)


@dataclasses.dataclass(frozen=True)
class Preprocessing(_Fields):
    """The steps from a uint8 RGB image to a model's input: crop, resize, (x - mean) / scale.

    For one channel, the resized pixels become grey before mean and scale: their luma as Pillow
    computes it, which leaves grey pictures as they are.

    Attributes:
        height, width: the model's input size in pixels.
        crop: None stretches the whole image to the size, as the official fine-tuning code does
            at evaluation. With a fraction, the short side is resized to size / crop and the centre
            is cut out, both in whole pixels, as in transformers (0.875 for 224 out of 256).
        interpolation: "bilinear" or "bicubic" (antialiased when shrinking, as in Pillow),
            "nearest", or "mediapipe": as MediaPipe's ImageClassifier resizes on CPUs, which is
            bilinear without antialiasing, from corner to corner of the whole image.
        mean, scale: one number, or one for each channel, for pixel values in [0, 255]. PyTorch's
            ImageNet models use mean (123.675, 116.28, 103.53), scale (58.395, 57.12, 57.375).
        channels: of the model's input, 3 for RGB or 1 for grey.
        pad: whether the whole image keeps its proportions: it is made as large as the size allows,
            and black pixels fill the rest at the bottom or at the right (EoMT).

    Raises:
        UsageError: a field has the wrong type or is out of range.
    """

    height: int
    width: int
    crop: float | None = None
    interpolation: Interpolation = "bilinear"
    mean: float | tuple[float, float, float] = 127.5
    scale: float | tuple[float, float, float] = 127.5
    channels: int = 3
    pad: bool = False

    def __post_init__(self):
        side = functools.partial(positive_integer, most=LONGEST_SIDE)
        self._check({"height": side, "width": side, "crop": number, "pad": flag})
        if self.height * self.width > MOST_PIXELS:
            raise UsageError(
                f"an input has at most {MOST_PIXELS:,} pixels. "
                f"Received: {self.height} x {self.width}."
            )
        if self.crop is not None and not 0 < self.crop <= 1:
            raise UsageError(f"crop must be None or lie in (0, 1]. Received: crop={self.crop!r}.")
        if self.interpolation not in get_args(Interpolation):
            raise UsageError(
                "interpolation must be nearest, bilinear, bicubic or mediapipe. "
                f"Received: interpolation={shown(self.interpolation)}."
            )
        if self.interpolation == "mediapipe" and self.crop is not None:
            raise UsageError(
                "interpolation='mediapipe' resizes the whole image, as MediaPipe does. "
                f"Received: crop={self.crop!r}; leave it out."
            )
        if self.pad and (self.crop is not None or self.interpolation == "mediapipe"):
            raise UsageError(
                "pad=True is for the whole image, and not for MediaPipe's resize. Received: "
                f"crop={self.crop!r} and interpolation={self.interpolation!r}; leave one out."
            )
        if integer(self.channels) not in PICTURE_CHANNELS:
            raise UsageError(
                "channels must be 3 for RGB or 1 for grey; other inputs are your own floats, "
                f"without a Preprocessing. Received: channels={shown(self.channels)}."
            )
        self._set("channels", integer(self.channels))
        for field in ("mean", "scale"):
            self._set(field, _per_channel(field, getattr(self, field), self.channels))
        if min(self.scale if isinstance(self.scale, tuple) else [self.scale]) < 1e-30:
            raise UsageError(
                f"scale must be positive, at least 1e-30. Received: scale={shown(self.scale)}."
            )

    @property
    def size(self) -> tuple[int, int]:
        """(height, width)."""
        return self.height, self.width

    @property
    def uncropped(self) -> tuple[int, int]:
        """(height, width) in whole pixels, of which `crop` leaves `size`."""
        height, width = (math.floor(side / (self.crop or 1) + 0.5) for side in self.size)
        return height, width

    @property
    def shape(self) -> tuple[int, int, int]:
        """(height, width, channels)."""
        return self.height, self.width, self.channels

    def of_channels(self, channels: int) -> Preprocessing:
        """The same for this number of channels; for one, three means or scales are averaged."""
        if channels == self.channels:
            return self
        mean, scale = (
            sum(value) / len(value) if isinstance(value, tuple) else value
            for value in (self.mean, self.scale)
        )
        return dataclasses.replace(self, mean=mean, scale=scale, channels=channels)


class RunSpec(Struct):
    """spec.json of a run folder."""

    model: Name
    spec: dict[str, Any]  # see `check_spec`
    num_classes: Annotated[int, Meta(ge=1, le=MOST_CLASSES)]
    image_size: Sides
    preprocessing: Preprocessing
    weights: Text = ""


def check_spec(content: dict[str, Any], place: str, fix: str = "") -> None:
    """Checks the "spec" of a run or of a comment in weights, of a ViT or of a ResNet.

    Raises:
        UsageError: a field is absent or has another type.
    """
    schema = ResNetSpec if "layers" in content["spec"] else ViTSpec
    check(content["spec"], place, schema, fix, root="$.spec")


def as_size(image_size: int | tuple[int, int]) -> tuple[int, int]:
    """(height, width) from one number or two, also from a NumPy array.

    Raises:
        UsageError: these are not one or two positive integers.
    """
    size = image_size.tolist() if hasattr(image_size, "tolist") else image_size
    has_order = isinstance(size, Iterable) and not isinstance(size, (bytes, Set))
    try:
        sides = tuple(size) if has_order else (size, size)
    except TypeError:  # a tensor of rank 0
        sides = ()
    integers = [integer(side) for side in sides]
    if len(integers) != 2 or any(side is None or side < 1 for side in integers):
        raise UsageError(
            "image_size must be a positive integer, or (height, width). "
            f"Received: image_size={shown(image_size)}."
        )
    return integers[0], integers[1]


def _count(field: str, value: Any, most: int) -> int:
    return 0 if integer(value) == 0 else positive_integer(field, value, most)


def _counts(field: str, values: Any) -> tuple[int, ...]:
    if not isinstance(values, (tuple, list)):
        raise UsageError(f"{field} must be a tuple of integers. Received: {field}={shown(values)}.")
    counts = tuple(positive_integer(field, value, MOST_BLOCKS) for value in values)
    if sum(counts) > MOST_BLOCKS:
        raise UsageError(
            f"{field} must have at most {MOST_BLOCKS} units. Received: {field}={shown(values)}."
        )
    return counts


def _per_channel(field: str, values: Any, channels: int) -> float | tuple[float, ...]:
    if not isinstance(values, (tuple, list)):
        return number(field, values)
    if len(values) != channels or channels == 1:
        expected = "a number or three" if channels == 3 else "a number for one channel"
        raise UsageError(f"{field} must be {expected}. Received: {field}={shown(values)}.")
    return tuple(number(field, value) for value in values)


def _units(stages: Iterable[int], root: int) -> list[ResNetUnit]:
    # The first unit reads `root` channels; each stage has twice the channels of the one before.
    units, channels = [], root
    for i, count in enumerate(stages):
        features = root * 2**i
        for j in range(count):
            strides = 2 if i > 0 and j == 0 else 1
            units.append(ResNetUnit(i + 1, j + 1, channels, features, strides))
            channels = 4 * features
    return units


def _or(values: Sequence[Any]) -> str:
    return " or ".join(filter(None, [", ".join(map(str, values[:-1])), str(values[-1])]))
