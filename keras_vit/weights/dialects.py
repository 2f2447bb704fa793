"""Where each official key stands in a file of another layout: tables, and one reader of them.

Sources: google-research/vision_transformer `checkpoint.py`; big_vision `models/vit.py`
(`fix_old_checkpoints`, scanned layers); timm `models/vision_transformer.py` and `resnetv2.py`;
transformers `models/vit`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from keras_vit._errors import UsageError
from keras_vit.weights.tensors import display

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Place:
    """Where an official array stands in a file, and how it is written there.

    Attributes:
        key: the file's key.
        form: "same"; "flat" (one dimension); "norm" ((C,) or (1, 1, 1, C)); "in" and "out" (a
            matrix of PyTorch's, (outputs, inputs), whose official input or output axes are
            one); "conv" (OIHW); "grid" (a position table without the class token's slot).
        part, parts: of a stack along the first axis, as query, key and value in timm.
        scanned: the parts are layers with an axis of their own, as in big_vision.
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
        """What `stored_shape` came from, as far as the file alone can tell."""
        if self.scanned:
            one = stored[1:]
        else:
            one = (stored[0] // self.parts, *stored[1:]) if stored else stored
        if self.form in ("in", "out", "conv") and len(one) in (2, 4):
            return tuple(one[axis] for axis in ((2, 3, 1, 0) if len(one) == 4 else (1, 0)))
        return (1, one[1] + 1, *one[2:]) if self.form == "grid" and len(one) > 1 else one

    def fits(self, stored: Shape, shape: Shape) -> bool:
        """Whether an array stored as `stored` is one of the official `shape`."""
        if self.form == "norm":
            stored = (math.prod(stored),) if set(stored[:-1]) <= {1} else stored
        return stored == self.stored_shape(shape)

    def official(self, stored: np.ndarray, shape: Shape) -> np.ndarray:
        """The array of official `shape` from what the file holds."""
        if self.parts > 1 or self.scanned:
            # (parts * n, ...) or (parts, ...) to (parts, n, ...)
            stored = stored.reshape(self.parts, -1, *stored.shape[1:])[self.part]
            stored = stored[0] if self.scanned else stored
        if self.form in ("in", "out"):
            stored = stored.T
        elif self.form == "conv":
            stored = stored.transpose(2, 3, 1, 0)
        elif self.form == "grid":  # (1, n, D) to (1, 1 + n, D): big_vision's class token has none
            stored = np.pad(stored, ((0, 0), (1, 0), (0, 0)))
        return stored.reshape(shape)

    def stored(self, official: np.ndarray) -> np.ndarray:
        """What a file holds for an official array; of a stack, this part of it."""
        if self.form == "in":
            return official.reshape(official.shape[0], -1).T  # (outputs, inputs)
        if self.form == "out":
            return official.reshape(-1, official.shape[-1]).T  # (outputs, inputs)
        if self.form == "conv":
            return official.transpose(3, 2, 0, 1)
        return official.reshape(-1) if self.form in ("flat", "norm") else official


@dataclasses.dataclass(frozen=True)
class Layout:
    """How one file is laid out.

    Attributes:
        family: "official", "bit", "timm" or "transformers".
        dialect: the family and its peculiarities, in words.
        places: for each official key, where it stands in this file.
        unknown: keys with no meaning here.
        ignored: keys of no weight of the model: an optimiser's state, another tower.
    """

    family: str
    dialect: str
    places: dict[str, Place]
    unknown: tuple[str, ...]
    ignored: tuple[str, ...]


def find_layout(shapes: Mapping[str, Shape], path: Path) -> Layout:
    """Which layout the keys of a file are in, and what stands where.

    Raises:
        UsageError: none that is known, or two keys stand for one weight.
    """
    for family, pattern in _MARKS.items():
        prefixes = {m.group(1) for m in map(re.compile(pattern).fullmatch, shapes) if m}
        if len(prefixes) > 1:
            named = " and ".join(repr(display(prefix)) for prefix in sorted(prefixes))
            raise UsageError(f"{path} holds several models, under {named}; keep one of them.")
        if prefixes:
            read = _read_named if family in TABLES else _read_official
            return read(family, prefixes.pop(), shapes, path)
    first = ", ".join(display(key) for key in sorted(shapes)[:3]) or "none"
    raise UsageError(
        f"{path} is in no layout known here (official, big_vision, BiT, timm, transformers). "
        f"Received the keys: {first} ..."
    )


def foreign_place(family: str, key: str) -> Place | None:
    """Where `TABLES[family]` puts an official key; None if that layout has no such weight."""
    for row in TABLES[family]:
        numbers = _match(row.official, key)
        if numbers is not None:
            return dataclasses.replace(row.place, key=_fill(row.place.key, numbers))
    return None


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of a table: an official key and a place, both with numbers such as {i} or {i-1}."""

    official: str
    place: Place


# The key that gives a family away; before it, the prefix.
_MARKS = {
    "official": r"(|opt/target/|target/|params/|params/img/)embedding/kernel",
    "bit": r"(|opt/target/|target/|params/)resnet/root_block/standardized_conv2d(?:_\d+)?/kernel",
    "timm": r"()(?:patch_embed\.proj|patch_embed\.backbone\.(?:stem\.)?conv)\.weight",
    "timm-bit": r"()stem\.conv\.weight",
    "transformers": r"(|vit\.)embeddings\.patch_embeddings\.projection\.weight",
}
# Beside the weights: optimisers' states, counters, the other tower of a pair.
_STATE = {
    "opt/target/": r"opt/state/.*|extra/.*",
    "target/": r"state/.*|opt/state/.*|extra/.*",
    "params/": r"opt/.*|extra/.*|chrono.*",
    "params/img/": r"opt/.*|extra/.*|chrono.*|params/txt/.*|params/[tb]|params/bias_init",
}
_FOREIGN_STATE = r"(.*\.)?embeddings\.mask_token|.*\.position_ids|.*\.relative_position_index"
# The current Flax module numbers its parts by class.
_LINEN = {
    "MultiHeadDotProductAttention_0": "MultiHeadDotProductAttention_1",
    "LayerNorm_1": "LayerNorm_2",
    "MlpBlock_0": "MlpBlock_3",
}
_BLOCK = "Transformer/encoderblock_{i}"
_SHORT = {
    "BLOCK": _BLOCK,
    "ATTENTION": f"{_BLOCK}/MultiHeadDotProductAttention_1",
    "MLP": f"{_BLOCK}/MlpBlock_3",
    "MAP": "MAPHead_0/MultiHeadDotProductAttention_0",
    "POSITIONS": "Transformer/posembed_input/pos_embedding",
    "NORM": "Transformer/encoder_norm",
    "UNIT": "resnet/block{i}/unit{j:02d}",
}
_TIMM = """
cls                    cls_token                         same
POSITIONS              pos_embed                         same
embedding/kernel       patch_embed.proj.weight           conv
embedding/bias         patch_embed.proj.bias             flat
BLOCK/LayerNorm_0/scale    blocks.{i}.norm1.weight       flat
BLOCK/LayerNorm_0/bias     blocks.{i}.norm1.bias         flat
ATTENTION/query/kernel     blocks.{i}.attn.qkv.weight    in    0/3
ATTENTION/key/kernel       blocks.{i}.attn.qkv.weight    in    1/3
ATTENTION/value/kernel     blocks.{i}.attn.qkv.weight    in    2/3
ATTENTION/query/bias       blocks.{i}.attn.qkv.bias      flat  0/3
ATTENTION/key/bias         blocks.{i}.attn.qkv.bias      flat  1/3
ATTENTION/value/bias       blocks.{i}.attn.qkv.bias      flat  2/3
ATTENTION/out/kernel       blocks.{i}.attn.proj.weight   out
ATTENTION/out/bias         blocks.{i}.attn.proj.bias     flat
BLOCK/LayerNorm_2/scale    blocks.{i}.norm2.weight       flat
BLOCK/LayerNorm_2/bias     blocks.{i}.norm2.bias         flat
MLP/Dense_0/kernel         blocks.{i}.mlp.fc1.weight     in
MLP/Dense_0/bias           blocks.{i}.mlp.fc1.bias       flat
MLP/Dense_1/kernel         blocks.{i}.mlp.fc2.weight     in
MLP/Dense_1/bias           blocks.{i}.mlp.fc2.bias       flat
NORM/scale             norm.weight                       flat
NORM/bias              norm.bias                         flat
MAPHead_0/probe        attn_pool.latent                  same
MAP/query/kernel       attn_pool.q.weight                in
MAP/query/bias         attn_pool.q.bias                  flat
MAP/key/kernel         attn_pool.kv.weight               in    0/2
MAP/value/kernel       attn_pool.kv.weight               in    1/2
MAP/key/bias           attn_pool.kv.bias                 flat  0/2
MAP/value/bias         attn_pool.kv.bias                 flat  1/2
MAP/out/kernel         attn_pool.proj.weight             out
MAP/out/bias           attn_pool.proj.bias               flat
MAPHead_0/LayerNorm_0/scale         attn_pool.norm.weight     flat
MAPHead_0/LayerNorm_0/bias          attn_pool.norm.bias       flat
MAPHead_0/MlpBlock_0/Dense_0/kernel attn_pool.mlp.fc1.weight  in
MAPHead_0/MlpBlock_0/Dense_0/bias   attn_pool.mlp.fc1.bias    flat
MAPHead_0/MlpBlock_0/Dense_1/kernel attn_pool.mlp.fc2.weight  in
MAPHead_0/MlpBlock_0/Dense_1/bias   attn_pool.mlp.fc2.bias    flat
head/kernel            head.weight                       in
head/bias              head.bias                         flat
"""
# timm's root stands under `stem` where stages follow it.
_TIMM_ROOT = """
conv_root/kernel       patch_embed.backbone.{stem}conv.weight    conv
gn_root/scale          patch_embed.backbone.{stem}norm.weight    norm
gn_root/bias           patch_embed.backbone.{stem}norm.bias      norm
"""
_TIMM_UNIT = "patch_embed.backbone.stages.{i-1}.blocks.{j-1}"
_TRANSFORMERS = """
cls                    embeddings.cls_token                      same
POSITIONS              embeddings.position_embeddings            same
embedding/kernel       embeddings.patch_embeddings.projection.weight   conv
embedding/bias         embeddings.patch_embeddings.projection.bias     flat
BLOCK/LayerNorm_0/scale    LAYER.layernorm_before.weight         flat
BLOCK/LayerNorm_0/bias     LAYER.layernorm_before.bias           flat
ATTENTION/query/kernel     LAYER.attention.attention.query.weight  in
ATTENTION/query/bias       LAYER.attention.attention.query.bias    flat
ATTENTION/key/kernel       LAYER.attention.attention.key.weight    in
ATTENTION/key/bias         LAYER.attention.attention.key.bias      flat
ATTENTION/value/kernel     LAYER.attention.attention.value.weight  in
ATTENTION/value/bias       LAYER.attention.attention.value.bias    flat
ATTENTION/out/kernel       LAYER.attention.output.dense.weight     out
ATTENTION/out/bias         LAYER.attention.output.dense.bias       flat
BLOCK/LayerNorm_2/scale    LAYER.layernorm_after.weight          flat
BLOCK/LayerNorm_2/bias     LAYER.layernorm_after.bias            flat
MLP/Dense_0/kernel         LAYER.intermediate.dense.weight       in
MLP/Dense_0/bias           LAYER.intermediate.dense.bias         flat
MLP/Dense_1/kernel         LAYER.output.dense.weight             in
MLP/Dense_1/bias           LAYER.output.dense.bias               flat
NORM/scale             layernorm.weight                          flat
NORM/bias              layernorm.bias                            flat
pre_logits/kernel      pooler.dense.weight                       in
pre_logits/bias        pooler.dense.bias                         flat
head/kernel            classifier.weight                         in
head/bias              classifier.bias                           flat
""".replace("LAYER", "encoder.layer.{i}")
_TIMM_BIT = """
resnet/root_block/standardized_conv2d/kernel    stem.conv.weight             conv
UNIT/a/proj/standardized_conv2d/kernel    stages.{i-1}.blocks.{j-1}.downsample.conv.weight  conv
UNIT/a/standardized_conv2d/kernel         stages.{i-1}.blocks.{j-1}.conv1.weight     conv
UNIT/b/standardized_conv2d/kernel         stages.{i-1}.blocks.{j-1}.conv2.weight     conv
UNIT/c/standardized_conv2d/kernel         stages.{i-1}.blocks.{j-1}.conv3.weight     conv
UNIT/a/group_norm/gamma                   stages.{i-1}.blocks.{j-1}.norm1.weight     flat
UNIT/a/group_norm/beta                    stages.{i-1}.blocks.{j-1}.norm1.bias       flat
UNIT/b/group_norm/gamma                   stages.{i-1}.blocks.{j-1}.norm2.weight     flat
UNIT/b/group_norm/beta                    stages.{i-1}.blocks.{j-1}.norm2.bias       flat
UNIT/c/group_norm/gamma                   stages.{i-1}.blocks.{j-1}.norm3.weight     flat
UNIT/c/group_norm/beta                    stages.{i-1}.blocks.{j-1}.norm3.bias       flat
resnet/group_norm/gamma                   norm.weight                                flat
resnet/group_norm/beta                    norm.bias                                  flat
resnet/head/conv2d/kernel                 head.fc.weight                             conv
resnet/head/conv2d/bias                   head.fc.bias                               flat
"""


def _timm_units() -> Iterable[str]:
    for ours, theirs in [(str(n), str(n)) for n in (1, 2, 3)] + [("_proj", "")]:
        conv, norm = ("downsample.conv", "downsample.norm") if not theirs else (
            f"conv{theirs}", f"norm{theirs}")  # fmt: skip
        yield f"block{{i}}/unit{{j}}/conv{ours}/kernel {_TIMM_UNIT}.{conv}.weight conv"
        yield f"block{{i}}/unit{{j}}/gn{ours}/scale {_TIMM_UNIT}.{norm}.weight norm"
        yield f"block{{i}}/unit{{j}}/gn{ours}/bias {_TIMM_UNIT}.{norm}.bias norm"


def _table(*texts: str) -> tuple[Row, ...]:
    rows = []
    for line in "\n".join(texts).splitlines():
        if line.strip():
            official, key, form, *stack = line.split()
            first, *rest = official.split("/")
            official = "/".join([_SHORT.get(first, first), *rest])
            part, parts = map(int, stack[0].split("/")) if stack else (0, 1)
            rows.append(Row(official, Place(key, form, part, parts)))
    return tuple(rows)


TABLES: dict[str, tuple[Row, ...]] = {
    "timm": _table(_TIMM, _TIMM_ROOT.replace("{stem}", "stem."), *_timm_units()),
    "timm-stem": _table(_TIMM, _TIMM_ROOT.replace("{stem}", "")),
    "timm-bit": _table(_TIMM_BIT),
    "transformers": _table(_TRANSFORMERS),
}


def _read_named(family: str, prefix: str, shapes: Mapping[str, Shape], path: Path) -> Layout:
    if "patch_embed.backbone.conv.weight" in shapes:
        family = "timm-stem"
    places, unknown, ignored = {}, [], []
    for key in shapes:
        # transformers' classifier stands beside the model that bears the prefix.
        found = _rows_of(family, key.removeprefix(prefix))
        for official, place in found:
            _put(places, official, dataclasses.replace(place, key=key), path)
        if not found:
            (ignored if re.fullmatch(_FOREIGN_STATE, key) else unknown).append(key)
    family = family.removesuffix("-stem")
    dialect = family.replace("-bit", " BiT") + (f" (prefix {prefix})" if prefix else "")
    return Layout(family, dialect, places, tuple(unknown), tuple(ignored))


def _rows_of(family: str, key: str) -> list[tuple[str, Place]]:
    found = []
    for row in TABLES[family]:
        numbers = _match(row.place.key, key)
        if numbers is not None:
            found.append((_fill(row.official, numbers), row.place))
    return found


def _read_official(family: str, prefix: str, shapes: Mapping[str, Shape], path: Path) -> Layout:
    places, unknown, ignored, traits = {}, [], [], set()
    class_token = f"{prefix}cls" in shapes
    for key, shape in shapes.items():
        if re.fullmatch(_STATE.get(prefix, "$"), key):
            ignored.append(key)
            continue
        if not key.startswith(prefix):
            unknown.append(key)
            continue
        name = key.removeprefix(prefix)
        found = _bit(name, key) if family == "bit" else _vit(name, key, shape, class_token)
        is_known = False
        for official, place, trait in found:
            if not _KNOWN.fullmatch(official):
                break
            is_known = True
            traits.add(trait)
            _put(places, official, place, path)
        if not is_known:
            unknown.append(key)
    traits = sorted(traits - {""}) + ([f"prefix {prefix}"] if prefix else [])
    name = {"official": "official", "bit": "BiT"}[family]
    dialect = f"{name} ({', '.join(traits)})" if traits else name
    return Layout(family, dialect, places, tuple(unknown), tuple(ignored))


# What stands under one key of an official, big_vision or BiT file: each official key, its place,
# and the peculiarity that this shows.
_Found = Iterable[tuple[str, Place, str]]


def _bit(name: str, key: str) -> _Found:
    plain = re.sub(r"_\d+(?=/|$)", "", name)
    yield plain, Place(key), "" if plain == name else "numbered names"


def _vit(name: str, key: str, shape: Shape, class_token: bool) -> _Found:
    trait = ""
    if _OLD_MAP.match(name):
        name, trait = f"MAPHead_0/{name}", "MAP head at the top"
    if name in ("pos_embedding", "Transformer/pos_embedding"):
        # big_vision tells by the count whether the class token has a slot (`fix_old_checkpoints`).
        count = shape[1] if len(shape) == 3 else 0
        slot = not class_token or math.isqrt(count) ** 2 != count
        trait = "big_vision's positions" if slot else "positions without a class slot"
        yield _SHORT["POSITIONS"], Place(key, "same" if slot else "grid"), trait
    elif found := re.fullmatch(r"Transformer/encoderblock(_\d+)?/(\w+)(/.*)", name):
        block, part, rest = found.groups()
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
# During ViT-G's development big_vision had the MAP head's parts beside the others.
_OLD_MAP = re.compile(r"(probe$|MultiHeadDotProductAttention_0/|LayerNorm_0/|MlpBlock_0/)")
_DENSE = r"(kernel|bias)"
_NORM = r"(scale|bias)"
_KNOWN = re.compile(
    rf"cls|embedding/{_DENSE}|pre_logits/{_DENSE}|head/{_DENSE}|Transformer/encoder_norm/{_NORM}"
    r"|Transformer/posembed_input/(pos|row|column)_embedding"
    r"|Transformer/encoderblock_\d{1,4}/("
    rf"LayerNorm_[02]/{_NORM}|MlpBlock_3/Dense_[01]/{_DENSE}"
    rf"|MultiHeadDotProductAttention_1/((query|key|value|out)/{_DENSE}|relative_position_bias))"
    rf"|MAPHead_0/(probe|LayerNorm_0/{_NORM}|MlpBlock_0/Dense_[01]/{_DENSE}"
    rf"|MultiHeadDotProductAttention_0/(query|key|value|out)/{_DENSE})"
    rf"|conv_root/kernel|gn_root/{_NORM}"
    rf"|block\d{{1,3}}/unit\d{{1,3}}/(conv([123]|_proj)/kernel|gn([123]|_proj)/{_NORM})"
    r"|resnet/(root_block/standardized_conv2d/kernel|head/conv2d/(kernel|bias))"
    r"|resnet/(block\d{1,3}/unit\d{2,3}/[abc]/)?group_norm/(gamma|beta)"
    r"|resnet/block\d{1,3}/unit\d{2,3}/([abc]|a/proj)/standardized_conv2d/kernel"
)


def _put(places: dict[str, Place], official: str, place: Place, path: Path) -> None:
    if official in places:
        raise UsageError(
            f"{path}: {display(places[official].key)} and {display(place.key)} are the same "
            "weight; keep one of them."
        )
    places[official] = place


def _match(template: str, key: str) -> dict[str, int] | None:
    # The numbers in `key` if it is `template`: {i}, {j} from 1 or as they are, {i-1} one less.
    found = _pattern(template).fullmatch(key)
    if found is None:
        return None
    numbers = {}
    for name, digits in found.groupdict().items():
        numbers[name[0]] = int(digits) + int(name.endswith("_1"))
    return numbers


@functools.cache
def _pattern(template: str) -> re.Pattern:
    escaped = re.escape(template)
    for written, group in (
        (r"\{i\}", "i"), (r"\{j\}", "j"), (r"\{j:02d\}", "j"),
        (r"\{i\-1\}", "i_1"), (r"\{j\-1\}", "j_1"),
    ):  # fmt: skip
        escaped = escaped.replace(written, rf"(?P<{group}>\d{{1,4}})")
    return re.compile(escaped)


def _fill(template: str, numbers: dict[str, int]) -> str:
    for name, number in numbers.items():
        template = template.replace(f"{{{name}}}", str(number))
        template = template.replace(f"{{{name}:02d}}", f"{number:02d}")
        template = template.replace(f"{{{name}-1}}", str(number - 1))
    return template
