"""Builds sublayers explicitly, with the same variable names that calling them gives."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from keras_vit._keras import LEGACY, keras
from keras_vit.parts.rows import Row

# How rows are initialised, as in the official code.
INITIALIZERS = {
    "zeros": lambda layer: "zeros",
    "ones": lambda layer: "ones",
    "glorot": lambda layer: "glorot_uniform",
    "lecun": lambda layer: "lecun_normal",
    "tiny": lambda layer: keras.initializers.RandomNormal(stddev=1e-6),
    "layer_scale": lambda layer: keras.initializers.Constant(layer.layer_scale),
}


def named_build(
    layer: keras.layers.Layer, input_shape: tuple[int | None, ...], trainable: bool = True
) -> None:
    """Builds a sublayer so that the names of its variables start with its own name.

    Keras 3 always does this. In tf_keras, all kernels of a block would be called "kernel", and its
    HDF5 files cannot have two variables of the same name.

    Args:
        layer: the sublayer.
        input_shape: the shape of its input.
        trainable: whether its parent is trainable. Keras freezes only the sublayers that a layer
            has at that moment, and a layer that is loaded frozen creates its sublayers later.
    """
    if LEGACY:
        with keras.backend.name_scope(layer.name):
            layer.build(input_shape)
    else:
        layer.build(input_shape)
    if not trainable:
        layer.trainable = False


def build_rows(layer: Any, rows: Sequence[Row], **sizes: int) -> None:
    """Gives a layer the Dense layers and variables that rows list, as attributes, and builds them.

    Args:
        layer: the layer that is being built.
        rows: weights of the layer itself, or kernels and biases of its Dense layers.
        sizes: the sizes in the rows' shapes.
    """
    for name, group in itertools.groupby(rows, lambda row: row.path.split("/")[0]):
        weights = {row.path.removeprefix(name): row for row in group}
        initial = {part: INITIALIZERS[row.initial](layer) for part, row in weights.items()}
        shapes = {
            part: [sizes[size] if size in sizes else int(size) for size in row.shape]
            for part, row in weights.items()
        }
        if "" in weights:
            made = layer.add_weight(shape=tuple(shapes[""]), initializer=initial[""], name=name)
        else:
            units = math.prod(shapes["/bias"])
            made = keras.layers.Dense(
                units,
                kernel_initializer=initial["/kernel"],
                bias_initializer=initial["/bias"],
                dtype=layer.dtype_policy,
                name=name,
            )
            inputs = math.prod(shapes["/kernel"]) // units
            named_build(made, (None, inputs), layer.trainable)
        setattr(layer, name, made)
