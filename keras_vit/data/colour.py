"""Operations on the levels of an image, uint8 (height, width, 3), and 3-Augment, made of them.

Names and definitions are those of Pillow's `ImageOps`, `ImageEnhance` and `ImageFilter`.
"""

from __future__ import annotations

import itertools
from typing import Any

import tensorflow as tf

from keras_vit.data.luma_and_crop import luma

_RADIUS = (0.1, 2.0)  # of the blur of 3-Augment
_BLUR_TAPS = 6  # on each side: three times the largest radius


def grey(image: tf.Tensor) -> tf.Tensor:
    """The luma as three equal channels."""
    return tf.stack([_luma(image)] * 3, -1)


def invert(image: tf.Tensor) -> tf.Tensor:
    """255 - x."""
    return 255 - image


def solarize(image: tf.Tensor, threshold: Any = 128) -> tf.Tensor:
    """Inverts levels of `threshold` and more."""
    return tf.where(tf.cast(image, tf.int32) < threshold, image, 255 - image)


def solarize_add(image: tf.Tensor, addition: Any, threshold: int = 128) -> tf.Tensor:
    """Adds to levels below `threshold`."""
    added = tf.minimum(tf.cast(image, tf.int32) + addition, 255)
    return tf.where(image < threshold, tf.cast(added, tf.uint8), image)


def posterize(image: tf.Tensor, bits: int) -> tf.Tensor:
    """Keeps the highest `bits` bits of each level, 0 to 8."""
    return tf.bitwise.bitwise_and(image, tf.constant(256 - 2 ** (8 - bits) & 255, tf.uint8))


def autocontrast(image: tf.Tensor) -> tf.Tensor:
    """Stretches the levels of each channel to 0 to 255."""
    values = tf.cast(image, tf.int32)
    least, most = tf.reduce_min(values, (0, 1)), tf.reduce_max(values, (0, 1))
    stretched = (values - least) * 255 // tf.maximum(most - least, 1)
    return tf.cast(tf.where(most > least, stretched, values), tf.uint8)


def equalize(image: tf.Tensor) -> tf.Tensor:
    """Makes the histogram of each channel uniform."""
    return tf.stack([_equalized(image[..., channel]) for channel in range(3)], -1)


def color(image: tf.Tensor, factor: Any) -> tf.Tensor:
    """Saturation: 0 for grey, 1 for the image."""
    return blend(grey(image), image, factor)


def contrast(image: tf.Tensor, factor: Any) -> tf.Tensor:
    """0 for the mean level everywhere, 1 for the image."""
    mean = tf.reduce_mean(tf.cast(_luma(image), tf.float32))
    level = tf.cast(mean + 0.5, tf.uint8)
    return blend(tf.fill(tf.shape(image), level), image, factor)


def brightness(image: tf.Tensor, factor: Any) -> tf.Tensor:
    """0 for black, 1 for the image."""
    return blend(tf.zeros_like(image), image, factor)


def sharpness(image: tf.Tensor, factor: Any) -> tf.Tensor:
    """0 for a smoothed image, 1 for the image."""
    smooth = tf.constant([[1, 1, 1], [1, 5, 1], [1, 1, 1]], tf.float32) / 13
    kernel = tf.repeat(smooth[..., None, None], 3, 2)  # (3, 3, 3, 1)
    inside = tf.nn.depthwise_conv2d(tf.cast(image, tf.float32)[None], kernel, (1, 1, 1, 1), "VALID")
    inside = tf.pad(tf.cast(inside[0] + 0.5, tf.uint8), ((1, 1), (1, 1), (0, 0)))
    is_inside = tf.pad(tf.ones_like(image[1:-1, 1:-1], tf.bool), ((1, 1), (1, 1), (0, 0)))
    return blend(tf.where(is_inside, inside, image), image, factor)


