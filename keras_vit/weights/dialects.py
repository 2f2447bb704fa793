"""Layouts of weight files: the place of each official key in a file, and the form of its array.

Sources: google-research/vision_transformer `checkpoint.py`; big_vision `models/vit.py`
(`fix_old_checkpoints`, scanned layers); timm `models/vision_transformer.py`, `deit.py` and
`resnetv2.py`; transformers `models/vit`.
"""

from __future__ import annotations

import collections
import functools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_vit._errors import UsageError
from keras_vit.encoder.weight_rows import table_words
from keras_vit.weights.names import fill, numbers, official_keys, outline
from keras_vit.weights.tensors import display

Shape = tuple[int, ...]


# The forms of an array in a file: functions to that form, and back to the order of official axes.
_FORMS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray]]] = {
    "same": (np.asarray, np.asarray),
    "flat": (lambda array: array.reshape(-1), np.asarray),
    "norm": (lambda array: array.reshape(-1), np.asarray),
    "in": (lambda array: array.reshape(array.shape[0], -1).T, np.transpose),  # (outputs, inputs)
    "out": (lambda array: array.reshape(-1, array.shape[-1]).T, np.transpose),  # (outputs, inputs)
    "conv": (lambda array: array.transpose(3, 2, 0, 1), lambda array: array.transpose(2, 3, 1, 0)),
    # (1, 1 + n, D) to (1, n, D), and back with zeros for the class token
    "grid": (lambda array: array[:, 1:], lambda array: np.pad(array, ((0, 0), (1, 0), (0, 0)))),
}


class Place(NamedTuple):
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

    key: str = ""
    form: str = "same"
    part: int = 0
    parts: int = 1
    scanned: bool = False

    def stored_shape(self, shape: Shape) -> Shape:
        """The shape in the file of an array whose official shape is `shape`."""
        one = self.stored(np.broadcast_to(np.float32(0), shape)).shape  # needs no memory
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
        # (outputs, inputs) and (C,) to the official axes
        return _FORMS[self.form][1](stored).reshape(shape)

    def stored(self, official: np.ndarray) -> np.ndarray:
        """Converts an official array to the file's form; for a stack, to one part of it."""
        return _FORMS[self.form][0](official)


class WeightsLayout(NamedTuple):
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


def find_layout(shapes: Mapping[str, Shape], path: Path) -> WeightsLayout:
    """Detects the layout of a file from its keys, and finds the place of each official key.

    A prefix that other programs put before the names ("module.", "backbone.") is taken off if the
    names are in no layout with it.

    Raises:
        UsageError: the layout is unknown, or two keys are the same weight.
    """
    layout = _read({key: key for key in shapes}, shapes, path)
    if layout is not None:
        return layout
    for pattern in _MARKS.values():
        prefixes = _prefixes(_ANY_PREFIX + pattern, shapes)
        layout = _read(_without(prefixes[0], shapes, path), shapes, path) if prefixes else None
        if layout and any(key.startswith(_FIRST_BLOCK) for key in layout.places):
            _check_one_model(prefixes, path)
            return layout._replace(prefix=prefixes[0] + layout.prefix)
    first = ", ".join(display(key) for key in sorted(shapes)[:3]) or "none"
    raise UsageError(
        f"{path} has an unknown layout; expected official, big_vision, BiT, timm or transformers. "
        f"Received the keys: {first} ..."
    )


