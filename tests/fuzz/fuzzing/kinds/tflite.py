"""`.tflite` files through our reader of flatbuffers and all that asks it; they are not run."""

from __future__ import annotations

import random
from pathlib import Path

from fuzzing.kind import Files
from fuzzing.kinds._reading import each_of, in_one_file
from fuzzing.kinds.bundle import _ASSETS
from fuzzing.mutations import tflite
from keras_vit.tflite.flatbuffer import check_static, operators, read_graph
from keras_vit.tflite.gpu_compatibility import lint
from keras_vit.tflite.runtimes import check_runtime, runtime_floor, versions

MEMORY = 64 << 20  # the objects of a list of 65,536 entries


def seeds(home: Path) -> list[Files]:
    whole = [(_ASSETS.with_name(name) / "model.tflite").read_bytes() for name in
             ("digits-int8", "digits-float16")]  # fmt: skip
    return [{"model.tflite": content} for content in (*map(_without_weights, whole * 4), *whole)]


def mutate(rng: random.Random, files: Files) -> Files:
    return in_one_file(rng, files, {".tflite": tflite.mutated})


def read(folder: Path, home: Path) -> None:
    graph = read_graph(folder / "model.tflite")
    each_of(
        lambda: operators(graph), lambda: versions(graph), lambda: runtime_floor(graph),
        lambda: check_static(graph), lambda: lint(graph), lambda: check_runtime(graph, "2.10.0"),
        lambda: [graph.layer(operator) for operator in graph.operators],
        lambda: (graph.producers, graph.consumers),
    )  # fmt: skip


def _without_weights(content: bytes) -> bytes:
    """A file of a few thousand bytes, so that mutations meet the graph and not the weights."""
    model = tflite._objects(content)
    for buffer in model.buffers:
        if buffer.data is not None:
            buffer.data = buffer.data[:16]
    return tflite.pack(model)
