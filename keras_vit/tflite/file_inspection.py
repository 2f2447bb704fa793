"""What a `.tflite` file is: for model.json and reports, with what XNNPACK makes of it.

XNNPACK is LiteRT's fast path on CPUs. TFLite's own kernels run the operators that it leaves out; if
these are between operators that XNNPACK runs, the graph is split into partitions.
"""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

from keras_vit.tflite.flatbuffer import Graph, Model, Operator, Tensor, operators, read_graph
from keras_vit.tflite.gpu_compatibility import Finding, lint
from keras_vit.tflite.runner import Runner
from keras_vit.tflite.runtimes import runtime_floor, versions


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """An operator that XNNPACK does not run.

    Attributes:
        operator: "CAST".
        layer: the layer that it belongs to; "" if the file does not name one.
        reason: why XNNPACK leaves it out; "" if unknown.
        splits: whether it is between operators that XNNPACK runs.
    """

    operator: str
    layer: str
    reason: str
    splits: bool

    def __str__(self) -> str:
        place = f" ({self.layer})" if self.layer else ""
        return f"{self.operator}{place}" + (f": {self.reason}" if self.reason else "")


@dataclasses.dataclass(frozen=True)
class Delegation:
    """Which operators of a graph XNNPACK runs.

    Attributes:
        nodes: number of operators in the graph.
        delegated: number of operators that XNNPACK runs.
        partitions: number of partitions in which it runs them; 1 is best, 0 means none.
        undelegated: the other operators, in the order of execution.
    """

    nodes: int
    delegated: int
    partitions: int
    undelegated: tuple[LeftOut, ...]


