"""A dry run: what a training will do and cost, and how long it takes, from some of its steps."""

from __future__ import annotations

import dataclasses
import math
import os
import time
from collections.abc import Callable
from typing import Any

from keras_vit._keras import keras
from keras_vit.data import Source, Split, split_source
from keras_vit.models.image_model import ImageModel
from keras_vit.recipe import Recipe
from keras_vit.training.costs import Costs, costs_of
from keras_vit.training.distillation import check_teacher
from keras_vit.training.engines import Engine
from keras_vit.training.plan import Plan
from keras_vit.training.prepared import build, check_model, prepare

# Enough are timed: three that take two seconds, or one that takes ten.
_MOST_TIMED = 100
_STEPS, _SECONDS, _LONG = 3, 2.0, 10.0
_FLOPS = 1e12  # take seconds on a CPU, of which the optimiser's own time is a small fraction
_FORWARD = 1 / 3  # of the time of a step, for as many images


def dry_run(
    model: str,
    source: Source,
    recipe: Recipe,
    *,
    weights: str | os.PathLike | None = None,
    teacher: ImageModel | None = None,
    split: Split | None = None,
    engine: Engine | None = None,
    started: Callable[[Plan, Costs], None] = lambda plan, costs: None,
) -> tuple[Plan, Costs]:
    """Builds everything that `train` builds, and times some steps; nothing is written.

    Where a step has many parts, the time is that of some of them.

    Args:
        model: a name in `list_models()`.
        source, recipe, weights, teacher, split: see `train`.
        engine: the devices; None for one.
        started: called with what is returned, but for the time, before the first step.

    Returns:
        The plan of the training, and what a step costs.
    """
    engine = engine or Engine()
    check_teacher(recipe, teacher)
    with engine.scope():
        built = build(model, source.labels, recipe, weights)
        check_model(built, source, recipe)
        split = split or split_source(source, recipe.held_out)
        prepared = prepare(built, source, split, recipe, engine, teacher)
        learner, plan, recipe = prepared.learner, prepared.plan, prepared.recipe
        costs = costs_of(recipe, built, learner, plan.devices, teacher)
        started(plan, costs)
        if not plan.too_large:
            learner.accumulate = parts_to_time(plan.accumulate, costs.step_flops)
            images = plan.batch_size // plan.accumulate * learner.accumulate
            timed = dataclasses.replace(recipe, batch_size=images, accumulate=learner.accumulate)
            batches = dataclasses.replace(prepared, recipe=timed).batches(_MOST_TIMED)
            seconds = time_of(plan, learner, batches) * plan.batch_size / images
            plan = dataclasses.replace(plan, seconds=seconds)
        return plan, costs


def is_enough(steps: int, seconds: float) -> bool:
    """Whether so many timed steps tell how long the others will take."""
    return (steps >= _STEPS and seconds >= _SECONDS) or (steps >= 1 and seconds >= _LONG)


def parts_to_time(parts: int, flops: int) -> int:
    """How many parts of a batch are timed, if a step of so many has so many operations."""
    return min(parts, max(2, math.ceil(parts * _FLOPS / flops)))


def time_of(plan: Plan, learner: Any, batches: Any) -> float:
    """The seconds of a training, without the compilation of the first step.

    Args:
        plan: the plan of the training.
        learner: the model to train, which makes some steps.
        batches: at most so many.
    """
    ends: list[float] = []

    def note(epoch, logs):
        ends.append(time.monotonic())
        if is_enough(epoch, ends[-1] - ends[0]):
            learner.stop_training = True

    noting = keras.callbacks.LambdaCallback(on_epoch_end=note)
    learner.fit(
        batches, epochs=_MOST_TIMED, steps_per_epoch=1, callbacks=[noting], verbose=0, shuffle=False
    )
    each = (ends[-1] - ends[0]) / max(len(ends) - 1, 1)
    evaluations = -(-plan.steps // plan.period)
    held_out = evaluations * plan.held_out / plan.batch_size * _FORWARD
    return each * (plan.steps - plan.first_step + held_out)
