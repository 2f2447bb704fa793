"""Imbalanced classes: a warning, and class weights for the loss."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# The ratio of the largest class to the smallest. Buda et al. 2018 (arXiv 1710.05381) measure
# imbalance by it and find that accuracy falls as it grows. The threshold of 10 is a choice of this
# library: the smallest class has few images left after a fifth of them is held out.
_STRONG = 10
_FEW = 10  # of which two are held out


def balanced_weights(targets: np.ndarray, num_classes: int) -> dict[int, float]:
    """Class weights for the loss that make all classes count equally: n / (classes * count).

    Their mean over the images is 1. scikit-learn's `class_weight="balanced"` is the same rule.

    Args:
        targets: the classes of the training images, int (n,).
        num_classes: the number of classes. One without training images has the weight 0.
    """
    counts = np.bincount(targets, minlength=num_classes)
    found = np.count_nonzero(counts)
    return {i: len(targets) / (found * int(n)) if n else 0.0 for i, n in enumerate(counts)}


def few_images_warning(labels: Sequence[str], counts: Sequence[int]) -> str | None:
    """One line of warning if a class has fewer than ten images, else None."""
    least = int(np.argmin(counts))
    if counts[least] >= _FEW:
        return None
    few = sum(count < _FEW for count in counts)
    return (
        f"{few} of {len(labels)} classes have fewer than {_FEW} images, {labels[least]} has "
        f"{counts[least]}. A model learns little from so few, and one or two held-out images of a "
        "class say little of it; expect many wrong answers, and add images."
    )


def imbalance_warning(labels: Sequence[str], counts: Sequence[int]) -> str | None:
    """One line of warning if the largest class is at least ten times the smallest, else None."""
    least, most = int(np.argmin(counts)), int(np.argmax(counts))
    if counts[most] < _STRONG * counts[least]:
        return None
    return (
        f"the classes are strongly imbalanced: {labels[most]} has {counts[most]:,} images, "
        f"{labels[least]} {counts[least]:,}. A model may learn to ignore the rare classes; add "
        "images of them, or set class_weights='balanced'."
    )
