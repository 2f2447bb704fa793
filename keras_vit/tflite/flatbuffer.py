"""Reads a `.tflite` file: its operators, tensors, shapes and layers, but not its weights.

The weights are inside the flatbuffer or, in a file of more than 2 GB, after it. A file is read
field by field, because the schema's `ModelT` makes an object of each of the millions of entries
that a list of a damaged file may claim.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import mmap
import os
import re
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from keras_vit._errors import RefusedError, UsageError

Model = bytes | bytearray | memoryview | str | os.PathLike
_IN_MEMORY = (bytes, bytearray, memoryview)
# Operators whose inputs after the first are weights, named after their layers.
_WEIGHTED = {"FULLY_CONNECTED", "CONV_2D", "BATCH_MATMUL"}
# Operators whose first inputs other modules look at by their place, and how many these are.
_INPUTS = dict.fromkeys(("CAST", "DEQUANTIZE", "GELU", "MEAN", "QUANTIZE", "SUM"), 1)
_INPUTS |= dict.fromkeys((*_WEIGHTED, "ADD", "MUL"), 2)
_NUMPY = {"float32": "<f4", "float16": "<f2", "int32": "<i4"}
# Numbers from the schema: fields that hold text, and the type of blockwise quantisation.
_TENSOR_NAME, _CUSTOM_CODE, _METADATA_NAME, _BLOCKWISE = 10, 6, 4, 2
# What the schema's classes raise where a file is damaged.
_DAMAGED = (struct.error, ArithmeticError, ValueError, LookupError, TypeError, AttributeError)
# A file is damaged if a list claims more entries, or a name more bytes, than this.
_MOST = 1 << 16
# TensorFlow's own scopes: they start with a capital (Gelu, BiasAdd, Tensordot), except two.
_NO_LAYER = re.compile(r"[A-Z].*|(moments|einsum)(_\d+)?")


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A tensor of a graph.

    Attributes:
        name: name given by the converter: TensorFlow's scopes, several joined by ";".
        dtype: "float32", "int8", "int4" ...
        shape: the shape; -1 for a size that is known only at run time.
        constant: whether the file holds its values.
        value: the value of a constant with one element.
        scales: number of scales it is quantised with: 0, one, or one for each channel.
        scale, zero_point: the quantisation of a tensor with one scale.
        blocks: whether it is quantised in blocks, with the scales in a separate tensor.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    constant: bool
    value: float | None = None
    scales: int = 0
    scale: float = 0.0
    zero_point: int = 0
    blocks: bool = False

    @property
    def size(self) -> int:
        """The number of elements; -1 if it is known only at run time."""
        return -1 if -1 in self.shape else math.prod(self.shape)


@dataclasses.dataclass(frozen=True)
class Operator:
    """An operator of a graph.

    Attributes:
        index: its position in the order of execution.
        name: TFLite's name, such as "FULLY_CONNECTED".
        version: the version that the file states. Tools that rewrite files do not always update it:
            see `runtimes.needed_version`.
        inputs, outputs: indices of its tensors; None for an optional input that is left out.
        options: its attributes, by their names in TFLite's schema.
    """

    index: int
    name: str
    version: int
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    options: dict[str, Any]

    @property
    def changes_rank(self) -> bool:
        """Whether it is a STRIDED_SLICE that drops or adds a dimension."""
        masks = ("shrinkAxisMask", "newAxisMask", "ellipsisMask")
        return any(self.options.get(mask) for mask in masks)


@dataclasses.dataclass(frozen=True)
class Graph:
    """The graph of a `.tflite` file, in the order of execution.

    Attributes:
        tensors, operators: all of them.
        inputs, outputs: indices of tensors.
        stated_runtime: the oldest runtime that the converter stated; None if there is none.
        weights_behind: whether weights are stored after the flatbuffer, see
            `file_layout.py`.
    """

    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    stated_runtime: str | None
    weights_behind: bool = False

    def read(self, operator: Operator) -> list[Tensor]:
        """The tensors that an operator reads, constants included."""
        return [self.tensors[i] for i in operator.inputs if i is not None]

    def written(self, operator: Operator) -> list[Tensor]:
        """The tensors that an operator writes."""
        return [self.tensors[i] for i in operator.outputs]

    @functools.cached_property
    def producers(self) -> dict[int, Operator]:
        """The operator that writes each tensor; inputs and constants are absent."""
        return {i: operator for operator in self.operators for i in operator.outputs}

    @functools.cached_property
    def consumers(self) -> dict[int, list[Operator]]:
        """The operators that read each tensor."""
        readers: dict[int, list[Operator]] = {i: [] for i in range(len(self.tensors))}
        for operator in self.operators:
            for i in set(operator.inputs) - {None}:
                readers[i].append(operator)
        return readers

    def layer(self, operator: Operator) -> str:
        """The layer of an operator, such as "encoderblock_3/attention/query".

        It is read from the scopes in the names of the operator's outputs, or of its weights; ""
        if they have no scopes. For fused operators it is the innermost layer.
        """
        weights = self.read(operator)[1:] if operator.name in _WEIGHTED else []
        for tensors in (self.written(operator), weights):
            names = {name for tensor in tensors for name in tensor.name.split(";")}
            # "transpose/perm" next to "transpose" is an input of that operation, not a layer.
            names = [name for name in names if not names.intersection(_parents(name))]
            scopes = sorted(_scope(name) for name in names)
            deepest = max(scopes, key=lambda scope: scope.count("/") + bool(scope), default="")
            if deepest:
                return deepest
        return ""


class MappedFile(os.PathLike):
    """A `.tflite` file on disk, with its graph, which is read only once.

    Args:
        path: the file.
        folder: an object that removes the file's folder; it is kept as long as this one.
        graph: its graph, if that is known.
    """

    def __init__(self, path: Path, folder: Any = None, graph: Graph | None = None):
        self.path = path
        self._folder = folder
        if graph is not None:
            vars(self)["graph"] = graph

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return "the model"  # in errors, which should not name a temporary file

    def __len__(self) -> int:
        return self.path.stat().st_size

    def read_bytes(self) -> bytes:
        """The content of the file."""
        return self.path.read_bytes()

    @functools.cached_property
    def graph(self) -> Graph:
        """The graph; raises the errors of `read_graph`."""
        return _read_graph(self)


def mapped(model: Model) -> Any:
    """A file's content, or a memory map of it."""
    content = model
    if not isinstance(model, _IN_MEMORY):
        with existing_file(model).open("rb") as file:
            empty = os.fstat(file.fileno()).st_size == 0
            content = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if content[4:8] != b"TFL3":
        raise UsageError(f"{_name(model)} is not a TFLite model: bytes 4 to 8 are not TFL3.")
    return content


