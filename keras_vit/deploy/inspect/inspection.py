"""What a `.tflite` file is, in one record: for a bundle's model.json and for reports."""

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
    """What a file is, as its content and the runtime say.

    Attributes:
        operators: how often each stands in it.
        versions: the highest version of each that it needs.
        runtime: the oldest runtime that runs it: "2.9.0", "LiteRT 2.1.0", or "unknown".
        nodes, delegated, partitions: of the graph, and what XNNPACK takes of it; see `Delegation`.
        undelegated: the operators that it leaves out.
        gpu: what GPU delegates do not take, get wrong or do badly.
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
    """Reads a file and asks the runtime what it does with it.

    Args:
        model: the file or its content.
        threads: of the interpreter.
        runner: the same file, if it has been loaded already.

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
