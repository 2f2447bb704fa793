"""Where training begins: a new run, or one that goes on and what must then be the same."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

from keras_vit import runs
from keras_vit._errors import UsageError
from keras_vit._keras import backend, keras_flavour
from keras_vit.data import Source, Split, split_source
from keras_vit.models.image_model import ImageModel, layer_name
from keras_vit.recipe import CHOSEN_HERE, Recipe
from keras_vit.specs import spec_from_dict
from keras_vit.training.plan import CHECKPOINT_EVERY, interval, steps_of, total_steps
from keras_vit.training.prepared import Beginning, Prepared, Saving, build
from keras_vit.training.settings import differences, plain
from keras_vit.variant_specs import find_variant
from keras_vit.weights.hashing import weights_sha256

# Settings that a resumed run may change: they do not change the steps that were already made.
_MAY_CHANGE = ("duration", *CHOSEN_HERE)


def begin(
    model: ImageModel | str | None,
    source: Source,
    recipe: Recipe,
    saving: Saving,
    split: Split | None,
    weights: str | os.PathLike | None,
    teacher: ImageModel | None,
) -> Beginning:
    """Builds the model, or reads that of the run that goes on; for the arguments see `train`.

    Raises:
        UsageError: see `stopped_run`.
    """
    is_built = isinstance(model, ImageModel)
    if saving.resume:
        run, has_state = stopped_run(saving.path, source, recipe, model, teacher)
        weights = run.recipe.get("weights")
        saving = dataclasses.replace(
            saving,
            overwrite=True,
            checkpoint_every=saving.checkpoint_every or run.recipe.get("checkpoint_every"),
            keep=saving.keep or run.recipe.get("keep_checkpoints"),
            preset=saving.preset or run.recipe.get("preset"),
        )
        if has_state:
            model = model if is_built else run.model(recipe.precision)
            before = settings_of(run)
            # Only with what was chosen for the machine where it began are the steps the same bit
            # for bit.
            chosen = {f: before[f] for f in CHOSEN_HERE if getattr(recipe, f) is None}
            recipe = dataclasses.replace(recipe, **chosen)
            split = run.split(source)
            return Beginning(model, source, split, recipe, teacher, saving, weights, run)
        model = run.recipe.get("model") if model is None else model
    split = split.checked(len(source)) if split else split_source(source, recipe.held_out)
    name = None if is_built else model
    model = model if is_built else build(name, source.labels, recipe, weights)
    is_held = name is None and not is_built
    return Beginning(model, source, split, recipe, teacher, saving, weights, is_held=is_held)


def write_beginning(ready: Prepared) -> None:
    """Writes the folder of a new run, or takes the one that goes on back to its first step."""
    begun, saving = ready.begun, ready.begun.saving
    settings = dataclasses.asdict(begun.recipe)
    if begun.run is not None:
        runs.rewind(begun.run, ready.plan.first_step, settings)
        return
    content = {
        "model": None if begun.is_held else begun.model.name,
        "recipe": settings,
        "weights": None if begun.weights is None else str(begun.weights),
        "teacher": None if begun.teacher is None else teacher_described(begun.teacher),
        "versions": versions(),
        "checkpoint_every": saving.checkpoint_every,
        "keep_checkpoints": saving.keep,
        "preset": saving.preset,
    }
    origin = "fresh" if begun.weights is None else os.path.basename(begun.weights)
    runs.create_run(
        saving.path, begun.model, begun.source, begun.split, content, origin,
        overwrite=saving.overwrite,
    )  # fmt: skip


def versions() -> dict[str, str]:
    """The versions of all packages that affect the result."""
    installed = {"python": platform.python_version(), "keras_flavour": keras_flavour()}
    for package in ("keras_vit", "keras", "tf_keras", "tensorflow", "jax", "numpy", "pillow"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            installed[package] = importlib.metadata.version(package)
    return installed | {"backend": backend()}


def check_resumable(
    out: str | os.PathLike,
    recipe: Recipe,
    model_name: str | None,
    weights: str | os.PathLike | None,
) -> None:
    """Checks what can be known before the images are read.

    Args:
        out: the run folder.
        recipe, weights: see `train`.
        model_name: a name in `list_models()`; None for a model that is built already.

    Raises:
        UsageError: `out` is no run, or was trained with other settings, another model or other
            initial weights, or with another flavour of Keras; or the run would become shorter.
    """
    run = runs.open_run(out)
    if model_name is not None:
        name = find_variant(model_name)
        _check_name(run, name, layer_name(name))
    started = run.recipe.get("weights")
    if weights is not None and str(weights) != started:
        raise UsageError(
            f"{run.path} started from {'random weights' if started is None else started}. "
            f"Received: weights={os.fspath(weights)!r}; leave it out to go on."
        )
    before, now = settings_of(run), plain(dataclasses.asdict(recipe))
    changed = differences({key: now[key] for key in now if key not in _MAY_CHANGE}, before)
    if changed:
        raise UsageError(
            f"{run.path} can only be resumed with its own settings. Received: {changed}; "
            "leave them out to go on."
        )
    if has_checkpoint(run.path):
        _check_flavour(run)
        _check_not_shorter(run, recipe)


def stopped_run(
    out: Path,
    source: Source,
    recipe: Recipe,
    model: ImageModel | str | None,
    teacher: ImageModel | None,
) -> tuple[runs.Run, bool]:
    """The run in `out`, and whether it has a checkpoint; without one it begins again.

    Raises:
        UsageError: the run was trained on another model, other images or by another teacher; or it
            has no checkpoint, but has ended, or weights that would be lost if it began again.
    """
    run = runs.open_run(out)
    if isinstance(model, ImageModel):
        _check_name(run, model.name, model.name)
        if model.spec != spec_from_dict(run.spec["spec"]):
            raise UsageError(
                f"{out} can only be resumed with its own model. Received: another spec."
            )
    if source.labels != run.labels:
        raise UsageError(f"{out} was trained on other classes than those of {source.locator}.")
    run.check_targets(source)
    taught_by = run.recipe.get("teacher")
    if teacher is not None and taught_by != teacher_described(teacher):
        raise UsageError(
            f"{out} can only be resumed with its own teacher, {(taught_by or {}).get('name')}. "
            f"Received: {teacher.name}, whose weights differ."
        )
    if has_checkpoint(out):
        return run, True
    if any((out / "checkpoints").glob("*.damaged")):
        raise unreadable(out)
    if was_finished(run, recipe):
        raise UsageError(
            f"{out} has ended, and its state is not kept unless checkpoint_every is given. Begin "
            f"again with overwrite=True, or go on in another folder with "
            f"weights='{out / 'weights.npz'}'."
        )
    if run.metrics() and not _was_killed_before_a_checkpoint(run, recipe):
        raise UsageError(
            f"{out} has no checkpoint to resume from; start again with overwrite=True."
        )
    return run, False


def settings_of(run: runs.Run) -> dict[str, Any]:
    """All settings of a run, as JSON values; one that is newer than the run has its default."""
    return plain(dataclasses.asdict(Recipe())) | run.recipe["recipe"]


def teacher_described(teacher: ImageModel) -> dict[str, str]:
    """The teacher of a run, as JSON values."""
    return {"name": teacher.name, "sha256": weights_sha256(teacher)}


def was_finished(run: runs.Run, recipe: Recipe) -> bool:
    """Whether all steps that were planned when the run was last started have been made."""
    metrics = run.metrics()
    return bool(metrics) and metrics[-1]["step"] >= _steps_before(run, recipe)


def unreadable(out: Path) -> UsageError:
    """The error of a run whose checkpoints are all damaged."""
    return UsageError(f"no checkpoint of {out} can be read; start again with overwrite=True.")


def _was_killed_before_a_checkpoint(run: runs.Run, recipe: Recipe) -> bool:
    """Whether the run was stopped before its first checkpoint was complete."""
    text, last = run.recipe.get("checkpoint_every"), run.metrics()[-1]
    if text is None and "keep_checkpoints" in run.recipe:  # earlier versions wrote none by default
        text = CHECKPOINT_EVERY
    planned = _steps_before(run, recipe)
    if text is None:
        return False
    counts = {"batch_size": recipe.batch_size, "num_examples": run.training_images}
    every = interval(text, total_steps=planned, **counts)
    # The first is written beside the training, and is complete before the second begins.
    return not every.is_due(last.get("seconds", 0.0) / 2, last["step"] // 2)


def _check_name(run: runs.Run, name: str, layer: str) -> None:
    if layer != run.spec["model"]:
        raise UsageError(
            f"{run.path} can only be resumed with its own model, {run.spec['model']}. "
            f"Received: {name}."
        )


def _check_flavour(run: runs.Run) -> None:
    before = run.recipe.get("versions", {}).get("keras_flavour")
    if before in (None, keras_flavour()):
        return
    trained, other = "Keras 3", "tf_keras"
    advice = "with strategy='one' or strategy='jax', and without TF_USE_LEGACY_KERAS=1"
    if before == "tf_keras":
        trained, other = other, trained
        advice = (
            "with the strategy that it had, such as strategy='mirrored' and logical_devices=2, or "
            "with TF_USE_LEGACY_KERAS=1 set"
        )
    raise UsageError(
        f"{run.path} was trained with {trained}, whose checkpoints {other} cannot read; go on "
        f"{advice}."
    )


def _check_not_shorter(run: runs.Run, recipe: Recipe) -> None:
    before, now = _steps_before(run, recipe), steps_of(recipe, run.training_images)
    if now < before:
        raise UsageError(
            f"{run.path} is a run of {before} steps. Received: a duration of {now} steps; "
            "a resumed training can only become longer."
        )


def _steps_before(run: runs.Run, recipe: Recipe) -> int:
    """The length that was planned when the run was last started."""
    before = dataclasses.replace(recipe, duration=run.setting("duration"))
    return total_steps(before, run.training_images)


def has_checkpoint(out: Path) -> bool:
    """Whether a run folder holds the state of training that was stopped."""
    return any((out / "checkpoints").glob("*.npz"))
