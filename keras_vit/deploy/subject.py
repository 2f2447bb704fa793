"""A model to export and images to measure it on, from a run or from weights and pictures."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from keras_vit import runs
from keras_vit._checks import reads_pictures
from keras_vit._errors import UsageError
from keras_vit.data.pipeline import load
from keras_vit.data.source import as_answered
from keras_vit.data.sources import Source, open_source
from keras_vit.deploy.images import Part, Samples, noise_of
from keras_vit.deploy.judge.choosing import divided, spread
from keras_vit.labels import answers_of, numbered
from keras_vit.models.image_model import ImageModel
from keras_vit.models.pretrained import model_from_weights
from keras_vit.models.variants import create_model
from keras_vit.specs import Preprocessing


@dataclasses.dataclass
class Subject:
    """A model to export, with images for calibration and comparison.

    Attributes:
        model: the model; None after an export, which frees its memory before the conversion.
        name: name of the model.
        labels: the classes' names, in the order of the logits.
        images: its images.
        folder: the run folder; None for weights.
    """

    model: ImageModel | None
    name: str
    labels: tuple[str, ...]
    images: OwnImages
    folder: Path | None = None


@dataclasses.dataclass(frozen=True)
class OwnImages:
    """The images of a run, or pictures for other weights, divided for calibration and comparison.

    Attributes:
        preprocessing: how images become the model's input.
        source: the images; None for random images.
        training: indices of the images that measure ranges and choose float layers; if there are
            two or more, different images do each.
        held_out: indices of the compared images, on which a run was not trained.
        labelled: whether the images' targets are the model's classes.
        trained: whether the model was trained on `training`.
    """

    preprocessing: Preprocessing
    source: Source | None = None
    training: np.ndarray | None = None
    held_out: np.ndarray | None = None
    labelled: bool = False
    trained: bool = False

    def samples(self, count: int, calibrate: int | None, choose: bool) -> Samples:
        """The images of an export.

        Args:
            count: the largest number of images to compare, and to choose layers on.
            calibrate: the largest number of images to measure ranges on; None for none.
            choose: whether float layers are chosen.
        """
        return Samples(
            Part(*self.comparison(count), self.compared_from),
            Part(*self.choosing(count), self.chosen_from) if choose else None,
            None if calibrate is None else self.calibration(calibrate),
            self.picture(),
        )

    @property
    def compared_from(self) -> str:
        """A description of the compared images."""
        return self._from("held-out images" if self.trained else "images")

    @property
    def chosen_from(self) -> str:
        """A description of the images for choosing layers."""
        same = self.source is not None and not len(self._training_halves()[1])
        also = ", which also measured the ranges" if same else ""
        return self._from("training images" if self.trained else "other images") + also

    def calibration(self, count: int) -> np.ndarray | None:
        """Preprocessed images (n, height, width, 3) to measure ranges on; None without pictures."""
        if self.source is None:
            return None
        return self._load(self._training_halves()[0], count)[0]

    def choosing(self, count: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Preprocessed images to choose float layers on, and their classes if known.

        They are not those of `calibration` and `comparison`, with two exceptions: a single training
        image is used for calibration too, and without pictures the noise of `comparison` is used.
        """
        if self.source is None:
            return self.comparison(count)
        calibrating, choosing = self._training_halves()
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

    def _training_halves(self) -> tuple[np.ndarray, np.ndarray]:
        """The half of `training` that measures ranges, and the half that chooses layers."""
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
        # Not the folder's path: bundles are shared, and paths are private.
        return f"{what} of {self.source.name}"


def of_run(
    run: str | os.PathLike | None,
    data: str | os.PathLike | None = None,
    image_size: tuple[int, int] | None = None,
) -> Subject:
    """A trained run with its own images, split into training and held-out images.

    Args:
        run: the folder; None for the newest run under runs/.
        data: the folder of the run's pictures, if it was moved.
        image_size: (height, width) to resample the model to; None for the run's.

    Raises:
        UsageError: there is no such run, or its images are missing.
    """
    opened = runs.open_run(run or runs.newest_run())
    opened.check_classifies()
    source = opened.source(data)
    split = opened.split(source)
    resampled = image_size and model_from_weights(
        opened.path / "weights.npz", image_size=image_size
    )
    model = resampled or opened.model()
    # The accuracy of files is that of one class for each image.
    labelled = source.multi_hot is None
    images = OwnImages(
        model.preprocessing, source, split.train, split.held_out, labelled, trained=True
    )
    return Subject(model, opened.spec["model"], opened.labels, images, opened.path)


def of_weights(
    weights: str,
    model: str | None = None,
    data: str | os.PathLike | None = None,
    image_size: tuple[int, int] | None = None,
) -> Subject:
    """Weights from a file, a URL or the catalogue, with or without pictures.

    Args:
        weights: the `weights` of `keras_vit.create_model`.
        model: a name of `list_models()`; None to find out from the file.
        data: a folder with one subfolder for each class, or a source; see `open_source`. If its
            classes are those of the model, accuracy is measured.
        image_size: (height, width) to resample the model to; None for the weights' size.
    """
    if model is None:
        built = model_from_weights(weights, image_size=image_size)
    else:
        built = create_model(model, image_size=image_size, weights=weights)
    reads_pictures(built)
    labels = built.labels or numbered(built.num_classes)
    if data is None:
        return Subject(built, built.name, labels, OwnImages(built.preprocessing))
    source = as_answered(open_source(data), built.labels)
    if not len(source):
        raise UsageError(f"{data} holds no pictures.")
    # Half of the images are compared; the others measure ranges.
    held_out, others = divided(-(-len(source) // 2), len(source), source.targets)
    parts = (others if len(others) else held_out, held_out)
    labelled = source.labels == answers_of(labels) and source.multi_hot is None
    images = OwnImages(built.preprocessing, source, *parts, labelled)
    return Subject(built, built.name, labels, images)
