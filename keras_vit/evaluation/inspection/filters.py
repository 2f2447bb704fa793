"""What the first layer looks for: filters of the patch embedding, or of a ResNet's root."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from keras_vit.evaluation.inspection.components import principal_components


class Filters(NamedTuple):
    """Principal components of the embedding's filters.

    Attributes:
        patches: (count, height, width, channels), each of norm 1, largest variance first.
        fractions: what fraction of the filters' variance each component has, (count,).
    """

    patches: np.ndarray
    fractions: np.ndarray


def embedding_filters(kernel: np.ndarray, count: int = 28) -> Filters:
    """The principal components of the patch embedding's filters (paper, figure 7, left).

    Each of the `hidden_dim` outputs has a filter, which is a point in the space of patches. The
    mean filter is subtracted.

    Args:
        kernel: (height, width, channels, hidden_dim).
        count: the largest number of components.
    """
    filters = np.moveaxis(np.asarray(kernel), -1, 0)  # (hidden_dim, height, width, channels)
    # (hidden_dim, height, width, channels) to (hidden_dim, pixels)
    found = principal_components(filters.reshape(len(filters), -1), count)
    # (count, pixels) to (count, height, width, channels)
    return Filters(found.directions.reshape(-1, *filters.shape[1:]), found.fractions)


def root_filters(kernel: np.ndarray) -> np.ndarray:
    """The filters of a standardised convolution, as it uses them.

    Args:
        kernel: (height, width, channels, filters).

    Returns:
        (filters, height, width, channels), each with mean 0 and variance 1.
    """
    filters = np.moveaxis(np.asarray(kernel, np.float64), -1, 0)
    inside = (1, 2, 3)
    centred = filters - filters.mean(axis=inside, keepdims=True)
    deviation = centred.std(axis=inside, keepdims=True)
    return np.divide(centred, deviation, out=np.zeros_like(centred), where=deviation > 0)
