"""Replaces the head of a `.tflite` file, if it is in float and nothing else depends on it."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import numpy as np

from keras_vit._errors import RefusedError
from keras_vit.deploy.convert.metadata import described_file
from keras_vit.deploy.resolve import About
from keras_vit.tflite.file_layout import METADATA, loaded, split
from keras_vit.tflite.flatbuffer import Graph, MappedFile, Model, Operator, read_graph


def with_head(file: Model, kernel: np.ndarray, bias: np.ndarray, about: About) -> MappedFile:
    """The file with another head, for as many classes as that has.

    Args:
        file: a `.tflite` file whose last layer is "head", in float32.
        kernel: float32 (features, classes).
        bias: float32 (classes,).
        about: what the new file says of its model.

    Raises:
        RefusedError: the head of the file cannot be replaced: it is not in float32, has another
            number of features, or its scores are made integers.
    """
    graph = read_graph(file)
    head = _head_of(graph, kernel.shape[0])
    has_bias = len(head.inputs) > 2 and head.inputs[2] is not None
    if bias.any() and not has_bias:
        raise _irreplaceable("it has no bias")
    model, shape = loaded(file), (1, kernel.shape[1])
    _without_metadata(model)
    _store(model, head, 1, np.ascontiguousarray(kernel.T))
    if has_bias:
        _store(model, head, 2, bias)
    tensors = list(graph.tensors)
    for i in _scores_after(graph, head):
        model.subgraphs[0].tensors[i].shape = np.array(shape, np.int32)
        tensors[i] = dataclasses.replace(tensors[i], shape=shape)
    graph = dataclasses.replace(graph, tensors=tuple(tensors))
    return described_file(*split(model), about, graph)


def _head_of(graph: Graph, features: int) -> Operator:
    """The operator of the head; raises a `RefusedError` if it cannot be replaced."""
    found = [
        operator
        for operator in graph.operators
        if operator.name == "FULLY_CONNECTED" and graph.layer(operator) == "head"
    ]
    if len(found) != 1:
        raise _irreplaceable(f"expected one layer of the name head. Received: {len(found)}")
    kernel = graph.read(found[0])[1]
    if (kernel.dtype, kernel.constant, kernel.shape[1:]) != ("float32", True, (features,)):
        raise _irreplaceable(
            f"expected float32 weights for {features} features. "
            f"Received: {kernel.dtype} {kernel.shape}"
        )
    return found[0]


def _scores_after(graph: Graph, head: Operator) -> list[int]:
    """The tensors from the head to the output of the file, one score for each class."""
    [scores] = found = list(head.outputs)
    while scores not in graph.outputs:
        readers = graph.consumers[scores]
        if [reader.name for reader in readers] not in (["SOFTMAX"], ["LOGISTIC"]):
            raise _irreplaceable("something other than a softmax or a sigmoid reads its scores")
        [scores] = readers[0].outputs
        found.append(scores)
    return found


def _store(model: Any, head: Operator, place: int, values: np.ndarray) -> None:
    """Sets an input of the head. Converters store equal constants once, so others may read it."""
    [graph] = model.subgraphs
    i = head.inputs[place]
    tensor = graph.tensors[i]
    if sum(list(operator.inputs).count(i) for operator in graph.operators) > 1:
        tensor = copy.copy(tensor)
        graph.tensors.append(tensor)
        operator = graph.operators[head.index]
        operator.inputs = np.array(operator.inputs)  # which was read-only
        operator.inputs[place] = len(graph.tensors) - 1
    if [each.buffer for each in graph.tensors].count(tensor.buffer) > 1:
        model.buffers.append(copy.copy(model.buffers[tensor.buffer]))
        tensor.buffer = len(model.buffers) - 1
    model.buffers[tensor.buffer].data = values.reshape(-1).view(np.uint8)
    tensor.shape = np.array(values.shape, np.int32)


def _without_metadata(model: Any) -> None:
    """Removes the TFLite Metadata, which name the labels."""
    entries = model.metadata or []
    for entry in [each for each in entries if each.name == METADATA]:
        entries.remove(entry)
        if entry.buffer == len(model.buffers) - 1:
            model.buffers.pop()
        else:
            model.buffers[entry.buffer].data = None


def _irreplaceable(why: str) -> RefusedError:
    return RefusedError(f"the head of this file cannot be replaced: {why}; convert it again.")