def gaussian_blur(image: tf.Tensor, radius: Any) -> tf.Tensor:
    """A Gaussian of standard deviation `radius`, at most 2 pixels; edges are repeated."""
    taps = tf.range(-_BLUR_TAPS, _BLUR_TAPS + 1, dtype=tf.float32)
    weights = tf.exp(-0.5 * (taps / radius) ** 2)
    weights = tf.repeat((weights / tf.reduce_sum(weights))[:, None], 3, 1)  # (taps, 3)
    rows, columns = (
        tf.clip_by_value(tf.range(-_BLUR_TAPS, side + _BLUR_TAPS), 0, side - 1)
        for side in tf.unstack(tf.shape(image)[:2])
    )
    padded = tf.gather(tf.gather(image, rows), columns, axis=1)
    values = tf.cast(padded, tf.float32)[None]
    for kernel in (weights[:, None, :, None], weights[None, :, :, None]):
        values = tf.nn.depthwise_conv2d(values, kernel, (1, 1, 1, 1), "VALID")
    return tf.saturate_cast(tf.round(values[0]), tf.uint8)


def three_augment(image: tf.Tensor, seed: tf.Tensor, jitter: float = 0.3) -> tf.Tensor:
    """3-Augment of a uint8 image (height, width, 3) by a seed (2,).

    One of three strong changes, then a colour jitter. Source: Touvron et al. 2022, "DeiT III:
    Revenge of the ViT" (arXiv 2204.07118), section 3 and its code: grey, solarise at 128 or a
    Gaussian blur of radius 0.1 to 2, each equally likely; brightness, contrast and saturation are
    then changed by up to 30%, in random order.
    """
    choice, blur, colours = tf.unstack(tf.random.split(seed, 3))
    radius = tf.random.stateless_uniform((), blur, *_RADIUS)
    changed = tf.switch_case(
        tf.random.stateless_uniform((), choice, 0, 3, tf.int32),
        [lambda: grey(image), lambda: solarize(image), lambda: gaussian_blur(image, radius)],
    )
    return color_jitter(tf.ensure_shape(changed, image.shape), colours, jitter)


def color_jitter(image: tf.Tensor, seed: tf.Tensor, strength: float) -> tf.Tensor:
    """Brightness, contrast and saturation times 1 - strength to 1 + strength, in random order."""
    first, second = tf.unstack(tf.random.split(seed))
    factors = tf.unstack(tf.random.stateless_uniform((3,), first, 1 - strength, 1 + strength))
    orders = list(itertools.permutations(range(3)))

    def jittered(order):
        changed = image
        for i in order:
            changed = (brightness, contrast, color)[i](changed, factors[i])
        return changed

    index = tf.random.stateless_uniform((), second, 0, len(orders), tf.int32)
    branches = [lambda order=order: jittered(order) for order in orders]
    return tf.ensure_shape(tf.switch_case(index, branches), image.shape)


def blend(degenerate: tf.Tensor, image: tf.Tensor, factor: Any) -> tf.Tensor:
    """Between two images, or beyond them: 0 for the first, 1 for the second; truncated."""
    first, second = tf.cast(degenerate, tf.float32), tf.cast(image, tf.float32)
    return tf.cast(tf.clip_by_value(first + factor * (second - first), 0.0, 255.0), tf.uint8)


def _luma(image: tf.Tensor) -> tf.Tensor:
    return tf.cast(luma(tf.cast(image, tf.float32), tf.floor)[..., 0], tf.uint8)


def _equalized(channel: tf.Tensor) -> tf.Tensor:
    levels = tf.cast(channel, tf.int32)
    counts = tf.math.bincount(tf.reshape(levels, (-1,)), minlength=256, maxlength=256)
    last = tf.gather(counts, tf.reduce_max(levels))
    step = (tf.reduce_sum(counts) - last) // 255
    table = (step // 2 + tf.cumsum(counts, exclusive=True)) // tf.maximum(step, 1)
    table = tf.where(step > 0, tf.minimum(table, 255), tf.range(256))
    return tf.cast(tf.gather(table, levels), tf.uint8)
