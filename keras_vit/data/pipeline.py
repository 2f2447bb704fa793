"""Batches for `fit` and `predict`. This module imports TensorFlow.

The order of the examples depends only on the seed and the step, never on threads. A repeated run
therefore gives the same numbers, and training can start at any step.

Each example is read, decoded and augmented by TensorFlow operations. Python runs only for pictures
that TensorFlow decodes to other pixels than Pillow, and for sources that are Python functions.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from keras_vit._errors import UsageError
from keras_vit.data import geometry
from keras_vit.data.augmentation import AUGMENTATIONS, Augmentation
from keras_vit.data.mixing import erased, mix
from keras_vit.data.preprocessing import normalise
from keras_vit.data.reading import in_memory, naming_unreadable
from keras_vit.data.source import Encoded, InMemory, Source, Vectors
from keras_vit.specs import Preprocessing

# Held-out images up to this size are kept in memory after they were decoded once.
_CACHED_BYTES = 256 * 2**20
_LOADED = 64  # images of a batch that is loaded


def training_batches(
    source: Source,
    indices: np.ndarray,
    preprocessing: Preprocessing,
    batch_size: int,
    steps: int,
    augment: str = "none",
    seed: int = 0,
    first_step: int = 0,
    sampling: str = "all",
    shard: tuple[int, int] = (0, 1),
    targets: Callable[[Any, Any], Any] = lambda images, classes: classes,
    mixup: float = 0.0,
    cutmix: float = 0.0,
    erase: float = 0.0,
) -> Any:
    """A `tf.data.Dataset` of `steps` batches: images (b, height, width, 3), and targets (b, ...).

    What is annotated in the images is moved with them.

    The images are uint8, or float32 with `mixup` or `cutmix`, from 0 to 255; of `Vectors`, float32
    (b, channels).

    Each epoch is a new permutation. All batches are full, because a batch may contain the end of
    one epoch and the start of the next.

    Args:
        source: the images.
        indices: the indices of the training images.
        preprocessing: size and scale of the model's input.
        batch_size: number of images in the batches of all shards together.
        steps: number of batches.
        augment: a name in `AUGMENTATIONS`.
        seed: random seed of the order and the augmentation.
        first_step: the step of the first batch.
        sampling: "all" for each image once in an epoch, "balanced" for each class equally often.
        shard: (i, n) for the i-th of n equal parts of each batch, in order; b = batch_size / n.
        targets: a TensorFlow function from the images and their classes, int64 (b,), or what is
            annotated in them, to the targets.
        mixup, cutmix: alpha of mixup and of CutMix; 0 for off. The targets must be float32.
        erase: probability of random erasing.

    Raises:
        UsageError: the number of shards does not divide the batch.
    """
    number, shards = shard
    if batch_size % shards:
        raise UsageError(
            f"batch_size must be a multiple of the {shards} shards. Received: {batch_size}."
        )
    size = batch_size // shards
    drawn = _balanced(source, indices, seed) if sampling == "balanced" else _shuffled(indices, seed)
    read = _reader(source, indices, preprocessing, AUGMENTATIONS[augment], erase)
    mixes = bool(mixup or cutmix)
    group = size + mixes  # each image is mixed with the one before it in the whole batch

    def example(count):
        place = (number * size + count % group - mixes) % batch_size
        # The position of an example in the whole training.
        position = (first_step + count // group) * batch_size + place
        index = drawn(position)
        return read(index, tf.stack([tf.constant(seed, tf.int64), position]))

    def finished(step, batch):
        images, classes = batch
        if not mixes:
            return images, targets(images, classes)
        key = tf.stack([tf.constant(seed, tf.int64), -1 - first_step - step])
        return mix(images, targets(images, classes), key, mixup, cutmix)

    examples = _mapped(tf.data.Dataset.range(steps * group), example)
    batches = examples.batch(group, drop_remainder=True).enumerate()
    return _prefetched(_mapped(batches, finished))


def evaluation_batches(
    source: Source, indices: np.ndarray, preprocessing: Preprocessing, batch_size: int
) -> Any:
    """A `tf.data.Dataset` over `indices` in order, once; the last batch may be smaller.

    A few images are kept in memory when they have been read once.
    """
    read = _reader(source, indices, preprocessing, AUGMENTATIONS["none"])
    seed = np.zeros(2, np.int64)
    examples = tf.data.Dataset.from_tensor_slices(np.asarray(indices, np.int64))
    batches = _mapped(examples, lambda index: read(index, seed)).batch(batch_size)
    if len(indices) * preprocessing.height * preprocessing.width * 3 <= _CACHED_BYTES:
        batches = batches.cache()
    return _prefetched(batches)


def load_annotated(
    source: Source, indices: np.ndarray, preprocessing: Preprocessing
) -> tuple[np.ndarray, np.ndarray]:
    """The inputs, float32 (n, *preprocessing.shape), and annotations (n, ...), of `indices`."""
    with naming_unreadable(source):
        batches = list(evaluation_batches(source, indices, preprocessing, _LOADED))
    images, annotations = (np.concatenate(each) for each in zip(*batches, strict=True))
    return normalise(images, preprocessing), annotations


def _shuffled(indices: np.ndarray, seed: int) -> Callable[[Any], Any]:
    """From a position to an index: each epoch is a permutation of its own."""
    indices = in_memory(np.asarray(indices, np.int64))
    count = indices.shape[0]

    def index(position):
        epoch, place = position // count, position % count
        key = tf.stack([tf.constant(seed, tf.int64), epoch])
        return tf.gather(indices, tf.random.experimental.index_shuffle(place, key, count - 1))

    return index


def _balanced(source: Source, indices: np.ndarray, seed: int) -> Callable[[Any], Any]:
    """From a position to an index: a class, then one of its images, each equally likely."""
    indices = indices[np.argsort(source.targets[indices], kind="stable")].astype(np.int64)
    counts = np.unique(source.targets[indices], return_counts=True)[1]
    members, starts, counts = map(in_memory, (indices, np.cumsum(counts) - counts, counts))

    def index(position):
        key = tf.stack([tf.constant(seed, tf.int64), position])
        first, second = tf.unstack(tf.random.split(key))
        kind = tf.random.stateless_uniform((), first, 0, counts.shape[0], tf.int64)
        place = tf.random.stateless_uniform((), second, 0, counts[kind], tf.int64)
        return members[starts[kind] + place]

    return index


def _reader(
    source: Source,
    indices: np.ndarray,
    preprocessing: Preprocessing,
    augmentation: Augmentation,
    erase: float = 0.0,
) -> Callable[[Any, Any], tuple[Any, Any]]:
    """A TensorFlow function from an index and a seed (2,) to an augmented image and its class.

    The class is an index, int64 (), or if the source has several, 0 and 1 for each (classes,). In
    its place are the annotations of a source that has some, moved with the image.
    """
    target_of, annotations = _targets(source), source.annotations
    if isinstance(source.image, Vectors):
        values, size = in_memory(source.image.values), preprocessing.size
        if annotations is not None:
            matrix = functools.partial(geometry.of_whole, preprocessing=preprocessing)
            target_of = functools.partial(annotations.moved, matrix=matrix, size=size)
        return lambda index, seed: (tf.gather(values, index), target_of(index))
    picture_of = _pictures(source, indices)

    def read(index, seed):
        place, mirror, pixels, erasing = tf.unstack(tf.random.split(seed, 4))

        def used(picture):
            placed = _placed(picture, augmentation, preprocessing, place)
            return placed.image, None if annotations is None else placed.matrix()

        image, matrix = picture_of(index, used)
        image = tf.ensure_shape(image, (*preprocessing.size, 3))
        if augmentation.flip:
            image, matrix = geometry.mirrored((image, matrix), mirror)
        if augmentation.pixels is not None:
            image = augmentation.pixels(image, pixels)
        if erase:
            image = erased(image, erasing, erase)
        if annotations is None:
            return image, target_of(index)
        return image, annotations.moved(index, matrix, preprocessing.size)

    return read


def _targets(source: Source) -> Callable[[Any], Any]:
    """A TensorFlow function from an index to the class or the row of classes."""
    if source.multi_hot is None:
        targets = in_memory(source.targets.astype(np.int64))
        return lambda index: tf.gather(targets, index)
    numbers = in_memory(source.multi_hot.numbers)
    starts = in_memory(source.multi_hot.starts)

    def row(index):
        chosen = numbers[starts[index] : starts[index + 1]]
        shape = tf.constant([source.multi_hot.shape[1]], tf.int64)
        return tf.scatter_nd(chosen[:, None], tf.ones_like(chosen, tf.uint8), shape)

    return row


def _placed(
    picture: Any, augmentation: Augmentation, preprocessing: Preprocessing, seed: Any
) -> geometry.Placed:
    """A `geometry.Picture`, or the part that the augmentation draws, at the model's input size."""
    if augmentation.zoom is not None:
        return geometry.zoomed(picture, preprocessing, seed, augmentation.zoom)
    if augmentation.shift:
        return geometry.shifted(picture.pixels(), preprocessing, seed)
    if augmentation.area is not None:
        return geometry.cropped(picture, preprocessing, seed, augmentation.area)
    if augmentation.margin is not None:
        return geometry.cropped_from_larger(picture, preprocessing, seed, augmentation.margin)
    return geometry.whole(picture, preprocessing)


