"""What the last feature map distinguishes, as colours."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from keras_vit.evaluation.inspection.components import principal_components

# Percentiles that become 0 and 1, so that a few outliers do not leave all others grey.
_RANGE = (2, 98)
# Components with a smaller fraction of the variance are left out. Scaled by itself, each would have
# as much contrast as the first one, and noise would look like structure.
LEAST_FRACTION = 0.01


class PatchColours(NamedTuple):
    """Features as colours.

    Attributes:
        colours: the first three components of each patch, in [0, 1]: (n, rows, columns, 3). A
            component that does not exist or has less than 1% of the variance is 0.5 everywhere.
        fractions: what fraction of the features' variance each of the others has; up to three.
    """

    colours: np.ndarray
    fractions: np.ndarray


def patch_pca(features: np.ndarray) -> PatchColours:
    """The first three principal components of the features of patches (as in DINOv2, figure 1).

    The components are those of all patches of all images together, so that a colour means the same
    in each image. Each component is scaled so that its 2nd and 98th percentiles become 0 and 1.

    Args:
        features: (n, rows, columns, width).
    """
    rows = np.asarray(features, np.float64).reshape(-1, features.shape[-1])  # (patches, width)
    found = principal_components(rows, 3)
    kept = int((found.fractions >= LEAST_FRACTION).sum())  # the largest are first
    values = (rows - found.mean) @ found.directions[:kept].T  # (patches, components)
    low, high = np.percentile(values, _RANGE, axis=0)
    colours = np.full((len(rows), 3), 0.5)
    scaled = np.clip((values - low) / np.where(high > low, high - low, 1), 0, 1)
    colours[:, :kept] = scaled
    # (patches, 3) to (n, rows, columns, 3)
    return PatchColours(colours.reshape(*features.shape[:-1], 3), found.fractions[:kept])
