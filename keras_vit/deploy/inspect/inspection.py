"""All findings about a `.tflite` file in one record, for model.json and reports."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from keras_vit.deploy.inspect.delegation import LeftOut, delegation
from keras_vit.deploy.inspect.flatbuffer import Model, operators, read_graph
from keras_vit.deploy.inspect.lint import Finding, lint
from keras_vit.deploy.inspect.runtimes import runtime_floor, versions
from keras_vit.deploy.runner import Runner


@dataclasses.dataclass(frozen=True)
class Inspection:
    """Facts about a file, from its content and from the runtime.

    Attributes:
        operators: the number of operators of each name.
        versions: the highest version needed of each operator.
        runtime: the oldest runtime that runs the file: "2.9.0", "LiteRT 2.1.0", or "unknown".
        nodes, delegated, partitions, undelegated: see `Delegation`.
        gpu: problems with GPU delegates.
    """

    operators: dict[str, int]
    versions: dict[str, int]
    runtime: str
    nodes: int
    delegated: int
    partitions: int
    undelegated: tuple[LeftOut, ...]
    gpu: tuple[Finding, ...]

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain JSON values."""
        return json.loads(json.dumps(dataclasses.asdict(self)))


def inspect_file(model: Model, threads: int = 2, runner: Runner | None = None) -> Inspection:
    """Inspects a file and how the runtime runs it.

    Args:
        model: the file or its content.
        threads: number of threads of the interpreter.
        runner: the same file, if it is already loaded.

    Raises:
        UsageError: it is not a TFLite model, or needs operators that are not TFLite's own.
    """
    graph = read_graph(model)
    if runner is None:
        runner = Runner(bytes(model) if isinstance(model, bytearray) else model, threads)
    return Inspection(
        operators=operators(graph),
        versions=versions(graph),
        runtime=runtime_floor(graph),
        **vars(delegation(graph, runner)),
        gpu=lint(graph),
    )
