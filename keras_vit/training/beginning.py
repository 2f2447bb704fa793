"""Where a training begins: a new run, or one that goes on."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import platform
from typing import Any

from keras_vit import runs
from keras_vit._keras import backend, keras_flavour
from keras_vit.data import Source, Split, split_source
from keras_vit.models.image_model import ImageModel
from keras_vit.recipe import Recipe
from keras_vit.training.building import build
from keras_vit.training.prepared import Prepared
from keras_vit.training.resuming import chosen_before, stopped_run, teacher_described
from keras_vit.training.run_options import Saving


@dataclasses.dataclass(frozen=True)
class Beginning:
    """What a training begins with.

    Attributes:
        model: the model, with the weights of the last evaluation if a run goes on.
        split: the images for training and those that are held out.
        recipe: the settings, with what was chosen for the machine where the run began.
        saving: where it is saved, with what the run was saved with.
        weights: the initial weights of the run.
        run: the run that goes on; None for a new one.
    """

    model: ImageModel
    split: Split
    recipe: Recipe
    saving: Saving
    weights: str | os.PathLike | None
    run: runs.Run | None = None

    def epochs(self, step: int) -> list[dict[str, Any]]:
        """The metrics of the epochs up to a step of the run that goes on; [] for a new run."""
        metrics = [] if self.run is None else self.run.metrics()
        return [record for record in metrics if record["step"] <= step]


def begin(
    model: ImageModel | str,
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
            recipe = chosen_before(run, recipe)
            return Beginning(model, run.split(source), recipe, saving, weights, run)
    split = split.checked(len(source)) if split else split_source(source, recipe.held_out)
    model = model if is_built else build(model, source.labels, recipe, weights)
    return Beginning(model, split, recipe, saving, weights)


def write_beginning(begun: Beginning, ready: Prepared, teacher: ImageModel | None) -> None:
    """Writes the folder of a new run, or takes the one that goes on back to its first step."""
    saving, settings = begun.saving, dataclasses.asdict(ready.recipe)
    if begun.run is not None:
        runs.rewind(begun.run, ready.plan.first_step, settings)
        return
    content = {
        "model": begun.model.name,
        "recipe": settings,
        "weights": None if begun.weights is None else str(begun.weights),
        "teacher": None if teacher is None else teacher_described(teacher),
        "versions": versions(),
        "checkpoint_every": saving.checkpoint_every,
        "keep_checkpoints": saving.keep,
        "preset": saving.preset,
    }
    origin = "fresh" if begun.weights is None else os.path.basename(begun.weights)
    runs.create_run(
        saving.path, begun.model, ready.source, begun.split, content, origin,
        overwrite=saving.overwrite,
    )  # fmt: skip


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
