"""Training runs: from a model, images and a recipe to a run folder, or to what a run costs."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import math
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from keras_vit import _files, runs
from keras_vit._errors import MissingPackageError, UsageError
from keras_vit._keras import LEGACY, keras
from keras_vit.data import Source, Split
from keras_vit.data.sources import check_out
from keras_vit.frozen_features import body_of, features_of
from keras_vit.models.image_model import ImageModel
from keras_vit.models.pretrained import check_weights
from keras_vit.recipe import Recipe
from keras_vit.training import resuming
from keras_vit.training.callbacks import NO_HOOKS, Hooks
from keras_vit.training.checkpoints import Checkpoints
from keras_vit.training.costs import Costs
from keras_vit.training.distillation import check_teacher
from keras_vit.training.engines import Engine, naming_lost_processes, open_engine
from keras_vit.training.loop import Loop, saying_what_is_saved
from keras_vit.training.optimisers import check_optimizer
from keras_vit.training.plan import CHECKPOINT_EVERY, Plan, interval
from keras_vit.training.prepared import (
    Beginning,
    Prepared,
    Saving,
    prepare,
    saving_of,
    spec_of,
)
from keras_vit.training.settings import check_recipe, check_spec, spec_fields
from keras_vit.training.tasks import MultiLabel, SingleLabel, Task
from keras_vit.training.trainable_variables import check_adaptable, restoring_trainable

# Enough are timed: three that take two seconds, or one that takes ten.
_MOST_TIMED = 100
_STEPS, _SECONDS, _LONG = 3, 2.0, 10.0
_FLOPS = 1e12  # take seconds on a CPU, of which the optimiser's own time is a small fraction
_FORWARD = 1 / 3  # of the time of a step, for as many images


def train(
    model: ImageModel | str | None,
    source: Source,
    recipe: Recipe,
    out: str | os.PathLike | Saving,
    *,
    weights: str | os.PathLike | None = None,
    teacher: ImageModel | None = None,
    task: Task | None = None,
    split: Split | None = None,
    strategy: str | Engine = "one",
    hooks: Hooks = NO_HOOKS,
) -> runs.Run:
    """Trains a model and writes a run folder, which can be loaded at any time during training.

    >>> import dataclasses
    >>> from keras_vit import data, training
    >>> recipe = dataclasses.replace(
    ...     training.RECIPES["scratch"], image_size=32, batch_size=8, duration="20 steps"
    ... )
    >>> run = training.train("ViT_Pico4", data.open_source("flower_photos"), recipe, "runs/new")
    >>> model = run.model()

    The weights of the last step are kept. Choosing the best epoch by its held-out accuracy would
    make this accuracy too optimistic.

    Args:
        model: a model with a class for each label of `source`, which is trained in place; or a name
            in `list_models()`, built with the recipe's image size, dropout and precision; None for
            the model that `weights` hold, or that of a run that goes on.
        source: the images.
        recipe: the settings.
        out: the run folder; or a `Saving`, to replace a run or go on with it, or to choose how
            often its state is saved.
        weights: for a name or None: the initial weights, see `create_model` and
            `model_from_weights`; a head for other classes is dropped.
        teacher: for a recipe with `distillation`: a model of the same classes, which is frozen. A
            resumed run needs the same one.
        task: what the model learns, instead of the recipe's loss, label smoothing, class weights
            and distillation. A resumed run needs the same one, which is not checked.
        split: which images are for training and which are held out; default: `split_source`.
        strategy: which devices compute the steps: "one", "mirrored", "multiworker", "tpu", "jax" or
            "auto", see `open_engine`; or an engine that it returned.
        hooks: what is called while it trains, such as Keras callbacks.

    Returns:
        The finished run.

    Raises:
        UsageError: settings contradict each other, the folder is not empty, another process writes
            to it, there is nothing to resume, the replicas do not divide the batch, or a step does
            not fit into the free memory.
        LostProcessError: another process of this run ended.
        RefusedError: the loss is not finite; the run keeps its last finite weights.
        KeyboardInterrupt: Ctrl-C was pressed; the state has been saved.
        Terminated: SIGTERM was received; the state has been saved.
    """
    saving = saving_of(out)
    name = _name_of(model, weights, saving)
    check_teacher(recipe, teacher)
    _check_task(recipe, task)
    engine = strategy if isinstance(strategy, Engine) else open_engine(strategy, recipe=recipe)
    check_settings(source.locator, recipe, name, saving, weights=weights, engine=engine)
    lock = _files.locked(saving.path) if engine.is_chief else contextlib.nullcontext()
    with lock, naming_lost_processes(engine), engine.scope():
        _seed(recipe.seed)
        begun = resuming.begin(model, source, recipe, saving, split, weights, teacher)
        with restoring_trainable(begun.model, teacher):
            ready = prepare(begun, engine, task)
            if ready.plan.too_large:
                raise UsageError(ready.plan.too_large)
            checkpoints = _checkpoints(ready)
            if begun.run is not None:
                plan = dataclasses.replace(ready.plan, first_step=checkpoints.restore())
                if not plan.first_step:
                    raise resuming.unreadable(saving.path)
                ready = dataclasses.replace(ready, plan=plan)
            if not engine.is_chief:
                Loop(ready, saving.path, checkpoints, hooks).follow()
            else:
                with saying_what_is_saved(saving.path, checkpoints, ready.plan):
                    resuming.write_beginning(ready)
                    hooks.started(ready.plan)
                    ready = ready.with_features(hooks.features)
                    loop = Loop(ready, saving.path, checkpoints, hooks)
                    loop.run(_callbacks(begun, hooks))
        engine.barrier()
    return runs.open_run(saving.path)


def dry_run(
    model: str | None,
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
        model: a name in `list_models()`; None for the model that `weights` hold.
        source, recipe, weights, teacher, split: see `train`.
        engine: the devices; None for one.
        started: called with what is returned, but for the time, before the first step.

    Returns:
        The plan of the run, and what a step costs.
    """
    engine = engine or Engine()
    check_teacher(recipe, teacher)
    with engine.scope():
        begun = resuming.begin(model, source, recipe, Saving(""), split, weights, teacher)
        ready = prepare(begun, engine)
        learner, plan, costs = ready.learner, ready.plan, ready.costs
        started(plan, costs)
        if not plan.too_large:
            ready, before = _features_timed(ready) if plan.keeps_features else (ready, 0.0)
            learner.accumulate = parts_to_time(plan.accumulate, costs.step_flops)
            images = plan.batch_size // plan.accumulate * learner.accumulate
            recipe = dataclasses.replace(ready.begun.recipe, batch_size=images)
            timed = dataclasses.replace(ready.begun, recipe=recipe)
            batches = dataclasses.replace(ready, begun=timed).batches(_MOST_TIMED)
            seconds = time_of(plan, learner, batches) * plan.batch_size / images
            plan = dataclasses.replace(plan, seconds=before + seconds)
        return plan, costs


