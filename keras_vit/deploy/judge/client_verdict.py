"""What a client makes of a file: the accuracy with its own resize, and the file run by itself."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from keras_vit._errors import RefusedError, UsageError, is_installed
from keras_vit.data import mediapipe
from keras_vit.data.preprocessing import preprocess_image
from keras_vit.deploy.clients import Client, task_of
from keras_vit.deploy.sample_images import Samples, to_pixels
from keras_vit.labels import answer_scores
from keras_vit.mask_metrics import confusion_of, mean_iou
from keras_vit.models.image_model import ImageModel
from keras_vit.specs import Preprocessing
from keras_vit.tflite.client_process import run_runner
from keras_vit.tflite.flatbuffer import Model
from keras_vit.tflite.runner import Runner

# Pictures that are run through the client itself, and the bytes that they may have together.
_RUN, _RUN_BYTES = 100, 1 << 28


@dataclasses.dataclass(frozen=True)
class ClientVerdict:
    """What a client makes of a file.

    Attributes:
        client: the client's name.
        images: number of compared images; 0 if there were no pictures to resize.
        accuracy: the file's accuracy with the client's resize; None if unknown.
        own_accuracy: the file's accuracy on the same images with the model's own resize.
        agreement: fraction of the images, of segmenters of the pixels of the model's input, with
            the same class in both; None without images.
        version: the version of the client that ran the file; None if it is not installed.
        ran: number of pictures that the client ran itself.
        difference: the largest difference of its scores from LiteRT's on the same pixels, or, of
            segmenters, the most by which LiteRT's score of its class is below the highest one; None
            if it ran nothing.
        mean_iou, own_mean_iou: of segmenters, in place of accuracies, at the size of the model's
            input; None if unknown.
    """

    client: str
    images: int = 0
    accuracy: float | None = None
    own_accuracy: float | None = None
    agreement: float | None = None
    version: str | None = None
    ran: int = 0
    difference: float | None = None
    mean_iou: float | None = None
    own_mean_iou: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return dataclasses.asdict(self)


def seen_by(
    client: Client,
    samples: Samples,
    pictures: Iterable[np.ndarray],
    preprocessing: Preprocessing,
    shortest_side: int = 1,
    masks: np.ndarray | None = None,
) -> Samples:
    """The images of an export, with the compared ones also as a client resizes them.

    Args:
        client: the client.
        samples: the images.
        pictures: the n compared pictures, uint8 (height, width, 3) of any size; may be an iterator.
        preprocessing: that of the model.
        shortest_side: of a picture that the client can use.
        masks: the n pictures' masks with the client's resize, uint8 (height, width); None if they
            have none.
    """
    own, changed = samples.compared.inputs, as_resized_by(client, preprocessing)
    resized, kept, size = np.empty_like(own), {}, 0
    for i, picture in enumerate(pictures):
        tensor = preprocess_image(picture, changed)
        resized[i] = to_pixels(tensor, changed) if own.dtype == np.uint8 else tensor
        size += picture.nbytes
        fits = i < _RUN and (size <= _RUN_BYTES or not kept)
        sides = picture.shape[:2]
        if fits and shortest_side <= min(sides) and max(sides) <= client.longest_side:
            kept[i] = picture
    return dataclasses.replace(samples, resized=resized, pictures=kept, resized_masks=masks)


def as_resized_by(client: Client, preprocessing: Preprocessing) -> Preprocessing:
    """The preprocessing of a model with a client's resize, which is of the whole picture."""
    return dataclasses.replace(preprocessing, interpolation=client.interpolation, crop=None)


def check_model_for(client: Client | None, model: Any) -> None:
    """Raises a `UsageError` if a client needs another input or output than a model can have."""
    if client is None:
        return
    if not isinstance(model, ImageModel):
        raise UsageError(
            f"{client.title} needs a keras_vit model with its own head. Received: a "
            f"{type(model).__name__}; build it with num_classes=..., or leave out client."
        )
    task = task_of(client, model.task)
    if task.classes and not task.classes[0] <= model.num_classes <= task.classes[1]:
        raise UsageError(
            f"{task.title} needs {task.classes[0]} to {task.classes[1]} classes. "
            f"Received: {model.num_classes}; leave out client."
        )
    if model.spec.in_channels != 3:
        raise UsageError(
            f"{client.title} gives a file RGB pixels. Received: a model with "
            f"in_channels={model.spec.in_channels}; leave out client."
        )


