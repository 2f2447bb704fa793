"""Layouts of weight files: the place of each official key in a file, and the form of its array.

Sources: google-research/vision_transformer `checkpoint.py`; big_vision `models/vit.py`
(`fix_old_checkpoints`, scanned layers); timm `models/vision_transformer.py`, `deit.py` and
`resnetv2.py`; transformers `models/vit`.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_vit._errors import UsageError
from keras_vit.parts.rows import table_words
from keras_vit.weights.names import official_keys
from keras_vit.weights.templates import fill, numbers, outline
from keras_vit.weights.tensors import display

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Place:
    """The place of an official array in a file, and its form there.

    Attributes:
        key: the file's key.
        form: "same"; "flat" (one dimension); "norm" ((C,) or (1, 1, 1, C)); "in" and "out" (a
            matrix (outputs, inputs) as in PyTorch; the official array has one input axis for "in",
            one output axis for "out"); "conv" (OIHW); "grid" (a position table without a row for
            the class token).
        part, parts: if the file stacks several official arrays along the first axis, such as
            query, key and value in timm: the index of this array, and their number.
        scanned: whether layers are stacked along an additional first axis, as in big_vision.
    """

    key: str
    form: str = "same"
    part: int = 0
    parts: int = 1
    scanned: bool = False

    def stored_shape(self, shape: Shape) -> Shape:
        """The shape in the file of an array whose official shape is `shape`."""
        one = {
            "same": shape,
            "flat": (math.prod(shape),),
            "norm": (math.prod(shape),),
            "in": (math.prod(shape[1:]), shape[0]),
            "out": (shape[-1], math.prod(shape[:-1])),
            "conv": tuple(shape[axis] for axis in (3, 2, 0, 1)) if len(shape) == 4 else shape,
            "grid": (1, shape[1] - 1, *shape[2:]) if len(shape) > 1 else shape,
        }[self.form]
        return (self.parts, *one) if self.scanned else (self.parts * one[0], *one[1:])

    def official_shape(self, stored: Shape) -> Shape:
        """The official shape for a stored shape, as far as it is known without the model."""
        if self.scanned:
            one = stored[1:]
        else:
            one = (stored[0] // self.parts, *stored[1:]) if stored else stored
        if self.form in ("in", "out", "conv") and len(one) in (2, 4):
            return tuple(one[axis] for axis in ((2, 3, 1, 0) if len(one) == 4 else (1, 0)))
        return (1, one[1] + 1, *one[2:]) if self.form == "grid" and len(one) > 1 else one

    def fits(self, stored: Shape, shape: Shape) -> bool:
        """Whether an array of shape `stored` can be converted to the official `shape`."""
        if self.form == "norm":
            stored = (math.prod(stored),) if set(stored[:-1]) <= {1} else stored
        return stored == self.stored_shape(shape)

    def official(self, stored: np.ndarray, shape: Shape) -> np.ndarray:
        """Converts the file's array to the official `shape`."""
        if self.parts > 1 or self.scanned:
            # (parts * n, ...) or (parts, ...) to (parts, n, ...)
            stored = stored.reshape(self.parts, -1, *stored.shape[1:])[self.part]
            stored = stored[0] if self.scanned else stored
        if self.form in ("in", "out"):
            stored = stored.T
        elif self.form == "conv":
            stored = stored.transpose(2, 3, 1, 0)
        elif self.form == "grid":  # (1, n, D) to (1, 1 + n, D): zeros for the class token
            stored = np.pad(stored, ((0, 0), (1, 0), (0, 0)))
        return stored.reshape(shape)  # (outputs, inputs) and (C,) to the official axes

    def stored(self, official: np.ndarray) -> np.ndarray:
        """Converts an official array to the file's form; for a stack, to one part of it."""
        if self.form == "in":
            return official.reshape(official.shape[0], -1).T  # (outputs, inputs)
        if self.form == "out":
            return official.reshape(-1, official.shape[-1]).T  # (outputs, inputs)
        if self.form == "conv":
            return official.transpose(3, 2, 0, 1)
        return official.reshape(-1) if self.form in ("flat", "norm") else official


