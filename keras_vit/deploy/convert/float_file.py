"""Converts a rebuilt graph without its weights, then writes the weights into the float32 file.

The operators of a graph do not depend on its weights, but TFLite's converter needs several times
their memory. So each kernel is a placeholder when the graph is converted: a tensor with one value.
The kernels of a layer in all blocks have the same value, and the converter stores equal tensors
once. Then each operator that reads a placeholder gets the kernel of its own block.
"""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_vit._interrupts import deferred_interrupts
from keras_vit._quiet import quiet
from keras_vit.deploy.graph.graph_options import InferenceGraph
from keras_vit.deploy.graph.inference import forward, module_of, variables_of
from keras_vit.tflite.file_layout import laid_out, unpacked
from keras_vit.tflite.processes import release_memory

_SMALLEST = 1 << 14  # elements; smaller kernels are converted as they are, as all other weights
_BLOCK = re.compile(r"^encoderblock_(\d+)/")


def write_float_file(graph: InferenceGraph, path: Path) -> bool:
    """Converts a graph to a float32 file with its weights behind the flatbuffer.

    Args:
        graph: a prepared graph with its weights on disk.
        path: the file to write.

    Returns:
        False, without a file, if the converter computes with a kernel: for example, it multiplies
        one with a constant that follows the product. Such a graph is converted with its weights.
    """
    placeholders = _placeholders(graph.weights)
    filled = _filled(_converted(graph, placeholders), graph.weights, placeholders)
    if filled is not None:
        with path.open("wb") as file:
            file.writelines(laid_out(*filled, behind=True).parts())
    return filled is not None


def convert(converter: Any) -> bytes:
    """The float32 file of a `tf.lite.TFLiteConverter`, with its weights behind the flatbuffer."""
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    # Writes weights after the flatbuffer: files may exceed 2 GB, and use less memory.
    converter._experimental_use_buffer_offset = True
    release_memory()
    with quiet(), deferred_interrupts() as check_interrupts:  # the converter would ignore them
        content = converter.convert()
        check_interrupts()
    return content


def _placeholders(weights: Mapping[str, np.ndarray]) -> dict[float, list[str]]:
    """The kernels that become placeholders, in the order of blocks, by the values of these."""
    kinds: dict[tuple, list[str]] = {}
    for name, array in weights.items():
        if name.endswith("/kernel") and array.size >= _SMALLEST:
            kinds.setdefault((_BLOCK.sub("", name), array.shape), []).append(name)
    # Exact in float32, and neither 0 nor 1, with which the converter would simplify the graph.
    return {
        1 + 2**-16 * (i + 1): sorted(kinds[kind], key=_block_of)
        for i, kind in enumerate(sorted(kinds))
    }


def _block_of(name: str) -> int:
    found = _BLOCK.match(name)
    return int(found[1]) if found else 0


def _converted(graph: InferenceGraph, placeholders: dict[float, list[str]]) -> bytes:
    """The converted graph, with placeholders instead of the kernels that they stand for."""
    values = {name: value for value, names in placeholders.items() for name in names}

    def scores(images):
        tensors = {
            name: tf.fill(array.shape, np.float32(values[name]))
            if name in values
            else tf.constant(array)
            # The file's constants are in the order of these tensors.
            for name, array in reversed(list(graph.weights.items()))
        }
        return forward(dataclasses.replace(graph, weights=tensors), images)

    shape = (*graph.image_size, graph.spec.in_channels)
    module = module_of(scores, shape, graph.options, variables_of(graph.tail))
    functions = [module.serve.get_concrete_function()]
    return convert(tf.lite.TFLiteConverter.from_concrete_functions(functions, module))


def _filled(
    content: bytes, weights: Mapping[str, np.ndarray], placeholders: dict[float, list[str]]
) -> tuple[Any, dict[int, np.ndarray]] | None:
    """The graph where each operator that reads a placeholder has a buffer of its own.

    Returns:
        The `ModelT`, and the contents of its buffers behind the flatbuffer, by their numbers; None
        if the placeholders that are read are not those that were written.
    """
    from ai_edge_litert import schema_py_generated as schema

    model, behind = unpacked(content)
    [graph] = model.subgraphs
    found = {i: _placeholder(array, placeholders) for i, array in behind.items()}
    read = {i: found.get(tensor.buffer) for i, tensor in enumerate(graph.tensors)}
    names = {value: iter(kernels) for value, kernels in placeholders.items()}
    filled: dict[int, np.ndarray] = {}
    seen = set()
    for operator in graph.operators:
        operator.inputs = np.array(operator.inputs)
        for place, i in enumerate(operator.inputs):
            value = read.get(i)  # i is -1 if an optional input is left out
            if value is None:
                continue
            name = next(names[value], None)
            tensor = graph.tensors[i]
            weight = None if name is None else _arranged(weights[name], model, operator, place)
            if weight is None or weight.size != np.prod(tensor.shape):
                return None
            if i in seen:
                tensor = copy.copy(tensor)
                graph.tensors.append(tensor)
                operator.inputs[place] = len(graph.tensors) - 1
            seen.add(i)
            if tensor.buffer in filled:
                model.buffers.append(schema.BufferT())
                tensor.buffer = len(model.buffers) - 1
            tensor.name = name.encode()
            filled[tensor.buffer] = weight
    if any(next(left, None) is not None for left in names.values()):
        return None
    return model, behind | filled


def _placeholder(array: np.ndarray, placeholders: dict[float, list[str]]) -> float | None:
    """The value of the placeholder in a buffer, if there is one."""
    if array.nbytes < 4 * _SMALLEST:
        return None
    values = array.view("<f4")
    value = float(values[0])
    return value if value in placeholders and (values == value).all() else None


def _arranged(weight: np.ndarray, model: Any, operator: Any, place: int) -> np.ndarray:
    """A weight as an operator reads it, without a copy."""
    from ai_edge_litert.schema_py_generated import BuiltinOperator

    kind, options = model.operatorCodes[operator.opcodeIndex].builtinCode, operator.builtinOptions
    if place == 1 and kind == BuiltinOperator.FULLY_CONNECTED:
        return weight.T  # (outputs, inputs)
    if place == 1 and kind == BuiltinOperator.CONV_2D:
        return weight.transpose(3, 0, 1, 2)  # (outputs, height, width, inputs)
    if kind == BuiltinOperator.BATCH_MATMUL and (options.adjX, options.adjY)[place]:
        return np.swapaxes(weight, -1, -2)
    return weight
