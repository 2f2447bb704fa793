"""Class names: the names of ImageNet-1k's classes, and predictions with names."""

from __future__ import annotations

import functools
import importlib.resources
import os
from collections.abc import Iterable, Sequence
from typing import Any, get_args

import numpy as np

from keras_vit import _files
from keras_vit._checks import MOST_CLASSES, choice, keras_vit_model, label_names, positive_integer
from keras_vit._errors import UsageError
from keras_vit.encoder.ops import HeadActivation


def imagenet2012_labels() -> tuple[str, ...]:
    """The names of ImageNet-1k's 1000 classes, in the order of the logits: "tench, Tinca_tinca" ...

    A name lists all lemmas of the synset, as in the official `ilsvrc2012_wordnet_lemmas.txt`.
    "crane" occurs twice there, for the bird and for the machine.
    """
    return tuple(names for _, names in _imagenet2012())


def imagenet2012_ids() -> tuple[str, ...]:
    """The WordNet ids of these classes, which are also ImageNet's folder names: "n01440764" ..."""
    return tuple(wordnet_id for wordnet_id, _ in _imagenet2012())


def count_of(labels: Sequence[Any]) -> str:
    """How many classes these are, in words: "1 class", "10 classes"."""
    return "1 class" if len(labels) == 1 else f"{len(labels)} classes"


def numbered(classes: int) -> tuple[str, ...]:
    """Names for classes without names: "0", "1" ... A single logit is that of class 1, "1"."""
    return ("1",) if classes == 1 else tuple(map(str, range(classes)))


def answers_of(labels: Sequence[str]) -> tuple[str, ...]:
    """The answers that a model of these classes gives: the classes, or of one "not daisy", "daisy".

    Their order is that of `answer_scores`, and of Keras' targets 0 and 1 of a binary classifier.
    """
    return (f"not {labels[0]}", labels[0]) if len(labels) == 1 else tuple(labels)


def answer_scores(scores: np.ndarray, from_logits: bool = True) -> np.ndarray:
    """The scores of a model's answers: (..., classes), or (..., 2) of a single logit (..., 1).

    A logit z is the pair (0, z), whose softmax is 1 - sigmoid(z) and sigmoid(z); a probability p is
    the pair (1 - p, p).

    Args:
        scores: (..., classes).
        from_logits: whether they are logits.
    """
    if scores.shape[-1] != 1:
        return scores
    other = np.zeros_like(scores) if from_logits else np.maximum(1 - scores, 0)
    return np.concatenate([other, scores], axis=-1)


def read_labels(path: str | os.PathLike) -> tuple[str, ...]:
    """The class names in a labels.txt, one in each line.

    Raises:
        UsageError: the file is absent, too large or not UTF-8, has more than a million lines, or a
            name has control characters.
    """
    labels = _files.read_lines(path, most=MOST_CLASSES)
    try:
        return label_names(labels)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def write_labels(path: str | os.PathLike, labels: Iterable[str]) -> None:
    """Writes a labels.txt, atomically.

    Raises:
        UsageError: a name would not be one line of the file.
    """
    _files.write_text(path, "".join(f"{label}\n" for label in label_names(labels)))


def decode_predictions(
    predictions: Any,
    labels: Any = None,
    top: int = 5,
    from_logits: bool = True,
    activation: HeadActivation | None = None,
) -> list[list[tuple[str, float]]]:
    """The most probable classes of each image, by name.

    >>> keras_vit.decode_predictions([[0.25, 0.75]], ["daisy", "rose"], top=1, from_logits=False)
    [[('rose', 0.75)]]

    One score is that of a binary classifier, which answers "daisy" or "not daisy":

    >>> keras_vit.decode_predictions([[0.25]], ["daisy"], from_logits=False)
    [[('not daisy', 0.75), ('daisy', 0.25)]]

    Args:
        predictions: (n, classes): logits, as keras_vit's models return them, or, with
            `from_logits=False`, probabilities.
        labels: the class names in the order of the logits, or a model, whose `labels` are used.
            If there are no names, 1000 classes are assumed to be ImageNet-1k's.
        top: how many classes to return for each image.
        from_logits: whether predictions are logits.
        activation: what makes probabilities of logits: "softmax", or "sigmoid" where classes do not
            exclude each other; of a single logit it is always the sigmoid. Default: that of the
            model, or "softmax".

    Returns:
        For each image a list of (label, probability), most probable first.

    Raises:
        UsageError: the predictions have another shape, are not numbers, or are not probabilities
            although `from_logits=False`; or the number of names is not the number of classes.
    """
    predictions = np.asarray(predictions)
    if predictions.ndim != 2 or predictions.shape[1] == 0 or predictions.dtype.kind not in "fiu":
        raise UsageError(
            "predictions must be numbers (n, classes). "
            f"Received: {predictions.dtype} {predictions.shape}."
        )
    top = positive_integer("top", top)
    names = answers_of(_names(labels, predictions.shape[1]))
    activation = activation or getattr(labels, "head_activation", "softmax")
    choice("activation", activation, get_args(HeadActivation))
    probabilities = _probabilities(predictions.astype(np.float64), from_logits, activation)
    order = np.argsort(-probabilities, axis=1, kind="stable")[:, :top]
    return [
        [(names[i], float(row[i])) for i in best]
        for row, best in zip(probabilities, order, strict=True)
    ]


def _names(labels: Any, classes: int) -> tuple[str, ...]:
    if hasattr(labels, "get_config"):  # a Keras model
        keras_vit_model(labels)
    labels, one = getattr(labels, "labels", labels), "one score has one label, that of class 1"
    if labels is None and classes == len(_imagenet2012()):
        return imagenet2012_labels()
    if labels is None and classes == 1:
        raise UsageError(f"there is no name for the class; {one}: pass labels, as in ['daisy'].")
    if labels is None:
        imagenet21k = "; ImageNet-21k's are not part of this library" if classes == 21843 else ""
        raise UsageError(
            f"there are no names for {classes} classes{imagenet21k}; pass labels, a sequence of "
            f"{classes} names."
        )
    names = tuple(labels) if isinstance(labels, Iterable) else ()
    if isinstance(labels, str) or not all(isinstance(name, str) for name in names) or not names:
        raise UsageError(
            "labels must be the class names, or a keras_vit model. "
            f"Received: {type(labels).__name__}."
        )
    if len(names) != classes:
        needed = one if classes == 1 else f"predictions of {classes} classes need as many labels"
        raise UsageError(f"{needed}. Received: {len(names)}.")
    return names


def _probabilities(
    predictions: np.ndarray, from_logits: bool, activation: HeadActivation
) -> np.ndarray:
    if not np.isfinite(predictions).all():
        raise UsageError("predictions must be finite. Received: NaN or infinity.")
    scores = answer_scores(predictions, from_logits)
    if from_logits and activation == "sigmoid" and predictions.shape[1] > 1:
        with np.errstate(over="ignore"):  # below -700, where the probability is 0
            return 1 / (1 + np.exp(-scores))
    if from_logits:
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)
    low, high = predictions.min(initial=0), predictions.max(initial=1)
    if low < 0 or high > 1 + 1e-3:  # allows for rounding
        raise UsageError(
            f"probabilities must lie in [0, 1]. Received: {low:.3g} to {high:.3g}; "
            "for logits pass from_logits=True."
        )
    return scores


@functools.cache
def _imagenet2012() -> tuple[tuple[str, str], ...]:
    file = importlib.resources.files("keras_vit") / "imagenet2012.txt"
    lines = file.read_text(encoding="utf-8").splitlines()
    return tuple(tuple(line.split(" ", 1)) for line in lines)