def check_settings(
    data: str | os.PathLike,
    recipe: Recipe,
    model_name: str | None,
    out: str | os.PathLike | Saving,
    *,
    weights: str | os.PathLike | None = None,
    engine: Engine | None = None,
) -> None:
    """Checks the settings before the images are read, because reading may take minutes.

    Published weights are downloaded.

    Args:
        data: see `open_source`.
        recipe, out, weights: see `train`.
        model_name: a name in `list_models()`; None for a model that is built already, or that
            `weights` hold.
        engine: the devices; None for one.

    Raises:
        UsageError: the replicas do not divide the batch, the model is unknown, its patches do not
            divide the image, a duration cannot be parsed, the weights are absent or do not fit, or
            the run folder cannot be written, or not be resumed with these settings.
        MissingPackageError: TensorFlow is not installed, whose data pipeline feeds the images; or
            TensorBoard is asked for and not installed.
    """
    if importlib.util.find_spec("tensorflow") is None:
        raise MissingPackageError(
            "training needs TensorFlow's data pipeline, with every backend of Keras: "
            "pip install 'keras_vit[tensorflow]'"
        )
    engine, saving = engine or Engine(), saving_of(out)
    check_recipe(recipe, model_name)
    check_optimizer(recipe)
    check_adaptable(recipe)
    engine.check_batch(recipe.batch_size, recipe.accumulate)
    # The chief may have made the folder already.
    check_out(saving.path, data, saving.overwrite or saving.resume or not engine.is_chief)
    if saving.resume and saving.overwrite:
        raise UsageError(
            "resume=True goes on with a run, overwrite=True replaces it; leave one of them out."
        )
    if saving.resume:
        resuming.check_resumable(saving.path, recipe, model_name, weights)
    if saving.tensorboard and importlib.util.find_spec("tensorboard") is None:
        raise MissingPackageError(
            "tensorboard=True needs TensorBoard: pip install 'keras_vit[train]'"
        )
    if weights is not None:
        name, spec = spec_of(model_name, recipe, weights)
        check_spec(recipe, spec, name)
        own = None if model_name is None else name
        check_weights(spec, own, recipe.image_size, weights, spec_fields(recipe, spec, name))


