"""Tasks: what a model learns, as the targets, the loss and the metrics of its training.

A task knows nothing of data, devices, checkpoints or folders. To add one, write a class with the
methods of `Task`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Protocol

from keras_vit._checks import choice
from keras_vit._errors import UsageError
from keras_vit._keras import keras, ops
from keras_vit.data.luma_and_crop import luma
from keras_vit.models.image_model import ImageModel
from keras_vit.specs import Preprocessing


class Task(Protocol):
    """The interface of a task; `predictions` and `metrics` are the usual ones."""

    def targets(self, images: Any, classes: Any) -> Any:
        """The targets (b, ...) for images (b, height, width, 3) and their classes.

        Classes are indices (b,), or, if the source has several for an image, 0 and 1 for each
        class (b, num_classes).

        They are TensorFlow's tensors: this runs in the input pipeline. With mixup or CutMix the
        targets of two images are mixed like the images, so they must be float32.
        """

    def predictions(self, model: Any, pixels: Any) -> Any:
        """The symbolic predictions of `model` for symbolic pixels 0 to 255, of `model`'s size.

        The loss and the metrics receive them.
        """
        return self.of_output(model, predicted(model, pixels))

    def of_output(self, model: Any, output: Any) -> Any:
        """The predictions for the symbolic output of `model`."""
        return output

    def loss(self, training: bool = True) -> Any:
        """The Keras loss of targets and predictions; its `call` gives that of each image (b,).

        Args:
            training: whether it is for training; class weights do not act on held-out images.
        """

    def metrics(self) -> list[Any]:
        """The Keras metrics of targets and predictions."""
        return []


@dataclasses.dataclass(frozen=True)
class SingleLabel(Task):
    """One class for each image: softmax cross-entropy.

    Attributes:
        num_classes: the number of classes.
        label_smoothing: the fraction of each target that is spread evenly over all classes.
        class_weights: the weight of each class in the loss; None for equal weights.
    """

    num_classes: int
    label_smoothing: float = 0.0
    class_weights: tuple[float, ...] | None = None

    def targets(self, images: Any, classes: Any) -> Any:
        """Class indices (b,) to one-hot float32 (b, num_classes)."""
        import tensorflow as tf

        return tf.one_hot(classes, self.num_classes)

    def loss(self, training: bool = True) -> Any:
        """Softmax cross-entropy."""
        if training and self.class_weights is not None:
            settings = {name: getattr(self, name) for name in ("class_weights", "label_smoothing")}
            return ImageLoss(functools.partial(weighted_softmax, **settings), "weighted_softmax")
        return keras.losses.CategoricalCrossentropy(
            from_logits=True, label_smoothing=self.label_smoothing
        )

    def metrics(self) -> list[Any]:
        """The accuracy."""
        return [keras.metrics.CategoricalAccuracy("accuracy")]


@dataclasses.dataclass(frozen=True)
class MultiLabel(Task):
    """Any number of classes for each image: sigmoid cross-entropy, summed over the classes.

    Source: the paper's pre-training on ImageNet-21k and JFT-300M (appendix B.1).

    Attributes:
        num_classes: the number of classes.
    """

    num_classes: int

    def targets(self, images: Any, classes: Any) -> Any:
        """Indices (b,), or 0 and 1 for each class (b, num_classes), to float32 (b, num_classes)."""
        import tensorflow as tf

        if classes.shape.rank == 1:
            return tf.one_hot(classes, self.num_classes)
        return tf.cast(classes, tf.float32)

    def loss(self, training: bool = True) -> Any:
        """Sigmoid cross-entropy."""
        return ImageLoss(sigmoid_sum, "sigmoid")

    def metrics(self) -> list[Any]:
        """How often the highest logit is one of the image's classes."""
        return [keras.metrics.MeanMetricWrapper(top_is_label, "accuracy")]


class ImageLoss(keras.losses.Loss):
    """The mean over images of a function of targets and predictions, which returns (b,)."""

    def __init__(self, function: Callable[[Any, Any], Any], name: str):
        super().__init__(name=name)
        self.call = function


def weighted_softmax(
    y_true: Any, y_pred: Any, class_weights: tuple[float, ...], label_smoothing: float
) -> Any:
    """-sum(w t log p) of each image (b,), with a weight w for each class.

    With mixed or smoothed targets t each class keeps its own weight, as in PyTorch's
    `CrossEntropyLoss` with `weight`, but its mean is that over the images.
    """
    targets = y_true * (1.0 - label_smoothing) + label_smoothing / len(class_weights)
    weights = ops.convert_to_tensor(class_weights, dtype="float32")
    return -ops.sum(weights * targets * ops.log_softmax(y_pred), axis=-1)


def sigmoid_sum(y_true: Any, y_pred: Any) -> Any:
    """The sum over classes of the sigmoid cross-entropy, (b,) for logits (b, num_classes)."""
    # max(x, 0) - x t + log(1 + exp(-|x|)) does not overflow.
    softplus = ops.log1p(ops.exp(-ops.abs(y_pred)))
    return ops.sum(ops.maximum(y_pred, 0.0) - y_pred * y_true + softplus, axis=-1)


def top_is_label(y_true: Any, y_pred: Any) -> Any:
    """1 where the highest logit is one of an image's classes, else 0: (b,)."""
    top = ops.one_hot(ops.argmax(y_pred, axis=-1), y_pred.shape[-1], dtype=y_pred.dtype)
    return ops.sum(top * y_true, axis=-1)


TASKS = ("softmax", "sigmoid")


def task_of(
    kind: str,
    num_classes: int,
    label_smoothing: float = 0.0,
    class_weights: tuple[float, ...] | None = None,
) -> Task:
    """The task for a recipe's `loss`.

    Raises:
        UsageError: the loss is unknown, or does not have one of the other settings.
    """
    if choice("loss", kind, TASKS) == "softmax":
        return SingleLabel(num_classes, label_smoothing, class_weights)
    if label_smoothing or class_weights is not None:
        raise UsageError("label_smoothing and class_weights are for loss='softmax'.")
    return MultiLabel(num_classes)


class Normalise(keras.layers.Layer):
    """RGB pixels 0 to 255 of any type to the model's input, float32.

    Like `preprocessing.normalise`, as a layer.
    """

    def __init__(self, preprocessing: Preprocessing):
        super().__init__(name="normalise", dtype="float32", trainable=False)
        self.mean, self.scale = preprocessing.mean, preprocessing.scale
        self.channels = preprocessing.channels

    def call(self, images):
        """Pixels (b, height, width, 3) to float32 (b, height, width, channels)."""
        images = ops.cast(images, "float32")
        images = luma(images, ops.floor) if self.channels == 1 else images
        mean = ops.convert_to_tensor(self.mean, "float32")
        return (images - mean) / ops.convert_to_tensor(self.scale, "float32")


def predicted(model: ImageModel, pixels: Any) -> Any:
    """The symbolic output of a model for symbolic pixels (b, height, width, 3) of its size."""
    return model(Normalise(model.preprocessing)(pixels))