@dataclasses.dataclass(frozen=True)
class Layout:
    """The layout of one file.

    Attributes:
        family: "official", "bit", "timm", "timm-bit" or "transformers".
        places: the place of each official key in this file.
        unknown: keys that are in no layout.
        ignored: keys that are not weights of the model: optimiser state, another tower.
        prefix: what the names in the file begin with: "params/", "module.backbone.", or "".
        variations: how the file differs from others of the family, for messages.
    """

    family: str
    places: dict[str, Place]
    unknown: tuple[str, ...]
    ignored: tuple[str, ...]
    prefix: str = ""
    variations: tuple[str, ...] = ()

    @property
    def dialect(self) -> str:
        """The family and its variations, for messages: "timm (prefix module.)"."""
        name = {"bit": "BiT", "timm-bit": "timm BiT"}.get(self.family, self.family)
        prefix = [f"prefix {display(self.prefix)}"] if self.prefix else []
        traits = ", ".join([*self.variations, *prefix])
        return f"{name} ({traits})" if traits else name

    @property
    def unknown_part(self) -> str | None:
        """What the file has that keras_vit does not have, by a pattern in the unknown keys."""
        for pattern, part in _UNKNOWN_PARTS.items():
            if any(re.search(pattern, key) for key in self.unknown):
                return part
        return None


def find_layout(shapes: Mapping[str, Shape], path: Path) -> Layout:
    """Detects the layout of a file from its keys, and finds the place of each official key.

    A prefix that other programs put before the names ("module.", "backbone.") is taken off if the
    names are in no layout with it.

    Raises:
        UsageError: the layout is unknown, or two keys are the same weight.
    """
    layout = _read(shapes, path) or _read_without_prefix(shapes, path)
    if layout is not None:
        return layout
    first = ", ".join(display(key) for key in sorted(shapes)[:3]) or "none"
    raise UsageError(
        f"{path} has an unknown layout; expected official, big_vision, BiT, timm or transformers. "
        f"Received the keys: {first} ..."
    )


