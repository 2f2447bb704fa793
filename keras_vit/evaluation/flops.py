"""Counts the operations of a built model from the graph that TensorFlow traces of each layer.

`keras_vit.models.profile` computes the same numbers by formula, without building a model. This
second count uses no formula of a layer, so it checks the first one: `profile --count` fails where
they differ.
"""

from __future__ import annotations

import math
from typing import Any

from keras_vit._errors import UsageError
from keras_vit._keras import backend


def counted_flops(model: Any) -> dict[str, int]:
    """The operations of each layer's matrix products and convolutions for one image, by its name.

    Layers without any are left out.

    Args:
        model: a built Keras model whose layers have one input.

    Raises:
        UsageError: Keras' backend is not TensorFlow.
    """
    inner = model.layers[1:]  # without the input
    found = {each.name: layer_flops(each, each.input.shape[1:], each.input.dtype) for each in inner}
    return {name: flops for name, flops in found.items() if flops}


def layer_flops(layer: Any, shape: tuple[int, ...], dtype: Any = "float32") -> int:
    """The operations of a layer or function for one input of a shape, without the batch."""
    check_countable()
    import tensorflow as tf

    of_one = tf.TensorSpec((1, *shape), dtype)
    graph = tf.function(lambda x: layer(x)).get_concrete_function(of_one).graph
    return sum(map(_flops, _operations(graph)))


def check_countable() -> None:
    """Raises a `UsageError` unless Keras' backend is TensorFlow."""
    if backend() != "tensorflow":
        raise UsageError(
            "operations are counted in TensorFlow's graph, which needs KERAS_BACKEND=tensorflow. "
            f"Received: KERAS_BACKEND={backend()}."
        )


def _operations(graph: Any):
    """The operations of a graph and of the functions that it calls."""
    for operation in graph.get_operations():
        yield operation
        if operation.type in ("PartitionedCall", "StatefulPartitionedCall"):
            name = operation.get_attr("f").name
            yield from _operations(graph._get_function(name).graph)


def _flops(operation: Any) -> int:
    if operation.type in ("MatMul", "BatchMatMulV2", "BatchMatMulV3"):
        left = operation.inputs[0].shape
        transposed = "adj_x" if "Batch" in operation.type else "transpose_a"
        inner = left[-2] if operation.get_attr(transposed) else left[-1]
        return 2 * inner * math.prod(operation.outputs[0].shape)
    if operation.type == "Conv2D":
        kernel = operation.inputs[1].shape  # (height, width, inputs of a group, outputs)
        return 2 * math.prod(kernel[:3]) * math.prod(operation.outputs[0].shape)
    if operation.type == "Einsum" and len(operation.inputs) == 2:
        equation = operation.get_attr("equation").decode()
        sizes = {}
        for letters, x in zip(equation.split("->")[0].split(","), operation.inputs, strict=True):
            sizes |= dict(zip(letters, x.shape, strict=True))
        return 2 * math.prod(sizes.values())
    return 0
