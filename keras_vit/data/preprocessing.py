"""From a uint8 image to a model's input, in the same way in training, evaluation and on phones.

Images are resized by Pillow's integer arithmetic from uint8 to uint8, or by MediaPipe's. Other
languages can reproduce both exactly.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from PIL import Image

from keras_vit._checks import reads_pictures, received_model
from keras_vit._errors import UsageError
from keras_vit.data import mediapipe
from keras_vit.data.images import rgb_images
from keras_vit.data.luma_and_crop import central_box, luma, shown_size
from keras_vit.data.source import Source
from keras_vit.specs import Preprocessing


def preprocess(images: Any, model: Any) -> Any:
    """The inputs of `model` from images of any size and kind.

    >>> inputs = keras_vit.preprocess(["photo.jpg", images[0]], model)
    >>> inputs.shape
    (2, 48, 48, 3)

    Args:
        images: one of the following, or a list of them:
            - the path of a picture: JPEG, PNG, WebP, GIF, BMP, TIFF;
            - a Pillow image of any mode; EXIF rotation is applied;
            - an array or tensor of any library: grey (height, width), or (height, width, channels)
              with 1, 3 or 4 channels; transparent pixels are blended with white.
            Or a batch (n, height, width, channels). Pixels are numbers from 0 to 255 of any type;
            floats are rounded, because `image_dataset_from_directory` returns fractions.
            If no float is larger than 1, they are accepted as a nearly black picture only if all
            are integers; otherwise they are refused as pixels in [0, 1].
            Or a TensorFlow tensor of strings, () or (n,): the contents of JPEG and PNG files, as
            `tf.io.read_file` reads them.
            Or a symbolic TensorFlow tensor, as in `ds.map(lambda x, y: (preprocess(x, model),
            y))`: a batch, one image, or strings.
        model: a `keras_vit` model, or a `Preprocessing`.

    Returns:
        float32 (n, model height, model width, channels); n = 1 for one image; a model of one
        channel gets the luma of the pixels, as `PIL.Image.convert("L")`. For a symbolic tensor, a
        symbolic tensor of exactly the same values; for one image it has no n, so that the data set
        can be batched.

    Raises:
        UsageError: an image has another type, its pixels are not from 0 to 255 or seem to be in
            [0, 1], a file cannot be read, or the model has other channels than 1 or 3. (Inside a
            graph, TensorFlow raises its own error.)
    """
    if hasattr(model, "spec"):
        reads_pictures(model)
    preprocessing = getattr(model, "preprocessing", model)
    if not isinstance(preprocessing, Preprocessing):
        raise UsageError(f"expected a keras_vit model or a Preprocessing. {received_model(model)}")
    if _is_of_tensorflow(images):
        from keras_vit.data.tf_preprocessing import preprocess_files, preprocess_tensor

        if not hasattr(images, "numpy"):  # a symbolic tensor
            return preprocess_tensor(images, preprocessing)
        if images.dtype.name == "string":
            return preprocess_files(images, preprocessing)
    inputs = [preprocess_image(image, preprocessing) for image in rgb_images(images)]
    return np.stack(inputs) if inputs else np.zeros((0, *preprocessing.shape), np.float32)


def load(
    source: Source, indices: np.ndarray, preprocessing: Preprocessing
) -> tuple[np.ndarray, np.ndarray]:
    """The inputs, float32 (n, *preprocessing.shape), and targets, int64 (n,), of `indices`."""
    images = [preprocess_image(source.image(int(i)), preprocessing) for i in indices]
    return np.stack(images), source.targets[indices]


def preprocess_image(image: np.ndarray, preprocessing: Preprocessing) -> np.ndarray:
    """One uint8 image (height, width, 3) to float32 `preprocessing.shape`."""
    image = np.asarray(image)
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[-1] != 3:
        raise UsageError(
            "expected a uint8 image (height, width, 3) in [0, 255]. "
            f"Received: {image.dtype} {image.shape}."
        )
    return normalise(resize(Image.fromarray(image), preprocessing), preprocessing)


def resize(image: Image.Image, preprocessing: Preprocessing) -> Image.Image:
    """Crops, resizes or pads an RGB image to `preprocessing.size`.

    The width is always resized first. Pillow 13 and newer resize the height of some pictures
    first; then rounding between the two steps changes pixels by one level or more.
    """
    if preprocessing.interpolation == "mediapipe":
        return Image.fromarray(mediapipe.resize(np.asarray(image), preprocessing.size))
    height, width = shown_size((image.height, image.width), preprocessing)
    (top, bottom), (left, right) = central_box((image.height, image.width), preprocessing)
    method = Image.Resampling[preprocessing.interpolation.upper()]
    image = image.resize((width, image.height), method, box=(left, 0, right, image.height))
    image = image.resize((width, height), method, box=(0, top, width, bottom))
    if preprocessing.pad:
        shown, image = image, Image.new("RGB", preprocessing.size[::-1])
        image.paste(shown)
    return image


def normalise(pixels: Any, preprocessing: Preprocessing) -> np.ndarray:
    """(x - mean) / scale of uint8 pixels (..., 3), in float32.

    For one channel, of their luma; grey pixels (..., 1) are taken as they are.
    """
    x = np.asarray(pixels, np.float32)
    if x.shape[-1] != preprocessing.channels:
        x = luma(x)
    mean = np.asarray(preprocessing.mean, np.float32)
    return (x - mean) / np.asarray(preprocessing.scale, np.float32)


def _is_of_tensorflow(images: Any) -> bool:
    # If TensorFlow is not imported, this is not its tensor; importing it here would be slow.
    tensor = getattr(sys.modules.get("tensorflow"), "Tensor", None)
    return tensor is not None and isinstance(images, tensor)
