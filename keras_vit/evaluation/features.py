"""The features of a split, which probes judge."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from keras_vit._errors import UsageError
from keras_vit.data import Source, Split
from keras_vit.frozen_features import kept_features

Report = Callable[[int, int], None]  # of the number of images done, and of all


@dataclasses.dataclass(frozen=True)
class Features:
    """The features and the classes of training and test images, for probes.

    Attributes:
        train, test: float32 (n, channels).
        train_targets, test_targets: classes from 0, int64 (n,).
    """

    train: np.ndarray
    train_targets: np.ndarray
    test: np.ndarray
    test_targets: np.ndarray


def split_features(
    model: Any,
    source: Source,
    split: Split,
    batch_size: int = 64,
    cache: Path | None = None,
    report: Report = lambda done, total: None,
) -> Features:
    """The features of a split's training images and of its held-out images, as test images.

    Args:
        model: a keras_vit model.
        source: the images, each with one class.
        split: which of them are for training, and which to test on.
        batch_size: images that are computed at a time.
        cache: a file that keeps the features, see `kept_features`; None for none.
        report: called after each batch.

    Raises:
        UsageError: see `check_can_probe`.
    """
    check_can_probe(source)
    indices, count = np.concatenate([split.train, split.held_out]), len(split.train)
    features = kept_features(
        model, source, indices, cache, batch_size, lambda done: report(done, len(indices))
    )
    targets = source.targets[indices].astype(np.int64)
    return Features(features[:count], targets[:count], features[count:], targets[count:])


def check_can_probe(source: Source) -> None:
    """Raises a `UsageError` unless each image has one of two classes or more."""
    several = source.sets is not None
    if several or len(source.labels) < 2:
        raise UsageError(
            f"probes need images with one of two or more classes each. Received: {source.locator}, "
            f"whose images have {'several classes' if several else 'one class only'}."
        )
