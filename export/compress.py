"""Fine-tunes a trained run so that its file gets smaller, and exports that: checked, as any export.

Without --run the newest run under runs/ is taken. qat trains for the rounding of a quantised file,
prune makes weights zero, cluster keeps a few distinct values in each kernel; prune+qat and
prune+cluster do one after the other. Only Dense kernels are compressed. Zeros and clusters shrink
what a store delivers, the deflated file; what runs is no smaller and no faster for them.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from typing import Literal

if "keras_vit" not in sys.modules:  # tensorflow-model-optimization works on tf_keras alone
    os.environ["TF_USE_LEGACY_KERAS"] = "1"

from keras_vit import _checks, _command, _files
from keras_vit._errors import RefusedError, UsageError

Method = Literal["qat", "prune", "cluster", "prune+qat", "prune+cluster"]
Quantize = Literal["none", "float16", "dynamic", "int8", "int8-full", "int16x8", "int4"]


@dataclasses.dataclass(frozen=True)
class Arguments:
    run: Path | None = None
    """The run folder; default: the newest under runs/."""
    method: tuple[Method, ...] = ("qat",)
    """One method or several, each from the run's own weights."""
    quantize: Quantize | None = None
    """The files' precision, which qat trains for (int4, dynamic or int8); default: int4 where qat
    is part of the method, none otherwise."""
    duration: str = "20 epochs"
    """Of each fine-tuning, of which prune+... has two: epochs, steps or examples."""
    learning_rate: float | None = None
    """Adam's at the start; default: a third of the run's, or 3e-5 where SGD trained it."""
    sparsity: float = 0.5
    """Share of each Dense kernel that pruning makes zero."""
    pattern: Literal["2:4"] | None = None
    """Instead: two zeros among any four inputs in a row."""
    clusters: int = 16
    """Distinct values that clustering leaves in each Dense kernel."""
    max_drop: float = 1.0
    """Points of accuracy that a file may lose from the run's model; over that, exit code 3."""
    out: Path | None = None
    """Where the bundles go, a folder for each; default: compressed/ in the run folder."""
    images: int = 500
    """At most this many held-out images are compared, evenly chosen."""
    calibrate: int = 32
    """At most this many training images measure ranges, evenly chosen."""
    threads: int = 2
    """Of the interpreter, when latency is measured."""
    data: Path | None = None
    """Where the run's pictures are, if not where they were."""

    def __post_init__(self):
        for field in ("images", "calibrate", "threads"):
            _checks.positive_integer(field, getattr(self, field))
        for field in ("max_drop", "learning_rate"):
            if getattr(self, field) is not None:
                _checks.not_negative(field, getattr(self, field))
        if not self.method:
            raise UsageError("method needs at least one of qat, prune, cluster.")
        stages = {stage for method in self.method for stage in method.split("+")}
        for field, stage in (("sparsity", "prune"), ("pattern", "prune"), ("clusters", "cluster")):
            if getattr(self, field) != getattr(Arguments, field) and stage not in stages:
                raise UsageError(
                    f"{field} is for {stage}. Received: method={' '.join(self.method)}."
                )


def main(arguments: Arguments) -> None:
    from keras_vit.deploy import compression, subject

    wanted = [_wanted(method, arguments) for method in dict.fromkeys(arguments.method)]
    given = subject.of_run(arguments.run, arguments.data)
    out = arguments.out or given.folder / "compressed"
    print(f"compressing {given.folder} ({given.name}, {len(given.labels)} classes)", flush=True)
    record = compression.compress_bundles(
        given,
        wanted,
        _fine_tuning(given, arguments),
        out,
        arguments.max_drop,
        arguments.images,
        arguments.calibrate,
        arguments.threads,
        say=lambda line: print(f"  {line}", flush=True),
    )
    _files.write_json(out / "table.json", record)
    print(f"\n{_table(record['rows'])}\n\nbundles: {out}")
    if record["refused"]:
        raise RefusedError("\n".join(f"{name}: {why}" for name, why in record["refused"].items()))


def _wanted(method, arguments):
    from keras_vit.deploy.compression import Compression

    quantize = arguments.quantize or ("int4" if "qat" in method else "none")
    return Compression(method, quantize, arguments.sparsity, arguments.pattern, arguments.clusters)


def _fine_tuning(given, arguments):
    from keras_vit import runs
    from keras_vit.deploy.compression import FineTuning
    from keras_vit.training.durations import to_steps

    recipe = runs.open_run(given.folder).recipe["recipe"]
    counts = {"batch_size": recipe["batch_size"], "num_examples": len(given.training)}
    steps = to_steps(arguments.duration, **counts)
    if steps < 1:
        raise UsageError(f"duration={arguments.duration!r} is less than one step of training.")
    usual = recipe["learning_rate"] / 3 if recipe["optimizer"] == "adamw" else 3e-5
    return FineTuning(
        given.source,
        given.training,
        given.preprocessing,
        steps,
        recipe["batch_size"],
        usual if arguments.learning_rate is None else arguments.learning_rate,
        recipe["augment"],
        recipe["label_smoothing"],
        recipe["seed"],
        recipe.get("jit", True),
        report=lambda step, loss, accuracy: print(
            f"    step {step}/{steps}: loss {loss:.3f}, accuracy {accuracy:.1%}", flush=True
        ),
    )


def _table(rows: list[dict]) -> str:
    header = ["file", "accuracy", "Keras", "KiB", "deflated", "ratio", "zeros", "values", "latency"]
    return _command.table(
        header,
        [
            [
                row["name"],
                f"{row['accuracy']:.2%}",
                f"{row['keras_accuracy']:.2%}",
                f"{row['bytes'] / 1024:,.0f}",
                f"{row['deflated'] / 1024:,.0f}",
                f"{row['deflated_ratio']:.3f}",
                f"{row['compression']['sparsity']:.1%}",
                f"{row['compression']['distinct']}",
                f"{row['compression']['latency_ratio']:.2f}",
            ]
            for row in rows
        ],
    )


if __name__ == "__main__":
    _command.run(main, Arguments)
