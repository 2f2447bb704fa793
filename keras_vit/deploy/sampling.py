"""The images of an export: for measuring ranges, for choosing float layers, and for comparison.

Those of a Keras model are read from its representative data here; `trained_model.py` has those of a
run.
"""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_vit._errors import UsageError
from keras_vit.data.input_range import check_inputs
from keras_vit.data.preprocessing import normalise
from keras_vit.deploy.export_options import CALIBRATED, ExportOptions
from keras_vit.deploy.precisions import check_calibration
from keras_vit.deploy.reference import Reference
from keras_vit.specs import Preprocessing

# Random images that are compared if there are no pictures.
_NOISE_IMAGES = 16
# An iterable may be endless: at most this many images are read, a minute of decoding.
_MOST_READ = 10_000


@dataclasses.dataclass(frozen=True)
class Samples:
    """The images of an export.

    Attributes:
        compared: images for the comparison with Keras.
        choosing: images for choosing float layers; None if no layers are chosen.
        calibration: images for measuring ranges (n, height, width, 3); None without pictures.
        picture: one of the compared images, uint8 (height, width, 3) of any size; None if unknown.
        resized: the compared images with a client's resize; None without pictures.
        pictures: some of the compared images as they are stored, by their places, to run the client
            on.
    """

    compared: Reference
    choosing: Reference | None = None
    calibration: np.ndarray | None = None
    picture: np.ndarray | None = None
    resized: np.ndarray | None = None
    pictures: dict[int, np.ndarray] = dataclasses.field(default_factory=dict)


def samples_of(
    data: Any,
    shape: tuple[int, int, int],
    preprocessing: Preprocessing | None,
    options: ExportOptions,
) -> Samples:
    """Divides the representative data of a Keras model.

    Args:
        data: the `representative_data` of `export_tflite`; None for random images.
        shape: height, width and channels of the model's input.
        preprocessing: the model's preprocessing, to turn an input into a picture; None if unknown.
        options: how many images are compared, and to choose layers and to measure ranges on.

    Raises:
        UsageError: ranges must be measured and there are no images, or they are not inputs of the
            model.
    """
    if data is None:
        for precision in options.precisions:
            check_calibration(precision, None)
        noise = _noise(min(options.max_images, _NOISE_IMAGES), shape, preprocessing)
        images = Reference(noise, images_from="random images")
        choosing = images if options.chooses else None
        return Samples(images, choosing, None, _picture(noise[0], preprocessing))
    needed = max(options.max_images, CALIBRATED) + options.calibrate
    needed += options.max_images if options.chooses else 0
    inputs, targets = _inputs(data, shape, needed)
    check_inputs(inputs, preprocessing, "representative_data")
    return _divided(inputs, targets, preprocessing, options)


def spread(count: int, total: int, targets: np.ndarray | None = None, seed: int = 0) -> np.ndarray:
    """Sorted positions of `count` out of `total` images, or of all if there are fewer.

    The images are cut into `count` equal parts and one is drawn at random from each, so that all
    classes are covered if the data is sorted by class. A random draw also covers data that repeats
    its classes in turn, where every tenth image may always have the same class. The result is
    reproducible.

    Args:
        count: number of images to choose.
        total: number of images there are.
        targets: their classes (total,) if known; the images are then sorted by class first.
        seed: seed of the draw.
    """
    count = min(count, total)
    order = np.arange(total) if targets is None else np.argsort(targets, kind="stable")
    edges = np.arange(count + 1) * total // max(count, 1)
    drawn = np.random.default_rng(seed).integers(edges[:-1], edges[1:])
    return np.sort(order[drawn])


def drawn(
    count: int, places: np.ndarray, targets: np.ndarray | None = None, seed: int = 0
) -> np.ndarray:
    """`spread` over the images in some places of a data set, whose classes are its targets."""
    known = None if targets is None else targets[places]
    return places[spread(count, len(places), known, seed)]


