"""Reads a file of weights and its architecture from names and shapes, without building a model."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

import numpy as np
from msgspec import Struct

from keras_vit import _json, specs
from keras_vit._checks import LONGEST_SIDE, Resampling, label_names
from keras_vit._errors import UsageError
from keras_vit._json import Lines, Side, Sides
from keras_vit.encoder.block import BLOCK_OPTIONS, MLPS, SHOWN_BY_ROWS, all_block_rows
from keras_vit.encoder.dense_heads import DENSE_HEADS, MOST_UPSCALINGS, DenseHead
from keras_vit.encoder.embedding import EMBEDDING_SHOWN_BY_ROWS, embedding_rows
from keras_vit.encoder.patch_grids import Tokens
from keras_vit.encoder.poolings import POOLINGS
from keras_vit.encoder.positions import POSITION_EMBEDDINGS, PositionEmbedding
from keras_vit.encoder.weight_rows import nested, with_present_names
from keras_vit.specs import Preprocessing, ResNetSpec, ResNetStem, Spec, ViTSpec
from keras_vit.variant_specs import VARIANTS
from keras_vit.weights import hub_config
from keras_vit.weights.dialects import WeightsLayout, find_layout
from keras_vit.weights.hub_preprocessing import timm_preprocessing, transformers_preprocessing
from keras_vit.weights.names import numbers, pooling_keys, position_keys
from keras_vit.weights.tensors import METADATA, Tensors, open_tensors

# The fields that names and shapes determine; the others can only be stated in metadata. And the
# fields that make a variant: head, dropout rates, numerics and channels may differ.
_SHAPED = (
    "patch_size", "hidden_dim", "depth", "mlp_dim", "representation_dim", "projection_dim", "stem",
    "in_channels", "registers", "layers", "width", *EMBEDDING_SHOWN_BY_ROWS,
)  # fmt: skip
_OF_VARIANT = (
    "patch_size", "hidden_dim", "depth", "num_heads", "mlp_dim", "stem", "registers", "layers",
    "width", *(BLOCK_OPTIONS.keys() - {"layer_scale"}), *EMBEDDING_SHOWN_BY_ROWS,
)  # fmt: skip
# What the axes of a weight show. A convolution before the patches reads the image in their place.
_AXES = {
    "embedding/kernel": ("patch_size", "", "in_channels", "hidden_dim"),
    "conv_root/kernel": ("", "", "in_channels", ""),
    "resnet/root_block/standardized_conv2d/kernel": ("", "", "in_channels", ""),
    "registers": ("", "registers", ""),
    "projection/kernel": ("", "projection_dim"),
    "panoptic/queries": ("", "num_queries", ""),
    "Transformer/encoderblock_0/MlpBlock_3/Dense_0/bias": ("mlp_dim",),
}
_BLOCK_0 = "Transformer/encoderblock_0/"
_MOST_COMPUTED = 1 << 25
_NUMERICS = (
    "activation", "layer_norm_eps", "num_heads", "norm_after_pooling", "rotation", "query_blocks",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """An open file of weights whose layout is known.

    Attributes:
        tensors: the file.
        layout: the place of each official key in it.
        num_heads: the caller's number of heads, which is used if the file does not state it.
    """

    tensors: Tensors
    layout: WeightsLayout
    num_heads: int | None = None

    @property
    def path(self) -> str:
        """The file, for messages."""
        return str(self.tensors.path)

    @property
    def dialect(self) -> str:
        """The container and its layout, for messages: "npz, official (Linen names)"."""
        return f"{self.tensors.kind}, {self.layout.dialect}"

    def shape(self, key: str) -> tuple[int, ...] | None:
        """The shape of the array for an official key; None if the file does not have it.

        PyTorch's layouts have no axis for heads: (D, D) instead of the official (D, H, d).
        """
        place = self.layout.places.get(key)
        return None if place is None else place.official_shape(self.tensors.shapes[place.key])

    def read(self, key: str, shape: tuple[int, ...] | None = None) -> np.ndarray:
        """The array for an official key, as float32 in its official shape."""
        place = self.layout.places[key]
        return place.official(self.tensors.read(place.key), shape or self.shape(key))

    @property
    def head(self) -> str:
        """The prefix of the classifier's keys: "head", or "resnet/head/conv2d" in BiT's files.

        That of a dense head begins with its task.
        """
        if self._dense is not None:
            return self._dense.classes_key
        return "resnet/head/conv2d" if self.layout.family.bit else "head"

    @property
    def num_classes(self) -> int:
        """The number of logits of the file's head; 0 if there is no head.

        Raises:
            UsageError: the head's bias does not have exactly one dimension.
        """
        shape = self.shape(f"{self.head}/bias")
        dense = self._dense
        if shape is not None and len(shape) != 1 and dense is None:
            raise UsageError(
                f"{self.path}: {self.head}/bias must have one dimension. Received: shape={shape}."
            )
        return shape[-1] - bool(dense and dense.none_class) if shape else 0

    @property
    def _dense(self) -> DenseHead | None:
        """The dense head in the file, if it has one."""
        keys = self.layout.places
        heads = DENSE_HEADS.values()
        return next((head for head in heads if f"{head.classes_key}/bias" in keys), None)

    @functools.cached_property
    def metadata(self) -> dict[str, Any]:
        """What `save_weights` stored besides the weights, or {}.

        Raises:
            UsageError: a field has another type.
        """
        metadata = self.tensors.metadata
        if metadata:
            place, fix = f"the metadata of {self.path}", "save the weights again"
            _json.check(metadata, place, _Comment, fix)
            specs.check_spec(metadata, place, fix)
            metadata = metadata | {"spec": with_present_names(metadata["spec"])}
        return metadata

    @functools.cached_property
    def spec(self) -> Spec:
        """The architecture.

        Raises:
            UsageError: the architecture is unknown.
        """
        stated, numerics = self.metadata.get("spec"), self.stated
        try:
            inferred = self._bit() if self.layout.family.bit else self._vit(**numerics)
            spec = inferred if stated is None else specs.spec_from_dict(stated)
            if _agree(spec, inferred, _SHAPED):
                return spec
            reason = "the spec in its metadata contradicts its weights."
        except UsageError as error:
            reason = str(error)
        except (TypeError, ValueError, LookupError):  # a weight is absent, or has other axes
            reason = "a weight that determines it is missing or has another shape."
        if self.layout.unknown_part:
            reason = f"{self.layout.unknown_part}."
        raise UsageError(f"{self.path} has an unknown architecture: {reason}")

    @functools.cached_property
    def stated(self) -> dict[str, Any]:
        """The known values of `_NUMERICS`, which official keys and shapes do not determine.

        They are stated in the file or its config, or fixed in the code that belongs to its layout.

        Raises:
            UsageError: the config contradicts the weights, or states what keras_vit does not have.
        """
        return {field: self._stated[field] for field in _NUMERICS if field in self._stated}

    @functools.cached_property
    def _stated(self) -> dict[str, Any]:
        # Fields of the spec; perhaps the pooling too.
        config, stated = self.tensors.config, self.metadata.get("spec", {})
        if "activation" in stated:  # a BiT's spec has none
            return stated
        try:
            shown = {"registers": 0, **self._sizes, **self._options(), **self._dense_head()}
            stated = hub_config.stated_numerics(config, shown, "cls" in self.layout.places)
        except UsageError as error:
            raise UsageError(f"{self.path}: {error}") from None
        gated = {"activation": "silu"} if self._mlp_kind().startswith("gated") else {}
        return {**self.layout.family.numerics, **gated, **self.layout.shown, **stated}

    @property
    def resampling(self) -> Resampling:
        """How positions are resampled to another size, by the file or by its family's own code."""
        stated = self.metadata.get("spec", {}).get("resampling")
        return stated or self.layout.family.resampling

    @property
    def pooling(self) -> str:
        """What the head reads: by the keys, and by what the file or its config states."""
        keys = {name: pooling_keys(name) for name in POOLINGS}
        found = self._kind_of_keys(keys) or "gap"
        # Of poolings with the same weights, the head or the layer before it shows which it is.
        readers = ("pre_logits/kernel", "projection/kernel", "head/kernel")
        reader = next(filter(None, map(self.shape, readers)), (0,))
        hidden = self._sizes.get("hidden_dim", 0)
        classifiers = 1 + ("head_dist/kernel" in self.layout.places)
        width = classifiers * reader[0] / hidden if hidden else 0
        same = [name for name in keys if keys[name] == keys[found]]
        if self._stated.get("pooling") in same:
            return self._stated["pooling"]
        return next((name for name in same if POOLINGS[name].width == width), found)

    @property
    def variant(self) -> str | None:
        """The name of its variant; None if it is not in the table of variants."""
        return next(
            (
                name
                for name, spec in VARIANTS.items()
                if _agree(spec, self.spec, _OF_VARIANT) and _weigh_the_same(spec, self.spec)
            ),
            None,
        )

    @property
    def image_size(self) -> tuple[int, int] | None:
        """(height, width) in pixels; None if unknown.

        Raises:
            UsageError: the stated size is implausibly large.
        """
        grid, stated = self.grid, self._stated_size()
        if grid is not None:
            self._check_computed(grid)
            # Several sizes of a hybrid have the same grid, such as 225 and 240 pixels.
            fits = stated is not None and self.spec.grid(stated) == grid
            return stated if fits else tuple(side * self.spec.stride for side in grid)
        if stated is None or self.has_positions:
            return None
        height, width = stated
        tokens = 0 if isinstance(self.spec, ResNetSpec) else math.prod(self.spec.grid(stated))
        if max(height, width) > LONGEST_SIDE or tokens > specs.MOST_TOKENS:
            raise UsageError(f"{self.path} claims images of {height} x {width} pixels; refused.")
        if tokens:
            self._check_computed(self.spec.grid(stated))
        return stated

    @property
    def has_positions(self) -> bool:
        """Whether some weights depend on the grid of patches, and therefore on the image size."""
        return bool(self._position_shapes)

    @property
    def stated_grid(self) -> tuple[int, int] | None:
        """Rows and columns of the positions that the file or its config states, or None."""
        stated, shapes = self._stated_size(), self._position_shapes
        if stated is None or not shapes:
            return None
        grid = self.spec.grid(stated)
        expected = self._expected_shapes(grid)
        # The last axis depends only on the width, so it is not compared.
        fits = all(shapes[name][:-1] == shape[:-1] for name, shape in expected.items())
        return grid if fits else None

    @property
    def grid(self) -> tuple[int, int] | None:
        """Rows and columns of the positions, as stated or from their shapes; None if unknown."""
        shapes, grid_of = self._position_shapes, self._positions.grid_from_shapes
        return self.stated_grid or (grid_of(shapes, self._prefix) if shapes and grid_of else None)

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The class names, if the file or its config has them.

        Raises:
            UsageError: a name is not one line of text.
        """
        stated = self.metadata.get("labels") or self.tensors.config.get("label_names")
        id2label = self.tensors.config.get("id2label")
        if stated is None and isinstance(id2label, dict):
            stated = [id2label.get(str(i)) for i in range(min(self.num_classes, len(id2label)))]
        is_list = isinstance(stated, list) and all(isinstance(label, str) for label in stated)
        # transformers writes LABEL_0 ... for classes without names.
        if not is_list or len(stated) != self.num_classes or stated[:1] in ([], ["LABEL_0"]):
            return None
        try:
            return label_names(stated)
        except UsageError as error:
            raise UsageError(f"{self.path}: {error}") from None

    @property
    def preprocessing(self) -> Preprocessing | None:
        """The preprocessing, if the file or its config states it.

        timm and transformers may state that of RGB pictures for a model of grey ones.
        """
        if "preprocessing" in self.metadata:
            return Preprocessing.from_dict(self.metadata["preprocessing"])
        if "pretrained_cfg" in self.tensors.config:
            return timm_preprocessing(self.tensors.config)
        if self.tensors.preprocessor:
            return transformers_preprocessing(self.tensors.preprocessor)
        return self.layout.family.preprocessing(self.ignored)

    def ignored(self, name: str) -> np.ndarray | None:
        """The array of this name, before which a prefix may be, that is no weight; or None."""
        keys = (key for key in self.layout.ignored if f".{key}".endswith(f".{name}"))
        return next(map(self.tensors.read, keys), None)

    @property
    def parameters(self) -> int:
        """The number of parameters in the file."""
        keys = {place.key for place in self.layout.places.values()}
        return sum(math.prod(self.tensors.shapes[key]) for key in keys)

    @property
    def head_state(self) -> str:
        """Whether the head is "trained", "zero" (as in the first imagenet21k files) or "none"."""
        if f"{self.head}/kernel" not in self.layout.places:
            return "none"
        return "trained" if np.count_nonzero(self.read(f"{self.head}/kernel")) else "zero"

    @property
    def _prefix(self) -> int:
        """The number of positions before those of the patches."""
        return POOLINGS[self.pooling].prefix_tokens

    @property
    def _positions(self) -> PositionEmbedding:
        return POSITION_EMBEDDINGS[self._position_embedding()]

    @property
    def _position_shapes(self) -> dict[str, tuple[int, ...]]:
        # The shapes of the position weights by name; {} if one has a wrong number of dimensions.
        keys = position_keys(self._positions)
        shapes = {weight.name: self.shape(key) for key, weight in keys.items()}
        expected = self._expected_shapes((1, 1))
        return shapes if all(len(shapes[n]) == len(expected[n]) for n in shapes) else {}

    def _expected_shapes(self, grid: tuple[int, int]) -> dict[str, tuple[int, ...]]:
        weights, tokens = position_keys(self._positions).values(), Tokens(grid, self._prefix)
        return {weight.name: weight.shape(tokens, 1) for weight in weights}

    def _stated_size(self) -> tuple[int, int] | None:
        config = self.tensors.config
        stated = self.metadata.get("image_size") or config.get("image_size")
        stated = stated or hub_config.model_args(config).get("img_size")
        return specs.as_size(stated) if isinstance(stated, (int, list)) else None

    def _check_computed(self, grid: tuple[int, int]) -> None:
        # A few bytes can claim a grid for which building a model computes gigabytes: the table of
        # fixed positions, or in each block the index of each pair of tokens in a table of offsets.
        kind, tokens = self._positions, math.prod(grid)
        pairs = self.spec.depth * tokens**2 if kind.attention_weights else 0
        values = self.spec.hidden_dim * tokens if kind.table and not kind.weights else 0
        if max(pairs, values) > _MOST_COMPUTED:
            raise UsageError(
                f"{self.path} has {self.spec.position_embedding} positions for {grid[0]} x "
                f"{grid[1]} patches, too many for a model whose architecture is taken from a file; "
                "build the model from its spec and use load_weights."
            )

    @property
    def _sizes(self) -> dict[str, int]:
        # Those that shapes show; a weight that is absent or has other axes shows none.
        sizes = {}
        for key, axes in _AXES.items():
            shape = self.shape(key)
            if shape is not None and len(shape) == len(axes):
                sizes |= {axis: size for axis, size in zip(axes, shape, strict=True) if axis}
        template = "Transformer/encoderblock_{i}/LayerNorm_0/scale"
        depth = sum(numbers(template, key) is not None for key in self.layout.places)
        return sizes | ({"depth": depth} if depth else {})

    def _vit(self, num_heads: int | None = None, **numerics: Any) -> ViTSpec:
        sizes = self._sizes
        query = self.shape(f"{_BLOCK_0}MultiHeadDotProductAttention_1/query/kernel")
        representation = self.shape("pre_logits/bias")
        return ViTSpec(
            num_heads=query[1] if len(query) == 3 else num_heads or self._heads(sizes),
            pooling=self.pooling,
            representation_dim=representation[0] if representation else None,
            position_embedding=self._position_embedding(),
            stem=self._stem(),
            resampling=self.resampling,
            **self._dense_head(),
            **sizes,
            **self._options(),
            **numerics,
        )

    def _dense_head(self) -> dict[str, Any]:
        # Of files that do not state their spec, only DINOv2's and EoMT's have one.
        if self.shape("panoptic/queries") is not None:
            template = "panoptic/upscaling_{i}/norm/scale"
            upscalings = sum(numbers(template, key) is not None for key in self.layout.places)
            return {"dense_head": "eomt", "head_cells": 1 << min(upscalings, MOST_UPSCALINGS)}
        kernel = self.shape("segmentation/kernel")
        if kernel is None:
            return {}
        norm = self.shape("segmentation/norm/scale") is not None
        return {"dense_head": "linear", "head_cells": kernel[1], "head_norm": norm}

    def _options(self) -> dict[str, Any]:
        # What the embedding and the first block have besides the paper's.
        rows = [*embedding_rows(()), *nested(all_block_rows(), _BLOCK_0, "")]
        shown = {row.when for row in rows if row.key in self.layout.places}
        options = {
            name: present if name in shown else absent
            for name, (present, absent) in {**SHOWN_BY_ROWS, **EMBEDDING_SHOWN_BY_ROWS}.items()
        }
        return options | {"mlp_kind": self._mlp_kind()}

    def _mlp_kind(self) -> str:
        keys = {
            name: {f"{_BLOCK_0}MlpBlock_3/{row.key}" for row in kind.rows}
            for name, kind in MLPS.items()
        }
        return self._kind_of_keys(keys) or "plain"

    def _kind_of_keys(self, keys: Mapping[str, Set[str]]) -> str | None:
        # Of the kinds whose keys are all in the file, the one with the most: keys of one kind can
        # contain those of another.
        present = [name for name in keys if keys[name] and keys[name] <= self.layout.places.keys()]
        return max(present, key=lambda name: len(keys[name]), default=None)

    def _position_embedding(self) -> str:
        keys = {name: position_keys(kind).keys() for name, kind in POSITION_EMBEDDINGS.items()}
        # Official files without position weights are big_vision's "better baselines". timm has no
        # fixed positions.
        default = "sincos2d" if self.layout.family.library == "official" else "none"
        return self._kind_of_keys(keys) or default

    def _heads(self, sizes: dict[str, int]) -> int:
        # Matrices do not show the number of heads, so it is taken from a variant of the same size.
        hidden, mlp, kind = sizes["hidden_dim"], sizes["mlp_dim"], self._mlp_kind()
        for spec in VARIANTS.values():
            if isinstance(spec, ViTSpec) and _mlp(spec) == (hidden, mlp, kind):
                return spec.num_heads
        if self.num_heads is not None:
            return self.num_heads
        # timm's config.json has the number only if it is not that of the architecture it names.
        advice = "" if self.tensors.config else ", or put its config.json in the same folder"
        raise UsageError(
            f"hidden {hidden}, {sizes['depth']} blocks, MLP {mlp} is not a known variant, and the "
            f"file does not state the number of heads; pass num_heads=N{advice}."
        )

    def _stem(self) -> ResNetStem | None:
        root = self.shape("conv_root/kernel")
        if root is None:
            return None
        return ResNetStem(self._units("block{i}/unit{j}/conv1/kernel"), root[-1] / 64)

    def _bit(self) -> ResNetSpec:
        root = self.shape("resnet/root_block/standardized_conv2d/kernel")
        layers = self._units("resnet/block{i}/unit{j:02}/a/standardized_conv2d/kernel")
        return ResNetSpec(layers, root[-1] // 64, root[2])

    def _units(self, template: str) -> tuple[int, ...]:
        """The number of units in each block."""
        found = [numbers(template, key) for key in self.layout.places]
        counts = Counter(indices["i"] for indices in found if indices is not None)
        return tuple(counts[i] for i in range(1, 1 + len(counts)))


class _Comment(Struct):
    """What `save_weights` stores in a file of weights."""

    spec: dict[str, Any]  # see `check_spec`
    num_classes: int = 0
    image_size: Sides | Side | None = None
    preprocessing: Preprocessing = None  # absent, not null
    labels: Lines | None = None


@contextlib.contextmanager
def open_checkpoint(path: str | os.PathLike, num_heads: int | None = None) -> Iterator[Checkpoint]:
    """Opens a file of weights in any known layout; reads only names, types and shapes.

    Args:
        path: see `open_tensors`.
        num_heads: the number of heads, if the file does not state it.

    Raises:
        UsageError: see `open_tensors` and `find_layout`, or a weight does not contain floats.
    """
    with open_tensors(path) as tensors:
        tensors = dataclasses.replace(tensors, config=hub_config.of_images(tensors.config))
        own = {METADATA: tensors.metadata} if tensors.metadata else {}
        layout = find_layout(tensors.shapes, tensors.path, tensors.config | own)
        tensors.check_floats(place.key for place in layout.places.values())
        yield Checkpoint(tensors, layout, num_heads)


def _agree(one: Spec, other: Spec, fields: Iterable[str]) -> bool:
    """Whether two specs are of one kind and agree in those of the fields that it has."""
    return type(one) is type(other) and all(
        getattr(one, field, None) == getattr(other, field, None) for field in fields
    )


def _mlp(spec: ViTSpec) -> tuple[int, int, str]:
    return spec.hidden_dim, spec.mlp_dim, spec.mlp_kind


def _weigh_the_same(one: Spec, other: Spec) -> bool:
    """Whether LayerScale and pooling of two specs of one kind have the same weights."""
    if isinstance(one, ResNetSpec):
        return True
    pooling, others = POOLINGS[one.pooling], POOLINGS[other.pooling]
    same_pooling = (pooling.tokens, pooling.rows) == (others.tokens, others.rows)
    return same_pooling and bool(one.layer_scale) == bool(other.layer_scale)
