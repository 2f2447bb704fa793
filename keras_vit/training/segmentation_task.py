"""Semantic segmentation: the class of each pixel."""

from __future__ import annotations

import dataclasses
from typing import Any

from keras_vit._keras import keras, ops, register
from keras_vit.data.masks import NO_CLASS
from keras_vit.models.dense_head_layers import scores_of_pixels
from keras_vit.training.tasks import ImageLoss, Task


@dataclasses.dataclass(frozen=True)
class SemanticSegmentation(Task):
    """Softmax cross-entropy of each pixel of the image; pixels without a class do not count.

    The scores are resized to the image first.

    Attributes:
        num_classes: the number of classes.
    """

    num_classes: int

    def targets(self, images: Any, masks: Any) -> Any:
        """The masks, uint8 (b, height, width), as they are."""
        return masks

    def of_output(self, model: Any, output: Any) -> Any:
        """The scores of each pixel, (b, height, width, num_classes)."""
        return scores_of_pixels(output["scores"], model.spec)

    def loss(self, training: bool = True) -> Any:
        """The mean over the pixels of an image that have a class."""
        return ImageLoss(pixel_softmax, "pixel_softmax")

    def metrics(self) -> list[Any]:
        """The mean IoU, and the fraction of pixels whose class is right."""
        return [PixelAccuracy("accuracy"), MeanIoU(self.num_classes)]


@register
class PixelAccuracy(keras.metrics.Mean):
    """The fraction of all pixels with a class whose class has the highest score."""

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds masks (b, height, width) and scores (b, height, width, num_classes).

        The weights are those of whole images (b,).
        """
        classes, counted = _counted(y_true)
        if sample_weight is not None:
            counted = counted * ops.cast(sample_weight, "float32")[:, None, None]
        right = ops.cast(ops.argmax(y_pred, axis=-1), "int32") == classes
        return super().update_state(ops.cast(right, "float32"), counted)


@register
class MeanIoU(keras.metrics.MeanIoU):
    """Keras' mean IoU of scores. Weights are 0 or 1 for whole images, (b,)."""

    def __init__(self, num_classes: int, name: str = "mean_iou", dtype: Any = None):
        super().__init__(
            num_classes, name=name, dtype=dtype, ignore_class=NO_CLASS, sparse_y_pred=False
        )

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds masks (b, height, width) and scores (b, height, width, num_classes)."""
        if sample_weight is not None:
            weights = ops.cast(sample_weight, "int32")[:, None, None]
            sample_weight = weights + 0 * ops.cast(y_true, "int32")  # for each pixel
        return super().update_state(y_true, y_pred, sample_weight)

    def get_config(self):
        """The arguments."""
        return {"num_classes": self.num_classes, "name": self.name, "dtype": self.dtype}


def pixel_softmax(y_true: Any, y_pred: Any) -> Any:
    """The mean cross-entropy of each image's pixels that have a class, (b,).

    Args:
        y_true: classes, or `NO_CLASS`, (b, height, width).
        y_pred: logits (b, height, width, num_classes).
    """
    classes, counted = _counted(y_true)
    losses = keras.losses.sparse_categorical_crossentropy(classes, y_pred, from_logits=True)
    pixels = ops.maximum(ops.sum(counted, axis=(1, 2)), 1.0)
    return ops.sum(losses * counted, axis=(1, 2)) / pixels


def _counted(y_true: Any) -> tuple[Any, Any]:
    """The classes, int32 (b, height, width), 0 where there is none, and 1 where there is one."""
    classes = ops.cast(y_true, "int32")
    has_class = classes != NO_CLASS
    return classes * ops.cast(has_class, "int32"), ops.cast(has_class, "float32")
