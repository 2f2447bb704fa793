"""Variations of a model that the paper and its readers compare. Nothing here imports NumPy.

A variation is a text such as "pooling=gap" or "depth=8,hidden_dim=48": fields of the model's spec,
or of the recipe, with their values.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from keras_vit._errors import UsageError, did_you_mean
from keras_vit.recipe import Recipe

if TYPE_CHECKING:
    from keras_vit.specs import ViTSpec

_FACTORS = (0.5, 1, 2)


def varied(recipe: Recipe, variation: str) -> Recipe:
    """A recipe with a variation: fields of the recipe are set, others go to `overrides`.

    Raises:
        UsageError: there is no such field, or the value cannot be read.
    """
    own = {field.name for field in dataclasses.fields(Recipe)}
    found = pairs(variation)
    settings = {name: value(text) for name, text in found if name in own}
    overrides = [f"{name}={text}" for name, text in found if name not in own]
    joined = ",".join(filter(None, [recipe.overrides, *overrides]))
    return dataclasses.replace(recipe, **settings, overrides=joined)


def overridden(spec: ViTSpec, overrides: str) -> dict[str, object]:
    """The fields of a spec that a recipe's `overrides` set.

    Raises:
        UsageError: the text cannot be read, or a ViT has no such field.
    """
    known = [field.name for field in dataclasses.fields(spec)]
    found = {}
    for name, text in pairs(overrides):
        if name not in known:
            raise UsageError(f"a ViT has no field {name!r}; {did_you_mean(name, known)}")
        if name == "stem":
            raise UsageError("overrides cannot set the stem; choose another model.")
        found[name] = value(text)
    return found


def difference(spec: ViTSpec, usual: ViTSpec) -> str:
    """The `overrides` that make `usual` to `spec`; "" if they are equal.

    Raises:
        UsageError: they differ in their stems, or in a field that has no value.
    """
    names = [field.name for field in dataclasses.fields(usual)]
    changed = {
        name: getattr(spec, name) for name in names if getattr(spec, name) != getattr(usual, name)
    }
    for name, value in changed.items():
        if name == "stem" or value is None:
            raise UsageError(f"overrides cannot set {name}={value}.")
    return ",".join(f"{name}={value}" for name, value in changed.items())


def pairs(text: str) -> list[tuple[str, str]]:
    """The names and values of "name=value,name=value".

    Raises:
        UsageError: a part is not NAME=VALUE.
    """
    found = [part.strip().partition("=") for part in text.split(",") if part.strip()]
    for name, equals, of_name in found:
        if not (name and equals and of_name):
            raise UsageError(
                f"expected NAME=VALUE, several with commas, such as depth=8,pooling=gap. "
                f"Received: {text!r}."
            )
    names = [name for name, _, _ in found]
    if len(set(names)) < len(names):
        raise UsageError(f"expected each name once. Received: {text!r}.")
    return [(name, of_name) for name, _, of_name in found]


def value(text: str) -> int | float | bool | str:
    """A value as it is written in an option: a number, true or false, or a word."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text, text)


def _positions(spec: ViTSpec) -> list[str]:
    from keras_vit.encoder.positions import POSITION_EMBEDDINGS

    return [f"position_embedding={name}" for name in POSITION_EMBEDDINGS]


def _poolings(spec: ViTSpec) -> list[str]:
    from keras_vit.encoder.poolings import POOLINGS

    # A distillation token needs a teacher, and "none" has no single prediction.
    names = (n for n, kind in POOLINGS.items() if "distillation_token" not in kind.tokens)
    return [f"pooling={name}" for name in names if name != "none"]


def _patch_sizes(spec: ViTSpec) -> list[str]:
    sizes = (spec.patch_size * factor for factor in _FACTORS)
    return [f"patch_size={int(size)}" for size in sizes if size == int(size)]


def _shapes(spec: ViTSpec) -> list[str]:
    """Deeper and narrower, shallower and wider, with about as many operations."""
    found = []
    for factor in _FACTORS:
        depth = max(round(spec.depth * factor), 1)
        scale = (spec.depth / depth) ** 0.5
        # Heads of any width, but sines and cosines need a multiple of 4.
        unit = math.lcm(4, spec.num_heads)
        width = max(round(spec.hidden_dim * scale / unit), 1) * unit
        hidden = round(spec.mlp_dim * width / spec.hidden_dim)
        found.append(f"depth={depth},hidden_dim={width},mlp_dim={hidden}")
    return found


# What each ablation varies, from the spec of a model.
ABLATIONS: dict[str, Callable[[ViTSpec], list[str]]] = {
    "position_embedding": _positions,
    "pooling": _poolings,
    "patch_size": _patch_sizes,
    "depth": _shapes,
}
