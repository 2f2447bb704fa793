"""The heads of `encoder/dense_heads.py` as Keras layers: from tokens to a dict of outputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from keras_vit._keras import keras
from keras_vit.encoder.dense_heads import HEAD_NORM_EPSILON
from keras_vit.specs import ViTSpec

_MOMENTUM = 0.9  # PyTorch's, which counts the other way round


def patch_tokens(tokens: Any, grid: tuple[int, int]) -> Any:
    """The patches (batch, patches, hidden_dim), which are the last tokens."""
    before = tokens.shape[1] - math.prod(grid)
    return keras.layers.Cropping1D((before, 0), name="patch_tokens")(tokens)


def linear_head(
    tokens: Any, spec: ViTSpec, grid: tuple[int, int], num_classes: int
) -> dict[str, Any]:
    """All tokens (batch, tokens, hidden_dim) to scores of classes, float32.

    Returns:
        "scores" (batch, rows * cells, columns * cells, num_classes), for the cells of each patch.
    """
    x = patch_tokens(tokens, grid)
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


def eomt_head(
    tokens: Any, spec: ViTSpec, grid: tuple[int, int], num_classes: int
) -> dict[str, Any]:
    """All tokens, with the queries first, to logits of masks and of classes, float32.

    Source: EoMT's `EoMT._predict` and `ScaleBlock`.

    Returns:
        "masks" (batch, rows * cells, columns * cells, num_queries): by their sign, what belongs to
        each query. "classes" (batch, num_queries, num_classes + 1), the last one "nothing".
    """
    others = tokens.shape[1] - spec.num_queries
    queries = keras.layers.Cropping1D((0, others), name="queries")(tokens)
    classes = keras.layers.Dense(
        num_classes + 1, kernel_initializer="zeros", dtype="float32", name="head"
    )(queries)
    # (batch, patches, hidden_dim) to (batch, rows, columns, hidden_dim)
    x = keras.layers.Reshape((*grid, spec.hidden_dim), name="rows")(patch_tokens(tokens, grid))
    for i in range(spec.upscalings):
        x = _upscaled(x, f"upscaling_{i}")
    for i in range(3):
        activation = "gelu" if i < 2 else None  # the exact GELU
        layer = keras.layers.Dense(spec.hidden_dim, activation=activation, name=f"mask_dense_{i}")
        queries = layer(queries)
    rows, columns = x.shape[1:3]
    # (batch, rows, columns, hidden_dim) to (batch, cells, hidden_dim)
    x = keras.layers.Reshape((rows * columns, spec.hidden_dim), name="cells")(x)
    x = keras.layers.Dot((2, 2), dtype="float32", name="products")([x, queries])
    # (batch, cells, num_queries) to (batch, rows, columns, num_queries)
    shape = (rows, columns, spec.num_queries)
    masks = keras.layers.Reshape(shape, dtype="float32", name="masks")(x)
    return {"masks": masks, "classes": classes}


def _upscaled(x: Any, name: str) -> Any:
    """(batch, rows, columns, channels) with twice the rows and columns."""
    channels = x.shape[-1]
    x = keras.layers.Conv2DTranspose(channels, 2, 2, name=f"{name}_conv_transpose")(x)
    x = keras.layers.Activation("gelu", name=f"{name}_gelu")(x)
    options = {"padding": "same", "use_bias": False, "name": f"{name}_depthwise"}
    x = keras.layers.DepthwiseConv2D(3, **options)(x)
    return keras.layers.LayerNormalization(epsilon=1e-6, name=f"{name}_norm")(x)


DENSE_HEAD_LAYERS: dict[str, Callable[..., dict[str, Any]]] = {
    "linear": linear_head,
    "eomt": eomt_head,
}
