"""A model to export and the images that it is measured on: of a run, or weights and pictures."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from keras_vit import runs
from keras_vit._errors import UsageError
from keras_vit.data.pipeline import load
from keras_vit.data.sources import Source, open_source
from keras_vit.deploy.images import Part, Samples, noise_of
from keras_vit.deploy.judge.choosing import divided, spread
from keras_vit.models.image_model import ImageModel
from keras_vit.models.pretrained import model_from_weights
from keras_vit.models.variants import create_model


@dataclasses.dataclass
class Subject:
    """A model to export with images to calibrate and to compare on.

    Attributes:
        model: the model; an export takes it out, to free its memory before the conversion.
        name: of the model.
        labels: the classes' names, in the order of the logits.
        folder: of the run; None for weights.
        source: the images; None for random images.
        training: which of them measure ranges, and choose the layers that stay float: others of
            them, where there are two or more.
        held_out: which of them are compared; a run was not trained on them.
        labelled: whether their targets are the model's classes.
    """

    model: ImageModel
    name: str
    labels: tuple[str, ...]
    folder: Path | None = None
    source: Source | None = None
    training: np.ndarray | None = None
    held_out: np.ndarray | None = None
    labelled: bool = False

    def __post_init__(self):
        self.preprocessing = self.model.preprocessing

    def samples(self, count: int, calibrate: int | None, choose: bool) -> Samples:
        """The images of an export.

        Args:
            count: how many are compared at most, and how many choose layers at most.
            calibrate: how many measure ranges at most; None for none.
            choose: whether layers are chosen.
        """
        return Samples(
            Part(*self.comparison(count), self.images_from),
            Part(*self.choosing(count), self.chosen_from) if choose else None,
            None if calibrate is None else self.calibration(calibrate),
            self.picture(),
        )

    @property
    def images_from(self) -> str:
        """Where the compared images come from, in words."""
        return self._from("held-out images" if self.folder else "images")

    @property
    def chosen_from(self) -> str:
        """Where the images come from that choose, in words."""
        same = self.source is not None and not len(self._measuring()[1])
        also = ", which also measured the ranges" if same else ""
        return self._from("training images" if self.folder else "other images") + also

    def calibration(self, count: int) -> np.ndarray | None:
        """Preprocessed images (n, height, width, 3) to measure ranges on; None without pictures."""
        if self.source is None:
            return None
        return self._load(self._measuring()[0], count)[0]

    def choosing(self, count: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Other images than `calibration` and `comparison` give, and their classes if known.

        Where `training` holds one image alone, it measures ranges and chooses; without pictures
        the noise of `comparison` does.
        """
        if self.source is None:
            return self.comparison(count)
        calibrating, choosing = self._measuring()
        return self._load(choosing if len(choosing) else calibrating, count)

    def comparison(self, count: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Preprocessed images (n, height, width, 3) to compare on, and their classes if known."""
        if self.source is None:
            return noise_of(self.preprocessing, count), None
        return self._load(self.held_out, count)

    def pictures(self, count: int) -> Iterator[np.ndarray] | None:
        """Compared images as they are stored, uint8 (height, width, 3); None without pictures."""
        if self.source is None:
            return None
        return (self.source.image(int(i)) for i in self._spread(self.held_out, count))

    def picture(self) -> np.ndarray:
        """One of the compared images as it is stored, uint8 (height, width, 3)."""
        if self.source is not None:
            return self.source.image(int(self.held_out[0]))
        shape = (self.preprocessing.height, self.preprocessing.width, 3)
        return np.random.default_rng(0).integers(0, 256, shape, np.uint8)

    def _measuring(self) -> tuple[np.ndarray, np.ndarray]:
        """The images that measure ranges, a half of `training`, and those that choose."""
        training = np.asarray(self.training)
        half = -(-len(training) // 2)
        first, second = divided(half, len(training), self.source.targets[training])
        return training[first], training[second]

    def _spread(self, indices: np.ndarray, count: int) -> np.ndarray:
        indices = np.asarray(indices)
        return indices[spread(count, len(indices), self.source.targets[indices], seed=1)]

    def _load(self, indices: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray | None]:
        images, targets = load(self.source, self._spread(indices, count), self.preprocessing)
        return images, targets if self.labelled else None

    def _from(self, what: str) -> str:
        if self.source is None:
            return "random images"
        # Never the folder's path: bundles travel, and paths tell of this machine.
        return f"{what} of {self.source.name}"


def of_run(
    run: str | os.PathLike | None,
    data: str | os.PathLike | None = None,
    image_size: tuple[int, int] | None = None,
) -> Subject:
    """A trained run with its own images: those that trained, and those that were held out.

    Args:
        run: the folder; None for the newest under runs/.
        data: where the run's pictures are, if not where they were.
        image_size: (height, width) to resample the model to; None for the run's.

    Raises:
        UsageError: there is no such run, or its images are gone.
    """
    opened = runs.open_run(run or runs.newest_run())
    source = opened.source(data)
    split = opened.split(source)
    resampled = image_size and model_from_weights(
        opened.path / "weights.npz", image_size=image_size
    )
    return Subject(
        resampled or opened.model(),
        opened.spec["model"],
        opened.labels,
        opened.path,
        source,
        split.train,
        split.held_out,
        labelled=True,
    )


def of_weights(
    weights: str,
    model: str | None = None,
    data: str | os.PathLike | None = None,
    image_size: tuple[int, int] | None = None,
) -> Subject:
    """Weights from a file, a URL or the catalogue, with pictures where there are some.

    Args:
        weights: what `keras_vit.create_model` takes.
        model: a name of `list_models()`; None lets the file tell.
        data: "digits" or a folder with one subfolder a class. Where the subfolders bear the names
            of the model's classes, accuracy is measured.
        image_size: (height, width) to resample the model to; None for the weights'.
    """
    if model is None:
        built = model_from_weights(weights, image_size=image_size)
    else:
        built = create_model(model, image_size=image_size, weights=weights)
    labels = built.labels or tuple(str(i) for i in range(built.num_classes))
    if data is None:
        return Subject(built, built.name, labels)
    source = open_source(data)
    if not len(source):
        raise UsageError(f"{data} holds no pictures.")
    # A half is compared, so that no image that is judged has measured a range.
    judged, others = divided(-(-len(source) // 2), len(source), source.targets)
    parts = (others if len(others) else judged, judged)
    return Subject(
        built, built.name, labels, None, source, *parts, labelled=source.labels == labels
    )
