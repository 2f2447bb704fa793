"""The layout of a file of weights: its family, and the place of each official key in it.

Sources of the official spellings: google-research/vision_transformer `checkpoint.py`; big_vision
`models/vit.py` (`fix_old_checkpoints`, scanned layers).
"""

from __future__ import annotations

import collections
import functools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from keras_vit._errors import UsageError
from keras_vit.weights.families import FAMILIES, Family
from keras_vit.weights.names import POSITION_TABLE, fill, numbers, official_keys, outline
from keras_vit.weights.places import Place, Shape
from keras_vit.weights.tensors import display


class WeightsLayout(NamedTuple):
    """The layout of one file.

    Attributes:
        family: its family.
        places: the place of each official key in this file.
        unknown: keys that are in no layout.
        ignored: keys that are not weights of the model: optimiser state, another tower.
        shown: the fields of the spec that only the file's own names show.
        prefix: what the names in the file begin with: "params/", "module.backbone.", or "".
        variations: how the file differs from others of the family, for messages.
    """

    family: Family
    places: dict[str, Place]
    unknown: tuple[str, ...]
    ignored: tuple[str, ...]
    shown: Mapping[str, Any] = MappingProxyType({})
    prefix: str = ""
    variations: tuple[str, ...] = ()

    @property
    def dialect(self) -> str:
        """The family and its variations, for messages: "timm (prefix module.)"."""
        prefix = [f"prefix {display(self.prefix)}"] if self.prefix else []
        traits = ", ".join([*self.variations, *prefix])
        return f"{self.family.name} ({traits})" if traits else self.family.name

    @property
    def unknown_part(self) -> str | None:
        """What the file has that keras_vit does not have, by a pattern in the unknown keys."""
        for pattern, part in _UNKNOWN_PARTS.items():
            if any(re.search(pattern, key) for key in self.unknown):
                return part
        return None


def find_layout(
    shapes: Mapping[str, Shape], path: Path, config: Mapping[str, Any] = MappingProxyType({})
) -> WeightsLayout:
    """Detects the layout of a file from its keys, and finds the place of each official key.

    A prefix that other programs put before the names ("module.", "backbone.") is taken off if the
    names are in no layout with it.

    Args:
        shapes: the shape of each array by its key.
        path: the file, for messages.
        config: see `Family.other_places`.

    Raises:
        UsageError: the layout is unknown, or two keys are the same weight.
    """
    layout = _read({key: key for key in shapes}, shapes, path, config)
    if layout is not None:
        return layout
    for family in FAMILIES:
        prefixes = _prefixes(_ANY_PREFIX + family.mark, shapes)
        without = _without(prefixes[0], shapes, path) if prefixes else {}
        layout = _read(without, shapes, path, config)
        if layout and any(key.startswith(_FIRST_BLOCK) for key in layout.places):
            _check_one_model(prefixes, path)
            return layout._replace(prefix=prefixes[0] + layout.prefix)
    first = ", ".join(display(key) for key in sorted(shapes)[:3]) or "none"
    raise UsageError(
        f"{path} has an unknown layout; expected official, big_vision, BiT, timm or transformers. "
        f"Received the keys: {first} ..."
    )


# Another prefix: whole parts of a name. Its length is bounded, so that long names take no time.
_ANY_PREFIX = r"(.{1,200}?[./])"
_FIRST_BLOCK = ("Transformer/encoderblock_0/", "resnet/block1/")
_MOST_SHOWN = 3
# The parts of other models by a pattern in their names.
_UNKNOWN_PARTS = {
    r"norm_pre": "it has a norm before the blocks, which keras_vit does not read in timm's Eva",
    r"mlp\.w12\.": "it has gated MLPs in a form that keras_vit does not read",
    r"rope\.freqs": "it has rotations with learned frequencies, which keras_vit does not have",
    r"attn\.norm\.": "it normalises the outputs of attention, which keras_vit does not do",
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
# Linen, the current module system of Flax, numbers the parts of a block for each class.
_LINEN = {
    "MultiHeadDotProductAttention_0": "MultiHeadDotProductAttention_1",
    "LayerNorm_1": "LayerNorm_2",
    "MlpBlock_0": "MlpBlock_3",
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


# A file's keys by their names, which may lack a prefix that another program put before them.
_Names = Mapping[str, str]


def _read(
    names: _Names, shapes: Mapping[str, Shape], path: Path, config: Mapping[str, Any]
) -> WeightsLayout | None:
    for family in FAMILIES:
        prefixes = _prefixes(family.mark, names)
        _check_one_model(prefixes, path)
        if prefixes:
            return _read_family(family, prefixes[0], names, shapes, path, config)
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
    family: Family,
    prefix: str,
    names: _Names,
    shapes: Mapping[str, Shape],
    path: Path,
    config: Mapping[str, Any],
) -> WeightsLayout:
    def shape_of(name: str) -> Shape | None:
        return shapes.get(names.get(prefix + name, names.get(name)))

    try:
        shown, others = family.shown(shape_of, config), family.other_places(shape_of, config)
    except UsageError as error:
        raise UsageError(f"{path} has an unknown architecture: {error}") from None
    if family.places:
        rows = {**family.places, **others}
        known = _index((place.key, (key, place)) for key, place in rows.items() if place)
        find, not_weights = functools.partial(_named, known), family.not_weights
    else:
        known = _index(official_keys(family.bit))
        find = functools.partial(_official, known, family.bit, f"{prefix}cls" in names)
        not_weights = _STATE.get(prefix, "$")
    places, unknown, ignored, traits = {}, [], [], set()
    for name, key in names.items():
        weights = list(find(prefix, name, shapes[key]))
        for official, place, trait in weights:
            if official in places:
                raise _twice(places[official].key, key, path)
            places[official] = place._replace(key=key)
            traits.add(trait)
        if not weights:
            (ignored if re.fullmatch(not_weights, name) else unknown).append(key)
    variations = tuple(sorted(traits - {""}))
    keys = tuple(unknown), tuple(ignored)
    return WeightsLayout(family, places, *keys, shown, prefix, variations)


# The official keys in one array of a file, each with its place there, and the name of the layout's
# variation or "".
_Weights = Iterable[tuple[str, Place, str]]


def _named(known: _Index, prefix: str, name: str, shape: Shape) -> _Weights:
    # In transformers, the classifier's keys do not have the prefix.
    for indices, (official, place) in _matches(known, name.removeprefix(prefix)):
        yield fill(official, **indices), place, ""


def _official(
    known: _Index, bit: bool, class_token: bool, prefix: str, name: str, shape: Shape
) -> _Weights:
    if not name.startswith(prefix):
        return
    name = name.removeprefix(prefix)
    if bit:
        plain = re.sub(r"_\d+(?=/|$)", "", name)
        weights = [(plain, Place(), "" if plain == name else "numbered names")]
    else:
        weights = _vit(name, shape, class_token)
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
        yield POSITION_TABLE, place, trait
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
