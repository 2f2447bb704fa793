"""Quantises float32 files to a precision, with AI Edge Quantizer.

All precisions of a model are made from the same float32 file, so they differ in nothing else; those
for NPUs from one without SPACE_TO_DEPTH.
"""

from __future__ import annotations

import dataclasses
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from keras_vit._errors import RefusedError, UsageError, did_you_mean
from keras_vit.deploy.convert.ai_edge_quantization import extremes, library, modified
from keras_vit.deploy.convert.metadata import described_file
from keras_vit.deploy.precisions import (
    BLOCK,
    NORM_STATISTICS,
    PRECISIONS,
    PRODUCTS,
    Kind,
    Precision,
    check_calibration,
)
from keras_vit.deploy.resolve import About
from keras_vit.deploy.stored_arrays import StoredArrays
from keras_vit.tflite.flatbuffer import Graph, MappedFile, Model, Operator, read_graph
from keras_vit.tflite.runner import grouped
from keras_vit.tflite.runtimes import named_runtime, runs

_MAX_STEPS = 2**30  # of a bias: half the range of int32
# How much wider ranges are than measured, and how many steps they have. In int8, pixels would lie
# between two steps if their range were that of the integers, at 0.5, 1.5, 2.5 ... steps, and the
# last digit of a runtime's arithmetic would decide how each of them is rounded. In int16, steps are
# so fine that other images have room, too: a clipped value costs far more than wider steps.
_WIDER: dict[Kind, tuple[float, int]] = {"static8": (1 + 2**-10, 255), "static16": (2, 65_535)}
# For each kind the method of the library's `RecipeManager`, and its settings.
_CONFIGS: dict[Kind, tuple[str, dict[str, Any]]] = {
    "float": ("add_quantization_config", {"algorithm_key": "no_quantize"}),
    "float16": ("add_weight_only_config", {"num_bits": 16, "algorithm_key": "float_casting"}),
    "dynamic8": ("add_dynamic_config", {"num_bits": 8}),
    "dynamic8_per_tensor": ("add_dynamic_config", {"num_bits": 8, "granularity": "TENSORWISE"}),
    "dynamic4": ("add_dynamic_config", {"num_bits": 4, "granularity": "BLOCKWISE_32"}),
    "static8": ("add_static_config", {"activation_num_bits": 8, "weight_num_bits": 8}),
    "static16": ("add_static_config", {"activation_num_bits": 16, "weight_num_bits": 8}),
}


def for_runtime(precision: Precision, minimum: str | None) -> Precision:
    """The precision in the form for the oldest runtime that must run it.

    Args:
        precision: one of `PRECISIONS`.
        minimum: "2.16.1" for TFLite, "LiteRT 2.1" for LiteRT; None for any runtime.

    Raises:
        RefusedError: no file of this precision runs on that runtime.
        UsageError: `minimum` is not a version.
    """
    if minimum is None:
        return precision
    if precision.runtime is not None and not runs(precision.runtime, minimum):
        others = [
            name
            for name, row in PRECISIONS.items()
            if row.runtime is None or runs(row.runtime, minimum)
        ]
        raise RefusedError(
            f"this precision needs {named_runtime(precision.runtime)} or newer. Received: "
            f"min_runtime={minimum}; choose one of {', '.join(others)}, or raise min_runtime."
        )
    if precision.older is not None:
        first, rules = precision.older
        if not runs(first, minimum):
            return dataclasses.replace(precision, rules=rules)
    return precision


def quantized(
    content: Model,
    precision: Precision,
    ranges: dict[str, Any] | None = None,
    float_layers: Iterable[str] = (),
    about: About | None = None,
) -> MappedFile:
    """Quantises a float32 `.tflite` file, embeds its weights and states the versions it needs.

    Args:
        content: the file, or its content; it has a signature.
        precision: one of `PRECISIONS`.
        ranges: the result of `measured_ranges`, for precisions that need ranges.
        float_layers: names in `quantizable_layers` that stay in float.
        about: what the file says of its model; None for nothing.

    Raises:
        UsageError: ranges are needed and there are none, or a layer is unknown.
    """
    check_calibration(precision, ranges)
    graph, kept = read_graph(content), frozenset(float_layers)
    if kept:
        check_layers(content, kept)
    folder = tempfile.TemporaryDirectory()
    kernels = StoredArrays(Path(folder.name) / "kernels")
    recipe = _recipe(graph, precision, kept) if precision.rules else None
    model, weights = modified(content, recipe, ranges, kernels)
    made = described_file(model, weights, about, graph)  # the graph of the float32 file
    kernels.clear()
    return made


