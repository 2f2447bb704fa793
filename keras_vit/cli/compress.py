"""Fine-tunes a run so that its TFLite file gets smaller.

Without --run the newest run under runs/ is compressed. qat trains the model for the rounding of a
quantised file, prune sets weights to zero, cluster leaves a few distinct values in each kernel;
prune+qat and prune+cluster do one after the other. Only Dense kernels are compressed. Zeros and
clusters make the download smaller (the deflated file); in memory the model is no smaller and no
faster. The files are compared with Keras as in every export.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from typing import Any

from keras_vit import _checks, deploy
from keras_vit._errors import RefusedError, UsageError
from keras_vit.cli._arguments import option
from keras_vit.cli._options import MeasuringOptions, RunOptions, check_folder, check_threads
from keras_vit.cli._printing import print_next, table
from keras_vit.cli._program import load
from keras_vit.deploy import compression
from keras_vit.deploy.compression.methods import METHODS, PATTERNS, Compression
from keras_vit.deploy.precisions import PRECISIONS

_PRECISIONS = [name for name, precision in PRECISIONS.items() if precision.base is None]
# Of the table: the fields of a row of table.json and of its compression, and sizes in KiB.
_COLUMNS = {
    "file": "{name}",
    "accuracy": "{accuracy:.2%}",
    "Keras": "{keras_accuracy:.2%}",
    "KiB": "{kib:,.0f}",
    "deflated": "{deflated_kib:,.0f}",
    "ratio": "{deflated_ratio:.3f}",
    "zeros": "{sparsity:.1%}",
    "values": "{distinct}",
    "latency": "{latency_ratio:.2f}",
}


@dataclasses.dataclass(frozen=True)
class _MethodOptions:
    """Options of their own class, so that the help shows them before those for measurements."""

    method: tuple[str, ...] = option(("qat",), choices=METHODS)
    """One method or several, each from the run's own weights."""
    quantize: str | None = option(None, choices=_PRECISIONS)
    """The precision of the files; qat trains for it (int4, dynamic or int8). Default: int4 if qat
    is part of the method, none otherwise."""


@dataclasses.dataclass(frozen=True)
class Arguments(MeasuringOptions, _MethodOptions, RunOptions):
    """Options of the command."""

    duration: str = "20 epochs"
    """Length of each fine-tuning: '20 epochs', '500 steps' or '1e6 examples'; prune+qat and
    prune+cluster have two."""
    learning_rate: float | None = option(None, check=_checks.not_negative)
    """Adam's first learning rate; default: a third of the run's, or 3e-5 if SGD trained it."""
    sparsity: float = 0.5
    """Fraction of each Dense kernel that pruning makes zero."""
    pattern: str | None = option(None, choices=PATTERNS)
    """Instead of --sparsity: two zeros among any four inputs in a row. Default: none."""
    clusters: int = 16
    """Distinct values that clustering leaves in each Dense kernel."""
    max_drop: float = option(1.0, check=_checks.not_negative)
    """Points of accuracy that a file may lose, compared with the run's model. The default is
    higher than that of an export because compression changes the weights themselves."""
    threads: tuple[int, ...] = option((2,), check=check_threads)
    """Threads of the interpreter when latency is compared; the largest of several numbers."""
    out: Path | None = None
    """The folder to write, with a folder for each bundle; default: compressed/ in the run
    folder."""

    def __post_init__(self):
        # This imports NumPy, which --help does not need.
        from keras_vit.training.plan import to_steps

        super().__post_init__()
        to_steps(self.duration, batch_size=1, num_examples=1)
        stages = {stage for method in self.method for stage in METHODS[method]}
        for field, stage in (("sparsity", "prune"), ("pattern", "prune"), ("clusters", "cluster")):
            if getattr(self, field) != getattr(Arguments, field) and stage not in stages:
                raise UsageError(
                    f"--{field} needs a method with {stage}. "
                    f"Received: --method {' '.join(self.method)}."
                )
        check_folder(self.out, "export")
        self.compressions()

    def compressions(self) -> list[Compression]:
        """The compressions, one for each method."""
        settings = self.sparsity, self.pattern, self.clusters
        return [
            Compression(
                method, self.quantize or ("int4" if "qat" in METHODS[method] else "none"), *settings
            )
            for method in dict.fromkeys(self.method)
        ]


def run(arguments: Arguments) -> None:
    """Compresses, and prints a table of sizes and accuracies."""
    if "keras_vit._keras" not in sys.modules:  # tensorflow-model-optimization needs tf_keras
        os.environ["TF_USE_LEGACY_KERAS"] = "1"
    load("tensorflow", "tf_keras", "ai_edge_litert.interpreter", "ai_edge_quantizer")
    from keras_vit import runs

    load("tensorflow_model_optimization")
    run = arguments.run or runs.newest_run()
    if runs.open_run(run).loss != "softmax":
        raise UsageError(f"{run} was trained with the sigmoid loss, compress trains with softmax.")
    trained = deploy.of_run(run, arguments.data)
    out = arguments.out or trained.folder / "compressed"
    of = f"{trained.name}, {len(trained.labels)} classes"
    print(f"compressing {trained.folder} ({of})")
    record = compression.compress_bundles(
        trained,
        arguments.compressions(),
        _fine_tuning(trained, arguments),
        out,
        max_drop=arguments.max_drop,
        images=arguments.images,
        calibrate=arguments.calibrate,
        threads=max(arguments.threads),
        say=lambda line: print(f"  {line}"),
    )
    print(f"\n{_table(record['rows'])}\n\nbundles: {out}")
    written = [row for row in record["rows"] if row["compression"]["settings"]]
    if written:
        smallest = min(written, key=lambda row: row["deflated"])
        print_next("run", "--bundle", out / smallest["name"], "--verify")
    if record["refused"]:
        raise RefusedError("\n".join(f"{name}: {why}" for name, why in record["refused"].items()))


def _fine_tuning(trained: Any, arguments: Arguments) -> Any:
    from keras_vit import runs
    from keras_vit.training.plan import to_steps

    steps = to_steps(
        arguments.duration,
        batch_size=runs.open_run(trained.folder).setting("batch_size"),
        num_examples=len(trained.training),
    )
    if steps < 1:
        raise UsageError(f"--duration {arguments.duration!r} is less than one step of training.")
    return compression.fine_tuning_of(
        trained,
        steps,
        arguments.learning_rate,
        report=lambda step, loss, accuracy: print(
            f"    step {step}/{steps}: loss {loss:.3f}, accuracy {accuracy:.1%}"
        ),
    )


def _table(rows: list[dict]) -> str:
    def cells(row: dict) -> list[str]:
        sizes = {"kib": row["bytes"] / 1024, "deflated_kib": row["deflated"] / 1024}
        return [text.format(**row, **row["compression"], **sizes) for text in _COLUMNS.values()]

    return table(list(_COLUMNS), list(map(cells, rows)))