def foreign_place(family: str, key: str) -> Place | None:
    """The place of an official key in `TABLES[family]`; None if the layout has no such weight."""
    for official, place in TABLES[family].items():
        indices = numbers(official, key)
        if indices is not None:
            return place._replace(key=fill(place.key, **indices))
    return None


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
# Columns: a layer's path in a keras_vit model, its key in the layout, the form of its kernel, and
# part/parts; see `_ENDS`. A row may also be of a single weight.
_TIMM = """
patch_encoder/class_token          cls_token          same
patch_encoder/distillation_token   dist_token         same
patch_encoder/positions            pos_embed          same
patch_encoder/projection           patch_embed.proj   conv
encoder_norm                       norm               flat
pooling/probe                      attn_pool.latent   same
pooling/attention/query            attn_pool.q        in
pooling/attention/key              attn_pool.kv       in     0/2
pooling/attention/value            attn_pool.kv       in     1/2
pooling/attention/out              attn_pool.proj     out
pooling/norm                       attn_pool.norm     flat
pooling/mlp/dense_0                attn_pool.mlp.fc1  in
pooling/mlp/dense_1                attn_pool.mlp.fc2  in
head                               head               in
head/distillation_kernel           head_dist.weight   in
head/distillation_bias             head_dist.bias     flat
"""
_TIMM_BLOCK = """
norm_attention     norm1      flat
attention/query    attn.qkv   in    0/3
attention/key      attn.qkv   in    1/3
attention/value    attn.qkv   in    2/3
attention/out      attn.proj  out
scale_attention    ls1.gamma  same
norm_mlp           norm2      flat
mlp/dense_0        mlp.fc1    in
mlp/dense_1        mlp.fc2    in
scale_mlp          ls2.gamma  same
"""
_TIMM_ROOT = """
conv_root    conv    conv
gn_root      norm    flat
"""
_TIMM_UNIT = """
conv1        conv1              conv
gn1          norm1              flat
conv2        conv2              conv
gn2          norm2              flat
conv3        conv3              conv
gn3          norm3              flat
conv_proj    downsample.conv    conv
gn_proj      downsample.norm    flat
"""
_TIMM_BIT = """
conv_root     stem.conv   conv
group_norm    norm        flat
head          head.fc     conv
"""
_TRANSFORMERS = """
patch_encoder/class_token   embeddings.cls_token                     same
patch_encoder/positions     embeddings.position_embeddings           same
patch_encoder/projection    embeddings.patch_embeddings.projection   conv
encoder_norm                layernorm                                flat
pre_logits                  pooler.dense                             in
head                        classifier                               in
"""
_TRANSFORMERS_BLOCK = """
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
_TRANSFORMERS_5_BLOCK = """
norm_attention     layernorm_before    flat
attention/query    attention.q_proj    in
attention/key      attention.k_proj    in
attention/value    attention.v_proj    in
attention/out      attention.o_proj    out
norm_mlp           layernorm_after     flat
mlp/dense_0        mlp.fc1             in
mlp/dense_1        mlp.fc2             in
"""
# The weights of a layer: the ends of Keras' names and of PyTorch's; "" in a row of a single weight.
_ENDS = {"": "", "/kernel": ".weight", "/bias": ".bias", "/gamma": ".weight", "/beta": ".bias"}


def _table(*tables: tuple[str, str, str], bit: bool = False) -> dict[str, Place]:
    # Each table has a prefix for keras_vit's paths and one for the layout's keys. `reversed` keeps
    # the first official key of each path.
    official = {path: key for key, path in reversed(official_keys(bit))}
    places = {}
    for table, *prefixes in tables:
        for layer, key, kernel_form, *stack in table_words(table, *prefixes):
            part, parts = map(int, stack[0].split("/")) if stack else (0, 1)
            for end, foreign_end in _ENDS.items():
                if layer + end in official:
                    form = kernel_form if end in ("", "/kernel") else "flat"
                    places[official[layer + end]] = Place(key + foreign_end, form, part, parts)
    return places


_TIMM_VIT = ((_TIMM, "", ""), (_TIMM_BLOCK, "encoderblock_{i}/", "blocks.{i}."))
_UNIT = "block{i}_unit{j}/"
# For each family the places of official keys; all keys are templates. In timm, the root is inside
# `stem` only if stages follow.
TABLES: dict[str, dict[str, Place]] = {
    "timm": _table(
        *_TIMM_VIT,
        (_TIMM_ROOT, "", "patch_embed.backbone.stem."),
        (_TIMM_UNIT, _UNIT, "patch_embed.backbone.stages.{i0}.blocks.{j0}."),
    ),
    "timm-stem": _table(*_TIMM_VIT, (_TIMM_ROOT, "", "patch_embed.backbone.")),
    "timm-bit": _table(
        (_TIMM_BIT, "", ""), (_TIMM_UNIT, _UNIT, "stages.{i0}.blocks.{j0}."), bit=True
    ),
    "transformers": _table(
        (_TRANSFORMERS, "", ""), (_TRANSFORMERS_BLOCK, "encoderblock_{i}/", "encoder.layer.{i}.")
    ),
    "transformers-5": _table(
        (_TRANSFORMERS, "", ""), (_TRANSFORMERS_5_BLOCK, "encoderblock_{i}/", "layers.{i}.")
    ),
}
_Index = dict[str, list[tuple[str, Any]]]


def _index(items: Iterable[tuple[str, Any]]) -> _Index:
    # Templates, each with anything. Each key of a file is compared with only a few of them.
    index = collections.defaultdict(list)
    for template, item in items:
        index[outline(template)].append((template, item))
    return index


def _matches(index: _Index, key: str) -> Iterator[tuple[dict[str, int], Any]]:
    # The numbers in a key of each template that it matches, and the template's item.
    for template, item in index.get(outline(key), ()):
        indices = numbers(template, key)
        if indices is not None:
            yield indices, item


_ROWS = {
    family: _index((place.key, (official, place)) for official, place in table.items())
    for family, table in TABLES.items()
}


# A file's keys by their names, which may lack a prefix that another program put before them.
_Names = Mapping[str, str]


def _read(names: _Names, shapes: Mapping[str, Shape], path: Path) -> WeightsLayout | None:
    for family, pattern in _MARKS.items():
        prefixes = _prefixes(pattern, names)
        _check_one_model(prefixes, path)
        if prefixes:
            return _read_family(family, prefixes[0], names, shapes, path)
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


def _read_family(
    family: str, prefix: str, names: _Names, shapes: Mapping[str, Shape], path: Path
) -> WeightsLayout:
    if family in TABLES:
        find, not_weights = _named, _FOREIGN_STATE
    else:
        known = _index(official_keys(family == "bit"))
        find, not_weights = functools.partial(_official, known), _STATE.get(prefix, "$")
    places, unknown, ignored, traits = {}, [], [], set()
    for name, key in names.items():
        weights = list(find(family, prefix, name, shapes[key], names))
        for official, place, trait in weights:
            if official in places:
                raise _twice(places[official].key, key, path)
            places[official] = place._replace(key=key)
            traits.add(trait)
        if not weights:
            (ignored if re.fullmatch(not_weights, name) else unknown).append(key)
    variations = tuple(sorted(traits - {""}))
    return WeightsLayout(family, places, tuple(unknown), tuple(ignored), prefix, variations)


# The official keys in one array of a file, each with its place there, and the name of the layout's
# variation or "".
_Weights = Iterable[tuple[str, Place, str]]


def _named(family: str, prefix: str, name: str, shape: Shape, names: _Names) -> _Weights:
    if "patch_embed.backbone.conv.weight" in names:
        family = "timm-stem"
    if f"{prefix}layers.0.attention.q_proj.weight" in names:
        family = "transformers-5"
    # In transformers, the classifier's keys do not have the prefix.
    for indices, (official, place) in _matches(_ROWS[family], name.removeprefix(prefix)):
        yield fill(official, **indices), place, ""


def _official(
    known: _Index, family: str, prefix: str, name: str, shape: Shape, names: _Names
) -> _Weights:
    if not name.startswith(prefix):
        return
    name = name.removeprefix(prefix)
    if family == "bit":
        plain = re.sub(r"_\d+(?=/|$)", "", name)
        weights = [(plain, Place(), "" if plain == name else "numbered names")]
    else:
        weights = _vit(name, shape, f"{prefix}cls" in names)
    for official, place, trait in weights:
        if not any(_matches(known, official)):
            return  # nor are the other layers of a stack of thousands
        yield official, place, trait


def _vit(name: str, shape: Shape, class_token: bool) -> _Weights:
    trait = ""
    if _OLD_MAP.match(name):
        name, trait = f"MAPHead_0/{name}", "MAP head at the top"
    if name in ("pos_embedding", "Transformer/pos_embedding"):
        # As in big_vision (`fix_old_checkpoints`): if the number of positions is a square, the
        # table has no row for the class token.
        count = shape[1] if len(shape) == 3 else 0
        complete = not class_token or math.isqrt(count) ** 2 != count
        trait = "big_vision's positions" if complete else "positions without a class slot"
        place = Place(form="same" if complete else "grid")
        yield "Transformer/posembed_input/pos_embedding", place, trait
    elif match := re.fullmatch(r"Transformer/encoderblock(_\d+)?/(\w+)(/.*)", name):
        block, part, rest = match.groups()
        trait = "Linen names" if part in _LINEN else ""
        rest = _LINEN.get(part, part) + rest
        if block:
            yield f"Transformer/encoderblock{block}/{rest}", Place(), trait
            return
        depth = shape[0] if shape and shape[0] <= _MOST_LAYERS else 0
        for i in range(depth):
            place = Place(part=i, parts=depth, scanned=True)
            yield f"Transformer/encoderblock_{i}/{rest}", place, "scanned layers"
    else:
        is_norm = re.fullmatch(r"gn_root/.*|block\d+/unit\d+/gn.*", name)
        yield name, Place(form="norm" if is_norm else "same"), trait


_MOST_LAYERS = 1000
# Early big_vision files have the parts of the MAP head at the top level.
_OLD_MAP = re.compile(r"(probe$|MultiHeadDotProductAttention_0/|LayerNorm_0/|MlpBlock_0/)")


def _twice(key: str, other: str, path: Path) -> UsageError:
    return UsageError(
        f"{path}: {display(key)} and {display(other)} are the same weight; keep one of them."
    )
