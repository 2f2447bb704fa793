"""Sublayers built by hand, with variables named as if they had been called."""

from __future__ import annotations

from keras_vit._keras import LEGACY, keras


def named_build(layer: keras.layers.Layer, input_shape: tuple[int | None, ...]) -> None:
    """Builds a sublayer; its variables are named after it.

    Keras 3 does so anyway. In tf_keras all kernels of a block would be called "kernel", which its
    HDF5 files refuse.
    """
    if LEGACY:
        with keras.backend.name_scope(layer.name):
            layer.build(input_shape)
    else:
        layer.build(input_shape)