def divided(
    count: int, places: np.ndarray, targets: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """`drawn`, and all other places."""
    chosen = drawn(count, places, targets)
    return chosen, places[~np.isin(places, chosen)]


def coarse_noise(count: int, shape: tuple[int, int, int]) -> np.ndarray:
    """Seeded images (count, *shape) in [0, 1) of 4 x 4 random colours.

    Pixel noise averages out within patches, so a model sees nearly the same image every time.
    Images of coarse noise differ as much as pictures do.
    """
    height, width, channels = shape
    cells = np.random.default_rng(0).random((count, 4, 4, channels))
    rows, columns = (np.arange(side) * 4 // side for side in (height, width))
    return cells[:, rows][:, :, columns]  # (count, height, width, channels)


def to_pixels(inputs: np.ndarray, preprocessing: Preprocessing) -> np.ndarray:
    """The uint8 pixels of preprocessed inputs, grey or RGB: the inverse of `normalise`."""
    scale, mean = (np.asarray(x, np.float32) for x in (preprocessing.scale, preprocessing.mean))
    return np.clip(np.rint(inputs * scale + mean), 0, 255).astype(np.uint8)


def _divided(
    inputs: np.ndarray,
    targets: np.ndarray | None,
    preprocessing: Preprocessing | None,
    options: ExportOptions,
) -> Samples:
    """Different images for each purpose, which cover all classes."""

    def images(places: np.ndarray, seed: int, images_from: str) -> Reference:
        places = drawn(options.max_images, places, targets, seed)
        known = None if targets is None else targets[places]
        return Reference(inputs[places], None, known, images_from)

    places, calibration, choosing = np.arange(len(inputs)), None, None
    if options.calibrates:
        count = min(options.calibrate, max(len(inputs) // 2, 1))
        calibrating, places = divided(count, places, targets)
        calibration = inputs[calibrating]
        if not len(places):
            places = calibrating
            warnings.warn(
                "representative_data holds only one image, which is used both to measure ranges "
                "and to compare: the comparison proves little. Pass more images.",
                stacklevel=5,  # the caller of a public function of `deploy.export`
            )
    if options.chooses and len(places) > 1:
        chosen, places = divided(len(places) // 2, places, targets)
        choosing = images(chosen, 1, "other images of the data")
    compared = images(places, int(options.calibrates), "images of the data")
    if options.chooses:
        choosing = choosing or compared
    return Samples(compared, choosing, calibration, _picture(compared.inputs[0], preprocessing))


def _noise(
    count: int, shape: tuple[int, int, int], preprocessing: Preprocessing | None
) -> np.ndarray:
    """Random images (count, *shape), preprocessed for a model."""
    if preprocessing is None:
        return (2 * coarse_noise(count, shape) - 1).astype(np.float32)
    pixels = coarse_noise(count, (*shape[:2], 3))
    return normalise((256 * pixels).astype(np.uint8), preprocessing)


def _picture(image: np.ndarray, preprocessing: Preprocessing | None) -> np.ndarray | None:
    if preprocessing is None:
        return None
    return np.repeat(to_pixels(image, preprocessing), 3 // preprocessing.channels, axis=-1)


def _inputs(data: Any, shape: tuple[int, ...], count: int) -> tuple[np.ndarray, np.ndarray | None]:
    """About `count` images (n, *shape) from the whole data, and their labels if known."""
    if callable(data):  # as for TFLite's converter
        data = data()
    # One batch: an array, or a tuple of images and labels as `fit` takes it.
    if isinstance(data, np.ndarray) or (isinstance(data, tuple) and len(data) == 2):
        return _batch(data, shape)
    # Reservoir sampling: each image is kept with the same probability.
    kept: dict[int, tuple[int, np.ndarray, Any]] = {}
    generator = np.random.default_rng(0)
    for position, (image, target) in enumerate(_examples(data, shape)):
        place = position if position < count else generator.integers(position + 1)
        if place < count:
            # A copy, because a view would keep its whole batch in memory.
            kept[int(place)] = (position, image.copy(), target)
    if not kept:
        raise UsageError("representative_data holds no image.")
    in_order = sorted(kept.values(), key=lambda entry: entry[0])
    _, images, targets = zip(*in_order, strict=True)
    known = all(target is not None for target in targets)
    return np.stack(images), np.array(targets) if known else None


def _examples(data: Any, shape: tuple[int, ...]) -> Iterator[tuple[np.ndarray, Any]]:
    """Yields the first images of an iterable, each with its label or None."""
    read = 0
    for item in itertools.islice(data, _MOST_READ):
        images, targets = _batch(item, shape)
        labels = itertools.repeat(None) if targets is None else targets
        yield from zip(images, labels, strict=False)
        read += len(images)
        if read >= _MOST_READ:
            return


def _batch(item: Any, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray | None]:
    """The images (n, *shape) and the labels (n,) of an item of a data set."""
    if isinstance(item, dict) and len(item) == 1:  # TFLite's, with the name of the input
        item = list(item.values())
    images, *labels = item if isinstance(item, (tuple, list)) else (item,)
    images = np.asarray(images)
    images = images[None] if images.shape == shape else images
    if images.dtype.kind != "f" or images.shape[1:] != shape:
        raise UsageError(
            f"representative_data must be preprocessed floats {('n', *shape)}. "
            f"Received: {images.dtype} {images.shape}; use keras_vit.preprocess."
        )
    if not np.isfinite(images).all():
        raise UsageError("representative_data must be finite. Received: NaN or infinity in it.")
    if not labels:
        return images.astype(np.float32), None
    targets = np.atleast_1d(np.asarray(labels[0]))
    if targets.size == len(images) and np.isin(targets, (0, 1)).all():
        # As Keras takes them for one logit: 0.0 and 1.0, (n,) or (n, 1).
        targets = targets.reshape(-1).astype(np.int64)
    if targets.dtype.kind not in "iu" or targets.shape != (len(images),):
        raise UsageError(
            f"labels must be integers ({len(images)},), the classes of the images. "
            f"Received: {targets.dtype} {targets.shape}; leave them out if there are none."
        )
    return images.astype(np.float32), targets
