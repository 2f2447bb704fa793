"""A model to export and images to measure it on, from a run or from weights and pictures."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from keras_vit import runs
from keras_vit._checks import reads_pictures
from keras_vit._errors import UsageError
from keras_vit.data.pipeline import load_annotated
from keras_vit.data.preprocessing import load
from keras_vit.data.source import as_answered, in_order_of
from keras_vit.data.sources import Source, for_task, open_source
from keras_vit.deploy.export_options import ExportOptions
from keras_vit.deploy.reference_scores import Reference
from keras_vit.deploy.representative_data import samples_of
from keras_vit.deploy.sample_images import Samples, divided, drawn
from keras_vit.labels import answers_of, numbered
from keras_vit.models.image_model import ImageModel
from keras_vit.models.pretrained import create_model, model_from_weights
from keras_vit.specs import Preprocessing


@dataclasses.dataclass(frozen=True)
class TrainedModel:
    """A model to export, with images for calibration and comparison.

    Attributes:
        load: gives the model. Nobody else keeps it, so that it is not in memory when it is
            converted.
        name: name of the model.
        labels: the classes' names, in the order of the logits.
        preprocessing: how images become the model's input.
        source: its images; None for random images.
        training: indices of the images that measure ranges and choose float layers; if there are
            two or more, different images do each.
        held_out: indices of the compared images, on which a run was not trained.
        labelled: whether the images' targets or annotations are the model's classes, or those of a
            model without a head, whose features need no others.
        folder: the run folder; None for weights.
    """

    load: Callable[[], ImageModel]
    name: str
    labels: tuple[str, ...]
    preprocessing: Preprocessing
    source: Source | None = None
    training: np.ndarray | None = None
    held_out: np.ndarray | None = None
    labelled: bool = False
    folder: Path | None = None

    def samples(self, options: ExportOptions) -> Samples:
        """The images of an export."""
        preprocessing = options.preprocessing or self.preprocessing
        if self.source is None:
            return samples_of(None, preprocessing.shape, preprocessing, options)
        most, training = options.max_images, np.asarray(self.training)
        # One half measures ranges, the other one chooses layers.
        first, second = divided(-(-len(training) // 2), training, self.source.targets)
        chosen, calibration = None, None
        if options.chooses:
            also = "" if len(second) else ", which also measured the ranges"
            images_from = self._described("training", "other") + also
            chosen = self._images(
                second if len(second) else first, most, preprocessing, images_from
            )
        if options.calibrates:
            calibration = self._images(first, options.calibrate, preprocessing).inputs
        compared = self._images(self.held_out, most, preprocessing, self.compared_from)
        return Samples(compared, chosen, calibration, self.source.image(int(self.held_out[0])))

    def pictures(self, count: int) -> Iterator[np.ndarray] | None:
        """Compared images as they are stored, uint8 (height, width, 3); None for random images."""
        if self.source is None:
            return None
        return (self.source.image(int(i)) for i in self._drawn(self.held_out, count))

    @property
    def compared_from(self) -> str:
        """A description of the compared images."""
        return self._described("held-out", "")

    def _drawn(self, indices: np.ndarray, count: int) -> np.ndarray:
        return drawn(count, np.asarray(indices), self.source.targets, seed=1)

    def _images(
        self, indices: np.ndarray, count: int, preprocessing: Preprocessing, images_from: str = ""
    ) -> Reference:
        is_annotated = self.labelled and self.source.annotations is not None
        read = load_annotated if is_annotated else load
        inputs, targets = read(self.source, self._drawn(indices, count), preprocessing)
        return Reference(inputs, None, targets if self.labelled else None, images_from)

    def _described(self, of_a_run: str, of_pictures: str) -> str:
        if self.source is None:
            return "random images"
        kind = of_pictures if self.folder is None else of_a_run
        # Not the folder's path: bundles are shared, and paths are private.
        return f"{kind} images of {self.source.name}".lstrip()


def of_run(
    run: str | os.PathLike | None,
    data: str | os.PathLike | None = None,
    image_size: tuple[int, int] | None = None,
) -> TrainedModel:
    """A trained run with its own images, split into training and held-out images.

    Args:
        run: the folder; None for the newest run under runs/.
        data: the folder of the run's pictures, if it was moved.
        image_size: (height, width) to resample the model to; None for the run's.

    Raises:
        UsageError: there is no such run, or its images are missing.
    """
    opened = runs.open_run(run or runs.newest_run())
    opened.check_trained_with_classes()
    source = opened.source(data)
    split = opened.split(source)
    preprocessing, load = Preprocessing.from_dict(opened.spec["preprocessing"]), opened.model
    if image_size:
        height, width = image_size
        preprocessing = dataclasses.replace(preprocessing, height=height, width=width)
        weights = opened.path / "weights.npz"
        options = {"image_size": image_size, **opened.activation_field}
        load = functools.partial(model_from_weights, weights, **options)
    return TrainedModel(
        load,
        opened.spec["model"],
        opened.labels,
        preprocessing,
        source,
        split.train,
        split.held_out,
        # The accuracy of files is that of one class for each image.
        labelled=source.multi_hot is None,
        folder=opened.path,
    )


def of_weights(
    weights: str,
    model: str | None = None,
    data: str | os.PathLike | None = None,
    image_size: tuple[int, int] | None = None,
) -> TrainedModel:
    """Weights from a file, a URL or the catalogue, with or without pictures.

    Args:
        weights: the `weights` of `keras_vit.create_model`.
        model: a name of `list_models()`; None to find out from the file.
        data: a folder with one subfolder for each class, or a source; see `open_source`. If its
            classes are among those of the model, accuracy is measured.
        image_size: (height, width) to resample the model to; None for the weights' size.
    """

    def build() -> ImageModel:
        if model is None:
            return model_from_weights(weights, image_size=image_size)
        return create_model(model, image_size=image_size, weights=weights)

    return of_model(build, data)


def of_model(
    build: Callable[[], ImageModel], data: str | os.PathLike | Source | None = None
) -> TrainedModel:
    """A model with or without pictures.

    Args:
        build: builds the model.
        data: as for `of_weights`.
    """
    built = [build()]
    [found] = built
    reads_pictures(found)
    labels = found.labels or numbered(found.num_classes)
    # It is built once to look at it, and given away to the first who loads it.
    trained = TrainedModel(
        lambda: built.pop() if built else build(), found.name, labels, found.preprocessing
    )
    if data is None:
        return trained
    source = data if isinstance(data, Source) else open_source(for_task(data, found.task))
    source = in_order_of(as_answered(source, found.labels), answers_of(labels))
    if not len(source):
        raise UsageError(f"{data} holds no pictures.")
    # Half of the images are compared; the others measure ranges.
    held_out, others = divided(-(-len(source) // 2), np.arange(len(source)), source.targets)
    return dataclasses.replace(
        trained,
        source=source,
        training=others if len(others) else held_out,
        held_out=held_out,
        labelled=source.multi_hot is None
        and source.task == found.task
        and (not labels or source.labels == answers_of(labels)),
    )
