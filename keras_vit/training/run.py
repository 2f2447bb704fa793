"""The training of a run: from a model, images and a recipe to a run folder."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable
from typing import Any

from keras_vit import _files, runs
from keras_vit._errors import UsageError
from keras_vit._keras import LEGACY, keras
from keras_vit.data import Source, Split, split_source
from keras_vit.models.image_model import ImageModel
from keras_vit.recipe import Recipe
from keras_vit.training.adapting import restoring_trainable
from keras_vit.training.beginning import Beginning, begin, write_beginning
from keras_vit.training.building import build, check_model, check_settings
from keras_vit.training.checkpoints import Checkpoints
from keras_vit.training.costs import Costs, costs_of
from keras_vit.training.durations import CHECKPOINT_EVERY, interval, to_steps
from keras_vit.training.engines import Engine, naming_lost_processes, open_engine
from keras_vit.training.loop import Loop, saying_what_is_saved
from keras_vit.training.plan import Plan
from keras_vit.training.prepared import Prepared, prepare
from keras_vit.training.resuming import restored_step, was_finished
from keras_vit.training.run_options import NO_HOOKS, Hooks, Saving, saving_of
from keras_vit.training.tasks import MultiLabel, SingleLabel, Task
from keras_vit.training.timing import MOST_TIMED, parts_to_time, time_of


def train(
    model: ImageModel | str,
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
            in `list_models()`, built with the recipe's image size, dropout and precision.
        source: the images.
        recipe: the settings.
        out: the run folder; or a `Saving`, to replace a run or go on with it, or to choose how
            often its state is saved.
        weights: for a name: the initial weights, see `create_model`; a head for other classes is
            dropped.
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
        LostProcessError: another process of this training ended.
        RefusedError: the loss is not finite; the run keeps its last finite weights.
        KeyboardInterrupt: Ctrl-C was pressed; the state has been saved.
        Terminated: SIGTERM was received; the state has been saved.
    """
    name, saving = _name_of(model), saving_of(out)
    _check_teacher(recipe, teacher)
    _check_task(recipe, task)
    engine = strategy if isinstance(strategy, Engine) else open_engine(strategy, recipe=recipe)
    check_settings(source.locator, recipe, name, saving, weights=weights, engine=engine)
    lock = _files.locked(saving.path) if engine.is_chief else contextlib.nullcontext()
    with lock, naming_lost_processes(engine), engine.scope():
        _seed(recipe.seed)
        begun = begin(model, source, recipe, saving, split, weights, teacher)
        check_model(begun.model, source, begun.recipe)
        engine.check_model(begun.model)
        with restoring_trainable(begun.model, teacher):
            ready = prepare(begun.model, source, begun.split, begun.recipe, engine, teacher, task)
            if ready.plan.too_large:
                raise UsageError(ready.plan.too_large)
            checkpoints = _checkpoints(begun, ready)
            if begun.run is not None:
                step = restored_step(checkpoints, begun.run)
                plan = dataclasses.replace(ready.plan, first_step=step)
                ready = dataclasses.replace(ready, plan=plan)
            epochs = begun.epochs(ready.plan.first_step)
            loop = Loop(ready, saving.path, checkpoints, hooks, epochs)
            if not engine.is_chief:
                loop.follow()
            else:
                with saying_what_is_saved(saving.path, checkpoints, ready.plan):
                    write_beginning(begun, ready, teacher)
                    hooks.started(ready.plan)
                    loop.run(_callbacks(begun, hooks))
        engine.barrier()
    return runs.open_run(saving.path)


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
    _check_teacher(recipe, teacher)
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
            batches = dataclasses.replace(prepared, recipe=timed).batches(MOST_TIMED)
            seconds = time_of(plan, learner, batches) * plan.batch_size / images
            plan = dataclasses.replace(plan, seconds=seconds)
        return plan, costs


def _check_teacher(recipe: Recipe, teacher: ImageModel | None) -> None:
    if teacher is None and recipe.distillation != "none":
        raise UsageError(f"distillation={recipe.distillation!r} needs a teacher. Received: none.")
    if teacher is not None and recipe.distillation == "none":
        raise UsageError(
            "a teacher needs distillation='soft' or distillation='hard'. Received: neither."
        )


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


def _name_of(model: Any) -> str | None:
    """The name, if `model` is one; None for a model."""
    if isinstance(model, ImageModel):
        return None
    if isinstance(model, str):
        return model
    raise UsageError(
        "model must be a model of keras_vit, such as ViT(spec, num_classes, image_size), or a name "
        f"in list_models(). Received: {type(model).__name__}."
    )


def _seed(seed: int) -> None:
    keras.utils.set_random_seed(seed)
    if LEGACY:  # generators with a state, which a checkpoint can hold
        keras.backend.experimental.enable_tf_random_generator()


def _checkpoints(begun: Beginning, ready: Prepared) -> Checkpoints:
    saving, recipe, plan = begun.saving, begun.recipe, ready.plan
    counts = {"batch_size": recipe.batch_size, "num_examples": plan.examples}
    every = interval(
        saving.checkpoint_every or CHECKPOINT_EVERY,
        lambda duration: to_steps(duration, total_steps=plan.steps, **counts),
    )
    asked = saving.checkpoint_every is not None or saving.keep is not None
    stay = asked or (begun.run is not None and was_finished(begun.run, recipe))
    folder = saving.path / "checkpoints"
    return Checkpoints(folder, ready.learner, saving.keep or 2, every, stay)


def _callbacks(begun: Beginning, hooks: Hooks) -> list[Any]:
    """The callbacks of the user, and TensorBoard's."""
    found = list(hooks.callbacks(begun.model, begun.split))
    if begun.saving.tensorboard:
        found.append(keras.callbacks.TensorBoard(str(begun.saving.path / "tensorboard")))
    return found
