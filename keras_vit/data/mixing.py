"""Augmentations of whole batches, and of their targets: mixup and CutMix; and random erasing.

In a batch, the partner of an image is the one before it.
"""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from keras_vit._errors import UsageError
from keras_vit.data.geometry import within

_SWITCH = 0.5  # how often CutMix is used if both are on (DeiT)
# Random erasing: fraction of the area, and aspect; Zhong et al. 2017 and torchvision.
_ERASED, _ASPECT = (0.02, 1 / 3), (0.3, 1 / 0.3)
_ATTEMPTS = 10


def mix(
    images: tf.Tensor, targets: tf.Tensor, seed: Any, mixup: float, cutmix: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Mixes each image of a batch but the first with the one before it.

    If both are on, one of them is chosen for the batch, each half of the time.

    Args:
        images: pixels (b + 1, height, width, 3); the first is only a partner.
        targets: float32 (b + 1, classes).
        seed: int (2,).
        mixup, cutmix: alpha of the Beta distribution of the weight; 0 for off.

    Returns:
        float32 (b, height, width, 3) and (b, classes).

    Raises:
        UsageError: the targets cannot be mixed, because they are not float32.
    """
    if targets.dtype != tf.float32:
        raise UsageError(
            "mixup and cutmix mix the targets, which must be float32, such as one-hot rows. "
            f"Received: {targets.dtype.name}."
        )
    choice, own = tf.unstack(tf.random.split(seed))
    images = tf.cast(images, tf.float32)
    if not cutmix:
        return mixed_up(images, targets, own, mixup)
    if not mixup:
        return cut_mixed(images, targets, own, cutmix)
    return tf.cond(
        tf.random.stateless_uniform((), choice) < _SWITCH,
        lambda: cut_mixed(images, targets, own, cutmix),
        lambda: mixed_up(images, targets, own, mixup),
    )


def mixed_up(
    images: tf.Tensor, targets: tf.Tensor, seed: tf.Tensor, alpha: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Mixup (Zhang et al. 2018) as in AugReg: one weight for the batch, at least a half."""
    weight = _beta(alpha, seed)
    weight = tf.maximum(weight, 1 - weight)
    return tuple(weight * x[1:] + (1 - weight) * x[:-1] for x in (images, targets))


def cut_mixed(
    images: tf.Tensor, targets: tf.Tensor, seed: tf.Tensor, alpha: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """CutMix (Yun et al. 2019): a box of the partner replaces that of the image.

    All images of the batch have the same box. It has 1 - weight of the area, less what lies outside
    the image; targets are weighted by the area that is left.
    """
    first, second = tf.unstack(tf.random.split(seed))
    size = tuple(images.shape[1:3])
    length = tf.constant(size, tf.float32)
    half = tf.cast(tf.sqrt(1 - _beta(alpha, first)) * length, tf.int32) // 2
    middle = tf.cast(tf.random.stateless_uniform((2,), second) * length, tf.int32)
    is_box = within(size, middle - half, middle + half)
    fraction = tf.reduce_mean(tf.cast(is_box, tf.float32))
    mixed = tf.where(is_box, images[:-1], images[1:])
    return mixed, (1 - fraction) * targets[1:] + fraction * targets[:-1]


def erased(image: tf.Tensor, seed: tf.Tensor, probability: float) -> tf.Tensor:
    """Random erasing (Zhong et al. 2017): a box becomes random levels, with this probability.

    Args:
        image: uint8 (height, width, 3), of known size.
        seed: int (2,).
        probability: of erasing.
    """
    height, width, _ = image.shape
    draws, place, noise = tf.unstack(tf.random.split(seed, 3))
    # Several boxes are drawn, because not all shapes fit; the first that fits is used.
    u = tf.random.stateless_uniform((_ATTEMPTS, 2), draws)
    area = height * width * (_ERASED[0] + (_ERASED[1] - _ERASED[0]) * u[:, 0])
    low, high = map(math.log, _ASPECT)
    aspect = tf.exp(low + (high - low) * u[:, 1])
    sides = tf.cast(
        tf.round(tf.stack([tf.sqrt(area * aspect), tf.sqrt(area / aspect)], 1)), tf.int32
    )
    fits = tf.reduce_all(sides < (height, width), 1)
    box = sides[tf.argmax(tf.cast(fits, tf.int32))]
    where = tf.random.stateless_uniform((3,), place)
    start = tf.cast(where[:2] * tf.cast((height, width) - box + 1, tf.float32), tf.int32)
    is_box = within((height, width), start, start + box)
    is_box &= tf.reduce_any(fits) & (where[2] < probability)
    levels = tf.random.stateless_uniform(image.shape, noise, 0, 256, tf.int32)
    return tf.where(is_box, tf.cast(levels, tf.uint8), image)


def _beta(alpha: float, seed: tf.Tensor) -> tf.Tensor:
    """A draw from Beta(alpha, alpha)."""
    x, y = tf.unstack(tf.random.stateless_gamma((2,), seed, alpha))
    return tf.math.divide_no_nan(x, x + y)