def is_enough(steps: int, seconds: float) -> bool:
    """Whether `steps` timed steps tell how long the others will take."""
    return (steps >= _STEPS and seconds >= _SECONDS) or (steps >= 1 and seconds >= _LONG)


def parts_to_time(parts: int, flops: int) -> int:
    """How many of the `parts` of a batch are timed, if a whole step has `flops` operations."""
    return min(parts, max(2, math.ceil(parts * _FLOPS / flops)))


def time_of(plan: Plan, learner: Any, batches: Any) -> float:
    """The seconds of a run, without the compilation of the first step.

    Args:
        plan: the plan of the run.
        learner: the model to train, which makes some steps.
        batches: the batches of `_MOST_TIMED` steps, the most that are timed.
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


def _features_timed(ready: Prepared) -> tuple[Prepared, float]:
    """A run that reads zeros for features, and the seconds that the features of all images take."""
    begun, indices = ready.begun, ready.indices
    some, body = indices[:_MOST_TIMED], body_of(begun.model)
    for _ in range(2):  # compiled, then timed
        start = time.monotonic()
        features = features_of(begun.model, begun.source, some, body=body, whole=True)
    seconds = (time.monotonic() - start) * len(indices) / len(some)
    return ready.reading(indices, np.zeros((len(indices), *features.shape[1:]))), seconds


def _check_task(recipe: Recipe, task: Task | None) -> None:
    """The run folder keeps the recipe, from which others learn what the scores mean."""
    for kind, loss in ((SingleLabel, "softmax"), (MultiLabel, "sigmoid")):
        if isinstance(task, kind) and recipe.loss != loss:
            raise UsageError(
                f"the task {kind.__name__} is for loss={loss!r}. Received: loss={recipe.loss!r}."
            )
    smoothing = getattr(task, "label_smoothing", recipe.label_smoothing)
    if smoothing != recipe.label_smoothing:
        raise UsageError(
            f"the recipe has label_smoothing={recipe.label_smoothing}. Received: a task with "
            f"label_smoothing={smoothing}; change one of them."
        )


def _name_of(model: Any, weights: Any, saving: Saving) -> str | None:
    """The name, if `model` is one; None for a model, and for one that is in a file or a run."""
    if isinstance(model, ImageModel):
        if weights is not None:
            raise UsageError(
                "weights are for the name of a model. Received: a model; use "
                "keras_vit.load_weights."
            )
        return None
    if isinstance(model, str) or (model is None and (saving.resume or weights is not None)):
        return model
    raise UsageError(
        "model must be a model of keras_vit, such as ViT(spec, num_classes, image_size), or a name "
        "in list_models(); with weights it may be None, for the model that they hold. "
        f"Received: {type(model).__name__}."
    )


def _seed(seed: int) -> None:
    keras.utils.set_random_seed(seed)
    if LEGACY:  # generators with a state, which a checkpoint can hold
        keras.backend.experimental.enable_tf_random_generator()


def _checkpoints(ready: Prepared) -> Checkpoints:
    begun, plan = ready.begun, ready.plan
    saving, recipe = begun.saving, begun.recipe
    every = interval(
        saving.checkpoint_every or CHECKPOINT_EVERY,
        batch_size=recipe.batch_size,
        num_examples=plan.examples,
        total_steps=plan.steps,
    )
    asked = saving.checkpoint_every is not None or saving.keep is not None
    stay = asked or (begun.run is not None and resuming.was_finished(begun.run, recipe))
    folder = saving.path / "checkpoints"
    return Checkpoints(folder, ready.learner, saving.keep or 2, every, stay)


def _callbacks(begun: Beginning, hooks: Hooks) -> list[Any]:
    """The callbacks of the user, and TensorBoard's."""
    found = list(hooks.callbacks(begun.model, begun.split))
    if begun.saving.tensorboard:
        found.append(keras.callbacks.TensorBoard(str(begun.saving.path / "tensorboard")))
    return found
