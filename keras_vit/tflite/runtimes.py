"""Which runtime a `.tflite` file needs, derived from the operands of its operators.

The versions stated in the file cannot be trusted: a quantizer that replaces operands does not
update the operators' versions and the converter's `min_runtime_version`. A Dense layer with float32
activations and int8 weights with a scale for each channel then states version 5, and TFLite 2.14
silently computes wrong results: it uses the first channel's scale for all.

Sources: TensorFlow's `lite/tools/versioning/op_version.cc` (the version of an operator that
supports given operands) and `runtime_version.cc` (the first runtime with that version); both are
also in LiteRT, under `tflite/tools/versioning/`. What they leave out was measured.
"""

from __future__ import annotations

import dataclasses
import re

from keras_vit._errors import RefusedError, UsageError
from keras_vit.tflite.flatbuffer import Graph, Model, Operator, code_name, read_graph


@dataclasses.dataclass(frozen=True)
class Need:
    """The requirement of one kind of operator on the runtime.

    Attributes:
        operator: "FULLY_CONNECTED".
        version: the operator's version; None for weights behind the flatbuffer, which are a
            requirement without an operator.
        operands: a description of the operands that cause it; "" if the version is enough.
        runtime: the oldest runtime that meets it: a version of TFLite ("2.17.0") or a later one of
            LiteRT ("LiteRT 2.1.0"); None if unknown.
        layers: the layers of the operators.
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
    """The requirements of a file: unknown runtimes first, then from the newest to the oldest.

    Raises:
        UsageError: as `flatbuffer.read_graph`.
    """
    graph = read_graph(model)
    layers: dict[tuple[str, int, str], dict[str, None]] = {}
    for operator in graph.operators:
        key = (operator.name, needed_version(graph, operator), _operands(graph, operator))
        layers.setdefault(key, {})[graph.layer(operator)] = None
    requirements = [Need(*key, _runtime(*key), tuple(names)) for key, names in layers.items()]
    if graph.weights_behind:
        requirements.append(Need("weights behind the flatbuffer", None, "", _BEHIND_RUNTIME, ()))
    unknown = (9,)  # before all others
    orders = {need: _order(need.runtime) if need.runtime else unknown for need in requirements}
    return sorted(requirements, key=orders.get, reverse=True)


def versions(model: Model | Graph) -> dict[str, int]:
    """The highest version of each operator that a file needs."""
    found = [(need.operator, need.version) for need in needs(model) if need.version is not None]
    return dict(sorted(found))  # the highest version of an operator is the last one


def runtime_floor(model: Model | Graph) -> str:
    """The oldest runtime that runs a file: "2.9.0", "LiteRT 2.1.0" or "unknown"."""
    return next((need.runtime for need in needs(model)), None) or "unknown"


def check_runtime(model: Model | Graph, minimum: str) -> None:
    """Checks that the runtime `minimum` runs a file.

    Args:
        model: a file, its content or its graph.
        minimum: "2.16.1" of TFLite, "LiteRT 2.1" of LiteRT.

    Raises:
        RefusedError: an operator needs a newer runtime, or it is unknown which one it needs.
        UsageError: `minimum` is not a version.
    """
    check_version(minimum)
    for need in needs(model):
        if need.runtime is None:
            raise RefusedError(
                f"the oldest runtime for {need} is unknown. Received: min_runtime={minimum}; test "
                "the file on that runtime, or export another precision."
            )
        if not runs(need.runtime, minimum):
            remedy = _REMEDIES.get(need.operands, "")
            raise RefusedError(
                f"{need} needs {named_runtime(need.runtime)} or newer. Received: "
                f"min_runtime={minimum}; {remedy}raise it to {need.runtime}."
            )


def runs(needed: str, runtime: str) -> bool:
    """Whether `runtime` has everything that the runtime `needed` has; see `LITERT_AGE`.

    Raises:
        UsageError: `runtime` is not a version.
    """
    check_version(runtime)
    required, actual = _order(needed), _order(runtime)
    if required[0] == actual[0]:
        return actual >= required
    if required[0]:  # no TFLite has the operators that only LiteRT has
        return False
    age = max((tflite for litert, tflite in LITERT_AGE.items() if litert <= actual[1:]), default=())
    return age >= required[1:]


def check_version(runtime: str) -> None:
    """Raises a `UsageError` if `runtime` is not a version such as "2.16.1" or "LiteRT 2.1"."""
    if _order(runtime) is None:
        raise UsageError(
            "min_runtime must be a version of TFLite such as 2.16.1, or of LiteRT such as "
            f"'LiteRT 2.1'. Received: {runtime!r}."
        )


def needed_version(graph: Graph, operator: Operator) -> int:
    """The version of an operator that supports its operands; at least the one that it states."""
    tensors = graph.read(operator)
    if not tensors:
        return operator.version
    first, rank = tensors[0], max(len(tensor.shape) for tensor in tensors)
    kinds = {first.dtype: first}
    kinds |= {f"{first.dtype}*{other.dtype}": other for other in tensors[1:2]}
    found = [*kinds, *(f"{kind}s" for kind, tensor in kinds.items() if tensor.scales > 1)]
    found += [f"rank{least}" for least in (5, 6) if rank >= least]
    versions = _VERSIONS.get(operator.name, {})
    return max(operator.version, *(versions.get(kind, 1) for kind in found))


def state_versions(content: bytearray | memoryview) -> Graph:
    """Writes the versions and the runtime that a file needs into the file, in place.

    Older runtimes then refuse the file instead of running it wrongly. Operators of version 1 are
    left alone: the file has no field for their version.

    Returns:
        The file's graph with the new versions.

    Raises:
        UsageError: as `flatbuffer.read_graph`.
    """
    from ai_edge_litert import schema_py_generated as schema

    graph = read_graph(content)
    found = [((op.name, op.version), needed_version(graph, op)) for op in graph.operators]
    needed = dict(sorted(found))  # the highest version is the last one
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
        dataclasses.replace(op, version=stated.get((op.name, op.version), op.version))
        for op in graph.operators
    )
    return dataclasses.replace(graph, operators=operators, stated_runtime=runtime)


def _operands(graph: Graph, operator: Operator) -> str:
    """A description of operands that need a newer runtime; "" for all others."""
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
    known = {*_VERSIONS[operator.name], "float32*float32"}
    return "" if pair.replace(" by ", "*") in known else pair


def _runtime(name: str, version: int, operands: str) -> str | None:
    if (name, operands) in _MEASURED:
        return _MEASURED[name, operands]
    if operands not in ("", _PER_CHANNEL):
        return None
    runtimes = _RUNTIMES.get(name, [])
    if version > len(runtimes) or runtimes[version - 1] == "-":
        return None
    runtime = runtimes[version - 1]
    return runtime if runtime.count(".") == 2 else f"{runtime}.0"


def _order(runtime: str) -> tuple[int, ...] | None:
    """A sort key of versions; None if `runtime` is not a version."""
    match = re.fullmatch(r"(litert[ -]?)?(\d+)\.(\d+)(?:\.(\d+))?", runtime.strip().lower())
    if match is None:
        return None
    return (bool(match[1]), int(match[2]), int(match[3]), int(match[4] or 0))


def named_runtime(runtime: str) -> str:
    """ "TFLite 2.17.0" or "LiteRT 2.1.0"."""
    return runtime if runtime.startswith("LiteRT") else f"TFLite {runtime}"


# LiteRT: the TFLite whose operators it has. LiteRT 1.0 was released between TFLite 2.17 and 2.18;
# it has FULLY_CONNECTED 12 but not CAST 7, which 1.1.2 has (tried on both).
LITERT_AGE = {(1, 0, 0): (2, 17, 0), (1, 1, 0): (2, 18, 0)}
# TensorFlow 2.13.1 refuses weights behind the flatbuffer, tflite-runtime 2.14.0 reads them (tried
# on both, also with 2.3 GB of them).
_BEHIND_RUNTIME = "2.14.0"

# The offset of `OperatorCode.version` in the table's list of fields (schema.fbs: the third field).
_VERSION_FIELD = 8

# The versions of operators that support given operands, from op_version.cc: by the type of the
# first operand; by the types of both operands of a product; or by the least rank of an operand.
# int8s has a scale for each channel.
_OPERANDS_TABLE = """
ADD: int8=2 int16=3 int64=4
ARG_MAX: int8=2 bool=3
AVERAGE_POOL_2D BATCH_MATMUL CONCATENATION LOGISTIC MAX_POOL_2D MEAN: int8=2 int16=3
BROADCAST_TO: float32=2 int32=2 int64=2 int8=3 int16=3
CAST: int8=3 float16=5 int4=6
CONV_2D: float32*int8=2 float32*int8s=5 int8*int8=3 int8*int4=7 int16*int8=1
DEQUANTIZE: int8=2 int8s=5 int16=3 float16=3 int4=6
EXP: int8=2 int16=2
FULLY_CONNECTED: float32*int8=3 float32*int8s=12 int8*int8=4 int8*int4=10 int16*int8=1 int16*int4=13
GATHER: int8=2 bool=3 int16=4 int4=7
GELU SPACE_TO_DEPTH SQUARED_DIFFERENCE SUM: int8=2
MAXIMUM MINIMUM: int8=2 int16=4
MUL: int8=2 int16=4 int64=5
PACK PADV2 REDUCE_MAX RELU RSQRT SOFTMAX TANH: int8=2 int16=3
PAD: int8=2 int16=3 rank5=4
RESIZE_BILINEAR: int8=2 int16=4
SLICE: int8=2 int16=4 rank5=5
STRIDED_SLICE: int8=2 bool=3 rank5=4
SUB: int8=2 int64=4 int16=5
TILE: int8=3
TRANSPOSE: int8=2 bool=3 rank5=4 int16=5 rank6=6 int4=7
"""
_VERSIONS = {
    name: {kind: int(version) for kind, version in (each.split("=") for each in kinds.split())}
    for names, kinds in (row.split(":") for row in _OPERANDS_TABLE.strip().splitlines())
    for name in names.split()
}
_PRODUCTS = {"FULLY_CONNECTED", "CONV_2D"}
_PER_CHANNEL = "float32 by int8 with a scale for each channel"
_BLOCKS = "{} weights with a scale for each block"
# Not in those tables but measured on TFLite 2.12.0 to 2.16.1 and LiteRT 1.0.1 to 2.3.0. TFLite
# 2.12.0 refuses float32 by int4. Blocks crash 2.14.0 and give wrong scores on 2.16.1, on LiteRT
# 1.2.0 and, with XNNPACK, on 1.4.0 and 2.0.3. int16 GELU fails up to LiteRT 1.2.0 and runs on
# 1.3.0, whatever version it states.
_MEASURED = {
    ("GELU", "int16"): "LiteRT 1.3.0",
    ("FULLY_CONNECTED", "float32 by int4"): "2.14.0",
    ("FULLY_CONNECTED", _BLOCKS.format("int4")): "LiteRT 2.1.0",
}
_REMEDIES = {
    _PER_CHANNEL: "export dynamic for that runtime, int8 or float16, or ",
    _BLOCKS.format("int4"): "give int4 weights a scale for each channel, export int8, or ",
}

# The first runtime with version 1, 2, 3 ... of each operator ("-": withdrawn), for operators of
# keras_vit's graphs and similar ones. From runtime_version.cc, except for CAST 7: that file says
# 2.17, but LiteRT 1.0.1 does not have it.
_TABLE = """
ADD                 1.5 1.14 2.4 2.6 2.13
ARG_MAX             1.9 1.14 2.9
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
RESIZE_BILINEAR     1.7 1.14 2.2 2.5
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
_RUNTIMES = {name: runtimes for name, *runtimes in map(str.split, _TABLE.strip().splitlines())}
