"""Exports a model to TFLite bundles, each run and compared with Keras before it gets its name.

Without --run or --weights the newest run under runs/ is exported. A bundle holds model.tflite,
model.json, labels.txt and golden.json. A file over its budget is not written: exit code 3.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from typing import Literal

# Before TensorFlow starts: oneDNN's allocator keeps what a model has freed, and the converter needs
# the room.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

from keras_vit import _checks, _command
from keras_vit._errors import RefusedError, UsageError

Quantize = Literal["none", "float16", "dynamic", "int8", "int8-full", "int16x8", "int4", "auto"]


@dataclasses.dataclass(frozen=True)
class Arguments:
    run: Path | None = None
    """The run folder; default: the newest under runs/."""
    weights: str | None = None
    """Instead of a run: a file of weights in any layout, a URL, or, with --model, a published name
    such as augreg."""
    model: str | None = None
    """What --weights are of, a name of keras_vit.list_models(); default: the file tells."""
    quantize: tuple[Quantize, ...] = ("none",)
    """One precision or several. none: float32. dynamic: int8 weights, activations quantised while
    it runs (runtime 2.17). int8: Dense layers and convolutions with measured ranges. int8-full and
    int16x8: integers throughout, for microcontrollers and NPUs. int4: Dense kernels in blocks of
    32. auto: int8 with as few layers float as --max-drop needs."""
    representative: str | None = None
    """Pictures to measure ranges and to compare on, with --weights: 'digits', or a folder with one
    subfolder a class. A run has its own."""
    data: Path | None = None
    """Where the run's pictures are, if not where they were."""
    recipe: Path | None = None
    """A recipe.json that auto wrote: the same layers stay float, and nothing is searched."""
    input: Literal["float32", "uint8"] = "float32"
    """What the file takes: preprocessed values, or RGB pixels of the right size."""
    output: Literal["logits", "probabilities", "features"] = "logits"
    """What the file gives; features are what the head reads."""
    image_size: tuple[int, ...] | None = None
    """One number or height and width, in pixels; positions are resampled. Default: the model's."""
    min_runtime: str | None = None
    """The oldest runtime that must run the files: 2.16.1 of TFLite, 'LiteRT 2.1'. Default: any."""
    max_drop: float | None = None
    """Points of accuracy that a quantised file may lose; default: 0.5, of int4 1.5."""
    out: Path | None = None
    """Where the bundles go, a folder for each precision; default: export/ in the run folder."""
    images: int = 500
    """At most this many are compared: a run's held-out images. auto chooses on as many others."""
    calibrate: int = 32
    """At most this many other images measure ranges: a run's training ones."""
    threads: tuple[int, ...] = (1, 2)
    """Of the interpreter, when latency is measured; one number or several."""

    def __post_init__(self):
        for field in ("images", "calibrate"):
            _checks.positive_integer(field, getattr(self, field))
        for threads in self.threads:
            _checks.positive_integer("threads", threads)
        for side in self.image_size or ():
            _checks.positive_integer("image_size", side)
        if self.image_size is not None and not 1 <= len(self.image_size) <= 2:
            raise UsageError(f"image_size must be one number or two. Received: {self.image_size}.")
        if not self.quantize or not self.threads:
            raise UsageError("quantize needs at least one precision, threads at least one number.")
        if self.max_drop is not None and not _checks.number("max_drop", self.max_drop) >= 0:
            raise UsageError(f"max_drop must not be negative. Received: {self.max_drop}.")
        if self.weights is None and (self.model or self.representative):
            raise UsageError("--model and --representative go with --weights; a run has its own.")
        if self.weights is not None and self.run is not None:
            raise UsageError("expected --run or --weights. Received: both.")
        if self.weights is not None and self.data is not None:
            raise UsageError("--data is where a run's pictures are; weights take --representative.")
        if self.weights is not None and self.out is None:
            raise UsageError("--weights need --out, the folder for the bundles.")


def main(arguments: Arguments) -> None:
    from keras_vit import deploy
    from keras_vit.data import skipped_summary
    from keras_vit.deploy import subject

    size = arguments.image_size and (arguments.image_size * 2)[:2]
    if arguments.weights is None:
        given = subject.of_run(arguments.run, arguments.data, size)
    else:
        given = subject.of_weights(
            arguments.weights, arguments.model, arguments.representative, size
        )
    out = arguments.out or given.folder / "export"
    for line in skipped_summary(given.source) if given.source else ():
        print(f"skipped {line}", file=sys.stderr)
    height, width = given.model.image_size
    print(f"from      {given.folder or arguments.weights}")
    print(f"exporting {given.name}, {height} x {width}, {len(given.labels)} classes", flush=True)
    exports = deploy.export_bundles(
        given,
        out,
        arguments.quantize,
        max_images=arguments.images,
        input=arguments.input,
        output=arguments.output,
        max_drop=arguments.max_drop,
        min_runtime=arguments.min_runtime,
        recipe=arguments.recipe,
        calibrate=arguments.calibrate,
        threads=arguments.threads,
        say=lambda line: print(f"  {line}", flush=True),
    )
    written, refused = exports.written, exports.refused
    if written:
        print(f"\n{_command.table(*deploy.table(written, exports.measured))}\n")
        for line in deploy.notes(written):
            print(line)
        print(f"bundles: {', '.join(str(out / name) for name in written)}")
        print(f"card:    {out / 'card.md'}")
    if refused:
        raise RefusedError("\n".join(f"{name}: {why}" for name, why in refused.items()))


if __name__ == "__main__":
    _command.run(main, Arguments)