def read_graph(model: Model | Graph) -> Graph:
    """The graph of a `.tflite` file.

    Args:
        model: the file, which is mapped and not loaded, or its content; a graph is returned as it
            is.

    Raises:
        UsageError: it is not a TFLite model, has several graphs, or has operators that TFLite
            does not have.
    """
    if isinstance(model, Graph):
        return model
    return model.graph if isinstance(model, MappedFile) else _read_graph(model)


def _read_graph(model: Model) -> Graph:
    from ai_edge_litert import schema_py_generated as schema

    content, name = mapped(model), _name(model)
    try:
        file = schema.Model.GetRootAs(content, 0)
        count = file.SubgraphsLength()
        if count != 1:
            raise UsageError(f"{name}: expected a model of one graph. Received: {count}.")
        graph = file.Subgraphs(0)
        codes = [code_name(code) for code in _items(file, "OperatorCodes")]
        tensors = tuple(_tensor(tensor, file, content) for tensor in _items(graph, "Tensors"))
        operators = tuple(
            _operator(i, operator, *codes[operator.OpcodeIndex()], len(tensors))
            for i, operator in enumerate(_items(graph, "Operators"))
        )
        inputs, outputs = (_indices(graph, name, len(tensors)) for name in ("Inputs", "Outputs"))
        runtime = _stated_runtime(file)
        behind = any(file.Buffers(i).Size() for i in range(file.BuffersLength()))
        found = Graph(tensors, operators, inputs, outputs, runtime, behind)
    except UsageError:
        raise
    except _DAMAGED as error:
        raise UsageError(f"{name} is not a TFLite model: {error}.") from None
    builtin = set(_names("BuiltinOperator").values())
    foreign = [operator for operator in found.operators if operator.name not in builtin]
    if foreign:
        places = sorted({f"{op.name} ({found.layer(op) or 'unknown layer'})" for op in foreign})
        raise UsageError(
            f"{name} needs operators that are not TFLite's own: {', '.join(places)}; write those "
            "layers with operations that TFLite has."
        )
    return found


def operators(model: Model | Graph) -> dict[str, int]:
    """The number of operators of each name in a file.

    Raises:
        UsageError: as `read_graph`.
    """
    return dict(sorted(Counter(op.name for op in read_graph(model).operators).items()))


def check_static(model: Model | Graph) -> None:
    """Checks that all sizes are fixed, because delegates refuse dynamic ones.

    Raises:
        RefusedError: the size of a tensor is known only at run time.
    """
    graph = read_graph(model)
    if dynamic := [tensor for tensor in graph.tensors if -1 in tensor.shape]:
        first = dynamic[0]
        raise RefusedError(
            f"{len(dynamic)} tensors have sizes that are known only at run time, the first "
            f"{first.name} {list(first.shape)}; delegates do not run them. Fix the batch size."
        )


def code_name(code: Any) -> tuple[str, int]:
    """The name (for a custom operator, its own name) and the version in an `OperatorCode`."""
    # Codes above 127 are in the newer of two fields; old files only have the older one.
    number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
    return _text(code, _CUSTOM_CODE) or _names("BuiltinOperator")[number], code.Version()


