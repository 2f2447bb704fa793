"""Trains a Vision Transformer on images and writes a run folder.

The recipe is chosen by --recipe, or by what is asked for: digits for the digits, finetune where
--weights are given, otherwise scratch. Every setting of it can be given on its own.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import Literal

from keras_vit import _command
from keras_vit.training.recipes import PRESETS, RECIPES, Recipe, default_recipe


@dataclasses.dataclass(frozen=True)
class Arguments:
    data: str = "digits"
    """'digits' (scikit-learn's, no download), or a folder with one subfolder a class."""
    model: str = "ViT_Ti16"
    """A name of keras_vit.list_models()."""
    out: Path | None = None
    """The run folder; default: runs/ and the name of the data."""
    recipe: Literal[tuple(RECIPES)] = "scratch"
    """The settings below that are not given on their own come from here."""
    settings: Recipe = RECIPES["scratch"]
    weights: str | None = None
    """What to start from: a file of weights in any layout, a URL, or a published name such as
    imagenet21k or augreg."""
    overwrite: bool = False
    """Replace the run that --out holds."""
    strict: bool = False
    """Stop where pictures cannot be read instead of skipping them."""
    tensorboard: bool = False
    """Also write TensorBoard's event files into the run folder."""


def main(arguments: Arguments) -> None:
    from keras_vit import data, evaluation, training

    folder = data.source_folder(arguments.data)
    out = arguments.out or Path("runs") / (folder.resolve().name if folder else arguments.data)
    options = (arguments.weights, arguments.overwrite, arguments.tensorboard)
    training.check_settings(arguments.data, arguments.settings, arguments.model, out, *options)
    print(f"reading {arguments.data}", flush=True)
    source = data.open_source(arguments.data, arguments.strict)
    for line in data.skipped_summary(source):
        print(f"skipped {line}", file=sys.stderr)
    print(f"{len(source)} images of {len(source.labels)} classes:")
    counts = list(source.counts.values())
    print(_command.class_table(source.labels, counts), flush=True)
    if arguments.settings.class_weights == "none":
        _command.warn(training.imbalance_warning(source.labels, counts))
    print(f"training {arguments.model}, {arguments.settings.duration}, to {out}", flush=True)
    verbose = 1 if sys.stdout.isatty() else 2
    run = training.train(
        source, arguments.settings, arguments.model, out, *options, verbose=verbose
    )
    report = evaluation.held_out_report(run, source)
    _command.warn(evaluation.recall_warning(report, arguments.settings.class_weights))
    steps = run.metrics()[-1]["step"]
    print(f"held-out accuracy {report.accuracy:.2%} after {steps} steps: {run.path}")


def _defaults(line: list[str]) -> Arguments:
    # The recipe decides the other defaults, so it is looked for before the line is read whole.
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name in ("--data", "--weights", "--recipe"):
        parser.add_argument(name)
    try:
        given = parser.parse_known_args(line)[0]
    except argparse.ArgumentError:
        return Arguments()  # the full reading says what is wrong
    recipe = given.recipe or default_recipe(given.data or Arguments.data, given.weights)
    if recipe not in PRESETS:
        return Arguments()
    preset = PRESETS[recipe]
    return Arguments(model=preset.model, recipe=recipe, settings=preset.recipe)


if __name__ == "__main__":
    _command.run(main, Arguments, _defaults(sys.argv[1:]))