def judge_client(
    client: Client,
    model: Model,
    samples: Samples | None = None,
    tolerance: float = 0.0,
    task: str = "classification",
    most_changed: float = 0.0,
) -> ClientVerdict:
    """Runs a file with a client's pixels, and in the client itself where that is installed.

    Args:
        client: the client.
        model: a `.tflite` file or its content.
        samples: the result of `seen_by`; without pictures the file is only run.
        tolerance: how much its scores may differ from LiteRT's on the same pixels.
        task: that of the model.
        most_changed: of a segmenter, the fraction of the pixels to which it may give another class
            than LiteRT's scores do.

    Raises:
        RefusedError: the client refuses the file, or gives other scores or classes.
    """
    runner = Runner(model)
    if samples is None or samples.resized is None:
        blank = np.zeros(tuple(runner.input["shape"][1:]), np.uint8)
        answer = run_in_client(client, model, [blank], task=task)
        return ClientVerdict(client.name, version=answer and answer["version"])
    pictures, title = samples.pictures, task_of(client, task).title
    scores, own = runner.predict(samples.resized), runner.predict(samples.compared.inputs)
    figures = _of_masks if task == "segmentation" else _of_classes
    verdict = ClientVerdict(client.name, len(scores), **figures(samples, scores, own))
    answer = run_in_client(client, model, list(pictures.values()), task=task) if pictures else None
    if answer is None:
        return verdict
    version, expected = answer["version"], scores[list(pictures)]
    if task == "segmentation":
        difference, changed = mask_difference(title, expected, answer["masks"])
    else:
        difference, changed = _difference(title, answer, expected), 0.0
    if not difference <= tolerance:
        raise RefusedError(
            f"{title} {version} gives other scores than LiteRT for the same pixels: they differ by "
            f"{difference:.2g}, allowed are {tolerance:.2g}. This file was not written."
        )
    if changed > most_changed:
        raise RefusedError(
            f"{title} {version} gives {changed:.2%} of the pixels another class than LiteRT's "
            f"scores do, allowed are {most_changed:.2%}. This file was not written."
        )
    return dataclasses.replace(verdict, version=version, ran=len(expected), difference=difference)


def _of_classes(samples: Samples, scores: np.ndarray, own: np.ndarray) -> dict[str, Any]:
    """What a verdict says of a classifier's scores with both resizes."""
    targets = samples.compared.targets
    seen, right = (answer_scores(each, from_logits=False).argmax(-1) for each in (scores, own))
    figures = {"agreement": float((seen == right).mean())}
    if targets is not None:
        figures["accuracy"] = float((seen == targets).mean())
        figures["own_accuracy"] = float((right == targets).mean())
    return figures


def _of_masks(samples: Samples, scores: np.ndarray, own: np.ndarray) -> dict[str, Any]:
    """What a verdict says of a segmenter's scores with both resizes, the client's of scores too."""
    import tensorflow as tf  # what only reads a verdict does not need it

    size, classes = samples.resized.shape[1:3], scores.shape[-1]
    targets, moved = samples.compared.targets, samples.resized_masks
    totals, same = np.zeros((2, classes, classes), np.int64), 0
    for i in range(len(scores)):
        seen = mediapipe.resized_scores(scores[i], size).argmax(-1)
        right = tf.image.resize(own[i], size).numpy().argmax(-1)  # as Keras' scores of pixels
        same += int((seen == right).sum())
        if targets is not None and moved is not None:
            totals[0] += confusion_of(moved[i], seen, classes)
            totals[1] += confusion_of(targets[i], right, classes)
    figures = {"agreement": same / (len(scores) * math.prod(size))}
    if targets is not None and moved is not None:
        figures["mean_iou"], figures["own_mean_iou"] = map(mean_iou, totals)
    return figures


def run_in_client(
    client: Client,
    model: Model,
    pictures: Sequence[np.ndarray],
    python: str | None = None,
    task: str = "classification",
) -> dict[str, Any] | None:
    """The "version" and the "scores" or "masks" of a client; None if it is not installed.

    Args:
        client: the client.
        model: a `.tflite` file or its content.
        pictures: uint8 (height, width, 3) of any size.
        python: the Python that has the client; None for this one.
        task: that of the model; of segmentation there are masks.

    Raises:
        RefusedError: the client refuses the file, or its process ends.
    """
    if python is None and not is_installed(client.module):
        return None
    found = task_of(client, task)
    command, masks = [python or sys.executable, found.program], task == "segmentation"
    answer = run_runner(command, model, pictures, found.title, masks)
    return None if "missing" in answer else answer


def _difference(title: str, answer: dict[str, Any], expected: np.ndarray) -> float:
    """The largest difference of a client's scores; NaN if one of them is."""
    scores = np.asarray(answer["scores"], np.float32)
    if scores.shape != expected.shape:
        raise RefusedError(
            f"{title} {answer['version']} gives scores of the shape {scores.shape}; "
            f"expected {expected.shape}."
        )
    return float(np.abs(scores - expected).max(initial=0.0))


def mask_difference(
    title: str, scores: Iterable[np.ndarray], masks: Iterable[np.ndarray]
) -> tuple[float, float]:
    """How a client's masks differ from a file's scores.

    Args:
        title: the client's name, for errors.
        scores: a file's, each (rows, columns, classes), for pictures as the client resizes them.
        masks: the client's class of each pixel of the pictures, each uint8 (height, width).

    Returns:
        The most by which the score of its class is below the highest one of the pixel, and the
        fraction of the pixels where it is below.
    """
    differences, changed, pixels = [0.0], 0, 0
    for each, mask in zip(scores, masks, strict=True):
        if mask.max() >= each.shape[-1]:
            raise RefusedError(
                f"{title} gives a pixel the class {mask.max()}; expected 0 to {each.shape[-1] - 1}."
            )
        highest = np.full(mask.shape, -np.inf, np.float32)
        chosen = np.empty(mask.shape, np.float32)
        for number in range(each.shape[-1]):  # one after the other, because pictures may be large
            resized = mediapipe.resized_scores(each[..., number], mask.shape)
            np.maximum(highest, resized, out=highest)
            np.copyto(chosen, resized, where=mask == number)
        differences.append(float((highest - chosen).max()))
        changed += int((chosen < highest).sum())
        pixels += mask.size
    return float(np.max(differences)), changed / max(pixels, 1)  # NaN if one of them is
