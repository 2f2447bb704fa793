"""The images of an export: for measuring ranges, for choosing float layers, and for comparison."""

from __future__ import annotations

import dataclasses

import numpy as np

from keras_vit.deploy.reference_scores import Reference
from keras_vit.specs import Preprocessing


@dataclasses.dataclass(frozen=True)
class Samples:
    """The images of an export.

    Attributes:
        compared: images for the comparison with Keras.
        for_float_layers: images for choosing float layers; None if no layers are chosen.
        calibration: images for measuring ranges (n, height, width, 3); None without pictures.
        picture: one of the compared images, uint8 (height, width, 3) of any size; None if unknown.
        resized: the compared images with a client's resize; None without pictures.
        resized_masks: the masks that are their targets with the same resize, uint8 (n, height,
            width); None if they have none.
        pictures: some of the compared images as they are stored, by their places, to run the client
            on.
    """

    compared: Reference
    for_float_layers: Reference | None = None
    calibration: np.ndarray | None = None
    picture: np.ndarray | None = None
    resized: np.ndarray | None = None
    resized_masks: np.ndarray | None = None
    pictures: dict[int, np.ndarray] = dataclasses.field(default_factory=dict)


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
