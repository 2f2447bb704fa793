"""What GPU delegates refuse in a `.tflite` file, compute wrongly or compute slowly.

A rule says which delegates it is about:

- "TFLite": that of `org.tensorflow:tensorflow-lite-gpu` and LiteRT 1.x, with OpenCL or OpenGL. By
  default it runs the largest part of a graph that it supports and leaves the rest to the CPU. Its
  rules come from its source code; it was not run.
- "LiteRT": that of LiteRT 2.x (ML Drift), which supports more operators but runs a file whole or
  not at all. A test breaks every rule on a real one, the WebGPU backend of LiteRT 2.3.0: it refuses
  what these rules say, computes "padded" and "strided" wrongly, and takes all else with right
  results.
- "LiteRT OpenCL": bugs that were reported for its OpenCL backend, which could not be run here. The
  WebGPU backend does not have them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from keras_vit.tflite.flatbuffer import Graph, Model, Operator, read_graph

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
    places = [_Place(graph, operator) for operator in graph.operators]
    layers: dict[tuple[Rule, str, str], dict[str, None]] = {}
    for rule in RULES:
        for at in places:
            if at.name in (rule.operators.split() or [at.name]) and (reason := rule.check(at)):
                layers.setdefault((rule, at.name, reason), {})[graph.layer(at.operator)] = None
    return tuple(
        Finding(rule.name, operator, tuple(found), reason, rule.effect, rule.delegates)
        for (rule, operator, reason), found in layers.items()
    )


class Rule(NamedTuple):
    """A rule, the effect of breaking it, the delegates that it is for, and its source.

    Attributes:
        check: returns the reason why an operator breaks the rule, or a false value.
        operators: the names of the operators that it is about; "" for all.
        effect, delegates: see `Finding`.
        source: where it is from.
    """

    check: Callable[[_Place], Any]
    operators: str
    effect: Effect
    delegates: tuple[Delegate, ...]
    source: str

    @property
    def name(self) -> str:
        """The name of `check` in words."""
        return self.check.__name__.strip("_").replace("_", " ")


class _Place:
    """An operator in its graph."""

    def __init__(self, graph: Graph, operator: Operator):
        self.graph, self.operator, self.name = graph, operator, operator.name
        self.read, self.written = graph.read(operator), graph.written(operator)
        self.tensors = self.read + self.written
        self.moving = [tensor for tensor in self.tensors if not tensor.constant]
        self.dtypes = {tensor.dtype for tensor in self.moving}
        self.producer = graph.producers.get(next(iter(operator.inputs), None))  # of the first input
        self.follows = self.producer.name if self.producer else ""


def _unpacked_constants(graph: Graph) -> Graph:
    """Marks the outputs of DEQUANTIZE operators that read constant weights as constants too."""
    tensors = list(graph.tensors)
    for operator in graph.operators:
        source = graph.read(operator)[0] if operator.name == "DEQUANTIZE" else None
        if source and source.constant:
            i = operator.outputs[0]
            tensors[i] = dataclasses.replace(tensors[i], constant=True, value=source.value)
    return dataclasses.replace(graph, tensors=tuple(tensors))


def _operator(at: _Place):
    known = at.name in _OPERATORS | _NEWER_OPERATORS
    return not known and "GPU delegates do not have this operator"


def _newer_operator(at: _Place):
    return at.name in _NEWER_OPERATORS and "it has no such operator"


def _rank(at: _Place):
    rank = max((len(tensor.shape) for tensor in at.tensors), default=0)
    return rank > 4 and f"{rank} dimensions; at most 4 are supported"


def _size(at: _Place):
    dynamic = any(-1 in tensor.shape for tensor in at.tensors)
    return dynamic and "a size is known only at run time; fix the batch size"


def _type(at: _Place):
    others = sorted(at.dtypes - _TYPES)
    return others and f"the GPU does not compute in {' and '.join(others)}"


def _integers(at: _Place):
    wrong = "int32" in at.dtypes and at.name not in ("CAST", "GATHER", "ONE_HOT")
    return wrong and "the GPU does not compute in int32"


def _cast(at: _Place):
    return at.read[0].dtype == "uint8" and "uint8 is cast on the CPU; export with float32 input"


def _version(at: _Place):
    version, newest = at.operator.version, _VERSIONS.get(at.name, at.operator.version)
    return version > newest and f"version {version}; at most {newest} is supported"


def _mask(at: _Place):
    changed = at.operator.changes_rank
    return changed and "it drops or adds a dimension; slice [:1] and reshape instead"


def _mixed_ranks(at: _Place):
    shapes = [tensor.shape for tensor in at.moving[:-1]]
    mixed = len({len(shape) for shape in shapes}) > 1
    return mixed and f"{_listed(shapes)} are broadcast wrongly; give both the same rank"


def _constant_rank(at: _Place):
    shapes = [tensor.shape for tensor in at.read[:2]]
    shorter, longer = sorted(shapes, key=len)
    ranks = (len(shorter), len(longer))
    fits = ranks[0] < 2 or len(set(ranks)) == 1 or (ranks == (3, 4) and longer[0] == 1)
    wrong = len(at.moving) <= 2 and not fits
    return wrong and f"{_listed(shapes)} are not broadcast; give both the same rank"


def _constant_first(at: _Place):
    constant = at.read[0].constant
    return constant and "its first operand is constant; transpose and swap both operands"


def _constant_second(at: _Place):
    rank = len(at.read[1].shape)
    wrong = at.read[1].constant and rank != 2
    return wrong and f"its constant operand has {rank} dimensions, not 2; nothing runs on the GPU"


def _transposed(at: _Place):
    transposes = at.operator.options.get("adjX") or at.operator.options.get("adjY")
    return transposes and "that it transposes an operand is ignored; use a separate TRANSPOSE"


def _returned(at: _Place):
    outputs, readers = at.graph.outputs, at.graph.consumers
    wrong = any(i in outputs and readers[i] for i in at.operator.outputs)
    return wrong and "an output that other operators also read may be wrong; return a copy"


def _int4(at: _Place):
    has_int4 = any(tensor.dtype == "int4" and not tensor.blocks for tensor in at.read)
    return has_int4 and "int4 weights are not supported"


def _blocks(at: _Place):
    found = any(tensor.blocks for tensor in at.read)
    return found and "weights with a scale for each block are not supported; the process may crash"


def _unpacked(at: _Place):
    unpacks = at.read[0].constant and at.read[0].dtype == "int8"
    return unpacks and "int8 weights that are dequantised first are not supported"


def _padded(at: _Place):
    reason = "the zeros of the PAD before it are ignored; put MAXIMUM(x, -6e4) between them"
    return at.follows == "PAD" and reason


def _strided(at: _Place):
    strides = max(at.operator.options[side] for side in ("strideH", "strideW"))
    wrong = at.read[1].dtype == "int8" and at.read[1].shape[1:3] == (1, 1) and strides != 1
    reason = f"a 1x1 kernel in int8 with strides of {strides} is computed wrongly; use float16"
    return wrong and reason


def _squares(at: _Place):
    if at.producer is None or not _squares_its_input(at.producer):
        return ""
    count = at.read[0].size // max(at.written[0].size, 1)
    limit = math.sqrt(_HALF_MAX / max(count, 1))
    return (
        f"the sum of {count} squares overflows half precision if their root mean square is over "
        f"{limit:.1f}; scale before squaring"
    )


def _epsilon(at: _Place):
    small = [t.value for t in at.read if t.value and abs(t.value) < _HALF_MIN]
    return small and f"{small[0]:.0e} is too small for the full accuracy of half precision"


def _batch(at: _Place):
    inputs = [at.graph.tensors[i].shape for i in at.operator.inputs if i in at.graph.inputs]
    batches = [shape[0] for shape in inputs if len(shape) > 2 and shape[0] > 1]
    return batches and f"a batch of {batches[0]}; delegates are optimised for one image"


def _heads(at: _Place):
    # In attention, the product of the probabilities and the values has the size of a head.
    shape = at.written[0].shape
    small = at.follows == "SOFTMAX" and len(shape) == 4 and 0 < shape[-1] < 32
    return small and f"heads of {shape[-1]} channels; 32 or more are faster"


def _rounded(at: _Place):
    rounds = at.written[0].dtype == "int8"
    return rounds and "the GPU computes in float and rounds to int8 in between: no gain"


def _squares_its_input(operator: Operator) -> bool:
    same = len(operator.inputs) == 2 and len(set(operator.inputs)) == 1
    return operator.name in ("SQUARE", "SQUARED_DIFFERENCE") or (operator.name == "MUL" and same)


def _listed(shapes: list[tuple[int, ...]]) -> str:
    return " and ".join(str(list(shape)) for shape in shapes)


_TFLITE: tuple[Delegate, ...] = ("TFLite",)
_BOTH: tuple[Delegate, ...] = ("TFLite", "LiteRT")
_OPENCL: tuple[Delegate, ...] = ("TFLite", "LiteRT OpenCL")
_BUILDER = "LiteRT, tflite/delegates/gpu/common/model_builder.cc"
_CHECKS = "LiteRT, tflite/tools/versioning/gpu_compatibility.cc"
_TRIED = "tried on LiteRT 2.3.0's GPU delegate"
RULES = (
    Rule(_operator, "", "refused", _BOTH, f"{_BUILDER}: NewOperationParser; LiteRT#9191"),
    Rule(_rank, "", "refused", _BOTH, f"{_BUILDER}: IsAllAllowedTensors; LiteRT#2540"),
    Rule(_newer_operator, "", "refused", _TFLITE, f"{_BUILDER}; {_TRIED}"),
    Rule(_size, "", "refused", _TFLITE, "tensorflow#47168"),
    Rule(_type, "", "refused", _BOTH, f"{_BUILDER}: GetOpsToReplace"),
    Rule(_integers, "", "refused", _TFLITE, f"{_BUILDER}: GetOpsToReplace"),
    Rule(_cast, "CAST", "refused", _TFLITE, f"{_CHECKS}: CAST"),
    Rule(_version, "", "refused", _TFLITE, f"{_BUILDER}: CheckMaxSupportedOpVersion"),
    Rule(_mask, "", "refused", _BOTH, f"{_CHECKS}: STRIDED_SLICE"),
    Rule(_mixed_ranks, "ADD MUL", "wrong", _OPENCL, "LiteRT pull request 8975"),
    Rule(_constant_rank, "ADD MUL", "refused", _TFLITE, f"{_CHECKS}: ADD, MUL"),
    Rule(_constant_first, "BATCH_MATMUL", "refused", _BOTH, f"{_BUILDER}: BATCH_MATMUL"),
    Rule(_constant_second, "BATCH_MATMUL", "refused", _TFLITE, f"{_BUILDER}: BATCH_MATMUL"),
    Rule(_transposed, "BATCH_MATMUL", "wrong", _OPENCL, f"{_BUILDER}: BATCH_MATMUL; LiteRT#8913"),
    Rule(_returned, "", "wrong", _OPENCL, "LiteRT#8599, tensorflow#57211"),
    Rule(_int4, "", "refused", _TFLITE, "model_builder_helper.cc: CreateVectorCopyData"),
    Rule(_blocks, "", "refused", _BOTH, _TRIED),
    Rule(_unpacked, "DEQUANTIZE", "refused", ("LiteRT",), _TRIED),
    Rule(_padded, "MAX_POOL_2D", "wrong", _BOTH, "ml_drift, transformations/merge_padding_with.h"),
    Rule(_strided, "CONV_2D", "wrong", ("LiteRT",), _TRIED),
    Rule(_squares, "MEAN SUM", "imprecise", _BOTH, "LiteRT#9249"),
    Rule(_epsilon, "ADD", "imprecise", _BOTH, "tensorflow#67216"),
    Rule(_batch, "", "slow", _BOTH, f"{_BUILDER}: constants of a batch other than 1"),
    Rule(_heads, "BATCH_MATMUL", "slow", _BOTH, "reported by others"),
    Rule(_rounded, "QUANTIZE", "slow", _BOTH, f"{_BUILDER}: QUANTIZE"),
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
