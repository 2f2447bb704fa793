"""What a client makes of a file: the accuracy with its own resize, and the file run by itself."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from keras_vit._errors import RefusedError, UsageError, is_installed
from keras_vit.data.preprocessing import preprocess_image
from keras_vit.deploy.clients import Client
from keras_vit.deploy.sample_images import Samples, to_pixels
from keras_vit.labels import answer_scores
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
        agreement: fraction of the images with the same class in both; None without images.
        version: the version of the client that ran the file; None if it is not installed.
        ran: number of pictures that the client ran itself.
        difference: the largest difference of its scores from LiteRT's on the same pixels; None if
            it ran nothing.
    """

    client: str
    images: int = 0
    accuracy: float | None = None
    own_accuracy: float | None = None
    agreement: float | None = None
    version: str | None = None
    ran: int = 0
    difference: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return dataclasses.asdict(self)


def seen_by(
    client: Client,
    samples: Samples,
    pictures: Iterable[np.ndarray],
    preprocessing: Preprocessing,
) -> Samples:
    """The images of an export, with the compared ones also as a client resizes them.

    Args:
        client: the client.
        samples: the images.
        pictures: the n compared pictures, uint8 (height, width, 3) of any size; may be an iterator.
        preprocessing: that of the model.
    """
    own = samples.compared.inputs
    changed = dataclasses.replace(preprocessing, interpolation=client.interpolation, crop=None)
    resized, kept, size = np.empty_like(own), {}, 0
    for i, picture in enumerate(pictures):
        tensor = preprocess_image(picture, changed)
        resized[i] = to_pixels(tensor, changed) if own.dtype == np.uint8 else tensor
        size += picture.nbytes
        fits = i < _RUN and (size <= _RUN_BYTES or not kept)
        if fits and max(picture.shape[:2]) <= client.longest_side:
            kept[i] = picture
    return dataclasses.replace(samples, resized=resized, pictures=kept)


def check_model_for(client: Client | None, model: Any) -> None:
    """Raises a `UsageError` if a client needs another input or output than a model can have."""
    if client is None:
        return
    if not isinstance(model, ImageModel):
        raise UsageError(
            f"{client.title} needs output={client.output!r} of a keras_vit model with its own "
            f"head. Received: a {type(model).__name__}; build it with num_classes=..., or leave "
            "out client."
        )
    if model.spec.in_channels != 3:
        raise UsageError(
            f"{client.title} gives a file RGB pixels. Received: a model with "
            f"in_channels={model.spec.in_channels}; leave out client."
        )


def judge_client(
    client: Client, model: Model, samples: Samples | None = None, tolerance: float = 0.0
) -> ClientVerdict:
    """Runs a file with a client's pixels, and in the client itself where that is installed.

    Args:
        client: the client.
        model: a `.tflite` file or its content.
        samples: the result of `seen_by`; without pictures the file is only run.
        tolerance: how much its scores may differ from LiteRT's on the same pixels.

    Raises:
        RefusedError: the client refuses the file, or gives other scores.
    """
    runner = Runner(model)
    if samples is None or samples.resized is None:
        blank = np.zeros(tuple(runner.input["shape"][1:]), np.uint8)
        answer = run_in_client(client, model, [blank])
        return ClientVerdict(client.name, version=answer and answer["version"])
    targets, pictures = samples.compared.targets, samples.pictures
    scores, own = runner.predict(samples.resized), runner.predict(samples.compared.inputs)
    answer = run_in_client(client, model, list(pictures.values())) if pictures else None
    ran = {}
    if answer is not None:
        expected = scores[list(pictures)]
        difference = _difference(client, answer, expected)
        if not difference <= tolerance:
            raise RefusedError(
                f"{client.title} {answer['version']} gives other scores than LiteRT for the same "
                f"pixels: they differ by {difference:.2g}, allowed are {tolerance:.2g}. This file "
                "was not written."
            )
        ran = {"version": answer["version"], "ran": len(expected), "difference": difference}
    classes = [answer_scores(each, from_logits=False).argmax(-1) for each in (scores, own)]
    right = [None if targets is None else float((each == targets).mean()) for each in classes]
    agreement = float((classes[0] == classes[1]).mean())
    return ClientVerdict(client.name, len(scores), *right, agreement, **ran)


def run_in_client(
    client: Client, model: Model, pictures: Sequence[np.ndarray], python: str | None = None
) -> dict[str, Any] | None:
    """The "version" and the "scores" of a client; None if it is not installed.

    Args:
        client: the client.
        model: a `.tflite` file or its content.
        pictures: uint8 (height, width, 3) of any size.
        python: the Python that has the client; None for this one.

    Raises:
        RefusedError: the client refuses the file, or its process ends.
    """
    if python is None and not is_installed(client.module):
        return None
    answer = run_runner([python or sys.executable, client.program], model, pictures, client.title)
    return None if "missing" in answer else answer


def _difference(client: Client, answer: dict[str, Any], expected: np.ndarray) -> float:
    """The largest difference of a client's scores; NaN if one of them is."""
    scores = np.asarray(answer["scores"], np.float32)
    if scores.shape != expected.shape:
        raise RefusedError(
            f"{client.title} {answer['version']} gives scores of the shape {scores.shape}; "
            f"expected {expected.shape}."
        )
    return float(np.abs(scores - expected).max(initial=0.0))
