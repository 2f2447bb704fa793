"""Batches for `fit` and `predict`.

The order of the examples depends only on the seed and the step, never on threads. A repeated run
therefore gives the same numbers, and training can start at any step.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image

from keras_vit.data.augmentation import AUGMENTATIONS
from keras_vit.data.preprocessing import normalise, preprocess_image
from keras_vit.data.sources import Source
from keras_vit.specs import Preprocessing


def training_batches(
    source: Source,
    indices: np.ndarray,
    preprocessing: Preprocessing,
    batch_size: int,
    steps: int,
    augment: str = "none",
    seed: int = 0,
    first_step: int = 0,
) -> Any:
    """A `tf.data.Dataset` of `steps` batches: float32 (b, height, width, 3), int64 (b,).

    Each epoch is a new permutation. All batches are full, because a batch may contain the end of
    one epoch and the start of the next.

    Args:
        source: the images.
        indices: the indices of the training images.
        preprocessing: size and scale of the model's input.
        batch_size: b.
        steps: number of batches.
        augment: a name in `AUGMENTATIONS`.
        seed: random seed of the order and the augmentation.
        first_step: the step of the first batch.
    """
    augmentation = AUGMENTATIONS[augment]

    def example(position: int) -> tuple[np.ndarray, int]:
        index = indices[
            _order(seed, len(indices), position // len(indices))[position % len(indices)]
        ]
        rng = np.random.default_rng([seed, position])
        image = augmentation(Image.fromarray(source.image(index)), preprocessing, rng)
        return normalise(image, preprocessing), source.targets[index]

    def batch(step: int) -> tuple[np.ndarray, np.ndarray]:
        first = int(step) * batch_size
        images, targets = zip(*map(example, range(first, first + batch_size)), strict=True)
        return np.stack(images), np.array(targets, np.int64)

    return _dataset(batch, range(first_step, first_step + steps), preprocessing, batch_size)


def evaluation_batches(
    source: Source, indices: np.ndarray, preprocessing: Preprocessing, batch_size: int
) -> Any:
    """A `tf.data.Dataset` over `indices` in order, once; the last batch may be smaller."""

    def batch(step: int) -> tuple[np.ndarray, np.ndarray]:
        chosen = indices[int(step) * batch_size : (int(step) + 1) * batch_size]
        return load(source, chosen, preprocessing)

    return _dataset(batch, range(-(-len(indices) // batch_size)), preprocessing, None)


def load(
    source: Source, indices: np.ndarray, preprocessing: Preprocessing
) -> tuple[np.ndarray, np.ndarray]:
    """The inputs, float32 (n, height, width, 3), and targets, int64 (n,), of `indices`."""
    images = [preprocess_image(source.image(int(i)), preprocessing) for i in indices]
    return np.stack(images), source.targets[indices]


@functools.lru_cache(maxsize=4)
def _order(seed: int, count: int, epoch: int) -> np.ndarray:
    return np.random.default_rng([seed, count, epoch]).permutation(count)


def _dataset(
    batch: Callable[[int], tuple[np.ndarray, np.ndarray]],
    steps: range,
    preprocessing: Preprocessing,
    batch_size: int | None,
) -> Any:
    import tensorflow as tf

    shape = (batch_size, preprocessing.height, preprocessing.width, 3)

    def load(step):
        images, targets = tf.numpy_function(batch, [step], (tf.float32, tf.int64))
        return tf.ensure_shape(images, shape), tf.ensure_shape(targets, (batch_size,))

    return (
        tf.data.Dataset.range(steps.start, steps.stop)
        .map(load, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        .apply(tf.data.experimental.assert_cardinality(len(steps)))
        .prefetch(tf.data.AUTOTUNE)
    )
