"""Random augmentation for training: functions of an image, the preprocessing and a generator.

Each returns an image of the model's input size. All randomness comes from the generator, so that
the augmentation of an example depends only on the seed and the step, and never on threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from PIL import Image

from keras_vit.data.preprocessing import _RESAMPLING, resize
from keras_vit.specs import Preprocessing

Augmentation = Callable[[Image.Image, Preprocessing, np.random.Generator], Image.Image]


def none(image: Image.Image, preprocessing: Preprocessing, rng: np.random.Generator) -> Image.Image:
    """No augmentation: resizes as for evaluation."""
    return resize(image, preprocessing)


def crop_flip(
    image: Image.Image, preprocessing: Preprocessing, rng: np.random.Generator
) -> Image.Image:
    """Resizes a random box (5 to 100% of the area, aspect 3/4 to 4/3) and flips half of the images.

    Source: the "inception crop" of big_vision and the official `input_pipeline.py`.
    """
    return _random_crop(image, preprocessing, rng, smallest=0.05)


def mild_crop_flip(
    image: Image.Image, preprocessing: Preprocessing, rng: np.random.Generator
) -> Image.Image:
    """Like `crop_flip`, with at least 50% of the area: for small data sets and short training."""
    return _random_crop(image, preprocessing, rng, smallest=0.5)


def shift(
    image: Image.Image, preprocessing: Preprocessing, rng: np.random.Generator
) -> Image.Image:
    """Shifts by up to 12%, rotates by up to 10 degrees and zooms by up to 10%, without a flip.

    It is for pictures that must not be mirrored, such as digits. Pixels from outside are black.
    """
    angle = math.radians(rng.uniform(-10, 10))
    zoom = rng.uniform(0.9, 1.1)
    right, down = rng.uniform(-0.12, 0.12, 2)
    width, height = image.size
    # Output pixel (x, y) reads input (a x + b y + c, d x + e y + f), relative to both centres.
    scale_x, scale_y = width / preprocessing.width, height / preprocessing.height
    cos, sin = math.cos(angle) / zoom, math.sin(angle) / zoom
    a, b, d, e = cos * scale_x, -sin * scale_y, sin * scale_x, cos * scale_y
    c = width * (0.5 + right) - a * preprocessing.width / 2 - b * preprocessing.height / 2
    f = height * (0.5 + down) - d * preprocessing.width / 2 - e * preprocessing.height / 2
    return image.transform(
        (preprocessing.width, preprocessing.height),
        Image.Transform.AFFINE,
        (a, b, c, d, e, f),
        _RESAMPLING[preprocessing.interpolation],
    )


AUGMENTATIONS: dict[str, Augmentation] = {
    "none": none,
    "shift": shift,
    "mild_crop_flip": mild_crop_flip,
    "crop_flip": crop_flip,
}


def _random_crop(
    image: Image.Image, preprocessing: Preprocessing, rng: np.random.Generator, smallest: float
) -> Image.Image:
    left, top, width, height = _random_box(image.size, rng, smallest)
    image = image.resize(
        (preprocessing.width, preprocessing.height),
        _RESAMPLING[preprocessing.interpolation],
        box=(left, top, left + width, top + height),
    )
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if rng.random() < 0.5 else image


def _random_box(
    size: tuple[int, int], rng: np.random.Generator, smallest: float
) -> tuple[int, int, int, int]:
    # Ten attempts as in tf.image.sample_distorted_bounding_box, then the whole image.
    for _ in range(10):
        area = rng.uniform(smallest, 1) * size[0] * size[1]
        aspect = rng.uniform(0.75, 4 / 3)
        width, height = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < width <= size[0] and 0 < height <= size[1]:
            left = rng.integers(size[0] - width, endpoint=True)
            top = rng.integers(size[1] - height, endpoint=True)
            return int(left), int(top), width, height
    return 0, 0, *size
