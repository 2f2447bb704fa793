"""How many images each class has, and what to do where the numbers differ greatly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# Buda et al. 2018 (arXiv 1710.05381) describe imbalance by this ratio, of the largest class to the
# smallest, and find that accuracy falls as it grows. 10 is our choice: a fifth held out of such a
# class leaves it few images.
_STRONG = 10


def balanced_weights(targets: np.ndarray, num_classes: int) -> dict[int, float]:
    """Weights of the classes' losses that make all classes count equally: n / (classes * count).

    The mean over the images is 1. The rule is scikit-learn's `class_weight="balanced"`.

    Args:
        targets: the classes of the training images, int (n,); each class occurs.
        num_classes: how many classes there are.
    """
    counts = np.bincount(targets, minlength=num_classes)
    return {i: float(weight) for i, weight in enumerate(len(targets) / (num_classes * counts))}


def imbalance_warning(labels: Sequence[str], counts: Sequence[int]) -> str | None:
    """One line where the largest class has at least ten times the images of the smallest."""
    least, most = int(np.argmin(counts)), int(np.argmax(counts))
    if counts[most] < _STRONG * counts[least]:
        return None
    return (
        f"the classes are strongly imbalanced: {labels[most]} has {counts[most]:,} images, "
        f"{labels[least]} {counts[least]:,}. A model may learn to ignore the rare classes; add "
        "images of them, or train with balanced class weights."
    )
