"""Emulates a GPU's half precision for a whole float file, in NumPy.

GPU delegates compute in half precision by default, but no device of the developer's machine may do
so (SwiftShader does not), and XNNPACK's half precision sums in float32. Here inputs, weights and
the result of every operator are rounded to float16. Sums are kept in float32 or in float16, the two
ends of what GPUs do; in float16 four products are added at a time, as shaders do with vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from keras_vit._errors import RefusedError
from keras_vit._quiet import quiet
from keras_vit.tflite.flatbuffer import Graph, Model, Operator, read_graph
from keras_vit.tflite.runner import as_source, interpreter_class

Sums = Literal["float32", "float16"]
_VECTOR = 4  # products that a shader adds at once


class Emulated(NamedTuple):
    """The result of an emulation.

    Attributes:
        scores: the file's output (n, ...); None if a value overflowed.
        overflow: the first operator with a value that is not finite, and its layer: "MEAN of
            encoderblock_0/norm_attention"; "" if there is none.
    """

    scores: np.ndarray | None
    overflow: str


def emulate(model: Model, inputs: np.ndarray, sums: Sums) -> Emulated:
    """Computes a float file in half precision.

    Args:
        model: the file or its content.
        inputs: inputs of the file (n, height, width, 3).
        sums: the type in which products and values are summed.

    Raises:
        RefusedError: the file has an operator that is not emulated, or computes in integers.
    """
    emulator = _Emulator(model, sums)
    scores = []
    for tensor in inputs:
        found = emulator(tensor[None])
        if found.overflow:
            return found
        scores.append(found.scores)
    return Emulated(np.concatenate(scores), "")


class _Emulator:
    def __init__(self, model: Model, sums: Sums):
        self.graph, self.sums = read_graph(model), sums
        check_emulated(self.graph)
        with quiet():
            self.file = interpreter_class()(**as_source(model))  # only its constants are read
        self.last_use = {i: op.index for op in self.graph.operators for i in op.inputs}
        self.last_use |= dict.fromkeys(self.graph.outputs)  # these stay

    def __call__(self, tensor: np.ndarray) -> Emulated:
        values = {self.graph.inputs[0]: _half(tensor)}
        for operator in self.graph.operators:
            arguments = [None if i is None else self.value(values, i) for i in operator.inputs]
            with np.errstate(all="ignore"):  # what overflows is found below
                result = _half(_OPERATORS[operator.name](self, operator, *arguments))
            if not np.isfinite(result).all():
                layer = self.graph.layer(operator)
                return Emulated(None, operator.name + (f" of {layer}" if layer else ""))
            values[operator.outputs[0]] = result
            for i in operator.inputs:
                if self.last_use[i] == operator.index:
                    values.pop(i, None)
        return Emulated(values[self.graph.outputs[0]], "")

    def value(self, values: dict[int, np.ndarray], index: int) -> np.ndarray:
        if index in values:
            return values[index]
        constant = self.file.get_tensor(index)
        return _half(constant) if constant.dtype.kind == "f" else constant

    def shape(self, operator: Operator) -> tuple[int, ...]:
        return self.graph.tensors[operator.outputs[0]].shape

    def product(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """(..., rows, n) times (..., n, columns)."""
        if self.sums == "float32":
            return a @ b
        total = np.zeros((), np.float32)
        for i in range(0, a.shape[-1], _VECTOR):
            total = _half(total + a[..., i : i + _VECTOR] @ b[..., i : i + _VECTOR, :])
        return total

    def total(self, x: np.ndarray, axes: tuple[int, ...], keep: bool) -> np.ndarray:
        """The sum over some axes."""
        if self.sums == "float32":
            return x.sum(axes, keepdims=keep)
        kept = [i for i in range(x.ndim) if i not in axes]
        count = math.prod(x.shape[i] for i in axes)
        # (kept, summed)
        rows = x.transpose(*kept, *axes).reshape(-1, count)
        result = self.product(rows, np.ones((count, 1), np.float32))
        shape = [1 if i in axes else side for i, side in enumerate(x.shape) if keep or i in kept]
        return result.reshape(shape)


def check_emulated(graph: Graph) -> None:
    """Raises a `RefusedError` for operators that are not in the table, and for integers."""
    unknown = sorted({op.name for op in graph.operators} - _OPERATORS.keys())
    if unknown:
        raise RefusedError(f"half precision is not emulated for {', '.join(unknown)}")
    # Classes at the end of a file are not computed with.
    computing = [op for op in graph.operators if op.name not in ("ARG_MAX", "CAST")]
    moving = {graph.tensors[i].dtype for op in computing for i in op.outputs}
    if moving - {"float32", "float16"}:
        raise RefusedError("half precision is emulated only for files that compute in float")


def _half(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.asarray(x, np.float16).astype(np.float32)


def _fused(operator: Operator, x: np.ndarray) -> np.ndarray:
    return _ACTIVATIONS[operator.options.get("fusedActivationFunction", 0)](x)


def _fully_connected(emulator, operator, x, kernel, bias=None):
    y = emulator.product(x.reshape(-1, kernel.shape[1]), kernel.T)  # (rows, channels)
    y = y if bias is None else y + bias
    return _fused(operator, y).reshape(emulator.shape(operator))


def _batch_matmul(emulator, operator, a, b):
    a = np.swapaxes(a, -1, -2) if operator.options.get("adjX") else a
    b = np.swapaxes(b, -1, -2) if operator.options.get("adjY") else b
    return emulator.product(a, b)


def _windows(emulator, operator, x, size, padding_value):
    """The windows (batch, rows, columns, channels, height, width) of a convolution or pooling."""
    options, shape = operator.options, emulator.shape(operator)
    strides = (options["strideH"], options["strideW"])
    if options["padding"] == 0:  # SAME
        sizes = zip(shape[1:3], strides, size, x.shape[1:3], strict=True)
        pads = [max((out - 1) * stride + window - side, 0) for out, stride, window, side in sizes]
        sides = [(pad // 2, pad - pad // 2) for pad in pads]
        x = np.pad(x, [(0, 0), *sides, (0, 0)], constant_values=padding_value)
    windows = np.lib.stride_tricks.sliding_window_view(x, size, (1, 2))
    return windows[:, :: strides[0], :: strides[1]]


def _convolution(emulator, operator, x, kernel, bias=None):
    count, height, width, channels = kernel.shape
    windows = _windows(emulator, operator, x, (height, width), 0.0)
    # (batch, rows, columns, channels, height, width) to (positions, height * width * channels)
    rows = windows.transpose(0, 1, 2, 4, 5, 3).reshape(-1, height * width * channels)
    return _fully_connected(emulator, operator, rows, kernel.reshape(count, -1), bias)


def _max_pool(emulator, operator, x):
    size = (operator.options["filterHeight"], operator.options["filterWidth"])
    windows = _windows(emulator, operator, x, size, -np.inf)
    return _fused(operator, windows.max((-1, -2)))


def _sum(emulator, operator, x, axes):
    axes = tuple(int(axis) % x.ndim for axis in np.atleast_1d(axes))
    return emulator.total(x, axes, operator.options["keepDims"])


def _mean(emulator, operator, x, axes):
    total = _sum(emulator, operator, x, axes)
    return total / (x.size // total.size)


def _softmax(emulator, operator, x):
    powers = _half(np.exp(operator.options["beta"] * (x - x.max(-1, keepdims=True))))
    return powers / emulator.total(powers, (x.ndim - 1,), True)


def _gelu(emulator, operator, x):
    if operator.options["approximate"]:
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    import tensorflow as tf

    return 0.5 * x * (1 + tf.math.erf(x / math.sqrt(2)).numpy())


def _space_to_depth(emulator, operator, x):
    size = operator.options["blockSize"]
    batch, height, width, channels = x.shape
    x = x.reshape(batch, height // size, size, width // size, size, channels)
    # (batch, rows, size, columns, size, channels) to (batch, rows, columns, size * size * channels)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(emulator.shape(operator))


def _resize_bilinear(emulator, operator, x, size):
    for axis, length in zip((1, 2), size, strict=True):
        places = _read_places(x.shape[axis], int(length), operator.options)
        first = np.floor(places).astype(int)
        last = np.minimum(first + 1, x.shape[axis] - 1)
        weights = (places - first).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
        x = _half(x.take(first, axis) * (1 - weights) + x.take(last, axis) * weights)
    return x


def _read_places(length: int, new_length: int, options: dict[str, Any]) -> np.ndarray:
    """Which places a bilinear resize reads."""
    places = np.arange(new_length, dtype=np.float32)
    if options.get("alignCorners"):
        return places * ((length - 1) / max(new_length - 1, 1))
    half = 0.5 if options.get("halfPixelCenters") else 0.0
    places = (places + half) * (length / new_length) - half
    return np.clip(places, 0, length - 1)


def _strided_slice(emulator, operator, x, begin, end, strides):
    options, places = operator.options, []
    for i, (first, last, step) in enumerate(zip(begin, end, strides, strict=True)):
        first = None if options["beginMask"] >> i & 1 else int(first)
        last = None if options["endMask"] >> i & 1 else int(last)
        dropped = options["shrinkAxisMask"] >> i & 1
        places.append(int(begin[i]) if dropped else slice(first, last, int(step)))
    return x[tuple(places)]


def _slice(emulator, operator, x, begin, size):
    ends = [None if n < 0 else first + n for first, n in zip(begin, size, strict=True)]
    return x[tuple(slice(first, end) for first, end in zip(begin, ends, strict=True))]


def _elementwise(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda emulator, operator, *read: _fused(operator, function(*read))


_ACTIVATIONS: dict[int, Callable[[np.ndarray], np.ndarray]] = {
    0: lambda x: x,
    1: lambda x: np.maximum(x, 0),
    2: lambda x: np.clip(x, -1, 1),
    3: lambda x: np.clip(x, 0, 6),
    4: np.tanh,
}
_OPERATORS: dict[str, Callable[..., Any]] = {
    "FULLY_CONNECTED": _fully_connected,
    "BATCH_MATMUL": _batch_matmul,
    "CONV_2D": _convolution,
    "MAX_POOL_2D": _max_pool,
    "SUM": _sum,
    "MEAN": _mean,
    "SOFTMAX": _softmax,
    "GELU": _gelu,
    "SPACE_TO_DEPTH": _space_to_depth,
    "RESIZE_BILINEAR": _resize_bilinear,
    "ARG_MAX": lambda emulator, operator, x, axis: x.argmax(int(axis)),
    "STRIDED_SLICE": _strided_slice,
    "SLICE": _slice,
    "ADD": _elementwise(np.add),
    "SUB": _elementwise(np.subtract),
    "MUL": _elementwise(np.multiply),
    "DIV": _elementwise(np.divide),
    "SQUARED_DIFFERENCE": _elementwise(lambda a, b: _half(a - b) ** 2),
    "RSQRT": _elementwise(lambda x: 1 / np.sqrt(x)),
    "SQRT": _elementwise(np.sqrt),
    "SQUARE": _elementwise(np.square),
    "EXP": _elementwise(np.exp),
    "TANH": _elementwise(np.tanh),
    "LOGISTIC": _elementwise(lambda x: 1 / (1 + np.exp(-x))),
    "RELU": _elementwise(lambda x: np.maximum(x, 0)),
    "RELU6": _elementwise(lambda x: np.clip(x, 0, 6)),
    "MAXIMUM": _elementwise(np.maximum),
    "MINIMUM": _elementwise(np.minimum),
    "NEG": _elementwise(np.negative),
    "CAST": _elementwise(lambda x: x),
    "DEQUANTIZE": _elementwise(lambda x: x),
    "RESHAPE": lambda emulator, operator, x, *_: x.reshape(emulator.shape(operator)),
    "TRANSPOSE": lambda emulator, operator, x, order: x.transpose(order),
    "CONCATENATION": lambda emulator, operator, *read: np.concatenate(
        read, operator.options["axis"]
    ),
    "PAD": lambda emulator, operator, x, margins: np.pad(x, margins),
    "TILE": lambda emulator, operator, x, repeats: np.tile(x, repeats),
}
