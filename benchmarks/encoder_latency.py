"""Times the encoders of docs/which-encoder.md on this machine's CPU, at their usual sizes.

The weights are random and change no time. Each encoder is exported without a head, and all files
are timed in turn.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Literal

import contenders
import numpy as np

import keras_vit
from keras_vit import _checks, deploy
from keras_vit._quiet import own_process
from keras_vit.cli._arguments import option
from keras_vit.cli._printing import table
from keras_vit.cli._program import run
from keras_vit.deploy.graph.graph_options import GraphOptions
from keras_vit.deploy.resolve import resolve
from keras_vit.tflite.runner import Runner

# Names of variants and pixels. DeiT and DeiT III have the graphs of ViTs.
ENCODERS = (
    *(("ViT-Ti_16", 224), ("ViT-S_32", 224), ("ViT-S_16", 224), ("ViT-B_32", 224)),
    *(("ViT-B_16", 224), ("DINOv2-S_14", 224), ("DINOv2-S_14-reg4", 224), ("DINOv2-B_14", 224)),
    *(("DINOv3-S_16", 224), ("DINOv3-S_16-plus", 224), ("DINOv3-B_16", 224)),
    *(("EVA02-Ti_14", 336), ("EVA02-S_14", 336), ("CLIP-B_32", 224), ("CLIP-B_16", 224)),
    *(("SigLIP-B_32", 256), ("SigLIP-B_16", 224)),
)
PRECISIONS = ("none", "int8")


@dataclasses.dataclass(frozen=True)
class Arguments:
    encoders: tuple[str, ...] = ()
    """Parts of names in the printed table; default: all."""
    rounds: int = option(20, check=_checks.positive_integer)
    """How often each file is timed, each time after a warm-up run."""
    threads: Literal[1, 2, 4, 8] = 1
    """Number of threads of LiteRT."""


def main(arguments: Arguments) -> None:
    own_process()
    parts, rows = arguments.encoders, []
    calls = {}
    for name, size in ENCODERS:
        if parts and not any(part in name for part in parts):
            continue
        print(f"  {name}", flush=True)
        model = keras_vit.create_model(name, 0, size)
        files = _files(model)
        image = np.zeros((1, size, size, 3), np.float32)
        for precision, content in files.items():
            runner = Runner(content, arguments.threads)
            calls[name, precision] = functools.partial(runner, image)
        mib = f"{len(files['int8']) / 2**20:.0f}"
        rows.append([name, str(size), f"{model.count_params() / 1e6:.1f}", mib])
    times = contenders.in_turn(calls, arguments.rounds)
    median = {key: f"{1e3 * np.median(seconds):.0f}" for key, seconds in times.items()}
    header = ["encoder", "pixels", "million", "MiB in int8", "ms in float32", "ms in int8"]
    print(table(header, [[*row, *(median[row[0], each] for each in PRECISIONS)] for row in rows]))


def _files(model: Any) -> dict[str, bytes]:
    """The TFLite files of an encoder by precision."""
    pixels = np.random.default_rng(0).integers(0, 256, (4, 16, 16, 3), np.uint8)
    images = keras_vit.preprocess(list(pixels), model)
    resolved = resolve(model, GraphOptions(output="features"))
    converter = deploy.Converter(resolved, PRECISIONS, images)
    return {name: converter.made(name).content for name in PRECISIONS}


if __name__ == "__main__":
    run(main, Arguments)