def _name(model: Model) -> str:
    """What error messages call a file."""
    return "the model" if isinstance(model, _IN_MEMORY) else str(model)


def existing_file(model: str | os.PathLike) -> Path:
    """The path of a `.tflite` file; raises a `UsageError` if there is none."""
    if not Path(model).is_file():
        raise UsageError(f"{model}: expected a .tflite file; there is no such file.")
    return Path(model)


def _items(table: Any, name: str) -> list[Any]:
    """The entries of one of a table's lists."""
    count = getattr(table, f"{name}Length")()
    if count > _MOST:
        raise ValueError(f"it claims {count} {name}")
    return [getattr(table, name)(i) for i in range(count)]


def _text(table: Any, field: int) -> str:
    """A text of a table; "" if it is missing."""
    place = table._tab.Offset(field)
    if not place:
        return ""
    length = table._tab.VectorLen(place)  # checked first: the schema's own methods copy the text
    if length > _MOST:
        raise ValueError(f"it claims a text of {length} bytes")
    return table._tab.String(place + table._tab.Pos).decode()


def _indices(table: Any, name: str, tensors: int, least: int = 0) -> tuple[int, ...]:
    """A list of indices of tensors."""
    found = _items(table, name)
    if absent := [i for i in found if not least <= i < tensors]:
        raise IndexError(f"it claims a tensor {absent[0]} of {tensors}")
    return tuple(found)


def _tensor(tensor: Any, file: Any, content: Any) -> Tensor:
    if tensor.Buffer() >= file.BuffersLength():
        raise IndexError(f"it claims a buffer {tensor.Buffer()} of {file.BuffersLength()}")
    buffer = file.Buffers(tensor.Buffer())
    constant = buffer.DataLength() > 0 or buffer.Size() > 0
    shape = tuple(_items(tensor, "ShapeSignature") or _items(tensor, "Shape"))
    dtype = _names("TensorType")[tensor.Type()].lower()
    quantization = tensor.Quantization()
    scales, points = _numbers(quantization, "Scale"), _numbers(quantization, "ZeroPoint")
    single = constant and math.prod(shape) == 1 and dtype in _NUMPY
    name = _text(tensor, _TENSOR_NAME)
    value = _first(buffer, content, _NUMPY[dtype]) if single else None
    scale = float(scales[0]) if len(scales) == 1 else 0.0
    zero_point = int(points[0]) if len(points) == 1 else 0
    blocks = quantization is not None and quantization.DetailsType() == _BLOCKWISE
    return Tensor(name, dtype, shape, constant, value, len(scales), scale, zero_point, blocks)


def _numbers(table: Any, name: str) -> Any:
    """A list of numbers of a table; empty if one of them is missing."""
    missing = table is None or getattr(table, f"{name}IsNone")()
    return [] if missing else getattr(table, f"{name}AsNumpy")()


def _first(buffer: Any, content: Any, dtype: str) -> float:
    # For a buffer after the flatbuffer, the flatbuffer stores its offset in the file.
    inside = buffer.Size() == 0
    raw, start = (buffer.DataAsNumpy(), 0) if inside else (content, buffer.Offset())
    return np.frombuffer(raw, dtype, 1, start)[0].item()


def _operator(index: int, operator: Any, name: str, version: int, tensors: int) -> Operator:
    from ai_edge_litert import schema_py_generated as schema

    options = schema.BuiltinOptionsCreator(operator.BuiltinOptionsType(), operator.BuiltinOptions())
    inputs = _indices(operator, "Inputs", tensors, -1)
    outputs = _indices(operator, "Outputs", tensors)
    needed = _INPUTS.get(name, 0)
    if len(inputs) < needed or -1 in inputs[:needed] or (needed and not outputs):
        raise ValueError(f"it claims {name} of inputs {inputs[:9]} and outputs {outputs[:9]}")
    read = tuple(None if i < 0 else i for i in inputs)
    return Operator(index, name, version, read, outputs, dict(vars(options)) if options else {})


def _stated_runtime(file: Any) -> str | None:
    for entry in _items(file, "Metadata"):
        if _text(entry, _METADATA_NAME) == "min_runtime_version":
            data = file.Buffers(entry.Buffer()).DataAsNumpy()
            return bytes(data[:_MOST]).rstrip(b"\0").decode() or None if len(data) else None
    return None


def _scope(name: str) -> str:
    """The layer in "encoderblock_3/mlp/Gelu/mul_3", without the names of operations."""
    parts = name.split("/")[:-1]
    while parts and _NO_LAYER.fullmatch(parts[-1]):
        parts.pop()
    return "/".join(parts)


def _parents(name: str) -> list[str]:
    parts = name.split("/", 100)  # a layer is not deeper, and all parents of a long name take time
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


@functools.cache
def _names(enumeration: str) -> dict[int, str]:
    """The names of an enumeration of the schema by their numbers."""
    from ai_edge_litert import schema_py_generated as schema

    return {v: k for k, v in vars(getattr(schema, enumeration)).items() if isinstance(v, int)}
