"""Runs TFLite's converter."""

from __future__ import annotations

from typing import Any

from keras_vit._interrupts import deferred_interrupts
from keras_vit._quiet import quiet
from keras_vit.tflite.processes import release_memory


def convert(converter: Any) -> bytes:
    """The float32 file of a `tf.lite.TFLiteConverter`, with its weights behind the flatbuffer."""
    import tensorflow as tf

    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    # Writes weights after the flatbuffer: files may exceed 2 GB, and use less memory.
    converter._experimental_use_buffer_offset = True
    release_memory()
    with quiet(), deferred_interrupts() as check_interrupts:  # the converter would ignore them
        content = converter.convert()
        check_interrupts()
    return content
