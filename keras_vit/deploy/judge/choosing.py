"""Which images calibrate, choose and judge: others each time, each spread over all there are."""

from __future__ import annotations

import numpy as np


def spread(count: int, total: int, targets: np.ndarray | None = None, seed: int = 0) -> np.ndarray:
    """Positions of `count` out of `total` images (all of them, if there are fewer), in order.

    `total` is cut into `count` equal parts and one image is drawn from each: data sorted by class
    gives every class its part, and data that repeats its classes in turn does so too, where every
    tenth image might always be of the same class. The same arguments give the same positions.

    Args:
        count: how many.
        total: out of how many.
        targets: their classes (total,), where they are known: they are then sorted by them first.
        seed: of the draw.
    """
    count = min(count, total)
    order = np.arange(total) if targets is None else np.argsort(targets, kind="stable")
    edges = np.arange(count + 1) * total // max(count, 1)
    drawn = np.random.default_rng(seed).integers(edges[:-1], edges[1:])
    return np.sort(order[drawn])


def divided(
    count: int, total: int, targets: np.ndarray | None = None, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """`spread`, and the positions of all other images."""
    chosen = spread(count, total, targets, seed)
    return chosen, np.setdiff1d(np.arange(total), chosen)


def coarse_noise(count: int, shape: tuple[int, int, int]) -> np.ndarray:
    """Seeded images (count, *shape) in [0, 1) of 4 x 4 random colours.

    Noise of single pixels averages out in the patches, so that all images are nearly the same to a
    model; coarse noise differs as much as pictures do.
    """
    height, width, channels = shape
    cells = np.random.default_rng(0).random((count, 4, 4, channels))
    rows, columns = (np.arange(side) * 4 // side for side in (height, width))
    return cells[:, rows][:, :, columns]  # (count, height, width, channels)
