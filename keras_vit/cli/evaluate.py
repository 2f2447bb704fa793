"""Evaluates a run on its held-out images; writes a report.

Without --run the newest run under runs/ is evaluated. The report is a folder in the run: figures
and a page to look at. --split test takes the test images that the data declares instead.
"""

from __future__ import annotations

import dataclasses

from keras_vit import _checks
from keras_vit._errors import RefusedError
from keras_vit.cli._fields import option
from keras_vit.cli._options import RunOptions, newest_run
from keras_vit.cli._printing import table, warn
from keras_vit.cli._program import load, spelled

SPLITS = ("held_out", "validation", "test")


@dataclasses.dataclass(frozen=True)
class Arguments(RunOptions):
    """Options of the command."""

    split: str = option("held_out", choices=SPLITS)
    """The images: those that training held out, or a split that the data declares and that training
    did not use."""
    average: bool = False
    """Judge the average of the weights of a run that was trained with --ema, instead of its last
    weights."""
    batch_size: int = option(64, check=_checks.positive_integer)
    """Number of images that the model computes at a time."""
    min_accuracy: float = option(0.0, check=_checks.probability)
    """Exit with code 3 if the accuracy is lower than this; from 0 to 1."""


def run(arguments: Arguments) -> None:
    """Evaluates and prints a table of the classes."""
    load("tensorflow", "sklearn.metrics", "matplotlib.figure")
    from keras_vit import evaluation, runs

    run = runs.open_run(arguments.run or newest_run())
    print(f"{'run' if arguments.run else 'newest run'} {run}\n", flush=True)
    if run.is_being_trained:
        warn(f"{run.path} is still being trained; these are its newest weights.")
    report, page = evaluation.evaluate(
        run, arguments.batch_size, arguments.data, arguments.split, arguments.average
    )
    names = ("precision", "recall", "f1")
    rows = [
        [c["label"], *(f"{c[name]:.4f}" for name in names), str(c["support"])]
        for c in report.classes
    ]
    rows.append(["macro mean", *(f"{report.macro[name]:.4f}" for name in names), ""])
    print(table(["class", *names, "images"], rows))
    warning = evaluation.recall_warning(report, run.may_weight_classes)
    if warning:
        fit = f"{spelled('fit')} --class-weights balanced"
        warn(warning.replace("class_weights='balanced'", fit))
    print(f"\n{report.headline}; report: {page}")
    if run.has_average and not arguments.average:
        print("the run also has an average of its weights, which --average judges")
    if report.accuracy < arguments.min_accuracy:
        raise RefusedError(
            f"expected a {report.kind} accuracy of {arguments.min_accuracy:.2%} or more. "
            f"Received: {report.accuracy:.2%}."
        )
