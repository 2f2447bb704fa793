"""Trials: the runs of a sweep or a comparison, each in a run folder of its own.

A trial that is finished is not repeated, and one that was stopped goes on after its last
checkpoint.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from keras_vit import _files, runs
from keras_vit._errors import RefusedError, UsageError
from keras_vit.data import Source, Split
from keras_vit.models.image_model import layer_name
from keras_vit.models.profile import profile
from keras_vit.recipe import CHOSEN_HERE, Recipe
from keras_vit.specs import spec_from_dict
from keras_vit.training.callbacks import NO_HOOKS, Hooks
from keras_vit.training.plan import total_steps, warmup_steps
from keras_vit.training.prepared import Saving
from keras_vit.training.resuming import has_checkpoint, settings_of
from keras_vit.training.run import train
from keras_vit.training.settings import adapted, differences, plain
from keras_vit.variant_specs import find_variant

FORMAT = 1
_RESULT = "result.json"


@dataclasses.dataclass(frozen=True)
class Trial:
    """One run.

    Attributes:
        name: the name of its run folder.
        model: a name in `list_models()`, in either spelling; it is stored in the usual one. None
            for the model that the weights hold.
        recipe: the settings.
        split: the images for training and for evaluation.
        weights: the initial weights; None for random ones.
        tags: what distinguishes it from the others, such as its fraction and seed.
    """

    name: str
    model: str | None
    recipe: Recipe
    split: Split
    weights: str | None = None
    tags: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if self.model is not None:
            object.__setattr__(self, "model", find_variant(self.model))


def run_trial(
    trial: Trial,
    source: Source,
    folder: Path,
    judge: Callable[[runs.Run], Mapping[str, Any]],
    *,
    checkpoint_every: str | None = None,
    preset: str | None = None,
    hooks: Hooks = NO_HOOKS,
) -> dict[str, Any]:
    """The result of a trial, which is trained if it is not finished yet.

    Args:
        trial: the trial.
        source: the images.
        folder: the folder with the run folders of all trials.
        judge: a function of the finished run that returns its figures as JSON values.
        checkpoint_every, preset: see `Saving`.
        hooks: see `train`.

    Returns:
        `trial.tags` and the figures, with the model's name, parameters and operations, the steps,
        the seconds, and the metrics after each epoch as `curve`. For a run that diverged
        `trial.tags`, the model's name, the reason as `diverged`, and the seconds of its metrics; it
        is not repeated either.

    Raises:
        UsageError: the folder holds a trial of this name with other settings or images.
    """
    out = folder / trial.name
    check_trial(trial, source, folder)
    if is_finished(trial, folder):
        return _stored(out).result
    has_state = has_checkpoint(out)
    images = len(trial.split.train)
    result = {"name": trial.name, "model": trial.model, "images": images, **trial.tags}
    try:
        saving = Saving(out, has_state, not has_state, checkpoint_every, preset=preset)
        weights = None if has_state else trial.weights
        run = train(
            trial.model, source, trial.recipe, saving, split=trial.split, weights=weights,
            hooks=hooks,
        )  # fmt: skip
    except RefusedError as error:
        log = runs.open_run(out).log()
        result |= {"diverged": str(error), "seconds": log[-1]["seconds"] if log else 0.0}
    else:
        result |= {**judge(run), **_course(run)}
    content = {"format": FORMAT, "settings": _settings(trial, source), "result": result}
    _files.write_json(out / _RESULT, content)
    shutil.rmtree(out / "checkpoints", ignore_errors=True)
    return result


def check_trial(trial: Trial, source: Source, folder: Path) -> None:
    """Checks that the folder holds nothing else under the trial's name; nothing is trained.

    Raises:
        UsageError: see `run_trial`.
    """
    out, now = folder / trial.name, _settings(trial, source)
    if is_finished(trial, folder):
        _check_settings(out, "a finished", _stored(out).settings, now)
    elif has_checkpoint(out):
        run = runs.open_run(out)
        _check_settings(out, "an unfinished", {**now, **_begun(run, trial)}, now)
        _check_images(out, run.split(source), trial.split)


def is_finished(trial: Trial, folder: Path) -> bool:
    """Whether the folder holds the result of a trial."""
    return (folder / trial.name / _RESULT).is_file()


def fixed_budget(recipe: Recipe, examples: int) -> Recipe:
    """`recipe` with its lengths in steps, so that they stay the same on fewer images."""
    steps = total_steps(recipe, examples)
    warmup = warmup_steps(recipe, steps, examples)
    return dataclasses.replace(recipe, duration=f"{steps} steps", warmup=f"{warmup} steps")


def with_seed(recipe: Recipe, model: str, seed: int) -> Recipe:
    """`recipe` for a model and a seed."""
    return dataclasses.replace(adapted(recipe, model), seed=seed)


class _Stored(Struct):
    """result.json of a finished trial."""

    settings: dict[str, Any]
    result: dict[str, Any]


def _stored(out: Path) -> _Stored:
    return _files.read_record(out / _RESULT, _Stored, format=FORMAT)


def _check_settings(
    out: Path, state: str, before: Mapping[str, Any], now: Mapping[str, Any]
) -> None:
    """Raises a `UsageError` if a trial, "a finished" or "an unfinished" one, had other settings."""
    changed = differences(now, before)
    if changed:
        raise UsageError(
            f"{out} holds {state} trial with other settings. Received: {changed[:300]}; "
            "choose another folder, or delete this one."
        )


def _check_images(out: Path, before: Split, now: Split) -> None:
    """Raises a `UsageError` if an unfinished trial has other images."""
    for name in ("train", "held_out"):
        if not np.array_equal(getattr(before, name), getattr(now, name)):
            raise UsageError(
                f"{out} holds an unfinished trial with other {name} images; choose another folder, "
                "or delete this one."
            )


def _settings(trial: Trial, source: Source) -> dict[str, Any]:
    recipe = plain(dataclasses.asdict(trial.recipe))
    return {
        "data": source.locator,
        "model": trial.model,
        "weights": trial.weights,
        "train_images": len(trial.split.train),
        "held_out_images": len(trial.split.held_out),
        # With other choices for another machine the steps stay the same.
        **{field: value for field, value in recipe.items() if field not in CHOSEN_HERE},
    }


def _begun(run: runs.Run, trial: Trial) -> dict[str, Any]:
    """The settings of an unfinished trial; its images are compared by `_check_images`."""
    model = run.spec["model"]
    return {
        "data": run.recipe["data"],
        "model": trial.model if trial.model is None or model == layer_name(trial.model) else model,
        "weights": run.recipe.get("weights"),
        **settings_of(run),
    }


def _course(run: runs.Run) -> dict[str, Any]:
    """Steps, seconds and metrics of a run, and what its model costs."""
    records, spec = run.metrics(), spec_from_dict(run.spec["spec"])
    layers = profile(spec, len(run.labels), tuple(run.spec["image_size"]))
    flops = sum(layer.flops for layer in layers)
    return {
        "steps": records[-1]["step"],
        "seconds": records[-1]["seconds"],
        "parameters": sum(layer.parameters for layer in layers),
        "forward_flops": flops,
        "training_flops": 3 * flops * run.setting("batch_size") * records[-1]["step"],
        "curve": records,
    }
