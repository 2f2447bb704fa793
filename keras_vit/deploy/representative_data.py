"""Reads and divides the representative data of a Keras model."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_vit._errors import UsageError
from keras_vit.data.input_range import check_inputs
from keras_vit.data.masks import NO_CLASS
from keras_vit.data.preprocessing import normalise
from keras_vit.deploy.export_options import CALIBRATED, ExportOptions
from keras_vit.deploy.precisions import check_calibration
from keras_vit.deploy.reference_scores import Reference
from keras_vit.deploy.sample_images import Samples, coarse_noise, divided, drawn, to_pixels
from keras_vit.specs import Preprocessing

# Random images that are compared if there are no pictures.
_NOISE_IMAGES = 16
# An iterable may be endless: at most this many images are read, a minute of decoding.
_MOST_READ = 10_000


def samples_of(
    data: Any,
    shape: tuple[int, int, int],
    preprocessing: Preprocessing | None,
    options: ExportOptions,
    classes: int | None = None,
) -> Samples:
    """Divides the representative data of a Keras model.

    Args:
        data: the `representative_data` of `export_tflite`; None for random images.
        shape: height, width and channels of the model's input.
        preprocessing: the model's preprocessing, to turn an input into a picture; None if unknown.
        options: how many images are compared, and to choose layers and to measure ranges on.
        classes: of a segmenter, the number of classes; its labels are masks.

    Raises:
        UsageError: ranges must be measured and there are no images, they are not inputs of the
            model, or their labels are not such as the model's.
    """
    if data is None:
        for precision in options.precisions:
            check_calibration(precision, None)
        noise = _noise(min(options.max_images, _NOISE_IMAGES), shape, preprocessing)
        images = Reference(noise, images_from="random images")
        for_float_layers = images if options.chooses else None
        return Samples(images, for_float_layers, None, _picture(noise[0], preprocessing))
    needed = max(options.max_images, CALIBRATED) + options.calibrate
    needed += options.max_images if options.chooses else 0
    inputs, targets = _inputs(data, shape, needed)
    _check_labels(targets, len(inputs), None if classes is None else shape[:2], classes)
    check_inputs(inputs, preprocessing, "representative_data")
    return _divided(inputs, targets, preprocessing, options)


def _divided(
    inputs: np.ndarray,
    targets: np.ndarray | None,
    preprocessing: Preprocessing | None,
    options: ExportOptions,
) -> Samples:
    """Different images for each purpose, which cover all classes."""

    kinds = targets if np.ndim(targets) == 1 else None

    def images(places: np.ndarray, seed: int, images_from: str) -> Reference:
        places = drawn(options.max_images, places, kinds, seed)
        known = None if targets is None else targets[places]
        return Reference(inputs[places], None, known, images_from)

    places, calibration, for_float_layers = np.arange(len(inputs)), None, None
    if options.calibrates:
        count = min(options.calibrate, max(len(inputs) // 2, 1))
        calibrating, places = divided(count, places, kinds)
        calibration = inputs[calibrating]
        if not len(places):
            places = calibrating
            warnings.warn(
                "representative_data holds only one image, which is used both to measure ranges "
                "and to compare: the comparison proves little. Pass more images.",
                stacklevel=5,  # the caller of a public function of `deploy.export`
            )
    if options.chooses and len(places) > 1:
        chosen, places = divided(len(places) // 2, places, kinds)
        for_float_layers = images(chosen, 1, "other images of the data")
    compared = images(places, int(options.calibrates), "images of the data")
    if options.chooses:
        for_float_layers = for_float_layers or compared
    picture = _picture(compared.inputs[0], preprocessing)
    return Samples(compared, for_float_layers, calibration, picture)


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
    """The images (n, *shape) and the labels (n, ...) of an item of a data set."""
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
    try:
        targets = np.atleast_1d(np.asarray(labels[0]))
    except ValueError:
        raise UsageError("labels must be an array. Received: rows of different lengths.") from None
    targets = targets[None] if targets.shape == shape[:2] else targets
    if targets.size == len(images) and np.isin(targets, (0, 1)).all():
        # As Keras takes them for one logit: 0.0 and 1.0, (n,) or (n, 1).
        targets = targets.reshape(-1).astype(np.int64)
    if len(targets) != len(images):
        raise UsageError(
            f"labels must be integers ({len(images)},), the classes of the images, or their masks. "
            f"Received: {targets.dtype} {targets.shape}; leave them out if there are none."
        )
    return images.astype(np.float32), targets


def _check_labels(
    targets: np.ndarray | None, count: int, size: tuple[int, int] | None, classes: int | None
) -> None:
    """Raises a `UsageError` unless labels are (n,), or for `size` masks of so many classes."""
    if targets is None:
        return
    expected, what = (count, *(size or ())), "masks" if size else "labels"
    if targets.dtype.kind not in "iu" or targets.shape != expected:
        raise UsageError(
            f"{what} must be integers {expected}, the classes of the "
            f"{'pixels' if size else 'images'}. Received: {targets.dtype} {targets.shape}; leave "
            "them out if there are none."
        )
    wrong = size and targets[(targets != NO_CLASS) & ((targets < 0) | (targets >= classes))]
    if size and wrong.size:
        raise UsageError(
            f"masks must have classes 0 to {classes - 1}, or {NO_CLASS} for none. Received: "
            f"{wrong[0]}."
        )
