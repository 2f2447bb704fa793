"""From a uint8 image to a model's input, the same in training, evaluation and on the phone.

The resizing is Pillow's: integer arithmetic from uint8 to uint8, so that other languages can
reproduce it to the last digit.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from PIL import Image

from keras_vit._checks import received_model
from keras_vit._errors import UsageError
from keras_vit.data.images import rgb_images
from keras_vit.specs import Preprocessing

_RESAMPLING = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}


def preprocess(images: Any, model: Any) -> Any:
    """What `model` expects, from images of any size and kind.

    Args:
        images: one of, or a list of
            - paths of pictures: JPEG, PNG, WebP, GIF, BMP, TIFF;
            - Pillow images of any mode, turned as their EXIF says;
            - arrays or tensors of any library: (height, width), grey, or (height, width, channels)
              with 1, 3 or 4 channels; alpha is laid over white.
            Or a batch (n, height, width, channels). Pixels are numbers from 0 to 255 of any type;
            floats are rounded, because `image_dataset_from_directory` resizes to fractions.
            Floats up to 1 are taken for a nearly black picture if all are whole numbers; otherwise
            they are refused as pixels in [0, 1].
            Or a TensorFlow tensor of strings, one or (n,): the contents of JPEG and PNG files, as
            `tf.io.read_file` reads them.
            Or a tensor of a TensorFlow graph, as in `ds.map(lambda x, y: (preprocess(x, model),
            y))`: a batch or one image, or strings.
        model: a `keras_vit` model, or a `Preprocessing`.

    Returns:
        float32 (n, model height, model width, 3); n = 1 for one image. For a graph's tensor, a
        tensor with the same bits; one image then has no n, so that the data set can be batched.

    Raises:
        UsageError: an image is none of these, its pixels are not from 0 to 255 or seem to lie
            in [0, 1], or a file cannot be read. (Where a graph runs, TensorFlow's own error.)
    """
    preprocessing = getattr(model, "preprocessing", model)
    if not isinstance(preprocessing, Preprocessing):
        raise UsageError(f"expected a keras_vit model or a Preprocessing. {received_model(model)}")
    if _is_of_tensorflow(images):
        from keras_vit.data.tf_preprocessing import preprocess_files, preprocess_tensor

        if not hasattr(images, "numpy"):  # of a graph
            return preprocess_tensor(images, preprocessing)
        if images.dtype.name == "string":
            return preprocess_files(images, preprocessing)
    found = [preprocess_image(image, preprocessing) for image in rgb_images(images)]
    return np.stack(found) if found else np.zeros((0, *preprocessing.size, 3), np.float32)


def preprocess_image(image: np.ndarray, preprocessing: Preprocessing) -> np.ndarray:
    """One uint8 image (height, width, 3) to float32 (*preprocessing.size, 3)."""
    image = np.asarray(image)
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[-1] != 3:
        raise UsageError(
            "expected a uint8 image (height, width, 3) in [0, 255]. "
            f"Received: {image.dtype} {image.shape}."
        )
    return normalise(resize(Image.fromarray(image), preprocessing), preprocessing)


def resize(image: Image.Image, preprocessing: Preprocessing) -> Image.Image:
    """Crops and resizes an RGB image to `preprocessing.size`, in one resampling.

    The width is always resized first: Pillow itself, from version 13 on, starts with the height of
    some pictures, and the pixels rounded in between then differ by a level or more.
    """
    height, width = preprocessing.size
    box = (0, 0, *image.size)
    if preprocessing.crop is not None:
        box = _central_box(image.size, preprocessing)
    left, top, right, bottom = (max(side, 0) for side in box)  # rounding may give -1e-14
    method = _RESAMPLING[preprocessing.interpolation]
    image = image.resize((width, image.height), method, box=(left, 0, right, image.height))
    return image.resize((width, height), method, box=(0, top, width, bottom))


def normalise(pixels: Any, preprocessing: Preprocessing) -> np.ndarray:
    """(x - mean) / scale of uint8 pixels (..., 3), in float32."""
    mean = np.asarray(preprocessing.mean, np.float32)
    return (np.asarray(pixels, np.float32) - mean) / np.asarray(preprocessing.scale, np.float32)


def _is_of_tensorflow(images: Any) -> bool:
    # Whoever has such a tensor has imported TensorFlow; nobody else should pay for it.
    tensor = getattr(sys.modules.get("tensorflow"), "Tensor", None)
    return tensor is not None and isinstance(images, tensor)


def _central_box(
    size: tuple[int, int], preprocessing: Preprocessing
) -> tuple[float, float, float, float]:
    # The largest centred box of the model's aspect, shrunk by the crop fraction.
    width, height = size
    unit = preprocessing.crop * min(width / preprocessing.width, height / preprocessing.height)
    box_width, box_height = unit * preprocessing.width, unit * preprocessing.height
    left, top = (width - box_width) / 2, (height - box_height) / 2
    return left, top, left + box_width, top + box_height
