"""From a uint8 image to a model's input, the same in training, evaluation and on the phone.

The resizing is Pillow's: integer arithmetic from uint8 to uint8, so that other languages can
reproduce it to the last digit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from keras_vit._errors import UsageError
from keras_vit.specs import Preprocessing

_RESAMPLING = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}


def preprocess(images: np.ndarray | Sequence[np.ndarray], model: Any) -> np.ndarray:
    """What `model` expects, from uint8 RGB images of any size.

    Args:
        images: one image (height, width, 3), a batch (n, height, width, 3) or a list of images
            of different sizes; uint8 in [0, 255].
        model: a `keras_vit` model, or a `Preprocessing`.

    Returns:
        float32 (n, model height, model width, 3); n = 1 for one image.

    Raises:
        UsageError: an image is not uint8 or not (height, width, 3).
    """
    how = model if isinstance(model, Preprocessing) else getattr(model, "preprocessing", None)
    if how is None:
        raise UsageError(
            f"expected a keras_vit model or a Preprocessing. Received: {type(model).__name__}."
        )
    if isinstance(images, np.ndarray) and images.ndim == 3:
        images = [images]
    if len(images) == 0:
        return np.zeros((0, how.height, how.width, 3), np.float32)
    return np.stack([preprocess_image(image, how) for image in images])


def preprocess_image(image: np.ndarray, how: Preprocessing) -> np.ndarray:
    """One uint8 image (height, width, 3) to float32 (how.height, how.width, 3)."""
    image = np.asarray(image)
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[-1] != 3:
        raise UsageError(
            "expected a uint8 image (height, width, 3) in [0, 255]. "
            f"Received: {image.dtype} {image.shape}."
        )
    return normalise(resize(Image.fromarray(image), how), how)


def resize(image: Image.Image, how: Preprocessing) -> Image.Image:
    """Crops and resizes an RGB image to (how.height, how.width), in one resampling.

    The width comes first, always: Pillow alone, from 13 on, starts with the height of some
    pictures, and what is rounded in between differs by a level or more.
    """
    box = (0, 0, *image.size) if how.crop is None else _central_box(image.size, how)
    left, top, right, bottom = (max(side, 0) for side in box)  # rounding may give -1e-14
    method = _RESAMPLING[how.interpolation]
    image = image.resize((how.width, image.height), method, box=(left, 0, right, image.height))
    return image.resize((how.width, how.height), method, box=(0, top, how.width, bottom))


def normalise(pixels: Any, how: Preprocessing) -> np.ndarray:
    """(x - mean) / scale of uint8 pixels (..., 3), in float32."""
    mean, scale = (np.asarray(value, np.float32) for value in (how.mean, how.scale))
    return (np.asarray(pixels, np.float32) - mean) / scale


def _central_box(size: tuple[int, int], how: Preprocessing) -> tuple[float, float, float, float]:
    # The largest centred box of the model's aspect, shrunk by the crop fraction.
    width, height = size
    unit = how.crop * min(width / how.width, height / how.height)
    box_width, box_height = unit * how.width, unit * how.height
    left, top = (width - box_width) / 2, (height - box_height) / 2
    return left, top, left + box_width, top + box_height
