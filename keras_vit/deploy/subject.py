"""What is exported, and the images that it is measured on: a run's, or weights and pictures."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from keras_vit import runs
from keras_vit._errors import UsageError
from keras_vit.data.pipeline import load
from keras_vit.data.preprocessing import normalise
from keras_vit.data.sources import Source, open_source
from keras_vit.models.image_model import ImageModel
from keras_vit.models.pretrained import model_from_weights
from keras_vit.models.variants import create_model


@dataclasses.dataclass
class Subject:
    """A model to export with images to calibrate and to compare on.

    Attributes:
        model: the model; whoever needs the memory may set it to None once it is converted.
        name: of the model.
        labels: the classes' names, in the order of the logits.
        folder: of the run; None for weights.
        source: the images; None for seeded noise.
        training: which of them measure ranges.
        held_out: which of them are compared: others, of a run.
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

    @property
    def images_from(self) -> str:
        """Where the compared images come from, in words."""
        if self.source is None:
            return "seeded noise"
        # A folder's own name: bundles travel, and paths tell of this machine.
        name = Path(self.source.name).name
        return f"{'held-out ' if self.folder else ''}images of {name}"

    def calibration(self, count: int) -> np.ndarray | None:
        """Preprocessed images (n, height, width, 3) to measure ranges on; None without pictures."""
        if self.source is None:
            return None
        return load(self.source, _evenly(self.training, count), self.preprocessing)[0]

    def comparison(self, count: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Preprocessed images (n, height, width, 3) to compare on, and their classes if known."""
        if self.source is None:
            how = self.preprocessing
            shape = (min(count, 16), how.height, how.width, 3)
            pixels = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
            return normalise(pixels, how), None
        images, targets = load(self.source, _evenly(self.held_out, count), self.preprocessing)
        return images, targets if self.labelled else None

    def pictures(self, count: int) -> Iterator[np.ndarray] | None:
        """Compared images as they are stored, uint8 (height, width, 3); None without pictures."""
        if self.source is None:
            return None
        return (self.source.image(int(i)) for i in _evenly(self.held_out, count))

    def picture(self) -> np.ndarray:
        """One of the compared images as it is stored, uint8 (height, width, 3)."""
        if self.source is not None:
            return self.source.image(int(self.held_out[0]))
        how = self.preprocessing
        shape = (how.height, how.width, 3)
        return np.random.default_rng(0).integers(0, 256, shape, np.uint8)


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
    # Every other one, so that no image that is judged has measured a range.
    everything = np.arange(len(source))
    parts = (everything[1::2], everything[::2]) if len(source) > 1 else (everything, everything)
    return Subject(
        built, built.name, labels, None, source, *parts, labelled=source.labels == labels
    )


def _evenly(indices: Sequence[int], count: int) -> np.ndarray:
    indices = np.asarray(indices)
    count = min(count, len(indices))
    return indices[np.arange(count) * len(indices) // max(count, 1)]
