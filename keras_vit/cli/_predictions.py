"""The most probable classes of pictures, as `predict` and `run` print them."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_vit._errors import UsageError

_BATCH = 32  # pictures in memory


@dataclasses.dataclass(frozen=True)
class Predictor:
    """What gives scores to pictures.

    Attributes:
        description: a line about it.
        model: a keras_vit model or an opened bundle, with labels and preprocessing.
        scores: the scores of a batch of inputs.
        from_logits: whether the scores are logits; otherwise they are probabilities.
    """

    description: str
    model: Any
    scores: Callable[[Any], Any]
    from_logits: bool = True


def of_bundle(folder: Path, bundle: Any) -> Predictor:
    """The predictor of an opened bundle."""
    description = f"bundle {folder}: {size(bundle)}, {bundle.precision}"
    return Predictor(description, bundle, bundle.predict, bundle.from_logits)


def size(model: Any) -> str:
    """The name, the input size and the number of classes of a model or bundle."""
    from keras_vit.labels import answers_of, count_of, numbered

    preprocessing = model.preprocessing
    answers = answers_of(model.labels or numbered(model.num_classes))
    pixels = f"{preprocessing.height} x {preprocessing.width} pixels"
    return f"{model.name}, {pixels}, {count_of(answers)}"


def print_predictions(
    predictor: Predictor, pictures: list[Path], top_k: int, as_json: bool
) -> None:
    """Prints the most probable classes of each picture; names those that cannot be read.

    Raises:
        UsageError: no picture could be read.
    """
    from keras_vit.data.decoding import printable

    stream = sys.stderr if as_json else sys.stdout
    print(printable(predictor.description), file=stream, flush=True)
    read = 0
    for first in range(0, len(pictures), _BATCH):
        for picture, classes in _predicted(predictor, pictures[first : first + _BATCH], top_k):
            read += 1
            print(_shown(printable(picture), classes, as_json), flush=True)
    if not read:
        none = "the picture could not" if len(pictures) == 1 else "no picture could"
        raise UsageError(f"{none} be read.")


def _predicted(
    predictor: Predictor, pictures: list[Path], top_k: int
) -> list[tuple[Path, list[tuple[str, float]]]]:
    import numpy as np

    import keras_vit
    from keras_vit.data.listing import read_picture

    inputs = {}
    for picture in pictures:
        try:
            image = read_picture(picture)
        except UsageError as error:
            print(f"skipped {error}", file=sys.stderr)
            continue
        # At once: a batch of photographs at their own size would need gigabytes.
        inputs[picture] = keras_vit.preprocess(image, predictor.model)
    if not inputs:
        return []
    scores = predictor.scores(np.concatenate(list(inputs.values())))
    decoded = keras_vit.decode_predictions(
        scores, _labels(predictor.model), top_k, predictor.from_logits
    )
    return list(zip(inputs, decoded, strict=True))


def _labels(model: Any) -> tuple[str, ...] | None:
    from keras_vit.labels import numbered

    # decode_predictions has the names of ImageNet's 1000 classes.
    unknown = model.labels is None and model.num_classes != 1000
    return tuple(f"class {i}" for i in numbered(model.num_classes)) if unknown else model.labels


def _shown(picture: str, classes: list[tuple[str, float]], as_json: bool) -> str:
    if as_json:
        predictions = [{"label": label, "probability": p} for label, p in classes]
        return json.dumps({"picture": picture, "predictions": predictions})
    return "\n".join(
        [f"\n{picture}", *(f"  {probability:6.1%}  {label}" for label, probability in classes)]
    )
