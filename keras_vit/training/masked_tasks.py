"""Self-supervised tasks: a ViT learns to predict patches that it does not see.

Masked patch prediction is the paper's (appendix B.1.2), the masked autoencoder that of He et al.
2022. The classes of the images are not used.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from keras_vit._keras import keras, ops
from keras_vit.encoder.masked_patches import CELLS, PatchTarget
from keras_vit.layers.masking import PatchNoise
from keras_vit.models.masked_models import COLOURS, MaskedAutoencoder, MaskedPatchPredictor
from keras_vit.models.vit import ViT
from keras_vit.specs import Preprocessing
from keras_vit.training.tasks import ImageLoss, Normalise, Task

_LEVELS = 8  # of a channel of a colour, three bits
_EPSILON = 1e-6  # added to the variance of a patch (transformers `ViTMAEForPreTraining`)


@dataclasses.dataclass(frozen=True)
class MaskedPatches:
    """The task of masked patch prediction.

    The loss is the mean over the corrupted patches of an image: the cross-entropy of the colour
    (of the 16 colours, their mean), or the mean squared difference of the pixels, in the scale of
    the model's input.

    Attributes:
        patch_size: side of a patch in pixels.
        preprocessing: the model's.
        target: "colour", "colours" or "pixels", see `MaskedPatchPredictor`.
        corrupted: the fraction of corrupted patches.
    """

    patch_size: int
    preprocessing: Preprocessing
    target: PatchTarget = "colour"
    corrupted: float = 0.5

    def targets(self, images: Any, classes: Any) -> Any:
        """Images (b, height, width, 3) to the class of each colour, int32, or to float32 pixels.

        (b, patches, 1) for "colour", (b, patches, 16) for "colours", (b, patches, pixels) for
        "pixels".
        """
        import tensorflow as tf

        from keras_vit.data.tf_preprocessing import normalise

        if self.target == "pixels":
            return patches_of(normalise(images, self.preprocessing), self.patch_size)
        images = tf.cast(images, tf.float32)
        return colours_of(images, self.patch_size, 1 if self.target == "colour" else CELLS)

    def predictions(self, model: ViT, pixels: Any) -> Any:
        """The values of each patch, and 1 or 0 for whether it counts: (b, patches, values + 1)."""
        predictor = MaskedPatchPredictor(model, self.target, self.corrupted)
        return _with_mask(predictor, model, pixels)

    def loss(self, training: bool = True) -> Any:
        """The loss of the class."""
        if self.target == "pixels":
            return ImageLoss(pixel_loss, "masked_pixels")
        return ImageLoss(colour_loss, "masked_colours")

    def metrics(self) -> list[Any]:
        """How often the colour of a corrupted patch is right; none for pixels."""
        if self.target == "pixels":
            return []
        return [keras.metrics.MeanMetricWrapper(colour_accuracy, "accuracy")]


@dataclasses.dataclass(frozen=True)
class MaskedAutoencoding(Task):
    """The task of the masked autoencoder.

    The loss is the mean squared difference over the pixels of the hidden patches. The pixels of
    each patch are normalised: their mean is 0, their variance 1.

    Attributes:
        patch_size: side of a patch in pixels.
        preprocessing: the model's.
        masked: the fraction of hidden patches.
        decoder_dim, decoder_depth, decoder_heads: see `MaskedAutoencoder`.
    """

    patch_size: int
    preprocessing: Preprocessing
    masked: float = 0.75
    decoder_dim: int = 512
    decoder_depth: int = 8
    decoder_heads: int = 16

    def targets(self, images: Any, classes: Any) -> Any:
        """Images (b, height, width, 3) to normalised patches, float32 (b, patches, pixels)."""
        from keras_vit.data.tf_preprocessing import normalise

        return normalised_patches(normalise(images, self.preprocessing), self.patch_size)

    def predictions(self, model: ViT, pixels: Any) -> Any:
        """The pixels of each patch, and 1 or 0 for whether it counts: (b, patches, pixels + 1)."""
        autoencoder = MaskedAutoencoder(
            model, self.masked, self.decoder_dim, self.decoder_depth, self.decoder_heads
        )
        return _with_mask(autoencoder, model, pixels)

    def loss(self, training: bool = True) -> Any:
        """The loss of the class."""
        return ImageLoss(pixel_loss, "masked_pixels")


def pixel_loss(y_true: Any, y_pred: Any) -> Any:
    """The mean squared difference over the masked patches of each image, (b,).

    Targets are (b, patches, values), predictions with their mask (b, patches, values + 1).
    """
    values = y_pred[..., :-1]
    squares = ops.square(values - ops.cast(y_true, values.dtype))
    return _over_masked(ops.mean(squares, axis=-1), y_pred)


def colour_loss(y_true: Any, y_pred: Any) -> Any:
    """The mean cross-entropy over the masked patches of each image, (b,).

    Targets are classes (b, patches, cells), predictions (b, patches, cells * 512 + 1).
    """
    logits = _logits(y_true, y_pred)
    of_cell = keras.losses.sparse_categorical_crossentropy(y_true, logits, from_logits=True)
    return _over_masked(ops.mean(of_cell, axis=-1), y_pred)


def colour_accuracy(y_true: Any, y_pred: Any) -> Any:
    """How often the colours of the masked patches of each image are right, (b,)."""
    predicted = ops.argmax(_logits(y_true, y_pred), axis=-1)
    right = ops.cast(ops.equal(predicted, ops.cast(y_true, predicted.dtype)), "float32")
    return _over_masked(ops.mean(right, axis=-1), y_pred)


def patches_of(images: Any, size: int) -> Any:
    """TensorFlow images (b, height, width, c) to patches (b, patches, size * size * c).

    The order of patches and of pixels is that of the layer `Patches`.
    """
    import tensorflow as tf

    rows, columns, channels = images.shape[1] // size, images.shape[2] // size, images.shape[3]
    # (b, rows * size, columns * size, c) to (b, rows, size, columns, size, c)
    x = tf.reshape(images, (-1, rows, size, columns, size, channels))
    x = tf.transpose(x, (0, 1, 3, 2, 4, 5))  # (b, rows, columns, size, size, c)
    return tf.reshape(x, (-1, rows * columns, size * size * channels))


def colours_of(images: Any, size: int, cells: int) -> Any:
    """TensorFlow pixels 0 to 255 to the classes of mean colours, int32 (b, patches, cells * cells).

    The class is the sum over the channels of floor(8 * mean) * 8^channel, for means in [0, 1).
    """
    import tensorflow as tf

    x = patches_of(images, size)
    part = size // cells
    # (b, patches, size * size * 3) to (b, patches, cells, part, cells, part, 3)
    x = tf.reshape(x, (-1, x.shape[1], cells, part, cells, part, 3))
    means = tf.reduce_mean(x, (3, 5)) / 255.0  # (b, patches, cells, cells, 3)
    levels = tf.cast(tf.minimum(tf.floor(means * _LEVELS), _LEVELS - 1), tf.int32)
    classes = tf.reduce_sum(levels * tf.constant([1, _LEVELS, _LEVELS**2]), axis=-1)
    return tf.reshape(classes, (-1, x.shape[1], cells * cells))


def normalised_patches(images: Any, size: int) -> Any:
    """TensorFlow images to patches (b, patches, pixels), each with mean 0 and variance 1."""
    import tensorflow as tf

    x = patches_of(images, size)
    count = x.shape[-1]
    centred = x - tf.reduce_mean(x, -1, keepdims=True)
    variance = tf.reduce_sum(tf.square(centred), -1, keepdims=True) / (count - 1)  # as in PyTorch
    return centred / tf.sqrt(variance + _EPSILON)


def _with_mask(predictor: Any, model: ViT, pixels: Any) -> Any:
    noise = PatchNoise(math.prod(model.grid), name="noise")(pixels)
    outputs = predictor({"images": Normalise(model.preprocessing)(pixels), "noise": noise})
    mask = keras.layers.Reshape((-1, 1), dtype="float32")(outputs["mask"])  # (b, patches, 1)
    joined = keras.layers.Concatenate(dtype="float32", name="with_mask")
    return joined([outputs["predictions"], mask])


def _logits(classes: Any, y_pred: Any) -> Any:
    # (b, patches, cells * 512 + 1) to (b, patches, cells, 512)
    return ops.reshape(y_pred[..., :-1], (-1, y_pred.shape[1], classes.shape[-1], COLOURS))


def _over_masked(of_patch: Any, y_pred: Any) -> Any:
    """The mean over the masked patches, from (b, patches) to (b,)."""
    mask = y_pred[..., -1]
    return ops.sum(of_patch * mask, axis=-1) / ops.sum(mask, axis=-1)
