"""Evaluates a run on its held-out images and writes its report: figures and a page to look at.

Without --run the newest run under runs/ is evaluated.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from keras_vit import _checks, _command
from keras_vit._errors import RefusedError


@dataclasses.dataclass(frozen=True)
class Arguments:
    run: Path | None = None
    """The run folder; default: the newest under runs/."""
    batch_size: int = 64
    """Images at a time."""
    min_accuracy: float = 0.0
    """Exit with 3 where the held-out accuracy is lower, for scripts; between 0 and 1."""
    data: Path | None = None
    """Where the run's pictures are, if not where they were."""

    def __post_init__(self):
        _checks.positive_integer("batch_size", self.batch_size)
        _checks.fraction("min_accuracy", self.min_accuracy)


def main(arguments: Arguments) -> None:
    from keras_vit import evaluation, runs

    run = runs.open_run(arguments.run or runs.newest_run())
    print(f"{'run' if arguments.run else 'newest run'} {run}\n", flush=True)
    report, page = evaluation.evaluate(run, arguments.batch_size, arguments.data)
    names = ("precision", "recall", "f1")
    rows = [
        [c["label"], *(f"{c[name]:.4f}" for name in names), str(c["support"])]
        for c in report.classes
    ]
    rows.append(["macro mean", *(f"{report.macro[name]:.4f}" for name in names), ""])
    print(_command.table(["class", *names, "images"], rows))
    _command.warn(
        evaluation.recall_warning(report, run.recipe["recipe"].get("class_weights", "none"))
    )
    print(f"\nheld-out accuracy {report.accuracy:.2%}; report: {page}")
    if report.accuracy < arguments.min_accuracy:
        raise RefusedError(
            f"expected a held-out accuracy of {arguments.min_accuracy:.2%} or more. "
            f"Received: {report.accuracy:.2%}."
        )


if __name__ == "__main__":
    _command.run(main, Arguments)
