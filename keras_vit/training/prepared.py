"""What a training needs before its first step: the model, the learner, the plan."""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import Any

import numpy as np

from keras_vit import data
from keras_vit._checks import reads_pictures
from keras_vit._errors import UsageError
from keras_vit.data import Source, Split
from keras_vit.models import create_model
from keras_vit.models.image_model import ImageModel
from keras_vit.recipe import SELF_SUPERVISED, Recipe
from keras_vit.specs import VARIANTS, as_size, find_variant
from keras_vit.training.adapting import adapt
from keras_vit.training.classes import balanced_weights
from keras_vit.training.costs import (
    accumulate_that_fits,
    costs_of,
    free_memory,
    step_flops,
    why_too_large,
)
from keras_vit.training.distillation import Distillation
from keras_vit.training.engines import Engine
from keras_vit.training.learner import Learner
from keras_vit.training.masked_tasks import MaskedAutoencoding, MaskedPatches
from keras_vit.training.optimisers import optimizer
from keras_vit.training.plan import Plan, parameter_counts, plan_of
from keras_vit.training.settings import check_masked, check_pooled, spec_fields
from keras_vit.training.tasks import Task, task_of


def build(
    name: str,
    labels: tuple[str, ...],
    recipe: Recipe,
    weights: str | os.PathLike | None = None,
) -> ImageModel:
    """The model that `train` builds for a name: with the recipe's image size, resize, rates and
    precision.

    Args:
        name: see `list_models`.
        labels: the classes' names.
        recipe: the settings.
        weights: the initial weights, see `create_model`.
    """
    variant = find_variant(name)
    model = create_model(
        variant,
        len(labels),
        recipe.image_size,
        weights=weights,
        labels=labels,
        dtype=recipe.precision,
        head_bias=recipe.head_bias,
        **spec_fields(recipe, VARIANTS[variant], variant),
    )
    reads_pictures(model)
    if recipe.interpolation is not None:
        whole = {"crop": None} if recipe.interpolation == "mediapipe" else {}
        model.preprocessing = dataclasses.replace(
            model.preprocessing, interpolation=recipe.interpolation, **whole
        )
    return model


def check_model(model: ImageModel, source: Source, recipe: Recipe) -> None:
    """Raises a `UsageError` if a model does not fit the images or the recipe."""
    reads_pictures(model)
    if len(source.labels) < 2 and recipe.loss not in SELF_SUPERVISED:
        raise UsageError(
            f"{source.locator} has one class only, which needs training without classes. "
            f"Received: loss={recipe.loss!r}; choose the recipe mae, for example."
        )
    if model.num_classes != len(source.labels):
        raise UsageError(
            f"{source.locator} has {len(source.labels)} classes. "
            f"Received: a model with num_classes={model.num_classes}."
        )
    if model.image_size != as_size(recipe.image_size):
        raise UsageError(
            f"the recipe is for image_size={recipe.image_size}. "
            f"Received: a model for {model.image_size}; change one of them."
        )
    _check_built(model, recipe)
    if source.multi_hot is not None and recipe.sampling == "balanced":
        raise UsageError(
            f"sampling='balanced' needs one class for each image. Received: {source.locator}, "
            "whose images have several."
        )


def _check_built(model: ImageModel, recipe: Recipe) -> None:
    """Raises a `UsageError` if a model was built without what the recipe sets when it builds one.

    The run would state settings that it does not have.
    """
    expected = spec_fields(recipe, model.spec, model.name)
    actual = {field: getattr(model.spec, field) for field in expected}
    if recipe.interpolation is not None:
        expected["interpolation"] = recipe.interpolation
        actual["interpolation"] = model.preprocessing.interpolation
    if recipe.head_bias:
        expected["head_bias"], actual["head_bias"] = recipe.head_bias, model.head_bias
    expected["compute dtype"] = recipe.precision.removeprefix("mixed_")
    actual["compute dtype"] = model.layers[1].compute_dtype  # the head is always float32
    for field, value in expected.items():
        if actual[field] != value:
            raise UsageError(
                f"the recipe is for {field}={value!r}. Received: a model with "
                f"{field}={actual[field]!r}; change one of them, or pass the name of a model."
            )


