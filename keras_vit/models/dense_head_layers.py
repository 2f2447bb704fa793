"""The heads of `encoder/dense_heads.py` as Keras layers: from the patches to a dict of outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras_vit._keras import keras
from keras_vit.encoder.dense_heads import HEAD_NORM_EPSILON
from keras_vit.specs import ViTSpec

_MOMENTUM = 0.9  # PyTorch's, which counts the other way round


def linear_head(
    patches: Any, spec: ViTSpec, grid: tuple[int, int], num_classes: int
) -> dict[str, Any]:
    """Patches (batch, patches, hidden_dim) to scores of classes, float32.

    Returns:
        "scores" (batch, rows * cells, columns * cells, num_classes), for the cells of each patch.
    """
    x = patches
    if spec.head_norm:
        settings = {"momentum": _MOMENTUM, "epsilon": HEAD_NORM_EPSILON}
        x = keras.layers.BatchNormalization(**settings, name="head_norm")(x)
    rows, columns, cells = *grid, spec.head_cells
    values = cells * cells * num_classes
    x = keras.layers.Dense(values, kernel_initializer="zeros", dtype="float32", name="head")(x)
    if cells > 1:  # (batch, patches, values) to (batch, rows, cells, columns, cells, classes)
        parts = (rows, columns, cells, cells, num_classes)
        x = keras.layers.Reshape(parts, dtype="float32", name="cells")(x)
        x = keras.layers.Permute((1, 3, 2, 4, 5), dtype="float32", name="cells_in_rows")(x)
    shape = (rows * cells, columns * cells, num_classes)
    return {"scores": keras.layers.Reshape(shape, dtype="float32", name="scores")(x)}


def scores_of_pixels(scores: Any, spec: ViTSpec) -> Any:
    """Scores of cells to scores of the image's pixels, bilinearly, (batch, height, width, classes).

    So are the scores of DINOv2's and of Segmenter's heads resized.
    """
    if spec.cell == 1:
        return scores
    resize = {"interpolation": "bilinear", "dtype": "float32", "name": "scores_of_pixels"}
    return keras.layers.UpSampling2D(spec.cell, **resize)(scores)


DENSE_HEAD_LAYERS: dict[str, Callable[..., dict[str, Any]]] = {"linear": linear_head}