def foreign_place(family: str, key: str) -> Place | None:
    """The place of an official key in `TABLES[family]`; None if the layout has no such weight."""
    for row in TABLES[family]:
        indices = numbers(row.official, key)
        if indices is not None:
            return dataclasses.replace(row.place, key=fill(row.place.key, **indices))
    return None


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of a table: the template of an official key, and a place with a template as key."""

    official: str
    place: Place


# The key that identifies a family, after the prefixes that its own code writes.
_MARKS = {
    "official": r"(|opt/target/|target/|params/|params/img/)embedding/kernel",
    "bit": r"(|opt/target/|target/|params/)resnet/root_block/standardized_conv2d(?:_\d+)?/kernel",
    "timm": r"()(?:patch_embed\.proj|patch_embed\.backbone\.(?:stem\.)?conv)\.weight",
    "timm-bit": r"()stem\.conv\.weight",
    "transformers": r"(|vit\.)embeddings\.patch_embeddings\.projection\.weight",
}
# Another prefix: whole parts of a name. Its length is bounded, so that long names take no time.
_ANY_PREFIX = r"(.{1,200}?[./])"
_FIRST_BLOCK = ("Transformer/encoderblock_0/", "resnet/block1/")
_MOST_SHOWN = 3
# The parts of other models by a pattern in their names.
_UNKNOWN_PARTS = {
    r"layer_scale|lambda_[12]": "it has LayerScale, which keras_vit only reads in timm's layout",
    r"reg_token|register_tokens": "it has register tokens, which keras_vit does not have",
    r"distillation": "it has a distillation token, which keras_vit only reads in timm's layout",
    r"fc_norm": "it normalises after pooling; keras_vit normalises before pooling",
    r"[qk]_norm": "it normalises queries and keys, which keras_vit does not do",
    r"norm_pre": "it normalises before the blocks, which keras_vit does not do",
    r"mlp\.(fc1_[gx]|w12|weights_in)\.": "it has gated MLPs, which keras_vit does not have",
    r"lora_|adapter": "it has adapters; merge them into the weights first",
}
# For each prefix, the keys that are not weights of the model: optimiser state, counters, and the
# text tower of a model with two towers.
_STATE = {
    "opt/target/": r"opt/state/.*|extra/.*",
    "target/": r"state/.*|opt/state/.*|extra/.*",
    "params/": r"opt/.*|extra/.*|chrono.*",
    "params/img/": r"opt/.*|extra/.*|chrono.*|params/txt/.*|params/[tb]|params/bias_init",
}
# The decoder of a masked autoencoder predicts pixels; only its encoder is a ViT.
_FOREIGN_STATE = (
    r"(.*\.)?embeddings\.mask_token|.*\.position_ids|.*\.relative_position_index|decoder\..*"
)
# Linen, the current module system of Flax, numbers the parts of a block for each class.
_LINEN = {
    "MultiHeadDotProductAttention_0": "MultiHeadDotProductAttention_1",
    "LayerNorm_1": "LayerNorm_2",
    "MlpBlock_0": "MlpBlock_3",
}
# Columns: the weight's path in a keras_vit model, the layout's key, `Place.form`, and part/parts.
_TIMM = """
patch_encoder/class_token          cls_token                 same
patch_encoder/distillation_token   dist_token                same
patch_encoder/positions            pos_embed                 same
patch_encoder/projection/kernel    patch_embed.proj.weight   conv
patch_encoder/projection/bias      patch_embed.proj.bias     flat
encoder_norm/gamma                 norm.weight               flat
encoder_norm/beta                  norm.bias                 flat
pooling/probe                      attn_pool.latent          same
pooling/attention/query/kernel     attn_pool.q.weight        in
pooling/attention/query/bias       attn_pool.q.bias          flat
pooling/attention/key/kernel       attn_pool.kv.weight       in    0/2
pooling/attention/value/kernel     attn_pool.kv.weight       in    1/2
pooling/attention/key/bias         attn_pool.kv.bias         flat  0/2
pooling/attention/value/bias       attn_pool.kv.bias         flat  1/2
pooling/attention/out/kernel       attn_pool.proj.weight     out
pooling/attention/out/bias         attn_pool.proj.bias       flat
pooling/norm/gamma                 attn_pool.norm.weight     flat
pooling/norm/beta                  attn_pool.norm.bias       flat
pooling/mlp/dense_0/kernel         attn_pool.mlp.fc1.weight  in
pooling/mlp/dense_0/bias           attn_pool.mlp.fc1.bias    flat
pooling/mlp/dense_1/kernel         attn_pool.mlp.fc2.weight  in
pooling/mlp/dense_1/bias           attn_pool.mlp.fc2.bias    flat
head/kernel                        head.weight               in
head/bias                          head.bias                 flat
head/distillation_kernel           head_dist.weight          in
head/distillation_bias             head_dist.bias            flat
"""
_TIMM_BLOCK = """
norm_attention/gamma      norm1.weight      flat
norm_attention/beta       norm1.bias        flat
attention/query/kernel    attn.qkv.weight   in    0/3
attention/key/kernel      attn.qkv.weight   in    1/3
attention/value/kernel    attn.qkv.weight   in    2/3
attention/query/bias      attn.qkv.bias     flat  0/3
attention/key/bias        attn.qkv.bias     flat  1/3
attention/value/bias      attn.qkv.bias     flat  2/3
attention/out/kernel      attn.proj.weight  out
attention/out/bias        attn.proj.bias    flat
scale_attention           ls1.gamma         same
norm_mlp/gamma            norm2.weight      flat
norm_mlp/beta             norm2.bias        flat
mlp/dense_0/kernel        mlp.fc1.weight    in
mlp/dense_0/bias          mlp.fc1.bias      flat
mlp/dense_1/kernel        mlp.fc2.weight    in
mlp/dense_1/bias          mlp.fc2.bias      flat
scale_mlp                 ls2.gamma         same
"""
# Arguments of timm's models for what a model may have besides the paper's, by the spec's fields.
TIMM_OPTIONS = {"layer_scale": "init_values"}
_TIMM_ROOT = """
conv_root/kernel    conv.weight    conv
gn_root/gamma       norm.weight    norm
gn_root/beta        norm.bias      norm
"""
_TIMM_UNIT = """
conv1/kernel        conv1.weight              conv
gn1/gamma           norm1.weight              norm
gn1/beta            norm1.bias                norm
conv2/kernel        conv2.weight              conv
gn2/gamma           norm2.weight              norm
gn2/beta            norm2.bias                norm
conv3/kernel        conv3.weight              conv
gn3/gamma           norm3.weight              norm
gn3/beta            norm3.bias                norm
conv_proj/kernel    downsample.conv.weight    conv
gn_proj/gamma       downsample.norm.weight    norm
gn_proj/beta        downsample.norm.bias      norm
"""
_TRANSFORMERS = """
patch_encoder/class_token          embeddings.cls_token                            same
patch_encoder/positions            embeddings.position_embeddings                  same
patch_encoder/projection/kernel    embeddings.patch_embeddings.projection.weight   conv
patch_encoder/projection/bias      embeddings.patch_embeddings.projection.bias     flat
encoder_norm/gamma                 layernorm.weight                                flat
encoder_norm/beta                  layernorm.bias                                  flat
pre_logits/kernel                  pooler.dense.weight                             in
pre_logits/bias                    pooler.dense.bias                               flat
head/kernel                        classifier.weight                               in
head/bias                          classifier.bias                                 flat
"""
_TRANSFORMERS_BLOCK = """
norm_attention/gamma      layernorm_before.weight            flat
norm_attention/beta       layernorm_before.bias              flat
attention/query/kernel    attention.attention.query.weight   in
attention/query/bias      attention.attention.query.bias     flat
attention/key/kernel      attention.attention.key.weight     in
attention/key/bias        attention.attention.key.bias       flat
attention/value/kernel    attention.attention.value.weight   in
attention/value/bias      attention.attention.value.bias     flat
attention/out/kernel      attention.output.dense.weight      out
attention/out/bias        attention.output.dense.bias        flat
norm_mlp/gamma            layernorm_after.weight             flat
norm_mlp/beta             layernorm_after.bias               flat
mlp/dense_0/kernel        intermediate.dense.weight          in
mlp/dense_0/bias          intermediate.dense.bias            flat
mlp/dense_1/kernel        output.dense.weight                in
mlp/dense_1/bias          output.dense.bias                  flat
"""
# The names of the modules in transformers 5, which `state_dict` has; files of the hubs have those
# above.
_TRANSFORMERS_5_BLOCK = """
norm_attention/gamma      layernorm_before.weight    flat
norm_attention/beta       layernorm_before.bias      flat
attention/query/kernel    attention.q_proj.weight    in
attention/query/bias      attention.q_proj.bias      flat
attention/key/kernel      attention.k_proj.weight    in
attention/key/bias        attention.k_proj.bias      flat
attention/value/kernel    attention.v_proj.weight    in
attention/value/bias      attention.v_proj.bias      flat
attention/out/kernel      attention.o_proj.weight    out
attention/out/bias        attention.o_proj.bias      flat
norm_mlp/gamma            layernorm_after.weight     flat
norm_mlp/beta             layernorm_after.bias       flat
mlp/dense_0/kernel        mlp.fc1.weight             in
mlp/dense_0/bias          mlp.fc1.bias               flat
mlp/dense_1/kernel        mlp.fc2.weight             in
mlp/dense_1/bias          mlp.fc2.bias               flat
"""
_TIMM_BIT = """
conv_root/kernel     stem.conv.weight   conv
group_norm/gamma     norm.weight        flat
group_norm/beta      norm.bias          flat
head/kernel          head.fc.weight     conv
head/bias            head.fc.bias       flat
"""
_TIMM_BIT_UNIT = """
conv_proj/kernel    downsample.conv.weight    conv
conv1/kernel        conv1.weight              conv
conv2/kernel        conv2.weight              conv
conv3/kernel        conv3.weight              conv
gn1/gamma           norm1.weight              flat
gn1/beta            norm1.bias                flat
gn2/gamma           norm2.weight              flat
gn2/beta            norm2.bias                flat
gn3/gamma           norm3.weight              flat
gn3/beta            norm3.bias                flat
"""


def _table(*tables: tuple[str, str, str], bit: bool = False) -> tuple[Row, ...]:
    # Each table has a prefix for keras_vit's paths and one for the layout's keys. `reversed` keeps
    # the first official key of each path.
    official = {path: key for key, path in reversed(official_keys(bit))}
    entries = []
    for table, *prefixes in tables:
        for path, key, form, *stack in table_words(table, *prefixes):
            part, parts = map(int, stack[0].split("/")) if stack else (0, 1)
            entries.append(Row(official[path], Place(key, form, part, parts)))
    return tuple(entries)


_TIMM_VIT = ((_TIMM, "", ""), (_TIMM_BLOCK, "encoderblock_{i}/", "blocks.{i}."))
_UNIT = "block{i}_unit{j}/"
# In timm, the root is inside `stem` only if stages follow.
TABLES: dict[str, tuple[Row, ...]] = {
    "timm": _table(
        *_TIMM_VIT,
        (_TIMM_ROOT, "", "patch_embed.backbone.stem."),
        (_TIMM_UNIT, _UNIT, "patch_embed.backbone.stages.{i0}.blocks.{j0}."),
    ),
    "timm-stem": _table(*_TIMM_VIT, (_TIMM_ROOT, "", "patch_embed.backbone.")),
    "timm-bit": _table(
        (_TIMM_BIT, "", ""),
        (_TIMM_BIT_UNIT, _UNIT, "stages.{i0}.blocks.{j0}."),
        bit=True,
    ),
    "transformers": _table(
        (_TRANSFORMERS, "", ""),
        (_TRANSFORMERS_BLOCK, "encoderblock_{i}/", "encoder.layer.{i}."),
    ),
    "transformers-5": _table(
        (_TRANSFORMERS, "", ""),
        (_TRANSFORMERS_5_BLOCK, "encoderblock_{i}/", "layers.{i}."),
    ),
}


def _by_outline(items: Iterable[Any], template: Callable[[Any], str] = str) -> dict[str, list]:
    # With this index, each key of a file is compared with only a few templates.
    index = collections.defaultdict(list)
    for item in items:
        index[outline(template(item))].append(item)
    return index


_ROWS = {family: _by_outline(rows, lambda row: row.place.key) for family, rows in TABLES.items()}


def _read(shapes: Mapping[str, Shape], path: Path) -> Layout | None:
    for family, pattern in _MARKS.items():
        prefixes = _prefixes(pattern, shapes)
        _check_one_model(prefixes, path)
        if prefixes:
            read = _read_named if family in TABLES else _read_official
            return read(family, prefixes[0], shapes, path)
    return None


def _read_without_prefix(shapes: Mapping[str, Shape], path: Path) -> Layout | None:
    for pattern in _MARKS.values():
        prefixes = _prefixes(_ANY_PREFIX + pattern, shapes)
        if not prefixes:
            continue
        keys = _without(prefixes[0], shapes, path)
        layout = _read({name: shapes[key] for name, key in keys.items()}, path)
        if layout is None or not any(key.startswith(_FIRST_BLOCK) for key in layout.places):
            continue
        _check_one_model(prefixes, path)
        places = layout.places.items()
        return dataclasses.replace(
            layout,
            places={name: dataclasses.replace(p, key=keys[p.key]) for name, p in places},
            unknown=tuple(keys[name] for name in layout.unknown),
            ignored=tuple(keys[name] for name in layout.ignored),
            prefix=prefixes[0] + layout.prefix,
        )
    return None


def _prefixes(pattern: str, keys: Iterable[str]) -> list[str]:
    return sorted({match[1] for match in map(re.compile(pattern).fullmatch, keys) if match})


def _check_one_model(prefixes: list[str], path: Path) -> None:
    if len(prefixes) > 1:
        names = " and ".join(repr(display(prefix)) for prefix in prefixes[:_MOST_SHOWN])
        raise UsageError(f"{path} has several models, under {names}; keep one of them.")


def _without(prefix: str, keys: Iterable[str], path: Path) -> dict[str, str]:
    """The keys of a file by their names without the prefix, or without its first parts.

    A head beside "module.backbone." is "module.head.weight" or "head.weight".
    """
    starts = [prefix[: match.end()] for match in re.finditer(r"[./]", prefix)][::-1]
    names = {}
    for key in keys:
        name = key.removeprefix(next(filter(key.startswith, starts), ""))
        if name in names:
            raise _twice(names[name], key, path)
        names[name] = key
    return names


def _read_named(family: str, prefix: str, shapes: Mapping[str, Shape], path: Path) -> Layout:
    if "patch_embed.backbone.conv.weight" in shapes:
        family = "timm-stem"
    if f"{prefix}layers.0.attention.q_proj.weight" in shapes:
        family = "transformers-5"
    places, unknown, ignored = {}, [], []
    for key in shapes:
        # In transformers, the classifier's keys do not have the prefix.
        matches = _rows_of(family, key.removeprefix(prefix))
        for official, place in matches:
            _put(places, official, dataclasses.replace(place, key=key), path)
        if not matches:
            (ignored if re.fullmatch(_FOREIGN_STATE, key) else unknown).append(key)
    family = family.removesuffix("-stem").removesuffix("-5")
    return Layout(family, places, tuple(unknown), tuple(ignored), prefix)


def _rows_of(family: str, key: str) -> list[tuple[str, Place]]:
    matches = []
    for row in _ROWS[family].get(outline(key), ()):
        indices = numbers(row.place.key, key)
        if indices is not None:
            matches.append((fill(row.official, **indices), row.place))
    return matches


def _read_official(family: str, prefix: str, shapes: Mapping[str, Shape], path: Path) -> Layout:
    places, unknown, ignored, traits = {}, [], [], set()
    class_token = f"{prefix}cls" in shapes
    known = _by_outline(key for key, _ in official_keys(family == "bit"))
    for key, shape in shapes.items():
        if re.fullmatch(_STATE.get(prefix, "$"), key):
            ignored.append(key)
            continue
        if not key.startswith(prefix):
            unknown.append(key)
            continue
        name = key.removeprefix(prefix)
        weights = _bit(name, key) if family == "bit" else _vit(name, key, shape, class_token)
        is_known = False
        for official, place, trait in weights:
            templates = known.get(outline(official), ())
            if all(numbers(template, official) is None for template in templates):
                break
            is_known = True
            traits.add(trait)
            _put(places, official, place, path)
        if not is_known:
            unknown.append(key)
    variations = tuple(sorted(traits - {""}))
    return Layout(family, places, tuple(unknown), tuple(ignored), prefix, variations)


# The official keys in one key of an official, big_vision or BiT file, each with its place and with
# the name of the layout's variation, or "".
_Weights = Iterable[tuple[str, Place, str]]


def _bit(name: str, key: str) -> _Weights:
    plain = re.sub(r"_\d+(?=/|$)", "", name)
    yield plain, Place(key), "" if plain == name else "numbered names"


def _vit(name: str, key: str, shape: Shape, class_token: bool) -> _Weights:
    trait = ""
    if _OLD_MAP.match(name):
        name, trait = f"MAPHead_0/{name}", "MAP head at the top"
    if name in ("pos_embedding", "Transformer/pos_embedding"):
        # As in big_vision (`fix_old_checkpoints`): if the number of positions is a square, the
        # table has no row for the class token.
        count = shape[1] if len(shape) == 3 else 0
        complete = not class_token or math.isqrt(count) ** 2 != count
        trait = "big_vision's positions" if complete else "positions without a class slot"
        place = Place(key, "same" if complete else "grid")
        yield "Transformer/posembed_input/pos_embedding", place, trait
    elif match := re.fullmatch(r"Transformer/encoderblock(_\d+)?/(\w+)(/.*)", name):
        block, part, rest = match.groups()
        trait = "Linen names" if part in _LINEN else ""
        rest = _LINEN.get(part, part) + rest
        if block:
            yield f"Transformer/encoderblock{block}/{rest}", Place(key), trait
            return
        depth = shape[0] if shape and shape[0] <= _MOST_LAYERS else 0
        for i in range(depth):
            place = Place(key, part=i, parts=depth, scanned=True)
            yield f"Transformer/encoderblock_{i}/{rest}", place, "scanned layers"
    else:
        is_norm = re.fullmatch(r"gn_root/.*|block\d+/unit\d+/gn.*", name)
        yield name, Place(key, "norm" if is_norm else "same"), trait


_MOST_LAYERS = 1000
# Early big_vision files have the parts of the MAP head at the top level.
_OLD_MAP = re.compile(r"(probe$|MultiHeadDotProductAttention_0/|LayerNorm_0/|MlpBlock_0/)")


def _put(places: dict[str, Place], official: str, place: Place, path: Path) -> None:
    if official in places:
        raise _twice(places[official].key, place.key, path)
    places[official] = place


def _twice(key: str, other: str, path: Path) -> UsageError:
    return UsageError(
        f"{path}: {display(key)} and {display(other)} are the same weight; keep one of them."
    )