@dataclasses.dataclass(frozen=True)
class FileInspection(Delegation):
    """Facts about a file, from its content and from the runtime.

    Attributes:
        operators: the number of operators of each name.
        versions: the highest version needed of each operator.
        runtime: the oldest runtime that runs the file: "2.9.0", "LiteRT 2.1.0", or "unknown".
        gpu: problems with GPU delegates.
    """

    operators: dict[str, int]
    versions: dict[str, int]
    runtime: str
    gpu: tuple[Finding, ...]

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain JSON values."""
        return json.loads(json.dumps(dataclasses.asdict(self)))


def inspect_file(model: Model, threads: int = 2, runner: Runner | None = None) -> FileInspection:
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
    return FileInspection(
        operators=operators(graph),
        versions=versions(graph),
        runtime=runtime_floor(graph),
        **vars(delegation(graph, runner)),
        gpu=lint(graph),
    )


def delegation(model: Model | Graph, runner: Runner) -> Delegation:
    """Finds out from the runtime which operators of a file XNNPACK runs.

    Args:
        model: the file, its content or its graph.
        runner: the same file, loaded.

    Raises:
        UsageError: as `flatbuffer.read_graph`.
    """
    graph = read_graph(model)
    # The list holds all operators of the file, then a node for each partition.
    nodes = runner.interpreter._get_ops_details()[len(graph.operators) :]
    delegated = {i for node in nodes for i in _members(graph, node["inputs"], node["outputs"])}
    # The tensors that depend on operators that XNNPACK runs, and those on which these depend.
    after: set[int] = set()
    before: set[int | None] = set()
    for op in graph.operators:
        if op.index in delegated or after & {*op.inputs}:
            after.update(op.outputs)
    for op in reversed(graph.operators):
        if op.index in delegated or before & {*op.outputs}:
            before.update(op.inputs)
    inside = {op.index for op in graph.operators if after & {*op.inputs} and before & {*op.outputs}}
    undelegated = tuple(
        LeftOut(op.name, graph.layer(op), _reason(graph, op), splits=op.index in inside)
        for op in graph.operators
        if op.index not in delegated
    )
    return Delegation(len(graph.operators), len(delegated), len(nodes), undelegated)


def _members(graph: Graph, inputs: list[int], outputs: list[int]) -> set[int]:
    """The operators of a partition: those between its inputs and its outputs."""
    members, tensors, known = set(), list(outputs), set(inputs)
    while tensors:
        producer = graph.producers.get(tensors.pop())
        if producer is not None and producer.index not in members:
            members.add(producer.index)
            tensors += [i for i in producer.inputs if i is not None and i not in known]
    return members


def _reason(graph: Graph, operator: Operator) -> str:
    """Why XNNPACK leaves an operator out; "" if unknown."""
    read, written = graph.read(operator), graph.written(operator)
    dtypes = {tensor.dtype for tensor in read + written if not tensor.constant}
    rank = max(len(tensor.shape) for tensor in read + written)
    if operator.name not in _SUPPORTED:
        return "XNNPACK does not have this operator"
    if any(-1 in tensor.shape for tensor in read + written):
        return "a size is known only at run time"
    if dtypes - _DTYPES:
        return f"it computes in {', '.join(sorted(dtypes - _DTYPES))}"
    if rank > _MOST_DIMENSIONS:
        return f"{rank} dimensions; at most {_MOST_DIMENSIONS} are supported"
    if "int8" in dtypes and (reason := _int8_reason(operator, read, written[0])):
        return reason
    if operator.changes_rank:
        return "it drops or adds a dimension; slice [:1] and reshape instead"
    if operator.name == "CONCATENATION" and len(read) > _MOST_JOINED:
        return f"it joins {len(read)} tensors; at most {_MOST_JOINED} are supported"
    if operator.name in _CONSTANT_ARGUMENTS and not all(tensor.constant for tensor in read[1:]):
        return "its arguments are computed; they must be constants"
    return ""


def _int8_reason(operator: Operator, read: list[Tensor], written: Tensor) -> str:
    if operator.name in _FLOAT_ONLY:
        return "XNNPACK has it only in float32"
    if operator.name == "BATCH_MATMUL" and read[1].zero_point:
        return "the zero point of its second operand is not 0"
    least, most = _RATIOS.get(operator.name, (0.0, math.inf))
    ratios = [tensor.scale / (written.scale or 1.0) for tensor in read]
    if not all(least <= ratio < most for ratio in ratios):
        return "the scales of its inputs and its output differ too much"
    return ""


# From `tflite/delegates/xnnpack/xnnpack_delegate.cc` of google-ai-edge/LiteRT.
_NAMES = """
ABS ADD AVERAGE_POOL_2D BATCH_MATMUL CEIL CONCATENATION CONV_2D COS DEPTHWISE_CONV_2D
DEPTH_TO_SPACE DEQUANTIZE DIV ELU EXP EXPAND_DIMS FLOOR FULLY_CONNECTED GELU HARD_SWISH LEAKY_RELU
LOGISTIC MAXIMUM MAX_POOL_2D MEAN MINIMUM MUL NEG PAD PRELU QUANTIZE REDUCE_MAX REDUCE_MIN RELU
RELU6 RELU_N1_TO_1 RESHAPE RESIZE_BILINEAR ROUND RSQRT SIN SLICE SOFTMAX SPACE_TO_DEPTH SPLIT SQRT
SQUARE SQUARED_DIFFERENCE STRIDED_SLICE SUB SUM TANH TRANSPOSE TRANSPOSE_CONV
"""
_SUPPORTED = set(_NAMES.split())
_FLOAT_ONLY = {"SOFTMAX", "GELU", "RSQRT", "SQUARED_DIFFERENCE"}
_CONSTANT_ARGUMENTS = {"PAD", "RESHAPE", "SLICE", "STRIDED_SLICE", "TRANSPOSE"}
_DTYPES = {"float32", "float16", "int8"}
_MOST_DIMENSIONS, _MOST_JOINED = 6, 5
# Allowed ratios of the scale of an int8 operand to that of the result.
_RATIOS = {"ADD": (2**-10, 2**8), "SUB": (2**-10, 2**8), "MEAN": (2**-8, 2**8)}
