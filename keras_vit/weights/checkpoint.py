"""What a file of weights holds, told from its names and shapes without building a model."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_vit._errors import UsageError
from keras_vit.parts.grids import Tokens
from keras_vit.parts.poolings import POOLINGS
from keras_vit.parts.positions import POSITION_EMBEDDINGS
from keras_vit.parts.positions.position_embedding import PositionEmbedding
from keras_vit.specs import (
    VARIANTS,
    Preprocessing,
    ResNetSpec,
    ResNetStem,
    Spec,
    ViTSpec,
    as_size,
    spec_from_dict,
)
from keras_vit.weights.dialects import Layout, find_layout
from keras_vit.weights.hub_config import timm_preprocessing, transformers_preprocessing
from keras_vit.weights.names import pooling_rows, position_keys
from keras_vit.weights.templates import numbers
from keras_vit.weights.tensors import Tensors, open_tensors

_GELU = {"gelu": "erf", "gelu_new": "tanh", "gelu_pytorch_tanh": "tanh", "gelu_tanh": "tanh"}
# What the code that reads a layout computes with, unless the file says otherwise.
_GELU_OF_FAMILY = {"official": "tanh", "timm": "erf", "transformers": "erf"}
_EPS_OF_FAMILY = {"official": 1e-6, "timm": 1e-6, "transformers": 1e-12}
# Fields that names and shapes tell; the others are only told.
_SHAPED = ("patch_size", "hidden_dim", "depth", "mlp_dim", "representation_dim", "stem")
_LONGEST_SIDE, _MOST_TOKENS = 1 << 16, 1 << 16
_NUMERICS = ("gelu", "layer_norm_eps", "num_heads")


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """An open file of weights whose layout is known.

    Attributes:
        tensors: the file.
        layout: what stands where in it.
    """

    tensors: Tensors
    layout: Layout

    @property
    def path(self) -> str:
        """The file, for messages."""
        return str(self.tensors.path)

    @property
    def dialect(self) -> str:
        """The container and its layout, in words: "npz, official (Linen names)"."""
        return f"{self.tensors.kind}, {self.layout.dialect}"

    def shape(self, key: str) -> tuple[int, ...] | None:
        """The shape of the array of an official key; None if the file has none.

        In PyTorch's layouts heads are not told apart: (D, D) where the official has (D, H, d).
        """
        place = self.layout.places.get(key)
        return None if place is None else place.official_shape(self.tensors.shapes[place.key])

    def read(self, key: str, shape: tuple[int, ...] | None = None) -> np.ndarray:
        """The array of an official key as float32 of its official shape."""
        place = self.layout.places[key]
        return place.official(self.tensors.read(place.key), shape or self.shape(key))

    @property
    def head(self) -> str:
        """What the head's keys begin with: "head", in BiT's files "resnet/head/conv2d"."""
        return "resnet/head/conv2d" if "bit" in self.layout.family else "head"

    @property
    def num_classes(self) -> int:
        """Logits of the file's head; 0 if it has none.

        Raises:
            UsageError: the head's bias has more dimensions than one.
        """
        shape = self.shape(f"{self.head}/bias")
        if shape is not None and len(shape) != 1:
            raise UsageError(
                f"{self.path}: {self.head}/bias must have one dimension. Received: shape={shape}."
            )
        return shape[0] if shape else 0

    @functools.cached_property
    def spec(self) -> Spec:
        """The architecture.

        Raises:
            UsageError: the shapes are of no architecture that is known here.
        """
        told = self.tensors.metadata.get("spec")
        try:
            spec = self._bit() if "bit" in self.layout.family else self._vit()
            if isinstance(told, dict):
                return self._confirmed(spec_from_dict(told), spec)
            return spec
        except UsageError as error:
            raise UsageError(f"{self.path} holds no architecture known here: {error}") from None
        except (TypeError, ValueError, LookupError):  # a weight is absent, or has other axes
            raise UsageError(
                f"{self.path} holds no architecture known here: a weight that tells it is missing "
                "or of another shape."
            ) from None

    @property
    def told(self) -> dict[str, Any]:
        """What shapes cannot tell and the model must share: gelu, layer_norm_eps, num_heads.

        As far as the file says it, or its layout is of code that computes so.
        """
        config, family = self.tensors.config, self.layout.family
        told = self.tensors.metadata.get("spec")
        if isinstance(told, dict) and "gelu" in told:  # a BiT's has none
            return {field: told[field] for field in _NUMERICS if field in told}
        self._check_pool()
        told = {
            "gelu": _gelu(config) or _GELU_OF_FAMILY.get(family),
            "layer_norm_eps": config.get("layer_norm_eps", _EPS_OF_FAMILY.get(family)),
            "num_heads": config.get("num_attention_heads", _model_args(config).get("num_heads")),
        }
        return {field: value for field, value in told.items() if value is not None}

    @property
    def variant(self) -> str | None:
        """The name in the table of variants, if it is one of them."""
        return next((name for name, spec in VARIANTS.items() if _same(spec, self.spec)), None)

    @property
    def image_size(self) -> tuple[int, int] | None:
        """(height, width) in pixels; None if nothing in the file depends on it.

        Raises:
            UsageError: the file claims an absurd size.
        """
        grid = self.grid
        if grid is not None:
            # A hybrid of 225 pixels has the grid of 240.
            told = self._told_size()
            if told is not None and self.spec.grid(told) == grid:
                return told
            return tuple(side * self.spec.stride for side in grid)
        told = None if self._position_shapes else self._told_size()
        tokens = math.prod(self.spec.grid(told)) if told and hasattr(self.spec, "grid") else 0
        if told and (max(told) > _LONGEST_SIDE or tokens > _MOST_TOKENS):
            raise UsageError(f"{self.path} claims images of {told[0]} x {told[1]} pixels; refused.")
        return told

    @property
    def told_grid(self) -> tuple[int, int] | None:
        """Rows and columns of the positions as the file or its config says, if it does."""
        told = self._told_size()
        if told is None or isinstance(self.spec, ResNetSpec):
            return None
        grid = self.spec.grid(told)
        return grid if self._positions_fit(grid) else None

    @property
    def grid(self) -> tuple[int, int] | None:
        """Rows and columns of the positions: what the file says, or what their shapes show."""
        if self.told_grid is not None:
            return self.told_grid
        kind = self._positions
        if not self._position_shapes or kind.grid_from_shapes is None:
            return None
        return kind.grid_from_shapes(self._position_shapes, self._class_token)

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The classes' names, if the file or the config beside it has them."""
        told = self.tensors.metadata.get("labels") or self.tensors.config.get("label_names")
        id2label = self.tensors.config.get("id2label")
        if told is None and isinstance(id2label, dict):
            told = [id2label.get(str(i)) for i in range(min(self.num_classes, len(id2label)))]
        if not isinstance(told, list) or not told or len(told) != self.num_classes:
            return None
        if not all(isinstance(label, str) for label in told):
            return None
        # transformers writes LABEL_0 ... where nobody gave names.
        return None if told[0] == "LABEL_0" else tuple(told)

    @property
    def preprocessing(self) -> Preprocessing | None:
        """How images become inputs, if the file or the config beside it says so."""
        if "preprocessing" in self.tensors.metadata:
            return Preprocessing.from_dict(self.tensors.metadata["preprocessing"])
        if "pretrained_cfg" in self.tensors.config:
            return timm_preprocessing(self.tensors.config)
        if self.tensors.preprocessor:
            return transformers_preprocessing(self.tensors.preprocessor)
        return None

    @property
    def parameters(self) -> int:
        """How many numbers the file's weights are."""
        keys = {place.key for place in self.layout.places.values()}
        return sum(math.prod(self.tensors.shapes[key]) for key in keys)

    @property
    def head_state(self) -> str:
        """Whether the head is "trained", "zero" (as in the first imagenet21k files) or "none"."""
        if f"{self.head}/kernel" not in self.layout.places:
            return "none"
        return "trained" if np.count_nonzero(self.read(f"{self.head}/kernel")) else "zero"

    @property
    def _class_token(self) -> bool:
        return "cls" in self.layout.places

    @property
    def _positions(self) -> PositionEmbedding:
        return POSITION_EMBEDDINGS[self._position_embedding()]

    @property
    def _position_shapes(self) -> dict[str, tuple[int, ...]]:
        # Of the weights of positions by name, if each has as many dimensions as it should.
        weights = position_keys(self._positions)
        shapes = {weight.name: self.shape(key) for key, weight in weights.items()}
        smallest = Tokens((1, 1), self._class_token)
        for weight in weights.values():
            if len(shapes[weight.name]) != len(weight.shape(smallest, 1)):
                return {}
        return shapes

    def _positions_fit(self, grid: tuple[int, int]) -> bool:
        # The last axis depends on the width alone.
        tokens = Tokens(grid, self._class_token)
        weights = {weight.name: weight for weight in position_keys(self._positions).values()}
        shapes = self._position_shapes
        return bool(shapes) and all(
            shape[:-1] == weights[name].shape(tokens, 1)[:-1] for name, shape in shapes.items()
        )

    def _told_size(self) -> tuple[int, int] | None:
        config = self.tensors.config
        told = (
            self.tensors.metadata.get("image_size")
            or config.get("image_size")
            or _model_args(config).get("img_size")
        )
        return as_size(told) if isinstance(told, (int, list)) else None

    def _confirmed(self, told: Spec, found: Spec) -> Spec:
        # What the file says of itself, if its names and shapes do not say otherwise.
        if isinstance(found, ResNetSpec) or isinstance(told, ResNetSpec):
            contradicts = told != found
        else:
            contradicts = any(getattr(told, f) != getattr(found, f) for f in _SHAPED)
        if contradicts:
            raise UsageError("what it says of itself contradicts its weights.")
        return told

    def _vit(self) -> ViTSpec:
        patch, _, _, hidden = self.shape("embedding/kernel")
        block = "Transformer/encoderblock_0"
        mlp = self.shape(f"{block}/MlpBlock_3/Dense_0/bias")[-1]
        depth = self._count("Transformer/encoderblock_{i}/LayerNorm_0/scale")
        bias = self.shape(f"{block}/MultiHeadDotProductAttention_1/query/bias")
        representation = self.shape("pre_logits/bias")
        return ViTSpec(
            patch,
            hidden,
            depth,
            bias[0] if len(bias) == 2 else self._heads(hidden, depth, mlp),
            mlp,
            pooling=self._pooling(),
            representation_dim=representation[0] if representation else None,
            position_embedding=self._position_embedding(),
            gelu=self.told["gelu"],
            layer_norm_eps=self.told["layer_norm_eps"],
            stem=self._stem(),
        )

    def _pooling(self) -> str:
        for name in POOLINGS:
            keys = {row.key for row in pooling_rows(name)}
            if keys and keys <= self.layout.places.keys():
                return name
        return "token" if self._class_token else "gap"

    def _check_pool(self) -> None:
        # The same keys as with the class token's pooling, and other logits.
        config = self.tensors.config
        pool = config.get("global_pool", _model_args(config).get("global_pool", "token"))
        if self._class_token and pool not in ("token", ""):
            raise UsageError(
                f"{self.path} has a class token and pools by {pool!r}, which no ViT here does."
            )

    def _position_embedding(self) -> str:
        for name, kind in POSITION_EMBEDDINGS.items():
            keys = position_keys(kind).keys()
            if keys and keys <= self.layout.places.keys():
                return name
        # The published files without any table are big_vision's "better baselines"; timm has no
        # such positions.
        return "sincos2d" if self.layout.family == "official" else "none"

    def _heads(self, hidden: int, depth: int, mlp: int) -> int:
        # Where query, key and value are plain matrices, the table of variants tells the heads.
        if "num_heads" in self.told:
            return self.told["num_heads"]
        for spec in VARIANTS.values():
            if isinstance(spec, ViTSpec) and (spec.hidden_dim, spec.mlp_dim) == (hidden, mlp):
                return spec.num_heads
        raise UsageError(
            f"hidden {hidden}, {depth} blocks, MLP {mlp} is no variant, and the file does not say "
            "how many heads; lay its config.json beside it."
        )

    def _stem(self) -> ResNetStem | None:
        root = self.shape("conv_root/kernel")
        if root is None:
            return None
        stages = range(1, 1 + self._count("block{i}/unit1/conv1/kernel"))
        units = tuple(self._count(f"block{i}/unit{{j}}/conv1/kernel") for i in stages)
        return ResNetStem(units, root[-1] / 64)

    def _bit(self) -> ResNetSpec:
        root = self.shape("resnet/root_block/standardized_conv2d/kernel")
        kernel = "a/standardized_conv2d/kernel"
        units = "resnet/block{}/unit{{j:02}}/{}"
        layers = tuple(self._count(units.format(i, kernel)) for i in range(1, 5))
        return ResNetSpec(layers, root[-1] // 64)

    def _count(self, template: str) -> int:
        return sum(numbers(template, key) is not None for key in self.layout.places)


@contextlib.contextmanager
def open_checkpoint(path: str | os.PathLike) -> Iterator[Checkpoint]:
    """Opens a file of weights in any layout that is known; only names and shapes are read.

    Raises:
        UsageError: see `open_tensors` and `find_layout`.
    """
    with open_tensors(path) as tensors:
        yield Checkpoint(tensors, find_layout(tensors.shapes, tensors.path))


def _gelu(config: dict[str, Any]) -> str | None:
    name = config.get("hidden_act") or _model_args(config).get("act_layer")
    if name is None:
        return None
    if not isinstance(name, str) or name not in _GELU:
        raise UsageError(f"its activation is {name!r}; only GELU is known.")
    return _GELU[name]


def _model_args(config: dict[str, Any]) -> dict[str, Any]:
    # timm's config.json: how the model differs from its architecture's name.
    arguments = config.get("model_args")
    return arguments if isinstance(arguments, dict) else {}


def _same(variant: Spec, spec: Spec) -> bool:
    # One model of the table, whatever its head, rates and numerics.
    if isinstance(variant, ResNetSpec) or isinstance(spec, ResNetSpec):
        return variant == spec
    fields = ("patch_size", "hidden_dim", "depth", "num_heads", "mlp_dim", "pooling", "stem")
    return all(getattr(variant, field) == getattr(spec, field) for field in fields)
