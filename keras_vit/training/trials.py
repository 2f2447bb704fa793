"""Trials: trainings of a sweep or a comparison, each in a run folder of its own.

A trial that is finished is not repeated, and one that was stopped goes on after its last
checkpoint.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_vit import _files, runs
from keras_vit._errors import RefusedError, UsageError
from keras_vit.data import Source, Split
from keras_vit.models.flops import forward_flops
from keras_vit.specs import as_size, find_variant
from keras_vit.training.durations import to_steps
from keras_vit.training.recipes import Recipe
from keras_vit.training.run import train
from keras_vit.training.settings import adapted, total_steps
from keras_vit.weights import parameter_count

FORMAT = 1
_RESULT = "result.json"


@dataclasses.dataclass(frozen=True)
class Trial:
    """One training.

    Attributes:
        name: the name of its run folder.
        model: a name in `list_models()`.
        recipe: the settings.
        split: the images for training and for evaluation.
        weights: the initial weights; None for random ones.
        tags: what distinguishes it from the others, such as its fraction and seed.
    """

    name: str
    model: str
    recipe: Recipe
    split: Split
    weights: str | None = None
    tags: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def run_trial(
    trial: Trial,
    source: Source,
    folder: Path,
    judge: Callable[[runs.Run], Mapping[str, Any]],
    **options: Any,
) -> dict[str, Any]:
    """The result of a trial, which is trained if it is not finished yet.

    Args:
        trial: the trial.
        source: the images.
        folder: the folder with the run folders of all trials.
        judge: a function of the finished run that returns its figures as JSON values.
        options: `checkpoint_every`, `started`, `report` and `stuck` of `train`.

    Returns:
        `trial.tags` and the figures, with the model's name, parameters and operations, the steps,
        the seconds, and the metrics after each epoch as `curve`. For a training that diverged
        `trial.tags`, the model's name, and the reason as `diverged`; it is not repeated either.

    Raises:
        UsageError: the folder holds a trial of this name with other settings or images.
    """
    out = folder / trial.name
    check_trial(trial, source, folder)
    if (out / _RESULT).is_file():
        return _stored(out)["result"]
    has_state = _has_state(out)
    result = {**_about(trial), **trial.tags}
    try:
        run = train(
            trial.model, source, trial.recipe, out, split=trial.split, resume=has_state,
            weights=None if has_state else trial.weights, overwrite=not has_state, **options,
        )  # fmt: skip
    except RefusedError as error:
        result |= {"diverged": str(error)}
    else:
        result |= {**judge(run), **_course(run)}
    settings = _settings(trial, source)
    _files.write_json(out / _RESULT, {"format": FORMAT, "settings": settings, "result": result})
    shutil.rmtree(out / "checkpoints", ignore_errors=True)
    return result


def check_trial(trial: Trial, source: Source, folder: Path) -> None:
    """Checks that the folder holds nothing else under the trial's name; nothing is trained.

    Raises:
        UsageError: see `run_trial`.
    """
    out = folder / trial.name
    if (out / _RESULT).is_file():
        _check_settings(out, trial, source)
    elif _has_state(out):
        _check_images(out, trial, source)


def fixed_budget(recipe: Recipe, examples: int) -> Recipe:
    """`recipe` with its lengths in steps, so that they stay the same on fewer images."""
    counts = {"batch_size": recipe.batch_size, "num_examples": examples}
    steps = total_steps(recipe, **counts)
    warmup = to_steps(recipe.warmup, total_steps=steps, field="warmup", **counts)
    return dataclasses.replace(recipe, duration=f"{steps} steps", warmup=f"{warmup} steps")


def with_seed(recipe: Recipe, model: str, seed: int) -> Recipe:
    """`recipe` for a model and a seed."""
    return dataclasses.replace(adapted(recipe, model), seed=seed)


def _stored(out: Path) -> dict[str, Any]:
    return _files.read_json(out / _RESULT, format=FORMAT, fields=("settings", "result"))


def _has_state(out: Path) -> bool:
    return any((out / "checkpoints").glob("*.npz"))


def _check_settings(out: Path, trial: Trial, source: Source) -> None:
    """Raises a `UsageError` if a finished trial had other settings."""
    before, now = _stored(out)["settings"], _settings(trial, source)
    changed = [name for name in now if now[name] != before.get(name)]
    if changed:
        differences = ", ".join(f"{n}={now[n]!r}, was {before.get(n)!r}" for n in changed)
        raise UsageError(
            f"{out} holds a finished trial with other settings. Received: {differences[:300]}; "
            "choose another folder, or delete this one."
        )


def _check_images(out: Path, trial: Trial, source: Source) -> None:
    """Raises a `UsageError` if an unfinished trial has other images."""
    before = runs.open_run(out).split(source)
    for name in ("train", "held_out"):
        if not np.array_equal(getattr(before, name), getattr(trial.split, name)):
            raise UsageError(
                f"{out} holds an unfinished trial with other {name} images; choose another folder, "
                "or delete this one."
            )


def _settings(trial: Trial, source: Source) -> dict[str, Any]:
    recipe = json.loads(json.dumps(dataclasses.asdict(trial.recipe)))
    images = {"train_images": len(trial.split.train), "held_out_images": len(trial.split.held_out)}
    first = {"data": source.locator, "model": trial.model, "weights": trial.weights}
    return {**first, **images, **recipe}


def _about(trial: Trial) -> dict[str, Any]:
    name = find_variant(trial.model)
    return {"name": trial.name, "model": name, "images": len(trial.split.train)}


def _course(run: runs.Run) -> dict[str, Any]:
    """Steps, seconds and metrics of a run, and what its model costs."""
    records, recipe = run.metrics(), run.recipe["recipe"]
    model = run.model()
    size = as_size(tuple(run.spec["image_size"]))
    flops = sum(forward_flops(model.spec, model.num_classes, size).values())
    return {
        "steps": records[-1]["step"],
        "seconds": _seconds(records),
        "parameters": parameter_count(model.spec, model.num_classes, size),
        "forward_flops": flops,
        "training_flops": 3 * flops * recipe["batch_size"] * records[-1]["step"],
        "curve": records,
    }


def _seconds(records: list[dict[str, Any]]) -> float:
    """The time of all records; their clock starts again when a run is resumed."""
    total = before = 0.0
    for record in records:
        total += record["seconds"] - (before if record["seconds"] >= before else 0.0)
        before = record["seconds"]
    return round(total, 3)
