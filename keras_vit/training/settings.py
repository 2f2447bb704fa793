"""Checks of a recipe against a model, before any image is read. Nothing here imports Keras."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Iterable, Mapping
from typing import Any

from keras_vit._errors import UsageError
from keras_vit.encoder.dense_heads import DENSE_FIELDS, DENSE_HEADS
from keras_vit.encoder.masked_patches import check_decoder, check_maskable, masked_count
from keras_vit.encoder.poolings import POOLINGS
from keras_vit.recipe import SELF_SUPERVISED, Recipe, only
from keras_vit.specs import RATES, Spec, ViTSpec, as_size
from keras_vit.training.ablations import overridden
from keras_vit.training.plan import interval, to_steps, total_steps, warmup_steps
from keras_vit.variant_specs import USUAL_SIZES, VARIANTS, find_variant
from keras_vit.weights.checkpoint import open_checkpoint

# Rows and columns of patches in the image size that is chosen for a model. 224 pixels have 7 of the
# largest patches.
_FEWEST_PATCHES = 7
# How much larger than usual the pictures of a small model may be: it learns more from photographs
# of 64 pixels than of 32 (docs/evidence-training.md).
_MOST_USUAL = 2
_USUAL_SIZE = 224
# The number of steps in an epoch is between these. With the larger one, only durations that can
# never reach one step are refused.
_STEPS_IN_AN_EPOCH = (1, 10**9)


def check_recipe(recipe: Recipe, model: str | None = None) -> None:
    """Checks what can be known of a recipe before the images are read.

    Args:
        recipe: the settings.
        model: a name in `list_models()`; None for a model that is built already or in a file.

    Raises:
        UsageError: the model is unknown, has no such setting, has no answer for each image, or its
            patches do not divide the image or cannot be masked; MAE's decoder cannot have its
            sizes; a duration cannot be read; or the warmup is never shorter than the run.
    """
    if recipe.loss == "mae":
        check_decoder(recipe.decoder_dim, recipe.decoder_depth, recipe.decoder_heads)
    if model is not None:
        name = find_variant(model)
        check_spec(recipe, VARIANTS[name], name)
    counts = [recipe.batch_size * steps for steps in _STEPS_IN_AN_EPOCH]
    total_steps(recipe, counts[-1])
    if not any(_warmup_fits(recipe, examples) for examples in counts):
        raise UsageError(
            f"warmup must be shorter than training, duration={recipe.duration!r}. "
            f"Received: warmup={recipe.warmup!r}."
        )


def check_spec(recipe: Recipe, spec: Spec, name: str) -> None:
    """Checks a recipe for an architecture.

    Args:
        recipe: the settings.
        spec: the model's spec.
        name: the model's name, for the error.

    Raises:
        UsageError: see `check_recipe`.
    """
    fields = spec_fields(recipe, spec, name)
    if isinstance(spec, ViTSpec):
        spec = dataclasses.replace(spec, **fields)
        spec.grid(recipe.image_size)
    if recipe.loss in SELF_SUPERVISED:
        check_masked(recipe, spec, name)
    elif recipe.task == "classification":
        check_pooled(spec)


def check_masked(recipe: Recipe, spec: Spec, name: str) -> None:
    """Raises a `UsageError` if a model cannot be trained without classes as a recipe says.

    Args:
        recipe: the settings; its loss is one of `SELF_SUPERVISED`.
        spec: the model's spec.
        name: the model's name, for the error.
    """
    check_maskable(spec, name, SELF_SUPERVISED[recipe.loss][0])
    masked_count(spec.grid(recipe.image_size), recipe.masked_fraction)


def check_pooled(spec: Spec) -> None:
    """Raises a `UsageError` if a model has an answer for each patch, and none for the image."""
    if spec.dense is not None:
        raise UsageError(
            f"task='classification' needs a classifier. Received: dense_head={spec.dense_head!r}."
        )
    if isinstance(spec, ViTSpec) and POOLINGS[spec.pooling].call is None:
        kinds = ", ".join(name for name, kind in POOLINGS.items() if kind.call is not None)
        raise UsageError(
            "training with classes needs a model with one answer for each image. "
            f"Received: pooling={spec.pooling!r}; choose one of {kinds}."
        )


def check_checkpoint_every(checkpoint_every: str | None) -> None:
    """Raises a `UsageError` if the time between two checkpoints cannot be read."""
    if checkpoint_every is not None:
        interval(checkpoint_every, batch_size=1, num_examples=100, total_steps=100)


def plain(value: Any) -> Any:
    """A value as JSON gives it back: tuples are lists."""
    return json.loads(json.dumps(value))


def differences(now: Mapping[str, Any], before: Mapping[str, Any]) -> str:
    """The settings that differ from those of a run, "" if none does: "seed=1, was 0"."""
    changed = {name: before.get(name) for name in now if now[name] != before.get(name)}
    return ", ".join(
        # Whether something is on is said with its name, because a command has a flag for it.
        f"{name}={now[name]!r}, was {f'{name}={old}' if isinstance(old, bool) else repr(old)}"
        for name, old in changed.items()
    )


def _warmup_fits(recipe: Recipe, examples: int) -> bool:
    steps = to_steps(recipe.duration, batch_size=recipe.batch_size, num_examples=examples)
    return warmup_steps(recipe, steps, examples) < max(steps, 1)


def spec_fields(recipe: Recipe, spec: Spec, name: str = "the model") -> dict[str, Any]:
    """The fields of a model's spec that a recipe sets.

    Args:
        recipe: the settings.
        spec: the model's spec.
        name: the model's name, for the error.

    Raises:
        UsageError: the model is a ResNet, which has no such field.
    """
    channels = {} if recipe.in_channels is None else {"in_channels": recipe.in_channels}
    head = next((name for name, kind in DENSE_HEADS.items() if kind.task == recipe.task), None)
    if head is not None and not isinstance(spec, ViTSpec):
        raise UsageError(
            f"{name} is a ResNet, task={recipe.task!r} needs the patches of a Vision Transformer; "
            "choose a ViT."
        )
    if not isinstance(spec, ViTSpec):
        if field := recipe.set_of("vit"):
            raise UsageError(
                f"{name} is a ResNet, {field} is a setting of Vision Transformers. "
                f"Received: {field}={getattr(recipe, field)!r}; leave it out, or choose a ViT."
            )
        return channels
    fields: dict[str, Any] = overridden(spec, recipe.overrides)
    if recipe.representation:
        fields["representation_dim"] = fields.get("hidden_dim", spec.hidden_dim)
    if recipe.distillation_token:
        fields["pooling"] = "distilled"
    for field in ("dropout", "position_embedding"):
        if getattr(recipe, field) is not None:
            fields[field] = getattr(recipe, field)
    if recipe.drop_path:
        fields["drop_path"] = recipe.drop_path
    if head is not None:
        own = spec.head_cells if spec.dense_head == head else 1
        fields |= {} if spec.dense_head == head else {**DENSE_FIELDS, "head_norm": True}
        fields |= {"dense_head": head, "head_cells": recipe.head_cells or own}
    elif spec.dense is not None:
        fields |= DENSE_FIELDS
    return fields | channels


def keeps_features(recipe: Recipe, spec: Spec) -> bool:
    """Whether each step reads the same features of an image, so that they are computed once.

    That is so if only the head is trained, and nothing before it is random.
    """
    is_random = any(getattr(spec, rate, 0) for rate in RATES)
    changes = recipe.augment != "none" or recipe.mixup or recipe.cutmix or recipe.erase
    return recipe.freeze == "body" and not (is_random or changes)


def adapted(recipe: Recipe, model: str) -> Recipe:
    """`recipe` for `model`: a ResNet trains without the settings that only ViTs have."""
    if isinstance(VARIANTS[find_variant(model)], ViTSpec):
        return recipe
    return dataclasses.replace(recipe, **only("vit"))


def in_usual_size(recipe: Recipe, models: Iterable[str]) -> Recipe:
    """`recipe` in an image size for `models`.

    It is smaller if all of them are for much smaller images, and larger if the patches of one would
    be too few.

    Raises:
        UsageError: a model is unknown.
    """
    names = [find_variant(model) for model in models]
    most = max(_MOST_USUAL * USUAL_SIZES.get(name, math.inf) for name in names)
    size = max(as_size(recipe.image_size))
    fewest = max(_FEWEST_PATCHES * _side_of_a_patch(VARIANTS[name]) for name in names)
    if fewest <= size <= most:
        return recipe
    return dataclasses.replace(recipe, image_size=int(min(max(size, fewest), most)))


def for_weights(recipe: Recipe, weights: str | os.PathLike) -> Recipe:
    """`recipe` for the model that a file or a folder holds, in a size of whole patches.

    It is never larger than the file is for, except that of a recipe for larger pictures than usual,
    such as the paper's of 384 pixels.

    Raises:
        UsageError: the file cannot be read, or its architecture is unknown.
    """
    with open_checkpoint(weights) as checkpoint:
        spec, own = checkpoint.spec, max(checkpoint.image_size or (math.inf,))
    if not isinstance(spec, ViTSpec):
        recipe = dataclasses.replace(recipe, **only("vit"))
    side, size = _side_of_a_patch(spec), max(as_size(recipe.image_size))
    if size <= _USUAL_SIZE:
        size = min(max(size, _FEWEST_PATCHES * side), own)
    return dataclasses.replace(recipe, image_size=int(size // side * side))


def _side_of_a_patch(spec: Spec) -> int:
    """The pixels between two patches; 1 for a ResNet, which has none."""
    return spec.stride if isinstance(spec, ViTSpec) else 1
