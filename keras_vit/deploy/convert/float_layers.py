"""Chooses which layers of a quantised file must stay in float, by quantising each layer alone."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Collection
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from keras_vit import _files
from keras_vit._checks import MOST_CLASSES
from keras_vit._errors import RefusedError, UsageError
from keras_vit.deploy.convert.converter import Converter
from keras_vit.deploy.convert.quantize import quantizable_layers
from keras_vit.tflite.runner import Runner


@dataclasses.dataclass(frozen=True)
class Choice:
    """The layers that stay in float, and how they were chosen: what recipe.json holds.

    Attributes:
        format: that of the file.
        base: the precision of the other layers.
        model: name of the model.
        chosen_on: a description of the images; None if unknown.
        float_layers: their names, the most sensitive first.
        sensitivity: for every layer, the mean square difference of the logits if only this layer
            is quantised, as a fraction of their mean square.
    """

    format: int
    base: str
    model: str
    chosen_on: str | None
    float_layers: Annotated[tuple[str, ...], Meta(max_length=MOST_CLASSES)]
    sensitivity: dict[str, float]


def choose_float_layers(
    converter: Converter,
    base: str,
    images: np.ndarray,
    within_budget: Callable[[bytes], bool],
    say: Callable[[str], None] = lambda line: None,
) -> Choice:
    """Finds the layers that must stay in float.

    Each layer is quantised alone to measure its sensitivity. Then the shortest list of the most
    sensitive layers is searched for that keeps the file within the budget, and each layer of the
    list is tried quantised again. The search is deterministic.

    Args:
        converter: the converter of the model, made for `base`.
        base: a name in `PRECISIONS`: the precision of the layers that do not stay in float.
        images: a few inputs of the file (n, height, width, 3), to measure sensitivity on.
        within_budget: whether a file is within the budget.
        say: called with each line of progress.

    Raises:
        RefusedError: a file with all layers in float is over the budget too.
    """
    none = Choice(1, base, converter.about.name, None, (), {})
    if within_budget(converter(base)):
        return none
    content = converter.float_file(base)
    layers = quantizable_layers(content)
    if not within_budget(converter(base, layers)):
        raise RefusedError("the file is over its budget even with all layers in float.")
    expected = Runner(content).predict(images)
    sensitivity = {}
    for i, layer in enumerate(layers):
        others = [other for other in layers if other != layer]
        scores = Runner(converter(base, others)).predict(images)
        sensitivity[layer] = float(np.mean((scores - expected) ** 2) / np.mean(expected**2))
        if (i + 1) % 10 == 0 or i + 1 == len(layers):
            say(f"sensitivity of {i + 1} of {len(layers)} layers")
    ranked = sorted(layers, key=lambda layer: (-sensitivity[layer], layers.index(layer)))
    kept = _shortest(ranked, lambda names: within_budget(converter(base, names)), say)
    sensitivity = {layer: sensitivity[layer] for layer in ranked}
    return dataclasses.replace(none, float_layers=tuple(kept), sensitivity=sensitivity)


def read_recipe(path: str | os.PathLike, model: str, bases: Collection[str]) -> dict[str, Any]:
    """Reads a recipe.json that an export wrote for a model of that name and one of the bases.

    Raises:
        UsageError: the file is not such a recipe.
    """
    recipe = _files.read_record(path, Choice, format=1)
    if recipe.base not in bases:
        raise UsageError(
            f"{path} is not a recipe of float layers for {' or '.join(sorted(bases))}."
        )
    if recipe.model != model:
        raise UsageError(f"{path} is a recipe for {recipe.model}. Received: {model}.")
    return msgspec.to_builtins(recipe)


def _shortest(
    ranked: list[str], within_budget: Callable[[list[str]], bool], say: Callable[[str], None]
) -> list[str]:
    low, high = 0, len(ranked)  # `low` layers are too few, `high` are enough
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if within_budget(ranked[:middle]) else (middle, high)
        say(f"between {low + 1} and {high} layers stay in float")
    kept = ranked[:high]
    for layer in reversed(kept[:-1]):  # the last layer is known to be needed
        fewer = [other for other in kept if other != layer]
        if within_budget(fewer):
            kept = fewer
    return kept
