"""Exports a model to TFLite bundles, each run and compared with Keras before it gets its name.

Without --run or --weights the newest run under runs/ is exported. A bundle holds model.tflite,
model.json, labels.txt and golden.json. A file over its budget is not written: exit code 3.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any, Literal

from keras_vit import _checks
from keras_vit._errors import RefusedError
from keras_vit.cli._arguments import option
from keras_vit.cli._options import MeasuringOptions, ModelOptions
from keras_vit.cli._printing import print_skipped, table
from keras_vit.cli._program import load
from keras_vit.deploy.precisions import PRECISIONS


@dataclasses.dataclass(frozen=True)
class Arguments(MeasuringOptions, ModelOptions):
    """Options of the command."""

    quantize: tuple[str, ...] = option(
        ("none",),
        choices=PRECISIONS,
        help="One precision or several. "
        + " ".join(f"{name}: {precision.help}." for name, precision in PRECISIONS.items()),
    )
    recipe: Path | None = None
    """A recipe.json that auto wrote: the same layers stay float, and nothing is searched."""
    input: Literal["float32", "uint8"] = "float32"
    """What the file takes: preprocessed values, or RGB pixels of the right size."""
    output: Literal["logits", "probabilities", "features"] = "logits"
    """What the file gives; features are what the head reads."""
    min_runtime: str | None = None
    """The oldest runtime that must run the files: 2.16.1 of TFLite, 'LiteRT 2.1'. Default: any."""
    max_drop: float | None = option(None, check=_checks.not_negative)
    """Points of accuracy that a quantised file may lose from Keras' own; default: 0.5, of int4
    1.5."""


def run(arguments: Arguments) -> None:
    """Exports, and prints what was measured."""
    # Before TensorFlow starts: oneDNN's allocator keeps what a model has freed, and the converter
    # needs the room.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    load("tensorflow", "ai_edge_litert.interpreter", "ai_edge_quantizer")
    from keras_vit import deploy
    from keras_vit.data import skipped_summary

    subject = arguments.open()
    out = arguments.out or subject.folder / "export"
    print_skipped(skipped_summary(subject.source) if subject.source else ())
    height, width = subject.model.image_size
    print(f"from      {subject.folder or arguments.weights}")
    print(
        f"exporting {subject.name}, {height} x {width}, {len(subject.labels)} classes", flush=True
    )
    written, refused = _export(subject, arguments, out)
    if written:
        print("  measuring: latency in turn, memory and load time on their own", flush=True)
        files = {name: out / name / "model.tflite" for name in written}
        measured = deploy.measure(files, sorted(set(arguments.threads)))
        deploy.write_report(out, written, measured, refused)
        print(f"\n{table(*deploy.table(written, measured))}\n")
        for line in deploy.notes(written):
            print(line)
        print(f"bundles: {', '.join(str(out / name) for name in written)}")
        print(f"card:    {out / 'card.md'}")
    if refused:
        raise RefusedError("\n".join(f"{name}: {why}" for name, why in refused.items()))


def _export(subject: Any, arguments: Arguments, out: Path) -> tuple[dict, dict]:
    """What was written and what was refused, by precision."""
    from keras_vit.deploy import bundles
    from keras_vit.deploy.graph.inference import GraphOptions

    return bundles.export_bundles(
        subject,
        arguments.quantize,
        out,
        GraphOptions(arguments.input, arguments.output),
        bundles.Demands(
            arguments.max_drop, arguments.min_runtime, arguments.images, arguments.calibrate
        ),
        arguments.recipe,
        say=lambda line: print(f"  {line}", flush=True),
    )
