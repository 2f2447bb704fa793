"""Trains a model on images and writes a run folder.

Without --recipe, the recipe is digits for the data of this name, finetune with --weights, and
scratch otherwise. Each of its settings can also be given as an option.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_vit.cli._fields import option
from keras_vit.cli._options import check_model, check_weights
from keras_vit.cli._printing import class_table, print_skipped, warn
from keras_vit.cli._program import load
from keras_vit.training.recipes import PRESETS, RECIPES, Recipe, default_recipe


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Options of the command."""

    data: str = "digits"
    """'digits' (scikit-learn's, no download), or a folder with one subfolder for
    each class."""
    model: str = option(PRESETS["scratch"].model, check=check_model)
    """The model to train, such as ViT_S16 or BiT_R50x1; an unknown name lists all."""
    out: Path | None = None
    """The run folder; default: runs/ and the name of the data."""
    recipe: str = option("scratch", choices=PRESETS)
    """The values of the settings below; each of them can be changed by its own option."""
    weights: str | None = None
    """Weights to begin with instead of random ones: a file in any layout, a URL, or a published
    name such as imagenet21k or augreg."""
    overwrite: bool = False
    """Replace the run in --out."""
    strict: bool = False
    """Stop if a picture cannot be read, instead of skipping it."""
    tensorboard: bool = False
    """Also write TensorBoard's event files into the run folder."""
    settings: Recipe = RECIPES["scratch"]

    def __post_init__(self):
        check_weights(self.weights, self.model, run_instead="{}/weights.npz")


def defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """The recipe, its settings and its model, where they are not given."""
    data, weights = given.get("data", Arguments.data), given.get("weights")
    recipe = given.get("recipe") or default_recipe(data, weights)
    preset = PRESETS[recipe]
    return {"recipe": recipe, "settings": preset.recipe, "model": preset.model}


def run(arguments: Arguments) -> None:
    """Trains, and prints the classes, the progress and the accuracy."""
    load("tensorflow", "sklearn.metrics")
    from keras_vit import data, evaluation, training

    folder = data.source_folder(arguments.data)
    out = arguments.out or Path("runs") / (folder.resolve().name if folder else arguments.data)
    options = {
        "weights": arguments.weights,
        "overwrite": arguments.overwrite,
        "tensorboard": arguments.tensorboard,
    }
    training.check_settings(arguments.data, arguments.settings, arguments.model, out, **options)
    print(f"reading {arguments.data}", flush=True)
    source = data.open_source(arguments.data, arguments.strict)
    print_skipped(data.skipped_summary(source))
    print(f"{len(source)} images of {len(source.labels)} classes:")
    counts = list(source.counts.values())
    print(class_table(source.labels, counts), flush=True)
    if arguments.settings.class_weights == "none":
        warn(training.imbalance_warning(source.labels, counts))
    print(f"training {arguments.model}, {arguments.settings.duration}, to {out}", flush=True)
    run = _train(source, arguments, out, options)
    report = evaluation.held_out_report(run, source)
    warn(evaluation.recall_warning(report, arguments.settings.class_weights))
    steps = run.metrics()[-1]["step"]
    print(f"held-out accuracy {report.accuracy:.2%} after {steps} steps: {run.path}")


def _train(source: Any, arguments: Arguments, out: Path, options: dict) -> Any:
    from keras_vit import training

    verbose, start = 1 if sys.stdout.isatty() else 2, time.time()
    try:
        return training.train(
            source, arguments.settings, arguments.model, out, **options, verbose=verbose
        )
    except KeyboardInterrupt:
        weights = out / "weights.npz"
        if weights.is_file() and weights.stat().st_mtime >= start:
            raise KeyboardInterrupt(f"{out} holds the weights so far") from None
        raise
