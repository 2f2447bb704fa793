"""The images of an export: for measuring ranges, for choosing float layers, and for comparison."""

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
from keras_vit.deploy.judge.choosing import coarse_noise, divided, spread
from keras_vit.specs import Preprocessing

# Images that measure ranges. For 8, 16, 32, 64 and 128 of them the error of int8 on digits is
# 0.026, 0.019, 0.018, 0.017, 0.017 (mean of three draws).
CALIBRATED = 32
# Random images that are compared if there are no pictures.
NOISE_IMAGES = 16
# An iterable may be endless: at most this many images are read, a minute of decoding.
_MOST_READ = 10_000


@dataclasses.dataclass(frozen=True)
class Part:
    """Preprocessed images (n, height, width, 3), their classes if known, and a description."""

    images: np.ndarray
    targets: np.ndarray | None
    images_from: str


@dataclasses.dataclass(frozen=True)
class Samples:
    """The images of an export.

    Attributes:
        compared: images for the comparison with Keras.
        choosing: images for choosing float layers; None if no layers are chosen.
        calibration: images for measuring ranges (n, height, width, 3); None without pictures.
        picture: one of the compared images, uint8 (height, width, 3) of any size; None if unknown.
    """

    compared: Part
    choosing: Part | None
    calibration: np.ndarray | None
    picture: np.ndarray | None


def samples_of(
    data: Any,
    shape: tuple[int, int, int],
    preprocessing: Preprocessing | None,
    count: int,
    calibrate: int | None,
    choose: bool,
) -> Samples:
    """Divides the representative data of a Keras model.

    Args:
        data: the `representative_data` of `export_tflite`; None for random images.
        shape: height, width and channels of the model's input.
        preprocessing: the model's preprocessing, to turn an input into a picture; None if unknown.
        count: the largest number of images to compare, and to choose layers on.
        calibrate: the largest number of images to measure ranges on, besides the limit of half of
            all images; None for none.
        choose: whether float layers are chosen.
    """
    if data is None:
        noise = (2 * coarse_noise(min(count, NOISE_IMAGES), shape) - 1).astype(np.float32)
        part = Part(noise, None, "random images")
        return Samples(part, part if choose else None, None, _picture(noise[0], preprocessing))
    needed = max(count, CALIBRATED) + (calibrate or CALIBRATED) + (count if choose else 0)
    images, targets = _inputs(data, shape, needed)
    check_inputs(images, preprocessing, "representative_data")

    def part(places: np.ndarray, seed: int, images_from: str) -> Part:
        known = None if targets is None else targets[places]
        places = places[spread(count, len(places), known, seed)]
        return Part(images[places], None if targets is None else targets[places], images_from)

    places = np.arange(len(images))
    calibrating, choosing = None, None
    if calibrate is not None:
        calibrating, others = divided(
            min(calibrate, max(len(images) // 2, 1)), len(images), targets
        )
        if not len(others):
            others = calibrating
            warnings.warn(
                "representative_data holds only one image, which is used both to measure ranges "
                "and to compare: the comparison proves little. Pass more images.",
                stacklevel=4,  # the caller of a public function of `deploy.export`
            )
        places = others
    if choose and len(places) > 1:
        known = None if targets is None else targets[places]
        first, second = divided(len(places) // 2, len(places), known)
        choosing, places = part(places[first], 1, "other images of the data"), places[second]
    compared = part(places, 0 if calibrate is None else 1, "images of the data")
    calibration = None if calibrating is None else images[calibrating]
    chosen = (choosing or compared) if choose else None
    return Samples(compared, chosen, calibration, _picture(compared.images[0], preprocessing))


def noise_of(preprocessing: Preprocessing, count: int) -> np.ndarray:
    """Random images (n, *preprocessing.shape), preprocessed for a model."""
    noise = coarse_noise(min(count, NOISE_IMAGES), (preprocessing.height, preprocessing.width, 3))
    return normalise((256 * noise).astype(np.uint8), preprocessing)


def to_pixels(inputs: np.ndarray, preprocessing: Preprocessing) -> np.ndarray:
    """The uint8 pixels of preprocessed inputs, grey or RGB: the inverse of `normalise`."""
    scale, mean = (np.asarray(x, np.float32) for x in (preprocessing.scale, preprocessing.mean))
    return np.clip(np.rint(inputs * scale + mean), 0, 255).astype(np.uint8)


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
    kept: list[tuple[int, np.ndarray, Any]] = []
    generator = np.random.default_rng(0)
    for position, (image, target) in enumerate(_examples(data, shape)):
        place = len(kept) if len(kept) < count else generator.integers(position + 1)
        if place < count:
            # A copy, because a view would keep its whole batch in memory.
            kept[place : place + 1] = [(position, image.copy(), target)]
    if not kept:
        raise UsageError("representative_data holds no image.")
    kept.sort(key=lambda entry: entry[0])
    _, images, targets = zip(*kept, strict=True)
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
    labelled = isinstance(item, (tuple, list))
    images = np.asarray(item[0] if labelled else item)
    images = images[None] if images.shape == shape else images
    if images.dtype.kind != "f" or images.shape[1:] != shape:
        raise UsageError(
            f"representative_data must be preprocessed floats {('n', *shape)}. "
            f"Received: {images.dtype} {images.shape}; use keras_vit.preprocess."
        )
    if not np.isfinite(images).all():
        raise UsageError("representative_data must be finite. Received: NaN or infinity in it.")
    if not labelled or len(item) < 2:
        return images.astype(np.float32), None
    targets = np.atleast_1d(np.asarray(item[1]))
    if targets.size == len(images) and np.isin(targets, (0, 1)).all():
        # As Keras takes them for one logit: 0.0 and 1.0, (n,) or (n, 1).
        targets = targets.reshape(-1).astype(np.int64)
    if targets.dtype.kind not in "iu" or targets.shape != (len(images),):
        raise UsageError(
            f"labels must be integers ({len(images)},), the classes of the images. "
            f"Received: {targets.dtype} {targets.shape}; leave them out if there are none."
        )
    return images.astype(np.float32), targets
