"""The naming table: for each weight its official key, its path in a model and its official shape.

Source: the published `.npz` files of google-research/vision_transformer and of
google-research/big_transfer. The parts of a ViT describe their own weights in `keras_vit/encoder`.

Keys with numbers have a template: "Transformer/encoderblock_{i}/LayerNorm_0/scale". {i} is the
number of a block in official keys, {j} the number of a unit in the block. {i0} and {j0} are one
less, for layouts that count from zero where the official layout counts from one.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import re
import string
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from keras_vit._errors import UsageError
from keras_vit.encoder.block import all_block_rows, block_rows
from keras_vit.encoder.dense_heads import DENSE_HEADS
from keras_vit.encoder.embedding import PATCH_ROWS, TOKENS, embedding_rows
from keras_vit.encoder.encode import NORM_ROWS, PROJECTION_ROWS, REPRESENTATION_ROWS
from keras_vit.encoder.patch_grids import Tokens
from keras_vit.encoder.poolings import POOLINGS
from keras_vit.encoder.positions import POSITION_EMBEDDINGS, PositionEmbedding, PositionWeight
from keras_vit.encoder.weight_rows import Row, nested, present, table_words
from keras_vit.specs import ResNetSpec, ResNetUnit, Spec, ViTSpec

Size = int | tuple[int, int]  # of an image: one side, or height and width


def _rows(table: str) -> list[Row]:
    rows = []
    for key, path, *rest in table_words(table):
        shape, _, when = " ".join(rest).partition(" if ")
        rows.append(Row(key, path, tuple(shape.split()), when=when))
    return rows


# Sizes: D hidden_dim, H heads, d = D/H, M mlp_dim, P patch_size, I channels of its input, G
# registers, F width of the pooling's output, E of its projection, R of the head's input, C classes,
# s cells of a dense head along a side of a patch, Q queries, K = C + 1; channels of a ResNet: w of
# the root; i, n and o at the input, inside and at the output of a unit.
# Columns: prefixes of official keys and of paths.
_EMBEDDING = ("", "patch_encoder/")
_BLOCK = ("Transformer/encoderblock_{i}/", "encoderblock_{i}/")
# Columns: official key, path in a keras_vit model (layer and weight), official shape; after "if", a
# field without which there is no such weight. No official file has a distillation token, so
# keras_vit defines the keys of its head.
_HEAD = _rows("""
head/kernel         head/kernel                 R C
head/bias           head/bias                   C
head_dist/kernel    head/distillation_kernel    R C    if two_classifiers
head_dist/bias      head/distillation_bias      C      if two_classifiers
""")
_STEM = _rows("""
conv_root/kernel    conv_root/kernel    7 7 I w
gn_root/scale       gn_root/gamma       1 1 1 w
gn_root/bias        gn_root/beta        1 1 1 w
""")
_UNIT = """
conv1/kernel        conv1/kernel        1 1 i n
gn1/scale           gn1/gamma           1 1 1 n
gn1/bias            gn1/beta            1 1 1 n
conv2/kernel        conv2/kernel        3 3 n n
gn2/scale           gn2/gamma           1 1 1 n
gn2/bias            gn2/beta            1 1 1 n
conv3/kernel        conv3/kernel        1 1 n o
gn3/scale           gn3/gamma           1 1 1 o
gn3/bias            gn3/beta            1 1 1 o
conv_proj/kernel    conv_proj/kernel    1 1 i o    if projects
gn_proj/scale       gn_proj/gamma       1 1 1 o    if projects
gn_proj/bias        gn_proj/beta        1 1 1 o    if projects
"""
_UNIT = nested(_rows(_UNIT), "block{i}/unit{j}/", "block{i}_unit{j}/")
_BIT_ROOT = _rows("resnet/root_block/standardized_conv2d/kernel conv_root/kernel 7 7 I w")
_BIT_UNIT = """
a/group_norm/gamma                   gn1/gamma           i
a/group_norm/beta                    gn1/beta            i
a/standardized_conv2d/kernel         conv1/kernel        1 1 i n
b/group_norm/gamma                   gn2/gamma           n
b/group_norm/beta                    gn2/beta            n
b/standardized_conv2d/kernel         conv2/kernel        3 3 n n
c/group_norm/gamma                   gn3/gamma           n
c/group_norm/beta                    gn3/beta            n
c/standardized_conv2d/kernel         conv3/kernel        1 1 n o
a/proj/standardized_conv2d/kernel    conv_proj/kernel    1 1 i o    if projects
"""
_BIT_UNIT = nested(_rows(_BIT_UNIT), "resnet/block{i}/unit{j:02}/", "block{i}_unit{j}/")
_BIT_TAIL = _rows("""
resnet/group_norm/gamma    group_norm/gamma    R
resnet/group_norm/beta     group_norm/beta     R
""")
_BIT_HEAD = _rows("""
resnet/head/conv2d/kernel    head/kernel    1 1 R C
resnet/head/conv2d/bias      head/bias      C
""")
# The prefixes of keys and paths of position embeddings, in the embedding and in attention.
_POSITIONS = ("Transformer/posembed_input/", "patch_encoder/")
_ATTENTION_POSITIONS = (
    "Transformer/encoderblock_{i}/MultiHeadDotProductAttention_1/",
    "encoderblock_{i}/attention/",
)
POSITION_TABLE = f"{_POSITIONS[0]}pos_embedding"  # of learned positions, first of the class token
_NUMBER = re.compile(r"\{[^}]*\}|\d+")
# The digits that a format such as {i} or {i:02} writes. Blocks have at most four digits.
_DIGITS = {"": "0|[1-9][0-9]{0,3}", "02": "[0-9]{2}|[1-9][0-9]{2,3}"}


@dataclasses.dataclass(frozen=True)
class WeightName:
    """One weight: its key in official files, its path in a model, its official shape.

    Attributes:
        key: the official key.
        path: the layer, its sublayers and the variable: "pooling/attention/out/kernel".
        shape: the official shape.
        resample: a function that resamples it to another grid of patches, as in `PositionWeight`;
            None if it does not depend on the grid.
    """

    key: str
    path: str
    shape: tuple[int, ...]
    resample: Callable[..., np.ndarray] | None = None

    def variable(self, model: Any) -> Any:
        """The Keras variable of `model` for this weight.

        Raises:
            UsageError: `model.quantize` has replaced it with integers.
        """
        layer, *inner, variable = self.path.split("/")
        holder = functools.reduce(getattr, inner, model.get_layer(layer))
        if getattr(holder, "quantization_mode", None) is not None:
            raise UsageError(
                f"{model.name}: Keras has quantised {self.path} ({holder.quantization_mode}); "
                "use the model as it was before quantize()."
            )
        # tf_keras has another name for the kernel of a depthwise convolution.
        other = f"depthwise_{variable}"
        return getattr(holder, other if hasattr(holder, other) else variable)


def weight_names(spec: Spec, num_classes: int, image_size: Size) -> list[WeightName]:
    """Every weight of a ViT, a hybrid or a BiT, in the order of the forward pass."""
    if isinstance(spec, ResNetSpec):
        return _bit(spec, num_classes)
    return [*_stem(spec), *_vit(spec, num_classes, image_size)]


def parameter_count(spec: Spec, num_classes: int = 1000, image_size: Size = 224) -> int:
    """The exact number of parameters of a model, without building it."""
    return sum(math.prod(name.shape) for name in weight_names(spec, num_classes, image_size))


def official_keys(bit: bool = False) -> list[tuple[str, str]]:
    """The templates of all official keys, each with the template of the path in a model.

    Args:
        bit: whether to return the keys of BiT instead of those of ViT and hybrids. Some of their
            paths are the same.
    """
    if bit:
        tables = [_BIT_ROOT, _BIT_UNIT, _BIT_TAIL, _BIT_HEAD]
    else:
        tables = [_STEM, _UNIT, NORM_ROWS, REPRESENTATION_ROWS, PROJECTION_ROWS]
        tables += [nested(embedding_rows(TOKENS), *_EMBEDDING), nested(all_block_rows(), *_BLOCK)]
        tables += [_HEAD, *map(pooling_rows, POOLINGS)]
        tables += [[*head.rows, *head.upscalings] for head in DENSE_HEADS.values()]
        tables += [rows for kind in POSITION_EMBEDDINGS.values() for rows in _position_rows(kind)]
    return [(key, path) for table in tables for key, path, *_ in table]


def input_key(spec: Spec) -> str:
    """The official key of the kernel (rows, columns, channels, features) that reads the image."""
    if isinstance(spec, ResNetSpec):
        return _BIT_ROOT[0].key
    return (_STEM if spec.stem else PATCH_ROWS)[0].key


def pooling_rows(pooling: str) -> list[Row]:
    """The weights of a pooling."""
    return nested(POOLINGS[pooling].rows, "", "pooling/")


def pooling_keys(pooling: str) -> set[str]:
    """The official keys by which a file shows its pooling: tokens before the patches, weights."""
    tokens = (TOKENS[name] for name in POOLINGS[pooling].tokens)
    return {row.key for row in (*tokens, *pooling_rows(pooling))}


def head_keys(bit: bool = False) -> tuple[str, ...]:
    """The official keys of all kinds of heads."""
    dense = [row for head in DENSE_HEADS.values() for row in head.all_rows()]
    return tuple(row.key for row in (_BIT_HEAD if bit else [*_HEAD, *dense]))


def classifier_keys() -> set[str]:
    """The official keys of what a ViT may have between the patches and a head."""
    poolings = [row for pooling in POOLINGS for row in pooling_rows(pooling)]
    return {row.key for row in [*poolings, *NORM_ROWS, *REPRESENTATION_ROWS, *PROJECTION_ROWS]}


def position_keys(kind: PositionEmbedding) -> dict[str, PositionWeight]:
    """The weights of a position embedding by official key; those in attention of block 0."""
    return {fill(key): weight for key, _, weight in itertools.chain(*_position_rows(kind))}


def fill(template: str, i: int = 0, j: int = 0) -> str:
    """The key of block i, unit j."""
    return template.format(i=i, j=j, i0=i - 1, j0=j - 1)


def outline(text: str) -> str:
    """A key or a template with # for each number. A template and its keys have the same outline."""
    return _NUMBER.sub("#", text)


