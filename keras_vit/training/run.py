"""The training of a run: from a model, images and a recipe to a run folder."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import os
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from keras_vit import _files, runs
from keras_vit._errors import UsageError
from keras_vit._keras import LEGACY, backend, keras, keras_flavour
from keras_vit.data import Source, Split, split_source
from keras_vit.models.image_model import ImageModel
from keras_vit.training.adapting import restoring_trainable
from keras_vit.training.building import build, check_model, check_settings, learner_of
from keras_vit.training.checkpoints import Checkpoints
from keras_vit.training.costs import Costs, costs_of
from keras_vit.training.durations import CHECKPOINT_EVERY, interval, to_steps
from keras_vit.training.engines import Engine, naming_lost_processes, open_engine
from keras_vit.training.loop import Loop, batches_of, saying_what_is_saved
from keras_vit.training.plan import Plan
from keras_vit.training.progress import Progress
from keras_vit.training.recipes import Recipe
from keras_vit.training.resuming import (
    chosen_before,
    restored_step,
    stopped_run,
    teacher_described,
    was_finished,
)
from keras_vit.training.tasks import MultiLabel, SingleLabel, Task
from keras_vit.training.timing import MOST_TIMED, parts_to_time, time_of


def train(
    model: ImageModel | str,
    source: Source,
    recipe: Recipe,
    out: str | os.PathLike,
    *,
    weights: str | os.PathLike | None = None,
    teacher: ImageModel | None = None,
    task: Task | None = None,
    split: Split | None = None,
    resume: bool = False,
    overwrite: bool = False,
    checkpoint_every: str | None = None,
    keep: int | None = None,
    strategy: str | Engine = "one",
    logical_devices: int = 1,
    tensorboard: bool = False,
    callbacks: Callable[[ImageModel, Split], Sequence[Any]] = lambda model, split: (),
    preset: str | None = None,
    started: Callable[[Plan], None] = lambda plan: None,
    report: Callable[[Progress], None] = lambda progress: None,
    saving: Callable[[int], None] = lambda step: None,
    stuck: Callable[[str], None] | None = None,
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
        out: the run folder.
        weights: for a name: the initial weights, see `create_model`; a head for other classes is
            dropped.
        teacher: for a recipe with `distillation`: a model of the same classes, which is frozen. A
            resumed run needs the same one.
        task: what the model learns, instead of the recipe's loss, label smoothing, class weights
            and distillation. A resumed run needs the same one, which is not checked.
        split: which images are for training and which are held out; default: `split_source`.
        resume: go on after the newest checkpoint of the run in `out`, or begin again if it was
            killed before it had saved anything. The recipe and the model must be those of the run;
            only the duration may change. The images must be the same: their names and classes are
            checked, their pixels are not.
        overwrite: replace an existing run in `out`.
        checkpoint_every: how often the whole state is saved: "5 minutes", "1 epoch", "500 steps";
            None for as often as before in a resumed run, and otherwise every five minutes. After
            Ctrl-C and SIGTERM it is saved too, as soon as the step ends; see `stuck`.
        keep: the number of checkpoints to keep, the newest; None for two. If neither this nor
            `checkpoint_every` is given, they are removed when the training has ended.
        strategy: which devices compute the steps: "one", "mirrored", "multiworker", "tpu", "jax" or
            "auto", see `open_engine`; or an engine that it returned.
        logical_devices: for the name of a strategy: the number of devices that the CPU is split
            into.
        tensorboard: also write TensorBoard's event files to out/tensorboard.
        callbacks: a function of the built model and the split that returns Keras callbacks. What
            they add to the logs of an epoch is written to metrics.jsonl.
        preset: the name of the recipe, which the run keeps; None if it has none.
        started: called with the plan before the first step.
        report: called with the progress after each step, also of evaluations.
        saving: called with the step before the state is saved after Ctrl-C or SIGTERM, which takes
            seconds for a large model; another Ctrl-C ends training without it.
        stuck: called in a thread with a message if training does not stop within seconds after
            Ctrl-C, because a step or an evaluation is long or is being compiled. Of an evaluation
            with TensorFlow the state has been saved.

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
    name = _name_of(model)
    out = Path(out)
    _check_teacher(recipe, teacher)
    _check_task(recipe, task)
    engine = strategy
    if not isinstance(engine, Engine):
        engine = open_engine(engine, logical_devices=logical_devices, recipe=recipe)
    check_settings(
        source.locator, recipe, name, out, weights=weights, overwrite=overwrite, resume=resume,
        tensorboard=tensorboard, engine=engine,
    )  # fmt: skip
    lock = _files.locked(out) if engine.is_chief else contextlib.nullcontext()
    with lock, naming_lost_processes(engine), engine.scope():
        keras.utils.set_random_seed(recipe.seed)
        if LEGACY:  # generators with a state, which a checkpoint can hold
            keras.backend.experimental.enable_tf_random_generator()
        run, goes_on = None, False
        if resume:
            run, goes_on = stopped_run(out, source, recipe, model, teacher)
            overwrite, weights = True, run.recipe.get("weights")
            checkpoint_every = checkpoint_every or run.recipe.get("checkpoint_every")
            keep = keep or run.recipe.get("keep_checkpoints")
            preset = preset or run.recipe.get("preset")
        if goes_on:
            split = run.split(source)
            model = run.model(recipe.precision) if name is not None else model
            recipe = chosen_before(run, recipe)
        else:
            split = split.checked(len(source)) if split else split_source(source, recipe.held_out)
            model = model if name is None else build(name, source.labels, recipe, weights)
        check_model(model, source, recipe)
        engine.check_model(model)
        with restoring_trainable(model, teacher):
            learner, task, plan, recipe = learner_of(
                model, source, split, recipe, engine, teacher, task
            )
            if plan.too_large:
                raise UsageError(plan.too_large)
            every = interval(checkpoint_every or CHECKPOINT_EVERY, _steps_of(recipe, plan))
            asked = checkpoint_every is not None or keep is not None
            stay = asked or (goes_on and was_finished(run, recipe))
            checkpoints = Checkpoints(out / "checkpoints", learner, keep or 2, every, stay)
            if goes_on:
                step = restored_step(checkpoints, run)
                plan = dataclasses.replace(plan, first_step=step)
            saying = saying_what_is_saved(out, checkpoints, plan)
            with saying if engine.is_chief else contextlib.nullcontext():
                if engine.is_chief and goes_on:
                    runs.rewind(run, step, dataclasses.asdict(recipe))
                elif engine.is_chief:
                    origin = "fresh" if weights is None else os.path.basename(weights)
                    settings = _settings(model, recipe, weights, teacher)
                    settings |= {"checkpoint_every": checkpoint_every, "keep_checkpoints": keep}
                    settings["preset"] = preset
                    runs.create_run(
                        out, model, source, split, settings, origin, overwrite=overwrite
                    )
                if engine.is_chief:
                    started(plan)
                events = str(out / "tensorboard")
                extra = list(callbacks(model, split))
                extra += [keras.callbacks.TensorBoard(events)] if tensorboard else []
                loop = Loop(
                    out, model, learner, task, source, split, recipe, plan, checkpoints, report,
                    engine,
                )  # fmt: skip
                loop.run(extra, saving, stuck)
        engine.barrier()
    return runs.open_run(out)


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
        learner, task, plan, recipe = learner_of(built, source, split, recipe, engine, teacher)
        costs = costs_of(recipe, built, learner, plan.devices, teacher)
        started(plan, costs)
        if not plan.too_large:
            learner.accumulate = parts_to_time(plan.accumulate, costs.step_flops)
            images = plan.batch_size // plan.accumulate * learner.accumulate
            timed = dataclasses.replace(recipe, batch_size=images, accumulate=learner.accumulate)
            batches = batches_of(source, split, timed, built, task, engine, MOST_TIMED)
            seconds = time_of(plan, learner, batches) * plan.batch_size / images
            plan = dataclasses.replace(plan, seconds=seconds)
        return plan, costs


def versions() -> dict[str, str]:
    """The versions of all packages that affect the result."""
    installed = {
        "python": platform.python_version(),
        "keras_flavour": keras_flavour(),
    }
    for package in ("keras_vit", "keras", "tf_keras", "tensorflow", "jax", "numpy", "pillow"):
        try:
            installed[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return installed | {"backend": backend()}


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


def _settings(
    model: ImageModel,
    recipe: Recipe,
    weights: str | os.PathLike | None,
    teacher: ImageModel | None,
) -> dict[str, Any]:
    return {
        "model": model.name,
        "recipe": dataclasses.asdict(recipe),
        "weights": None if weights is None else str(weights),
        "teacher": None if teacher is None else teacher_described(teacher),
        "versions": versions(),
    }


def _steps_of(recipe: Recipe, plan: Plan) -> Callable[[str], int]:
    counts = {"batch_size": recipe.batch_size, "num_examples": plan.examples}
    return lambda duration: to_steps(duration, total_steps=plan.steps, **counts)
