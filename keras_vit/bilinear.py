"""Bilinear interpolation with pixels' centres half a pixel from their edges, without antialiasing.

So do PyTorch's `interpolate(align_corners=False)` and `tf.image.resize` enlarge.
"""

from __future__ import annotations

import numpy as np


def positions(size: int, count: int) -> np.ndarray:
    """Where the centres of `size` pixels lie between the centres of `count`, float64 (size,)."""
    return np.clip((np.arange(size) + 0.5) * count / size - 0.5, 0, count - 1)


def neighbours(places: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each position the indices on its two sides, and the weight of the second one."""
    first = places.astype(int)
    return first, np.minimum(first + 1, count - 1), (places - first).astype(np.float32)


def matrix(size: int, count: int) -> np.ndarray:
    """The weights of `count` values in each of `size` between them, float32 (size, count)."""
    first, second, weight = neighbours(positions(size, count), count)
    weights, rows = np.zeros((size, count), np.float32), np.arange(size)
    weights[rows, first] = 1 - weight
    weights[rows, second] += weight
    return weights