def numbers(template: str, key: str) -> dict[str, int] | None:
    """The i and j for which `fill` returns this key; None if the key does not match."""
    match = _regex(template).fullmatch(key)
    if match is None:
        return None
    # The field i0 is i - 1.
    return {name[0]: int(digits) + name.endswith("0") for name, digits in match.groupdict().items()}


def _vit(spec: ViTSpec, num_classes: int, image_size: Size) -> list[WeightName]:
    pooling = POOLINGS[spec.pooling]
    features = spec.hidden_dim * pooling.width
    sizes = {
        "D": spec.hidden_dim,
        "H": spec.num_heads,
        "d": spec.head_dim,
        "M": spec.mlp_dim,
        "P": spec.patch_size,
        "G": spec.registers,
        "I": spec.stem.channels if spec.stem else spec.in_channels,
        "F": features,
        "E": spec.projection_dim,
        # Two classifiers divide the features.
        "R": spec.representation_dim
        or spec.projection_dim
        or features // (1 + spec.two_classifiers),
        "C": num_classes,
        "s": spec.head_cells,
        "Q": spec.num_queries,
        "K": num_classes + 1,
    }
    tokens = spec.tokens(image_size)
    table, bias = _position_rows(POSITION_EMBEDDINGS[spec.position_embedding])
    embedding = nested(present(embedding_rows(pooling.tokens), spec), *_EMBEDDING)
    names = _names(embedding, sizes)
    names += _position_names(table, tokens, spec.hidden_dim)
    block = nested(block_rows(spec), *_BLOCK)
    for i in range(spec.depth):
        names += _names(block, sizes, i) + _position_names(bias, tokens, spec.num_heads, i)
    if spec.dense is not None:
        # The norm that follows a pooling is not in a model without one.
        head = spec.dense.all_rows(spec.upscalings)
        tail = [*([] if spec.norm_after_pooling else NORM_ROWS), *head]
    else:
        pooling = pooling_rows(spec.pooling)
        tail = [*NORM_ROWS, *pooling, *REPRESENTATION_ROWS, *PROJECTION_ROWS, *_HEAD]
    heads = () if num_classes else head_keys()
    return names + _names([row for row in present(tail, spec) if row.key not in heads], sizes)


