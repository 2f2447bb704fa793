"""Sublayers built by hand, with variables named as if they had been called."""

from __future__ import annotations

from keras_vit._keras import LEGACY, keras


def named_build(
    layer: keras.layers.Layer, input_shape: tuple[int | None, ...], trainable: bool = True
) -> None:
    """Builds a sublayer; its variables are named after it.

    Keras 3 does so anyway. In tf_keras all kernels of a block would be called "kernel", which its
    HDF5 files refuse.

    Args:
        layer: the sublayer.
        input_shape: of its input.
        trainable: whether its parent is. Keras freezes what a layer holds when it is frozen; a
            layer that is loaded frozen makes its sublayers only afterwards.
    """
    if LEGACY:
        with keras.backend.name_scope(layer.name):
            layer.build(input_shape)
    else:
        layer.build(input_shape)
    if not trainable:
        layer.trainable = False
