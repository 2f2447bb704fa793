"""Which variables of a model are trained: all, the head, or low-rank factors; and remat."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

from keras_vit._errors import UsageError
from keras_vit._keras import LEGACY
from keras_vit.encoder.block import block_rows
from keras_vit.models.image_model import ImageModel, each_layer
from keras_vit.recipe import Recipe
from keras_vit.specs import ViTSpec

HEAD = "head"
_HEADS = (HEAD, "head_norm")  # the layers that belong to it


def adapt(model: ImageModel, recipe: Recipe) -> None:
    """Changes a model in place as a recipe says: `freeze`, `lora` and `remat`.

    LoRA (Hu et al. 2021, arXiv 2106.09685) is that of Keras: each kernel W of the blocks' Dense
    layers becomes W + A B, where A and B have `lora` columns and rows. Only they and the head are
    trained. `save_weights` writes the sum, which every model without LoRA loads.

    Raises:
        UsageError: this flavour of Keras does not have what a setting needs, or the model has LoRA
            already.
    """
    check_adaptable(recipe)
    if _has_lora(model):
        raise UsageError(
            "the model has LoRA's factors from an earlier run. Received: such a model; save "
            "its weights, which merges them, and load them into a new model."
        )
    if recipe.freeze == "body":
        for layer in model.layers:
            layer.trainable = layer.name in _HEADS
    if recipe.lora:
        _enable_lora(model, recipe.lora)
    for block in _blocks(model) if recipe.remat else ():
        block.remat = True


@contextlib.contextmanager
def restoring_trainable(*models: ImageModel | None) -> Iterator[None]:
    """A context after which the same layers and variables are trainable as before.

    LoRA's layers stay as they are: Keras freezes their kernels for good.
    """
    models = [model for model in models if model is not None]
    # A model before its layers, and a layer before its sublayers, because each sets its parts.
    layers = [(each, each.trainable) for model in models for _, each in each_layer(model)]
    variables = [] if LEGACY else [(v, v.trainable) for model in models for v in model.variables]
    try:
        yield
    finally:
        if not any(map(_has_lora, models)):
            for part, trainable in layers + variables:
                part.trainable = trainable


def check_adaptable(recipe: Recipe) -> None:
    """Raises a `UsageError` if this flavour of Keras lacks what a setting needs."""
    if LEGACY and (setting := recipe.set_of("keras 3")):
        raise UsageError(
            f"{setting} needs Keras 3. Received: {setting}={getattr(recipe, setting)}."
        )


def _enable_lora(model: ImageModel, rank: int) -> None:
    # Variables are frozen rather than layers, because a frozen layer cannot train its factors.
    for layer in model.layers:
        for variable in layer.trainable_variables if layer.name not in _HEADS else ():
            variable.trainable = False
    paths = [row.path.split("/") for row in block_rows(model.spec)]
    for block in _blocks(model):
        for *path, weight in paths:
            if weight == "kernel":
                functools.reduce(getattr, path, block).enable_lora(rank)


def _has_lora(model: ImageModel) -> bool:
    if LEGACY or not isinstance(model.spec, ViTSpec):
        return False
    return any(block.mlp.dense_0.lora_enabled for block in _blocks(model))


def _blocks(model: ImageModel) -> Iterator[Any]:
    return (model.get_layer(f"encoderblock_{i}") for i in range(model.spec.depth))