def _stem(spec: ViTSpec) -> list[WeightName]:
    if spec.stem is None:
        return []
    sizes = {"I": spec.in_channels, "w": spec.stem.root_channels}
    return _names(_STEM, sizes) + _unit_names(_UNIT, spec.stem.units)


def _bit(spec: ResNetSpec, num_classes: int) -> list[WeightName]:
    sizes = {"I": spec.in_channels, "w": 64 * spec.width, "R": spec.channels, "C": num_classes}
    tail = _BIT_TAIL + (_BIT_HEAD if num_classes else [])
    return _names(_BIT_ROOT, sizes) + _unit_names(_BIT_UNIT, spec.units) + _names(tail, sizes)


def _unit_names(rows: list[Row], units: Iterable[ResNetUnit]) -> list[WeightName]:
    names = []
    for unit in units:
        sizes = {"i": unit.inputs, "n": unit.features, "o": 4 * unit.features}
        names += _names(present(rows, unit), sizes, unit.block, unit.unit)
    return names


def _names(rows: Iterable[Row], sizes: dict[str, int], i: int = 0, j: int = 0) -> list[WeightName]:
    return [
        WeightName(
            fill(row.key, i, j),
            fill(row.path, i, j),
            tuple(int(sizes.get(size, size)) for size in row.shape),
        )
        for row in rows
    ]


# The templates of a position weight's key and path, and the weight.
_PositionRows = list[tuple[str, str, PositionWeight]]


def _position_rows(kind: PositionEmbedding) -> tuple[_PositionRows, _PositionRows]:
    """The weights of a position embedding in the embedding, and those in attention."""
    weights = ((_POSITIONS, kind.weights), (_ATTENTION_POSITIONS, kind.attention_weights))
    return tuple([(key + w.key, path + w.name, w) for w in ws] for (key, path), ws in weights)


def _position_names(
    rows: _PositionRows, tokens: Tokens, width: int, i: int = 0
) -> list[WeightName]:
    return [
        WeightName(fill(key, i), fill(path, i), weight.shape(tokens, width), weight.resample)
        for key, path, weight in rows
    ]


@functools.cache
def _regex(template: str) -> re.Pattern:
    regex = ""
    for text, field, width, _ in string.Formatter().parse(template):
        regex += re.escape(text) + (f"(?P<{field}>{_DIGITS[width]})" if field else "")
    return re.compile(regex)
