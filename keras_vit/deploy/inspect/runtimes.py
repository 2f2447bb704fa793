"""Which runtime a `.tflite` file needs, found from what its operators read.

What the file says of itself cannot be trusted: a quantizer that replaces operands leaves the
operators' versions and the converter's `min_runtime_version` as they were. A Dense layer of float32
activations and int8 weights with a scale for each channel then claims version 5, and TFLite 2.14
runs it without a word and wrongly, with the first channel's scale for all.

Sources: TensorFlow's `lite/tools/versioning/op_version.cc`, which version of an operator takes
which operands, and `runtime_version.cc` beside it, which runtime came with that version (both also
in LiteRT, under `tflite/tools/versioning/`). What they leave out was measured.
"""

from __future__ import annotations

import dataclasses
import re

from keras_vit._errors import RefusedError, UsageError
from keras_vit.deploy.inspect.flatbuffer import (
    Graph,
    Model,
    Operator,
    as_graph,
    code_name,
    read_graph,
)


@dataclasses.dataclass(frozen=True)
class Need:
    """What one kind of operator asks of the runtime.

    Attributes:
        operator: "FULLY_CONNECTED".
        version: of the operator.
        operands: what makes it need that, in words; "" where the version says it all.
        runtime: the oldest that has it: TFLite's number ("2.17.0") or, of what came later,
            LiteRT's own ("LiteRT 2.1.0"); None where it is not known.
        layers: where it stands.

    Weights behind the flatbuffer are a need too, of no operator: its version is None.
    """

    operator: str
    version: int | None
    operands: str
    runtime: str | None
    layers: tuple[str, ...]

    def __str__(self) -> str:
        named = [layer for layer in self.layers if layer]
        place = [named[0] if len(self.layers) == 1 else f"{named[0]} and others"] if named else []
        details = ", ".join([*filter(None, [self.operands]), *place])
        version = "" if self.version is None else f" version {self.version}"
        return f"{self.operator}{version}" + (f" ({details})" if details else "")


def needs(model: Model | Graph) -> list[Need]:
    """What a file asks of the runtime, the most demanding first and the unknown before all.

    Raises:
        UsageError: as `flatbuffer.read_graph`.
    """
    graph = as_graph(model)
    layers: dict[tuple[str, int, str], list[str]] = {}
    for operator in graph.operators:
        key = (operator.name, needed_version(graph, operator), _operands(graph, operator))
        layers.setdefault(key, []).append(graph.layer(operator))
    found = [
        Need(name, version, operands, _runtime(name, version, operands), tuple(dict.fromkeys(at)))
        for (name, version, operands), at in layers.items()
    ]
    if graph.weights_behind:
        found.append(Need("weights behind the flatbuffer", None, "", _BEHIND_RUNTIME, ()))
    newest = (9,)
    return sorted(found, key=lambda n: _order(n.runtime) if n.runtime else newest, reverse=True)


def versions(model: Model | Graph) -> dict[str, int]:
    """The highest version of each operator that a file needs."""
    found: dict[str, int] = {}
    for need in needs(model):
        if need.version is not None:
            found[need.operator] = max(need.version, found.get(need.operator, 0))
    return dict(sorted(found.items()))


def runtime_floor(model: Model | Graph) -> str:
    """The oldest runtime that runs a file: "2.9.0", "LiteRT 2.1.0"; "unknown" if none is known."""
    return next((need.runtime for need in needs(model)), None) or "unknown"


def check_runtime(model: Model | Graph, minimum: str) -> None:
    """Checks that the runtime `minimum` runs a file.

    Args:
        model: a file, its content or its graph.
        minimum: "2.16.1" of TFLite, "LiteRT 2.1" of LiteRT.

    Raises:
        RefusedError: an operator needs a newer one, or one that is not known.
        UsageError: `minimum` is no version.
    """
    check_version(minimum)
    for need in needs(model):
        if need.runtime is None:
            raise RefusedError(
                f"which runtime runs {need} is not known. Received: min_runtime={minimum}; check "
                "the file on that runtime, or export another precision."
            )
        if not runs(need.runtime, minimum):
            remedy = _REMEDIES.get(need.operands, "")
            raise RefusedError(
                f"{need} needs {named_runtime(need.runtime)} or newer. "
                f"Received: min_runtime={minimum}; "
                f"{remedy}raise it to {need.runtime}."
            )


