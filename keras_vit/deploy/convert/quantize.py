"""Quantises float32 files to a precision, with AI Edge Quantizer.

All precisions of a model are made from one float32 file, so they differ in nothing else.
"""

from __future__ import annotations

import dataclasses
import os
import re
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from keras_vit._errors import RefusedError, UsageError, did_you_mean
from keras_vit._quiet import quiet
from keras_vit.deploy.convert.metadata import Metadata
from keras_vit.deploy.convert.quantizer import library, modified
from keras_vit.deploy.inspect.flatbuffer import (
    Graph,
    MappedFile,
    Model,
    Operator,
    read_graph,
)
from keras_vit.deploy.inspect.layout import laid_out
from keras_vit.deploy.inspect.runtimes import named_runtime, runs, state_versions
from keras_vit.deploy.precisions import (
    BLOCK,
    PRECISIONS,
    PRODUCTS,
    Kind,
    Precision,
    check_calibration,
)
from keras_vit.deploy.runner import grouped
from keras_vit.deploy.stored_arrays import StoredArrays

_MAX_STEPS = 2**30  # of a bias: half the range of int32
# Pixels lie between two steps if their range is that of the integers: at 0.5, 1.5, 2.5 ... steps.
# The last digit of a runtime's arithmetic would decide how each of them is rounded.
_WIDER = np.float32(1 + 2**-10)


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
    if precision.older is None or runs(precision.older.before, minimum):
        return precision
    return dataclasses.replace(precision, rules=precision.older.rules)


def quantized(
    content: Model,
    precision: Precision,
    calibration: np.ndarray | None = None,
    float_layers: Iterable[str] = (),
    ranges: dict[str, Any] | None = None,
    metadata: Metadata | None = None,
) -> MappedFile:
    """Quantises a float32 `.tflite` file, embeds its weights and states the versions it needs.

    Args:
        content: the file, or its content; it has a signature.
        precision: one of `PRECISIONS`.
        calibration: inputs of the file (n, height, width, 3), for precisions that need ranges.
        float_layers: names in `quantizable_layers` that stay in float.
        ranges: the result of `measured_ranges`, instead of `calibration`.
        metadata: what the file says of itself; None for nothing.

    Raises:
        UsageError: ranges are needed and there are no images, or a layer is unknown.
    """
    graph, kept = read_graph(content), frozenset(float_layers)
    if kept:
        check_layers(content, kept)
    if precision.calibrated and ranges is None:
        ranges = measured_ranges(content, precision, calibration)
    folder = tempfile.TemporaryDirectory()
    kernels = StoredArrays(Path(folder.name) / "kernels")
    recipe = _recipe(graph, precision, kept) if precision.rules else None
    model, weights = modified(content, recipe, ranges, kernels)
    described = metadata.flatbuffer(graph) if metadata else b""  # from the float32 file
    layout = laid_out(model, weights, described)
    graph, path = state_versions(layout.image), Path(folder.name) / "model.tflite"
    with path.open("wb") as file:
        file.writelines(layout.parts())
        if metadata:
            file.write(metadata.archive(graph, len(layout.image)))
    kernels.clear()
    return MappedFile(path, folder, graph)


def measured_ranges(
    content: Model, precision: Precision, calibration: np.ndarray | None
) -> dict[str, Any]:
    """The smallest and the largest value of each tensor over all images, by its name.

    The library's default is a moving average, which forgets the first images; the extremes are used
    instead, because values outside the range are clipped. They are `_WIDER` than measured.
    """
    check_calibration(precision, calibration)
    library()
    from ai_edge_quantizer import calibrator
    from ai_edge_quantizer.utils.qsv_utils import min_max_update

    graph = read_graph(content)
    recipe = _recipe(graph, precision, frozenset())
    with quiet():
        measured = calibrator.Calibrator(
            os.fspath(content) if isinstance(content, os.PathLike) else content,
            num_threads=2,
            mode=calibrator.CalibrationMode.CALIBRATION_PROFILER_BASED,
            qsv_update_func=min_max_update,
        )
        signature, runner = next(iter(measured._tfl_interpreter.get_signature_list().items()))
        [name] = runner["inputs"]
        batch = graph.tensors[graph.inputs[0]].shape[0]
        images = ({name: images} for images in grouped(calibration, batch))
        measured._get_total_operations = lambda _: 0  # so that it draws no progress bar
        measured.calibrate({signature: list(images)}, recipe)
    # The library requires ranges of the same rank as the tensors; profiling loses the rank.
    ranks = {tensor.name: len(tensor.shape) for tensor in graph.tensors}
    ranges = {
        name: {key: _WIDER * np.reshape(value, (1,) * ranks[name]) for key, value in found.items()}
        for name, found in measured.get_model_qsvs().items()
    }
    return ranges | _kernel_ranges(graph, measured._tfl_interpreter.get_tensor, ranges)


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
    graph: Graph, value: Callable[[int], np.ndarray], ranges: dict[str, Any]
) -> dict[str, Any]:
    """Ranges of kernels with channels whose weights are too small for their biases.

    A bias is stored as an int32 in steps of the input's scale times the channel's scale. If the
    weights of a channel are almost zero, this step is too small and the bias would be clipped; such
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
        step = float(np.max(limits["max"]) - np.min(limits["min"])) / 255
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
        if kind != "dynamic4":
            _add(manager, ".*", operator, kind)
            continue
        for operators in _layers(graph).values():
            for found in operators:
                if found.name == operator and graph.read(found)[1].shape[-1] % BLOCK == 0:
                    _add(manager, _scope(graph, found), operator, kind)
    for layer in sorted(float_layers):
        for found in _layers(graph)[layer]:
            _add(manager, _scope(graph, found), found.name, "float")
    return manager


def _add(manager: Any, regex: str, operator: str, kind: Kind) -> None:
    from ai_edge_quantizer.qtyping import QuantGranularity

    if kind == "float":
        manager.add_quantization_config(regex, operator, algorithm_key="no_quantize")
    elif kind == "float16":
        manager.add_weight_only_config(regex, operator, 16, algorithm_key="float_casting")
    elif kind == "dynamic8":
        manager.add_dynamic_config(regex, operator, 8)
    elif kind == "dynamic8_per_tensor":
        manager.add_dynamic_config(regex, operator, 8, QuantGranularity.TENSORWISE)
    elif kind == "dynamic4":
        manager.add_dynamic_config(regex, operator, 4, QuantGranularity.BLOCKWISE_32)
    else:
        manager.add_static_config(regex, operator, 16 if kind == "static16" else 8, 8)


def _layers(graph: Graph) -> dict[str, list[Operator]]:
    found: dict[str, list[Operator]] = {}
    for operator in graph.operators:
        if operator.name in PRODUCTS:
            found.setdefault(graph.layer(operator), []).append(operator)
    return found


def _scope(graph: Graph, operator: Operator) -> str:
    # The library matches this against the names of an operator's outputs, each followed by ";".
    return f"^{re.escape(graph.written(operator)[0].name)};?$"
