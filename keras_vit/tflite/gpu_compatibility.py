"""What GPU delegates refuse in a `.tflite` file, compute wrongly or compute slowly.

A rule says which delegates it is about:

- "TFLite": that of `org.tensorflow:tensorflow-lite-gpu` and LiteRT 1.x, with OpenCL or OpenGL. By
  default it runs the largest part of a graph that it supports and leaves the rest to the CPU. Its
  rules come from its source code; it was not run.
- "LiteRT": that of LiteRT 2.x (ML Drift), which supports more operators but runs a file whole or
  not at all. A test breaks every rule on a real one, the WebGPU backend of LiteRT 2.3.0: it refuses
  what these rules say, computes "padded" and "strided" wrongly, and takes all else with right
  results.
- "LiteRT OpenCL": bugs that were reported for its OpenCL backend, which no machine of ours can run.
  The WebGPU backend does not have them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Literal, NamedTuple

from keras_vit.tflite.flatbuffer import Graph, Model, Operator, Tensor, read_graph

Effect = Literal["refused", "wrong", "imprecise", "slow"]
Delegate = Literal["TFLite", "LiteRT", "LiteRT OpenCL"]


@dataclasses.dataclass(frozen=True)
class Finding:
    """A problem of a file with GPU delegates.

    Attributes:
        rule: the name of the broken rule in `RULES`.
        operator: "BROADCAST_TO".
        layers: the layers of the operator; "" where the file does not name one.
        reason: what is wrong with it and, if known, how to avoid that.
        effect: "refused": not run on the GPU; "wrong": run, with wrong results; "imprecise": in
            half precision, the default of delegates; "slow".
        delegates: "TFLite" (and LiteRT 1.x), "LiteRT" (2.x), "LiteRT OpenCL", or several.
    """

    rule: str
    operator: str
    layers: tuple[str, ...]
    reason: str
    effect: Effect
    delegates: tuple[Delegate, ...]

    @property
    def layer(self) -> str:
        """The first of `layers`."""
        return self.layers[0]

    def __str__(self) -> str:
        place = self.layer + (" and others" if len(self.layers) > 1 else "")
        return f"{self.operator}{f' ({place})' if self.layer else ''}: {self.reason}"


def lint(model: Model | Graph) -> tuple[Finding, ...]:
    """All findings in a file, in the order of `RULES`; one finding covers all layers that have it.

    Raises:
        UsageError: as `flatbuffer.read_graph`.
    """
    graph = _unpacked_constants(read_graph(model))
    layers: dict[tuple[Rule, str, str], list[str]] = {}
    for rule in RULES:
        for operator in graph.operators:
            if reason := rule.check(graph, operator):
                found = layers.setdefault((rule, operator.name, reason), [])
                found.append(graph.layer(operator))
    return tuple(
        Finding(
            rule.name, operator, tuple(dict.fromkeys(found)), reason, rule.effect, rule.delegates
        )
        for (rule, operator, reason), found in layers.items()
    )


class Rule(NamedTuple):
    """A rule, the effect of breaking it, the delegates that it is for, and its source.

    `check` returns the reason why an operator breaks the rule, or "".
    """

    name: str
    check: Callable[[Graph, Operator], str]
    effect: Effect
    delegates: tuple[Delegate, ...]
    source: str


def _unpacked_constants(graph: Graph) -> Graph:
    """Marks the outputs of DEQUANTIZE operators that read constant weights as constants too."""
    tensors = list(graph.tensors)
    for operator in graph.operators:
        source = graph.read(operator)[0] if operator.name == "DEQUANTIZE" else None
        if source and source.constant:
            i = operator.outputs[0]
            tensors[i] = dataclasses.replace(tensors[i], constant=True, value=source.value)
    return dataclasses.replace(graph, tensors=tuple(tensors))


def _operator(graph: Graph, operator: Operator) -> str:
    known = operator.name in _OPERATORS | _NEWER_OPERATORS
    return "" if known else "GPU delegates do not have this operator"


def _newer_operator(graph: Graph, operator: Operator) -> str:
    return "it has no such operator" if operator.name in _NEWER_OPERATORS else ""


def _rank(graph: Graph, operator: Operator) -> str:
    rank = max((len(tensor.shape) for tensor in _tensors(graph, operator)), default=0)
    return f"{rank} dimensions; at most 4 are supported" if rank > 4 else ""


def _size(graph: Graph, operator: Operator) -> str:
    dynamic = any(-1 in tensor.shape for tensor in _tensors(graph, operator))
    return "a size is known only at run time; fix the batch size" if dynamic else ""


def _type(graph: Graph, operator: Operator) -> str:
    others = sorted({tensor.dtype for tensor in _moving(graph, operator)} - _TYPES)
    return f"the GPU does not compute in {' and '.join(others)}" if others else ""


def _integers(graph: Graph, operator: Operator) -> str:
    has_int32 = any(tensor.dtype == "int32" for tensor in _moving(graph, operator))
    supported = operator.name in ("CAST", "GATHER", "ONE_HOT")
    return "the GPU does not compute in int32" if has_int32 and not supported else ""


def _cast(graph: Graph, operator: Operator) -> str:
    if operator.name != "CAST" or graph.read(operator)[0].dtype != "uint8":
        return ""
    return "uint8 is cast on the CPU; export with float32 input"


def _version(graph: Graph, operator: Operator) -> str:
    newest = _VERSIONS.get(operator.name, operator.version)
    if operator.version <= newest:
        return ""
    return f"version {operator.version}; at most {newest} is supported"


def _mask(graph: Graph, operator: Operator) -> str:
    changed = operator.changes_rank
    return "it drops or adds a dimension; slice [:1] and reshape instead" if changed else ""


def _mixed_ranks(graph: Graph, operator: Operator) -> str:
    shapes = [tensor.shape for tensor in _moving(graph, operator)[:-1]]
    if operator.name not in ("ADD", "MUL") or len({len(shape) for shape in shapes}) < 2:
        return ""
    return f"{_listed(shapes)} are broadcast wrongly; give both the same rank"


def _constant_rank(graph: Graph, operator: Operator) -> str:
    if operator.name not in ("ADD", "MUL") or len(_moving(graph, operator)) > 2:
        return ""
    shapes = [tensor.shape for tensor in graph.read(operator)[:2]]
    if min(map(len, shapes)) < 2:
        return ""
    longer, shorter = sorted(shapes, key=len, reverse=True)
    same = len(longer) == len(shorter)
    if same or ((len(longer), len(shorter)) == (4, 3) and longer[0] == 1):
        return ""
    return f"{_listed(shapes)} are not broadcast; give both the same rank"


def _constant_first(graph: Graph, operator: Operator) -> str:
    constant = operator.name == "BATCH_MATMUL" and graph.read(operator)[0].constant
    return "its first operand is constant; transpose and swap both operands" if constant else ""


def _constant_second(graph: Graph, operator: Operator) -> str:
    if operator.name != "BATCH_MATMUL":
        return ""
    second = graph.read(operator)[1]
    if not second.constant or len(second.shape) == 2:
        return ""
    return (
        f"its constant operand has {len(second.shape)} dimensions, not 2; nothing runs on the GPU"
    )


def _transposed(graph: Graph, operator: Operator) -> str:
    transposes = operator.options.get("adjX") or operator.options.get("adjY")
    if operator.name != "BATCH_MATMUL" or not transposes:
        return ""
    return "that it transposes an operand is ignored; use a separate TRANSPOSE"


def _returned(graph: Graph, operator: Operator) -> str:
    if not any(i in graph.outputs and graph.consumers[i] for i in operator.outputs):
        return ""
    return "an output that other operators also read may be wrong; return a copy"


def _int4(graph: Graph, operator: Operator) -> str:
    has_int4 = any(tensor.dtype == "int4" and not tensor.blocks for tensor in graph.read(operator))
    return "int4 weights are not supported" if has_int4 else ""


def _blocks(graph: Graph, operator: Operator) -> str:
    if not any(tensor.blocks for tensor in graph.read(operator)):
        return ""
    return "weights with a scale for each block are not supported; the process may crash"


def _unpacked(graph: Graph, operator: Operator) -> str:
    read = graph.read(operator)
    unpacks = operator.name == "DEQUANTIZE" and read[0].constant and read[0].dtype == "int8"
    return "int8 weights that are dequantised first are not supported" if unpacks else ""


def _padded(graph: Graph, operator: Operator) -> str:
    before = graph.producers.get(operator.inputs[0]) if operator.inputs else None
    if operator.name != "MAX_POOL_2D" or before is None or before.name != "PAD":
        return ""
    return "the zeros of the PAD before it are ignored; put MAXIMUM(x, -6e4) between them"


def _strided(graph: Graph, operator: Operator) -> str:
    if operator.name != "CONV_2D":
        return ""
    kernel = graph.read(operator)[1]
    strides = max(operator.options[side] for side in ("strideH", "strideW"))
    if kernel.dtype != "int8" or kernel.shape[1:3] != (1, 1) or strides == 1:
        return ""
    return f"a 1x1 kernel in int8 with strides of {strides} is computed wrongly; use float16"


def _squares(graph: Graph, operator: Operator) -> str:
    if operator.name not in ("MEAN", "SUM") or not _squared(graph, operator.inputs[0]):
        return ""
    count = graph.read(operator)[0].size // max(graph.written(operator)[0].size, 1)
    limit = math.sqrt(_HALF_MAX / max(count, 1))
    return (
        f"the sum of {count} squares overflows half precision if their root mean square is over "
        f"{limit:.1f}; scale before squaring"
    )


def _epsilon(graph: Graph, operator: Operator) -> str:
    if operator.name != "ADD":
        return ""
    small = [t.value for t in graph.read(operator) if t.value and abs(t.value) < _HALF_MIN]
    return f"{small[0]:.0e} is too small for the full accuracy of half precision" if small else ""


def _batch(graph: Graph, operator: Operator) -> str:
    inputs = [graph.tensors[i].shape for i in operator.inputs if i in graph.inputs]
    batches = [shape[0] for shape in inputs if len(shape) > 2 and shape[0] > 1]
    return f"a batch of {batches[0]}; delegates are optimised for one image" if batches else ""


def _heads(graph: Graph, operator: Operator) -> str:
    if operator.name != "BATCH_MATMUL":
        return ""
    # In attention, the product of the probabilities and the values has the size of a head.
    shape = graph.written(operator)[0].shape
    probabilities = graph.producers.get(operator.inputs[0])
    if len(shape) != 4 or probabilities is None:
        return ""
    size = shape[-1] if probabilities.name == "SOFTMAX" else 0
    return f"heads of {size} channels; 32 or more are faster" if 0 < size < 32 else ""


def _rounded(graph: Graph, operator: Operator) -> str:
    quantizes = operator.name == "QUANTIZE" and graph.written(operator)[0].dtype == "int8"
    return "the GPU computes in float and rounds to int8 in between: no gain" if quantizes else ""


def _tensors(graph: Graph, operator: Operator) -> list[Tensor]:
    return graph.read(operator) + graph.written(operator)


def _moving(graph: Graph, operator: Operator) -> list[Tensor]:
    return [tensor for tensor in _tensors(graph, operator) if not tensor.constant]


def _squared(graph: Graph, index: int | None) -> bool:
    producer = graph.producers.get(index)
    if producer is None:
        return False
    same = len(producer.inputs) == 2 and len(set(producer.inputs)) == 1
    return producer.name in ("SQUARE", "SQUARED_DIFFERENCE") or (producer.name == "MUL" and same)


def _listed(shapes: list[tuple[int, ...]]) -> str:
    return " and ".join(str(list(shape)) for shape in shapes)


_BOTH: tuple[Delegate, ...] = ("TFLite", "LiteRT")
_OPENCL: tuple[Delegate, ...] = ("TFLite", "LiteRT OpenCL")
_BUILDER = "LiteRT, tflite/delegates/gpu/common/model_builder.cc"
_CHECKS = "LiteRT, tflite/tools/versioning/gpu_compatibility.cc"
_TRIED = "tried on LiteRT 2.3.0's GPU delegate"
RULES = (
    Rule("operator", _operator, "refused", _BOTH, f"{_BUILDER}: NewOperationParser; LiteRT#9191"),
    Rule("rank", _rank, "refused", _BOTH, f"{_BUILDER}: IsAllAllowedTensors; LiteRT#2540"),
    Rule("newer operator", _newer_operator, "refused", ("TFLite",), f"{_BUILDER}; {_TRIED}"),
    Rule("size", _size, "refused", ("TFLite",), "tensorflow#47168"),
    Rule("type", _type, "refused", _BOTH, f"{_BUILDER}: GetOpsToReplace"),
    Rule("integers", _integers, "refused", ("TFLite",), f"{_BUILDER}: GetOpsToReplace"),
    Rule("cast", _cast, "refused", ("TFLite",), f"{_CHECKS}: CAST"),
    Rule("version", _version, "refused", ("TFLite",), f"{_BUILDER}: CheckMaxSupportedOpVersion"),
    Rule("mask", _mask, "refused", _BOTH, f"{_CHECKS}: STRIDED_SLICE"),
    Rule("mixed ranks", _mixed_ranks, "wrong", _OPENCL, "LiteRT pull request 8975"),
    Rule("constant rank", _constant_rank, "refused", ("TFLite",), f"{_CHECKS}: ADD, MUL"),
    Rule("constant first", _constant_first, "refused", _BOTH, f"{_BUILDER}: BATCH_MATMUL"),
    Rule("constant second", _constant_second, "refused", ("TFLite",), f"{_BUILDER}: BATCH_MATMUL"),
    Rule("transposed", _transposed, "wrong", _OPENCL, f"{_BUILDER}: BATCH_MATMUL; LiteRT#8913"),
    Rule("returned", _returned, "wrong", _OPENCL, "LiteRT#8599, tensorflow#57211"),
    Rule("int4", _int4, "refused", ("TFLite",), "model_builder_helper.cc: CreateVectorCopyData"),
    Rule("blocks", _blocks, "refused", _BOTH, _TRIED),
    Rule("unpacked", _unpacked, "refused", ("LiteRT",), _TRIED),
    Rule("padded", _padded, "wrong", _BOTH, "ml_drift, transformations/merge_padding_with.h"),
    Rule("strided", _strided, "wrong", ("LiteRT",), _TRIED),
    Rule("squares", _squares, "imprecise", _BOTH, "LiteRT#9249"),
    Rule("epsilon", _epsilon, "imprecise", _BOTH, "tensorflow#67216"),
    Rule("batch", _batch, "slow", _BOTH, f"{_BUILDER}: constants of a batch other than 1"),
    Rule("heads", _heads, "slow", _BOTH, "reported by others"),
    Rule("rounded", _rounded, "slow", _BOTH, f"{_BUILDER}: QUANTIZE"),
)

# Operators of keras_vit's graphs and similar ones that both delegates support.
_NAMES = """
ABS ADD AVERAGE_POOL_2D BATCH_MATMUL CAST CONCATENATION CONV_2D COS CUMSUM DEPTHWISE_CONV_2D
DEPTH_TO_SPACE DEQUANTIZE DIV ELU EXP FLOOR FULLY_CONNECTED GATHER GELU HARD_SWISH LEAKY_RELU LOG
LOGISTIC MAXIMUM MAX_POOL_2D MEAN MINIMUM MUL NEG ONE_HOT PACK PAD PADV2 POW PRELU QUANTIZE
REDUCE_MAX REDUCE_MIN RELU RELU6 RESHAPE RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR RSQRT SELECT_V2
SIGN SIN SLICE SOFTMAX SPACE_TO_DEPTH SPLIT SPLIT_V SQRT SQUARE SQUARED_DIFFERENCE STRIDED_SLICE
SUB SUM TANH TILE TOPK_V2 TRANSPOSE TRANSPOSE_CONV UNPACK
"""
_OPERATORS = set(_NAMES.split())
# Operators that only LiteRT's delegate supports, found by trying.
_NEWER_OPERATORS = {"ARG_MAX", "CEIL", "GREATER", "REVERSE_V2", "ROUND", "SELECT"}
# The newest version of each operator that TFLite's delegate supports.
_VERSIONS = {
    **dict.fromkeys(["ADD", "CONCATENATION", "DIV", "GELU", "MAXIMUM", "MAX_POOL_2D"], 2),
    **dict.fromkeys(["MINIMUM", "PAD", "PADV2", "POW", "QUANTIZE", "RELU", "RSQRT", "SLICE"], 2),
    **dict.fromkeys(["SOFTMAX", "SPACE_TO_DEPTH", "SQRT", "SQUARE", "SQUARED_DIFFERENCE"], 2),
    **dict.fromkeys(["SUB", "TANH"], 2),
    **dict.fromkeys(["DEQUANTIZE", "MUL"], 3),
    **dict.fromkeys(["STRIDED_SLICE", "TRANSPOSE"], 4),
    **dict.fromkeys(["GATHER", "RESHAPE"], 1),
    "CONV_2D": 6,
    "FULLY_CONNECTED": 9,
}
_TYPES = {"float32", "float16", "int8", "int32", "uint8", "bool"}
# The largest value of half precision, and the smallest one of full accuracy (normal).
_HALF_MAX, _HALF_MIN = 65504, 2**-14