def runs(needed: str, runtime: str) -> bool:
    """Whether `runtime` runs what came with the runtime `needed`; see `LITERT_AGE`.

    Raises:
        UsageError: `runtime` is no version.
    """
    check_version(runtime)
    least, given = _order(needed), _order(runtime)
    if least[0] == given[0]:
        return given >= least
    if least[0]:  # LiteRT's own: no TFLite has it
        return False
    age = max((tflite for litert, tflite in LITERT_AGE.items() if litert <= given[1:]), default=())
    return age >= least[1:]


def check_version(runtime: str) -> None:
    """Raises a `UsageError` where `runtime` is no version such as "2.16.1" or "LiteRT 2.1"."""
    if _order(runtime) is None:
        raise UsageError(
            "min_runtime must be a version of TFLite such as 2.16.1, or of LiteRT such as "
            f"'LiteRT 2.1'. Received: {runtime!r}."
        )


def needed_version(graph: Graph, operator: Operator) -> int:
    """The version of an operator that takes its operands; at least the one that it states."""
    tensors = graph.read(operator)
    if not tensors:
        return operator.version
    first, rank = tensors[0], max(len(tensor.shape) for tensor in tensors)
    found = [operator.version, _BY_DTYPE.get(operator.name, {}).get(first.dtype, 1)]
    found += [v for least, v in _BY_RANK.get(operator.name, {}).items() if rank >= least]
    if operator.name in _PRODUCTS:
        weights = tensors[1]
        for (left, right, channels), version in _PRODUCTS[operator.name].items():
            if (first.dtype, weights.dtype) == (left, right) and channels <= (weights.scales > 1):
                found.append(version)
    if operator.name == "DEQUANTIZE" and first.dtype == "int8" and first.scales > 1:
        found.append(5)
    return max(found)


def state_versions(content: bytearray) -> Graph:
    """Writes into a file, in place, the versions and the runtime that it needs.

    An older runtime then refuses the file, which it would have run wrongly. Versions stand only
    where the file has room for them: an operator of version 1 has none.

    Returns:
        The file's graph, as it is then.

    Raises:
        UsageError: as `flatbuffer.read_graph`.
    """
    from ai_edge_litert import schema_py_generated as schema

    graph = read_graph(content)
    needed: dict[tuple[str, int], int] = {}
    for operator in graph.operators:
        key = (operator.name, operator.version)
        needed[key] = max(needed_version(graph, operator), needed.get(key, 0))
    file = schema.Model.GetRootAs(content, 0)
    stated: dict[tuple[str, int], int] = {}
    for i in range(file.OperatorCodesLength()):
        code = file.OperatorCodes(i)
        key, place = code_name(code), code._tab.Offset(_VERSION_FIELD)
        if place:
            place += code._tab.Pos
            stated[key] = needed.get(key, 1)
            content[place : place + 4] = stated[key].to_bytes(4, "little")
    floor, runtime = runtime_floor(graph), graph.stated_runtime
    for i in range(file.MetadataLength()):
        if file.Metadata(i).Name() == b"min_runtime_version" and floor[:1].isdigit():
            written = file.Buffers(file.Metadata(i).Buffer()).DataAsNumpy()  # a view of `content`
            written[:] = list(floor.encode().ljust(len(written), b"\0"))
            runtime = floor
    operators = tuple(
        dataclasses.replace(found, version=stated.get((found.name, found.version), found.version))
        for found in graph.operators
    )
    return dataclasses.replace(graph, operators=operators, stated_runtime=runtime)


def _operands(graph: Graph, operator: Operator) -> str:
    """The operands that decide about the runtime, in words; "" for all others."""
    if operator.name == "GELU" and graph.read(operator)[0].dtype == "int16":
        return "int16"
    if operator.name not in _PRODUCTS:
        return ""
    activations, weights = graph.read(operator)[:2]
    if weights.blocks:
        return _BLOCKS.format(weights.dtype)
    pair = f"{activations.dtype} by {weights.dtype}"
    if pair == "float32 by int8" and weights.scales > 1:
        return _PER_CHANNEL
    known = {(left, right) for left, right, _ in _PRODUCTS[operator.name]} | {("float32",) * 2}
    return "" if (activations.dtype, weights.dtype) in known else pair


