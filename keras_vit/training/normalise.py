"""Pixels to the input of a model, on the device."""

from __future__ import annotations

from typing import Any

from keras_vit._keras import keras, ops
from keras_vit.data.luma import luma
from keras_vit.models.image_model import ImageModel
from keras_vit.specs import Preprocessing


class Normalise(keras.layers.Layer):
    """RGB pixels 0 to 255 of any type to the model's input, float32: see `data.normalise`."""

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