def measured_ranges(
    content: Model, precision: Precision, calibration: np.ndarray | None
) -> dict[str, Any]:
    """The smallest and the largest value of each tensor over all images, by its name.

    They are `_WIDER` than measured.
    """
    check_calibration(precision, calibration)
    wider, steps = next(_WIDER[kind] for _, kind in precision.rules if kind in _WIDER)
    graph = read_graph(content)
    batches = list(grouped(calibration, graph.tensors[graph.inputs[0]].shape[0]))
    found, value = extremes(content, _recipe(graph, precision, frozenset()), batches)
    # The library requires ranges of the same rank as the tensors; profiling loses the rank.
    ranks = {tensor.name: len(tensor.shape) for tensor in graph.tensors}
    ranges = {
        name: {
            key: np.float32(wider) * np.reshape(end, (1,) * ranks[name])
            for key, end in ends.items()
        }
        for name, ends in found.items()
    }
    return ranges | _kernel_ranges(graph, value, ranges, steps)


def check_layers(content: Model, names: Iterable[str]) -> None:
    """Raises a `UsageError` if there is no layer with a kernel of one of these names."""
    known = _layers(read_graph(content))
    for name in sorted(set(names) - known.keys()):
        raise UsageError(
            f"the model has no layer {name!r} to keep in float; {did_you_mean(name, known)}"
        )


def quantizable_layers(content: Model) -> list[str]:
    """The layers of a file with a kernel, in the order of execution."""
    return list(_layers(read_graph(content)))


def _kernel_ranges(
    graph: Graph, value: Callable[[int], np.ndarray], ranges: dict[str, Any], steps: int
) -> dict[str, Any]:
    """Ranges of kernels with channels whose weights are too small for their biases.

    A bias is stored as an int32 in steps of the input's scale times the channel's scale; with int16
    inputs as an int64, which NPUs cast to int32. If the weights of a channel are almost zero, this
    step is too small and the bias would be clipped; such
    a channel gets the scale that its bias needs.
    """
    kernel_ranges = {}
    for operator in graph.operators:
        if operator.name not in PRODUCTS or len(operator.inputs) < 3:
            continue
        source, kernel, bias = operator.inputs[:3]
        tensors = graph.tensors
        if bias is None or not tensors[kernel].constant or tensors[source].name not in ranges:
            continue
        limits = ranges[tensors[source].name]
        step = float(np.max(limits["max"]) - np.min(limits["min"])) / steps
        weights = value(kernel)
        largest = np.abs(weights).max(tuple(range(1, weights.ndim)), keepdims=True)
        needed = np.abs(value(bias)).reshape(largest.shape) * 127 / (max(step, 1e-9) * _MAX_STEPS)
        if (needed > largest).any():
            largest = np.maximum(largest, needed).astype(np.float32)
            kernel_ranges[tensors[kernel].name] = {"min": -largest, "max": largest}
    return kernel_ranges


def _recipe(graph: Graph, precision: Precision, float_layers: frozenset[str]) -> Any:
    """The library's `RecipeManager` with the rules of a precision."""
    library()
    from ai_edge_quantizer import recipe_manager

    manager = recipe_manager.RecipeManager()
    for operator, kind in precision.rules:
        if operator == NORM_STATISTICS:
            for found in _norm_statistics(graph):
                _add(manager, _scope(graph, found), found.name, kind)
            continue
        if kind != "dynamic4":
            _add(manager, ".*", operator, kind)
            continue
        for found in graph.operators:
            if found.name == operator and graph.read(found)[1].shape[-1] % BLOCK == 0:
                _add(manager, _scope(graph, found), operator, kind)
    for layer in sorted(float_layers):
        for found in _layers(graph)[layer]:
            _add(manager, _scope(graph, found), found.name, "float")
    return manager


def _norm_statistics(graph: Graph) -> Iterator[Operator]:
    """The operators that lead from the square of a norm's input to its RSQRT."""
    for operator in graph.operators:
        found = operator if operator.name == "RSQRT" else None
        while found is not None:
            yield found
            sources = [i for i in found.inputs if i is not None and not graph.tensors[i].constant]
            found = graph.producers.get(sources[0]) if len(sources) == 1 else None


def _add(manager: Any, regex: str, operator: str, kind: Kind) -> None:
    method, settings = _CONFIGS[kind]
    getattr(manager, method)(regex, operator, **settings)


def _layers(graph: Graph) -> dict[str, list[Operator]]:
    found: dict[str, list[Operator]] = {}
    for operator in graph.operators:
        if operator.name in PRODUCTS:
            found.setdefault(graph.layer(operator), []).append(operator)
    return found


def _scope(graph: Graph, operator: Operator) -> str:
    # The library matches this against the names of an operator's outputs, each followed by ";".
    return f"^{re.escape(graph.written(operator)[0].name)};?$"
