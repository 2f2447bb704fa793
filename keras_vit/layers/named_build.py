"""Builds sublayers explicitly, with the names of variables that calling them would give."""

from __future__ import annotations

from keras_vit._keras import LEGACY, keras


def named_build(
    layer: keras.layers.Layer, input_shape: tuple[int | None, ...], trainable: bool = True
) -> None:
    """Builds a sublayer; the names of its variables start with its name.

    Keras 3 does so anyway. In tf_keras all kernels of a block would be called "kernel", and its
    HDF5 files do not allow two variables of the same name.

    Args:
        layer: the sublayer.
        input_shape: the shape of its input.
        trainable: whether its parent is trainable. Freezing a layer in Keras freezes the sublayers
            that it has then; a layer that is loaded frozen makes its sublayers only afterwards.
    """
    if LEGACY:
        with keras.backend.name_scope(layer.name):
            layer.build(input_shape)
    else:
        layer.build(input_shape)
    if not trainable:
        layer.trainable = False
