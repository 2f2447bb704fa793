"""3-Augment: one of three strong changes, then a colour jitter.

Source: Touvron et al. 2022, "DeiT III: Revenge of the ViT" (arXiv 2204.07118), section 3 and its
code: grey, solarise at 128 or a Gaussian blur of radius 0.1 to 2, each equally likely; brightness,
contrast and saturation are then changed by up to 30%, in random order.
"""

from __future__ import annotations

import itertools

import tensorflow as tf

from keras_vit.data import colour

_RADIUS = (0.1, 2.0)
_JITTERED = (colour.brightness, colour.contrast, colour.color)


def three_augment(image: tf.Tensor, seed: tf.Tensor, jitter: float) -> tf.Tensor:
    """Changes a uint8 image (height, width, 3) by a seed (2,)."""
    choice, blur, colours = tf.unstack(tf.random.split(seed, 3))
    radius = tf.random.stateless_uniform((), blur, *_RADIUS)
    changed = tf.switch_case(
        tf.random.stateless_uniform((), choice, 0, 3, tf.int32),
        [
            lambda: colour.grey(image),
            lambda: colour.solarize(image),
            lambda: colour.gaussian_blur(image, radius),
        ],
    )
    return color_jitter(tf.ensure_shape(changed, image.shape), colours, jitter)


def color_jitter(image: tf.Tensor, seed: tf.Tensor, strength: float) -> tf.Tensor:
    """Brightness, contrast and saturation times 1 - strength to 1 + strength, in random order."""
    first, second = tf.unstack(tf.random.split(seed))
    factors = tf.unstack(tf.random.stateless_uniform((3,), first, 1 - strength, 1 + strength))
    orders = list(itertools.permutations(range(len(_JITTERED))))

    def jittered(order):
        changed = image
        for i in order:
            changed = _JITTERED[i](changed, factors[i])
        return changed

    index = tf.random.stateless_uniform((), second, 0, len(orders), tf.int32)
    branches = [lambda order=order: jittered(order) for order in orders]
    return tf.ensure_shape(tf.switch_case(index, branches), image.shape)