@dataclasses.dataclass(frozen=True)
class Prepared:
    """What the steps of a training need.

    Attributes:
        model: the model that is trained.
        source, split: its images.
        recipe: the settings, with what was chosen for this machine.
        engine: the devices.
        task: what is learned.
        learner: the compiled model from pixels to predictions.
        plan: the number of steps, and where evaluations are.
    """

    model: ImageModel
    source: Source
    split: Split
    recipe: Recipe
    engine: Engine
    task: Task
    learner: Learner
    plan: Plan

    def batches(self, steps: int, first: int = 0) -> Any:
        """The batches of `steps` steps from step `first` on, for Keras' fit."""
        recipe, engine = self.recipe, self.engine
        batches = data.training_batches(
            self.source, self.split.train, self.model.preprocessing, recipe.batch_size, steps,
            recipe.augment, recipe.seed, first, recipe.sampling, (engine.process, engine.processes),
            targets=self.task.targets, mixup=recipe.mixup, cutmix=recipe.cutmix, erase=recipe.erase,
        )  # fmt: skip
        return engine.distribute(batches)

    def held_out_batches(self, indices: np.ndarray, size: int) -> Any:
        """Batches of held-out images in the order of their indices, with their targets."""
        found = data.evaluation_batches(self.source, indices, self.model.preprocessing, size)
        return found.map(lambda images, classes: (images, self.task.targets(images, classes)))


def prepare(
    model: ImageModel,
    source: Source,
    split: Split,
    recipe: Recipe,
    engine: Engine,
    teacher: ImageModel | None = None,
    task: Task | None = None,
) -> Prepared:
    """Compiles the learner of a recipe, and chooses what the recipe leaves to this machine.

    For the arguments see `train`.
    """
    adapt(model, recipe)
    plan = plan_of(recipe, model, len(split.train), len(split.held_out), engine.replicas)
    if task is None:
        task = _task(model, source, split, recipe, teacher)
    pixels = "float32" if recipe.mixup or recipe.cutmix else "uint8"  # mixed levels are fractions
    learner = Learner(model, task, pixels=pixels)
    jit = recipe.jit
    if jit is None:
        jit = engine.gains_by_jit(model.spec, plan.steps * step_flops(recipe, model))
    learner.compile(
        optimizer=optimizer(recipe, model, plan.steps, plan.warmup, learner.trainable_variables),
        loss=task.loss(),
        metrics=task.metrics(),
        jit_compile=jit and engine.can_jit,
        steps_per_execution=recipe.steps_per_execution,
    )
    learner.optimizer.build(learner.trainable_variables)
    if recipe.loss in SELF_SUPERVISED:  # with a decoder or another head, and not the model's
        plan = dataclasses.replace(plan, **parameter_counts(learner))
    costs = functools.partial(
        costs_of, model=model, learner=learner, devices=plan.devices, teacher=teacher
    )
    images, held = recipe.batch_size // plan.devices, costs(recipe)
    free = free_memory(engine, held.parameters + held.optimizer)
    learner.accumulate = accumulate_that_fits(recipe, costs, images, free)
    recipe = dataclasses.replace(recipe, accumulate=learner.accumulate, jit=jit)
    plan = dataclasses.replace(
        plan,
        accumulate=learner.accumulate,
        memory=costs(recipe).memory,
        free=free,
        too_large=why_too_large(recipe, model.spec, costs, images, free),
    )
    return Prepared(model, source, split, recipe, engine, task, learner, plan)


def _task(
    model: ImageModel, source: Source, split: Split, recipe: Recipe, teacher: ImageModel | None
) -> Task:
    if recipe.loss in SELF_SUPERVISED:
        return _masked_task(model, recipe)
    check_pooled(model.spec)
    if source.multi_hot is not None and recipe.loss == "softmax":
        raise UsageError(
            f"the images of {source.locator} have several classes, which need loss='sigmoid'. "
            "Received: loss='softmax'."
        )
    weights = None
    if recipe.class_weights == "balanced":
        balanced = balanced_weights(source.targets[split.train], len(source.labels))
        weights = tuple(balanced.values())
    task = task_of(recipe.loss, len(source.labels), recipe.label_smoothing, weights)
    if teacher is None:
        return task
    return Distillation(
        task, teacher, recipe.distillation, recipe.distillation_weight, recipe.temperature
    )


def _masked_task(model: ImageModel, recipe: Recipe) -> Task:
    check_masked(recipe, model.spec, model.name)
    target, masked = SELF_SUPERVISED[recipe.loss][0], recipe.masked_fraction
    patch_size, preprocessing = model.spec.patch_size, model.preprocessing
    if target is not None:
        return MaskedPatches(patch_size, preprocessing, target, masked)
    decoder = recipe.decoder_dim, recipe.decoder_depth, recipe.decoder_heads
    return MaskedAutoencoding(patch_size, preprocessing, masked, *decoder)
