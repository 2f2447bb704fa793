"""Builds sublayers explicitly, with the same variable names that calling them gives."""

from __future__ import annotations

from keras_vit._keras import LEGACY, keras


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
