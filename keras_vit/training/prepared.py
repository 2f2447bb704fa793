"""A training that is ready for its first step."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from keras_vit._errors import UsageError
from keras_vit.data import Source, Split, evaluation_batches, training_batches
from keras_vit.models.image_model import ImageModel
from keras_vit.recipe import SELF_SUPERVISED, Recipe
from keras_vit.training.adapting import adapt
from keras_vit.training.classes import balanced_weights
from keras_vit.training.costs import costs_of, step_flops
from keras_vit.training.distillation import Distillation
from keras_vit.training.engines import Engine
from keras_vit.training.free_memory import accumulate_that_fits, free_memory, why_too_large
from keras_vit.training.held_out import HeldOut
from keras_vit.training.learner import Learner
from keras_vit.training.masking import MaskedAutoencoding, MaskedPatches
from keras_vit.training.optimisers import optimizer
from keras_vit.training.plan import Plan, parameter_counts, plan_of
from keras_vit.training.settings import check_masked, check_pooled
from keras_vit.training.tasks import Task, task_of


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
        batches = training_batches(
            self.source, self.split.train, self.model.preprocessing, recipe.batch_size, steps,
            recipe.augment, recipe.seed, first, recipe.sampling, (engine.process, engine.processes),
            targets=self.task.targets, mixup=recipe.mixup, cutmix=recipe.cutmix, erase=recipe.erase,
        )  # fmt: skip
        return engine.distribute(batches)

    def held_out(self, callbacks: list[Any]) -> HeldOut:
        """The evaluation on the held-out images, with Keras' callbacks."""

        def batches(indices: np.ndarray, size: int) -> Any:
            found = evaluation_batches(self.source, indices, self.model.preprocessing, size)
            return found.map(lambda images, classes: (images, self.task.targets(images, classes)))

        return HeldOut(
            self.learner, self.task, self.engine, batches, self.split.held_out,
            self.recipe.batch_size, callbacks, self.recipe.jit and self.engine.can_jit,
        )  # fmt: skip


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
        classes = len(source.labels)
        balanced = balanced_weights(source.targets[split.train], classes)
        weights = tuple(balanced[i] for i in range(classes))
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
