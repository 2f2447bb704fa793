"""RandAugment with the operations and constants of the published code.

Source: Cubuk et al. 2019 (arXiv 1909.13719); the constants are those of the TPU reference models'
`autoaugment.py` (cutout 40, translate 100, fill 128), which big_vision and AugReg use too. They are
for images of 224 pixels; for other sizes lengths in pixels are scaled. Keras' layer of this name
has other operations and ranges.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection

import tensorflow as tf

from keras_vit.data import colour
from keras_vit.data.geometry import transformed, within

_STRONGEST = 10
_FILL = 128.0
_CUTOUT, _TRANSLATE, _PIXELS = 40, 100, 224


def rand_augment(
    image: tf.Tensor,
    seed: tf.Tensor,
    layers: int,
    magnitude: float,
    translate: float = _TRANSLATE,
    without: Collection[str] = (),
) -> tf.Tensor:
    """Applies `layers` operations, each drawn from `OPERATIONS`.

    Args:
        image: uint8 (height, width, 3), of known size.
        seed: int (2,).
        layers: number of operations.
        magnitude: how strong they are, from 0; 10 is AutoAugment's strongest.
        translate: how far images of 224 pixels are moved at magnitude 10, in pixels.
        without: names of operations that are left out.
    """
    level = magnitude / _STRONGEST
    own_range = {
        name: functools.partial(OPERATIONS[name], most=translate)
        for name in ("TranslateX", "TranslateY")
    }
    chosen = [f for name, f in (OPERATIONS | own_range).items() if name not in without]
    for key in tf.unstack(tf.random.split(seed, layers)):
        choice, own = tf.unstack(tf.random.split(key))
        index = tf.random.stateless_uniform((), choice, 0, len(chosen), tf.int32)
        branches = [lambda f=f, x=image, s=own: f(x, level, s) for f in chosen]
        image = tf.ensure_shape(tf.switch_case(index, branches), image.shape)
    return image


def _factor(level: float) -> float:
    return level * 1.8 + 0.1


def rotate(image: tf.Tensor, level: float, seed: tf.Tensor) -> tf.Tensor:
    """Rotates about the centre by 30 degrees times `level`, in either direction."""
    height, width, _ = image.shape
    angle = _either_sign(level * math.radians(30), seed)
    cos, sin = tf.cos(angle), tf.sin(angle)
    x, y = (width - 1) / 2, (height - 1) / 2
    return _moved(image, [cos, -sin, x - cos * x + sin * y, sin, cos, y - sin * x - cos * y])


def cutout(image: tf.Tensor, level: float, seed: tf.Tensor) -> tf.Tensor:
    """A grey square about a random pixel; half its side is 40 of 224 pixels times `level`."""
    height, width, _ = image.shape
    half = int(level * _CUTOUT * min(height, width) / _PIXELS)
    first, second = tf.unstack(tf.random.split(seed))
    row = tf.random.stateless_uniform((), first, 0, height, tf.int32)
    column = tf.random.stateless_uniform((), second, 0, width, tf.int32)
    start, end = (row - half, column - half), (row + half, column + half)
    is_inside = within((height, width), start, end)
    return tf.where(is_inside, tf.cast(_FILL, tf.uint8), image)


# Functions of an image, a level (1 for magnitude 10) and a seed (2,).
OPERATIONS: dict[str, Callable[[tf.Tensor, float, tf.Tensor], tf.Tensor]] = {
    "AutoContrast": lambda image, level, seed: colour.autocontrast(image),
    "Equalize": lambda image, level, seed: colour.equalize(image),
    "Invert": lambda image, level, seed: colour.invert(image),
    "Rotate": rotate,
    "Posterize": lambda image, level, seed: colour.posterize(image, min(int(level * 4), 8)),
    "Solarize": lambda image, level, seed: colour.solarize(image, int(level * 256)),
    "Color": lambda image, level, seed: colour.color(image, _factor(level)),
    "Contrast": lambda image, level, seed: colour.contrast(image, _factor(level)),
    "Brightness": lambda image, level, seed: colour.brightness(image, _factor(level)),
    "Sharpness": lambda image, level, seed: colour.sharpness(image, _factor(level)),
    # Shears by 0.3, and moves by `most` of 224 pixels, times the level.
    "ShearX": lambda image, level, seed: _sheared(image, 1, level * 0.3, seed),
    "ShearY": lambda image, level, seed: _sheared(image, 3, level * 0.3, seed),
    "TranslateX": lambda image, level, seed, most=_TRANSLATE: _sheared(
        image, 2, level * most * image.shape[1] / _PIXELS, seed
    ),
    "TranslateY": lambda image, level, seed, most=_TRANSLATE: _sheared(
        image, 5, level * most * image.shape[0] / _PIXELS, seed
    ),
    "Cutout": cutout,
    "SolarizeAdd": lambda image, level, seed: colour.solarize_add(image, int(level * 110)),
}


def _either_sign(value: float, seed: tf.Tensor) -> tf.Tensor:
    return tf.where(tf.random.stateless_uniform((), seed) < 0.5, value, -value)


def _sheared(image: tf.Tensor, place: int, value: float, seed: tf.Tensor) -> tf.Tensor:
    """Moved by the identity with this number, in either direction, at a place of the matrix."""
    matrix = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]
    matrix[place] = _either_sign(value, seed)
    return _moved(image, matrix)


def _moved(image: tf.Tensor, matrix: list) -> tf.Tensor:
    return transformed(image, tf.stack(matrix), tuple(image.shape[:2]), "NEAREST", _FILL)