def _runtime(name: str, version: int, operands: str) -> str | None:
    if (name, operands) in _MEASURED:
        return _MEASURED[name, operands]
    if operands not in ("", _PER_CHANNEL):
        return None
    found = _RUNTIMES.get(name, [])
    if version > len(found) or found[version - 1] == "-":
        return None
    return found[version - 1] if found[version - 1].count(".") == 2 else f"{found[version - 1]}.0"


def _order(runtime: str) -> tuple[int, ...] | None:
    """What versions are compared by; None for what is none."""
    found = re.fullmatch(r"(litert[ -]?)?(\d+)\.(\d+)(?:\.(\d+))?", runtime.strip().lower())
    if found is None:
        return None
    return (bool(found[1]), int(found[2]), int(found[3]), int(found[4] or 0))


def named_runtime(runtime: str) -> str:
    """ "TFLite 2.17.0" or "LiteRT 2.1.0"."""
    return runtime if runtime.startswith("LiteRT") else f"TFLite {runtime}"


# From which LiteRT on: up to which TFLite its operators go. LiteRT 1.0 came between TFLite 2.17 and
# 2.18; it has FULLY_CONNECTED 12 and lacks CAST 7, which 1.1.2 has (tried on both).
LITERT_AGE = {(1, 0, 0): (2, 17, 0), (1, 1, 0): (2, 18, 0)}
# TensorFlow 2.13.1 refuses weights behind the flatbuffer, tflite-runtime 2.14.0 reads them (tried
# on both, also with 2.3 GB of them).
_BEHIND_RUNTIME = "2.14.0"

# Where `OperatorCode.version` stands in its table's list of fields (schema.fbs: the third field).
_VERSION_FIELD = 8

_INT8, _INT8_INT16 = {"int8": 2}, {"int8": 2, "int16": 3}
# operator: type of its first operand: version. From op_version.cc.
_BY_DTYPE = {
    **dict.fromkeys(["GELU", "SPACE_TO_DEPTH", "SQUARED_DIFFERENCE", "SUM"], _INT8),
    **dict.fromkeys(["PACK", "PAD", "PADV2", "REDUCE_MAX", "RELU", "RSQRT"], _INT8_INT16),
    **dict.fromkeys(["BATCH_MATMUL", "CONCATENATION", "MEAN", "SOFTMAX", "TANH"], _INT8_INT16),
    **dict.fromkeys(["AVERAGE_POOL_2D", "LOGISTIC", "MAX_POOL_2D"], _INT8_INT16),
    "ADD": {"int8": 2, "int16": 3, "int64": 4},
    "BROADCAST_TO": {"float32": 2, "int32": 2, "int64": 2, "int8": 3, "int16": 3},
    "CAST": {"int8": 3, "float16": 5, "int4": 6},
    "DEQUANTIZE": {"int8": 2, "int16": 3, "float16": 3, "int4": 6},
    "EXP": {"int8": 2, "int16": 2},
    "GATHER": {"int8": 2, "bool": 3, "int16": 4, "int4": 7},
    "MAXIMUM": {"int8": 2, "int16": 4},
    "MINIMUM": {"int8": 2, "int16": 4},
    "MUL": {"int8": 2, "int16": 4, "int64": 5},
    "SLICE": {"int8": 2, "int16": 4},
    "STRIDED_SLICE": {"int8": 2, "bool": 3},
    "SUB": {"int8": 2, "int64": 4, "int16": 5},
    "TILE": {"int8": 3},
    "TRANSPOSE": {"int8": 2, "bool": 3, "int16": 5, "int4": 7},
}
# operator: from this rank on: version.
_BY_RANK = {
    "PAD": {5: 4},
    "SLICE": {5: 5},
    "STRIDED_SLICE": {5: 4},
    "TRANSPOSE": {5: 4, 6: 6},
}
# operator: type of activations, of weights, whether weights have a scale for each channel: version.
_PRODUCTS = {
    "FULLY_CONNECTED": {
        ("float32", "int8", False): 3,
        ("float32", "int8", True): 12,
        ("int8", "int8", False): 4,
        ("int8", "int4", False): 10,
        ("int16", "int8", False): 1,
        ("int16", "int4", False): 13,
    },
    "CONV_2D": {
        ("float32", "int8", False): 2,
        ("float32", "int8", True): 5,
        ("int8", "int8", False): 3,
        ("int8", "int4", False): 7,
        ("int16", "int8", False): 1,
    },
}
_PER_CHANNEL = "float32 by int8 with a scale for each channel"
_BLOCKS = "{} weights with a scale for each block"
# What those tables do not tell, run on the runtimes themselves: TFLite 2.12.0 to 2.16.1 and LiteRT
# 1.0.1 to 2.3.0. 2.12.0 refuses float32 by int4. Blocks give wrong scores on 2.16.1, on LiteRT
# 1.2.0 and, under XNNPACK, on 1.4.0 and 2.0.3; 2.14.0 dies of them.
# int16 GELU fails to run up to LiteRT 1.2.0 and runs on 1.3.0, whichever version it states.
_MEASURED = {
    ("GELU", "int16"): "LiteRT 1.3.0",
    ("FULLY_CONNECTED", "float32 by int4"): "2.14.0",
    ("FULLY_CONNECTED", _BLOCKS.format("int4")): "LiteRT 2.1.0",
}
_REMEDIES = {
    _PER_CHANNEL: "export dynamic for that runtime, int8 or float16, or ",
    _BLOCKS.format("int4"): "give int4 weights a scale for each channel, export int8, or ",
}