def _pictures(source: Source, indices: np.ndarray) -> Callable[[Any, Callable], Any]:
    """A TensorFlow function of an index and of a function of a `geometry.Picture`."""

    def places(values):
        """A TensorFlow function from an index to the value for it; `values` is for `indices`."""
        table = np.zeros(len(source), np.int32)
        table[indices] = values
        table = in_memory(table)
        return lambda index: tf.gather(table, index)

    if isinstance(source.image, InMemory):
        pixels = in_memory(source.image.pixels[indices])
        place = places(np.arange(len(indices)))
        return lambda index, use: use(geometry.of_pixels(tf.gather(pixels, place(index))))

    def by_python(index):
        image = tf.numpy_function(lambda i: source.image(int(i)), [index], tf.uint8)
        return geometry.of_pixels(tf.ensure_shape(image, (None, None, 3)))

    # In the order of `picture_formats.PLAIN`.
    readers = (
        by_python,
        lambda index: geometry.of_jpeg(source.image.contents(index)),
        lambda index: geometry.of_png(source.image.contents(index)),
    )
    is_encoded = isinstance(source.image, Encoded)
    formats = source.image.formats if is_encoded else np.zeros(len(source), np.uint8)
    present, kinds = np.unique(formats[indices], return_inverse=True)
    branches = [readers[kind] for kind in present]
    if len(branches) == 1:
        return lambda index, use: use(branches[0](index))
    branch = places(kinds)
    return lambda index, use: tf.switch_case(
        branch(index), [lambda b=b: use(b(index)) for b in branches]
    )


def _mapped(elements: Any, function: Callable) -> Any:
    return elements.map(
        tf.autograph.experimental.do_not_convert(function),
        num_parallel_calls=_processors(),
        deterministic=True,
    )


def _prefetched(batches: Any) -> Any:
    """The batches, two of them ready before they are asked for.

    Nothing is left to tf.data's autotuning. Its thread sleeps for up to a minute at a time, and the
    end of an iteration, as after Ctrl-C, may have to wait for it.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    options.threading.max_intra_op_parallelism = 1  # the examples are the parallel parts
    return batches.prefetch(2).with_options(options)


def _processors() -> int:
    """The number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
