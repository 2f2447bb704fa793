"""A stratified split by a fixed rule, so that the same images are held out on every machine."""

from __future__ import annotations

import dataclasses
import hashlib

import numpy as np

from keras_vit._errors import UsageError
from keras_vit.data.folders import listed
from keras_vit.data.sources import Source

RULE = "in each class, the fraction of examples whose sha256 of the id is smallest is held out"


@dataclasses.dataclass(frozen=True)
class Split:
    """Sorted indices into a source: the images for training and those for evaluation."""

    train: np.ndarray
    held_out: np.ndarray


def split_source(source: Source, fraction: float = 0.2) -> Split:
    """Holds out `fraction` of each class, at least one image and never all.

    The rule depends only on the ids of the examples (paths in the folder), so most of the split
    stays the same when pictures are added.

    Raises:
        UsageError: a class has fewer than two images, or the fraction is not in (0, 1).
    """
    if not 0 < fraction < 1:
        raise UsageError(f"the held-out fraction must lie in (0, 1). Received: {fraction}.")
    few = [f"{label!r} ({count})" for label, count in source.counts.items() if count < 2]
    if few:
        raise UsageError(
            f"{source.locator}: each class needs at least 2 readable images, one to train and one "
            f"to hold out. Received: fewer in {listed(few)}."
        )
    held_out = []
    for target in range(len(source.labels)):
        members = np.flatnonzero(source.targets == target)
        ranked = sorted(members, key=lambda i: hashlib.sha256(source.ids[i].encode()).digest())
        count = min(max(round(fraction * len(members)), 1), len(members) - 1)
        held_out += ranked[:count]
    held_out = np.sort(np.array(held_out, np.int64))
    return Split(np.setdiff1d(np.arange(len(source.ids)), held_out), held_out)