# operator: the runtime that came with its version 1, 2, 3 ... ("-" for one that was withdrawn), for
# the operators of our graphs and of what converters make of similar ones. From runtime_version.cc,
# but for CAST 7, which that file gives to 2.17 and LiteRT 1.0.1 does not have.
_TABLE = """
ADD                 1.5 1.14 2.4 2.6 2.13
AVERAGE_POOL_2D     1.5 1.14 2.3
BATCH_MATMUL        2.3 2.3 2.4 2.5
BROADCAST_TO        - 2.5 2.5
CAST                1.5 2.7 2.8 2.9 2.12 2.15 2.18
CONCATENATION       1.5 1.14 2.3 2.14
CONV_2D             1.5 1.14 1.14 2.3 2.4 2.9 2.11 2.15
DEQUANTIZE          1.13.1 1.14 1.15 2.2 2.7 2.18
DIV                 1.6 2.3
EXP                 1.7 2.12
EXPAND_DIMS         1.10
FULLY_CONNECTED     1.5 1.10 1.14 1.14 2.0 2.1 2.3 2.3 2.3 2.11 2.15 2.17 2.18
GATHER              1.6 1.14 1.15 2.4 2.5 2.13 2.15
GATHER_ND           1.14 2.3 2.5 2.13 2.16
GELU                2.9 2.9
LOGISTIC            1.14 1.14 2.3
MAXIMUM             1.14 1.14 2.3 2.3
MAX_POOL_2D         1.5 1.14 2.3
MEAN                1.6 1.14 2.4
MINIMUM             1.14 1.14 2.3 2.3
MUL                 1.5 1.14 1.15 2.3 2.6 2.11 2.13
NEG                 1.9
PACK                1.11 1.14 2.3 2.13
PAD                 1.5 1.14 2.4 2.6
PADV2               1.9 1.14 2.4 2.6
POW                 1.10
QUANTIZE            1.14 1.15 2.7
REDUCE_MAX          1.11 1.14 2.5
RELU                1.5 2.1 2.5
RESHAPE             1.5
RSQRT               1.10 2.5 2.15
SHAPE               1.10
SLICE               1.14 1.14 1.14 2.4 2.5 2.14
SOFTMAX             1.5 1.14 2.3
SPACE_TO_DEPTH      1.5 1.14
SPLIT               1.5 1.14 1.14 2.3
SQRT                1.10
SQUARE              1.12
SQUARED_DIFFERENCE  1.13.1 2.5
SQUEEZE             1.6 2.5
STRIDED_SLICE       1.6 1.14 2.1 2.2 2.5 2.6 2.14 2.14
SUB                 1.6 1.14 2.3 2.4 2.4
SUM                 1.10 1.15
TANH                1.14 1.14 2.3
TILE                1.10.1 2.2 2.8
TRANSPOSE           1.6 1.14 1.15 2.3 2.4 2.12 2.14.4
"""
_RUNTIMES = {name: found for name, *found in map(str.split, _TABLE.strip().splitlines())}
