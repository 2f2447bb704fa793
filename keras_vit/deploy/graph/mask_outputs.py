"""The outputs of a segmenter: from the head's values for each patch to scores or a class map."""

from __future__ import annotations

import tensorflow as tf

from keras_vit.deploy.graph.graph_options import GraphOptions
from keras_vit.specs import ViTSpec

# Scores that are finer than what people see of a mask only make a file's output larger.
_STRIDE = 4


def mask_size(image_size: tuple[int, int], cell: int, options: GraphOptions) -> tuple[int, int]:
    """Rows and columns of the output; see `GraphOptions.output_stride`.

    Args:
        image_size: height and width.
        cell: `ViTSpec.cell`.
        options: the output and its stride.
    """
    usual = 1 if options.output == "class_map" else min(cell, _STRIDE)
    stride = options.output_stride or usual
    rows, columns = (-(-side // stride) for side in image_size)
    return rows, columns


def cells_of(values: tf.Tensor, spec: ViTSpec, image_size: tuple[int, int]) -> tf.Tensor:
    """The head's values (batch, patches, cells * cells * classes) as scores of cells.

    Returns:
        (batch, rows * cells, columns * cells, classes).
    """
    (rows, columns), cells = spec.grid(image_size), spec.head_cells
    classes = values.shape[-1] // cells**2
    if cells > 1:
        # (batch * rows, columns, cells, cells * classes)
        values = tf.reshape(values, (-1, columns, cells, cells * classes))
        values = tf.transpose(values, (0, 2, 1, 3))
    # (batch, rows * cells, columns * cells, classes)
    return tf.reshape(values, (-1, rows * cells, columns * cells, classes))


def mask_of(scores: tf.Tensor, size: tuple[int, int], output: str) -> tf.Tensor:
    """The scores of cells (batch, rows, columns, classes) as an output of this size."""
    if tuple(scores.shape[1:3]) != size:
        scores = tf.image.resize(scores, size)  # bilinear, as in `scores_of_pixels`
    if output == "scores":
        return scores
    return tf.cast(tf.argmax(scores, -1, tf.int32), tf.uint8)  # (batch, rows, columns)
