"""Parts of the training images: nested random subsets, and a development split."""

from __future__ import annotations

import dataclasses

import numpy as np

from keras_vit._errors import UsageError
from keras_vit.data.sources import Source
from keras_vit.data.split import Split, ranked_by_id


def subset(source: Source, split: Split, fraction: float, seed: int = 0) -> Split:
    """A random part of the training images, stratified; the held-out images stay.

    With the same seed, a smaller part lies inside a larger one.

    Args:
        source: the images.
        split: the whole training images.
        fraction: the fraction of each class, in (0, 1]; at least one image of each stays.
        seed: random seed of the choice.

    Raises:
        UsageError: the fraction is not in (0, 1].
    """
    if not 0 < fraction <= 1:
        raise UsageError(f"fractions must lie in (0, 1]. Received: {fraction}.")
    chosen = []
    for target in range(len(source.labels)):
        members = split.train[source.targets[split.train] == target]
        order = np.random.default_rng([seed, target]).permutation(len(members))
        chosen.append(members[order[: max(round(fraction * len(members)), 1)]])
    return dataclasses.replace(split, train=np.sort(np.concatenate(chosen)))


def development_split(source: Source, split: Split, fraction: float = 0.1) -> Split:
    """Holds out a part of the training images instead, to compare settings on it; stratified.

    Source: the paper tunes its learning rates so (appendix B.1.1).

    Args:
        source: the images.
        split: the whole training images.
        fraction: the fraction of each class that is held out; at least one image, never all.

    Raises:
        UsageError: the fraction is not in (0, 1), or a class has only one training image.
    """
    if not 0 < fraction < 1:
        raise UsageError(f"development must lie in (0, 1). Received: development={fraction}.")
    held_out = []
    for target, label in enumerate(source.labels):
        members = split.train[source.targets[split.train] == target]
        # Images with several classes are in the part of their rarest, so others may have none.
        if len(members) < 2 and source.multi_hot is None:
            raise UsageError(
                f"{source.locator}: a development split needs 2 training images of each class. "
                f"Received: {len(members)} of {label!r}."
            )
        count = min(max(round(fraction * len(members)), 1), len(members) - 1)
        held_out += ranked_by_id(source, members)[:count]
    held_out = np.sort(np.array(held_out, np.int64))
    return Split(np.setdiff1d(split.train, held_out), held_out)
