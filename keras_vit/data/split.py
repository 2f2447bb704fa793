"""Which images are trained on and which held out, by a fixed rule, the same on every machine."""

from __future__ import annotations

import dataclasses
import hashlib

import numpy as np

from keras_vit._checks import inner_fraction
from keras_vit._errors import UsageError
from keras_vit.data.folders import listed
from keras_vit.data.source import Source, check_integers

RULE = "in each class, the fraction of examples whose sha256 of the id is smallest is held out"


@dataclasses.dataclass(frozen=True)
class Split:
    """Sorted indices into a source: the images for training and those for evaluation.

    Attributes:
        train, held_out: the indices.
        rule: how the images were divided, in words.
    """

    train: np.ndarray
    held_out: np.ndarray
    rule: str = RULE

    def checked(self, count: int) -> Split:
        """The split itself, if it is one of `count` images.

        Raises:
            UsageError: a part is empty, has indices of other images, or the parts have images in
                common.
        """
        for part in ("train", "held_out"):
            indices = getattr(self, part)
            check_integers(f"split.{part}", indices, (np.size(indices),), count, "indices")
            if not len(indices):
                raise UsageError(f"split.{part} must have one image or more. Received: none.")
        common = np.intersect1d(self.train, self.held_out)
        if len(common):
            raise UsageError(
                "split.train and split.held_out must have no image in common, or the held-out "
                f"accuracy is that of training images. Received: {len(common)} in both, the first "
                f"is {common[0]}."
            )
        return self


def split_source(source: Source, fraction: float = 0.2) -> Split:
    """Holds out `fraction` of each class, at least one image and never all.

    Images with several classes count for the rarest of them, those with none for the first class.
    The classes of masks may have fewer than two images; images that are alone with their rarest
    class count as one class.

    If the source declares its splits, "validation" is held out, or "test" if there is none.

    The rule depends only on the ids of the examples (paths in the folder), so most of the split
    stays the same when pictures are added.

    Raises:
        UsageError: a class has fewer than two images, a declared split is missing or empty, or the
            fraction is not in (0, 1).
    """
    if not 0 < fraction < 1:
        raise UsageError(f"the held-out fraction must lie in (0, 1). Received: {fraction}.")
    if source.splits:
        held_out = "validation" if "validation" in source.splits else "test"
        if not {"train", held_out} <= source.splits.keys():
            raise UsageError(
                f"{source.locator}: expected the splits train, and validation or test. Received: "
                f"only {' and '.join(source.splits)}; rename the one for training to train, or "
                "pass a single split, a part of which is then held out."
            )
        empty = [name for name in ("train", held_out) if not len(source.splits[name])]
        if empty:
            raise UsageError(
                f"{source.locator}: expected images to train and others to hold out. "
                f"Received: none in {' and '.join(empty)}; add images, or name other splits."
            )
        rule = f"declared by the data: train is for training, {held_out} is held out"
        split = Split(source.splits["train"], source.splits[held_out], rule)
        return split.checked(len(source))
    few = [f"{label!r} ({count})" for label, count in source.counts.items() if count < 2]
    if source.annotations is not None:  # most images have several classes
        few = []
        if len(source) < 2:
            raise UsageError(
                f"{source.locator}: expected two annotated pictures or more, one to train and one "
                f"to hold out. Received: {len(source)}."
            )
    if few:
        raise UsageError(
            f"{source.locator}: each class needs at least 2 readable images, one to train and one "
            f"to hold out. Received: fewer in {listed(few)}."
        )
    return _divided(source, np.arange(len(source)), fraction)


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
    inner_fraction("development", fraction)
    counts = np.bincount(source.targets[split.train], minlength=len(source.labels))
    few = np.flatnonzero(counts < 2)
    # Images with several classes are in the part of their rarest, so others may have none.
    if len(few) and source.sets is None:
        raise UsageError(
            f"{source.locator}: a development split needs 2 training images of each class. "
            f"Received: {counts[few[0]]} of {source.labels[few[0]]!r}."
        )
    return _divided(source, split.train, fraction)


def split_summary(source: Source, judge: str = "evaluate(run, split='test')") -> str:
    """One line on the declared splits of a source and their use; "" if it declares none.

    Args:
        source: the images.
        judge: what judges a run on the test images that training does not use.
    """
    sizes = [f"{name} {len(indices):,}" for name, indices in source.splits.items()]
    unused = {"train", "validation", "test"} <= source.splits.keys()
    rest = f"; test is not used: {judge} reads it" if unused else ""
    return f"splits: {', '.join(sizes)} (declared by the data{rest})" if sizes else ""


def _divided(source: Source, indices: np.ndarray, fraction: float) -> Split:
    """Holds out the fraction of each class with the smallest sha256 of the id."""
    groups = [indices[source.targets[indices] == i] for i in range(len(source.labels))]
    # Of images with several classes, many may be the only one of their rarest class.
    lonely = [members for members in groups if len(members) == 1]
    groups = [members for members in groups if len(members) > 1]
    held_out: list[int] = []
    for members in [*groups, np.concatenate([indices[:0], *lonely])]:
        if len(members) < 2:
            continue
        count = min(max(round(fraction * len(members)), 1), len(members) - 1)
        by_id = sorted(members, key=lambda i: hashlib.sha256(source.ids[i].encode()).digest())
        held_out += by_id[:count]
    held_out = np.sort(np.array(held_out, np.int64))
    return Split(np.setdiff1d(indices, held_out), held_out)
