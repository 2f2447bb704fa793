"""Checks of single values. Each error says in one line what was expected and received.

Numbers are returned as plain int or float, because NumPy's numbers cannot be written as JSON.
"""

from __future__ import annotations

import functools
import math
import numbers
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any, Literal

from keras_vit._errors import UsageError, shown

# Files may claim any size; larger ones than these are refused before anything is built.
LONGEST_SIDE, MOST_PIXELS = 1 << 16, 1 << 26
MOST_CLASSES, LONGEST_LABEL = 1_000_000, 1_000
PICTURE_CHANNELS = (1, 3)  # of inputs that are made from pictures: grey and RGB
# How images are resized; see `Preprocessing`.
Interpolation = Literal["nearest", "bilinear", "bicubic", "mediapipe"]
# How positions are resampled to another grid of patches; see `resample_grid`.
Resampling = Literal["bilinear", "bicubic", "bicubic_sharp", "bicubic_dinov2"]
# Text of one line: no control characters, line separators, halves of surrogate pairs, or marks that
# are invisible (soft hyphens, byte order marks) or reverse the direction of text. Languages and
# emoji need zero-width spaces, joiners and non-joiners: these are allowed.
ONE_LINE = (
    r"\A[^\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff"
    r"\ufeff\ufff9-\ufffb\U000e0001]*\Z"
)
_ONE_LINE = re.compile(ONE_LINE)


def integer(value: Any) -> int | None:
    """The value as an int: 5 for np.int64(5) and for 5.0. None for other values and for bools."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    if isinstance(value, numbers.Integral):
        return int(value)
    return int(value) if float(value).is_integer() else None


def choice(field: str, value: Any, choices: Iterable[str]) -> Any:
    """Checks that a value is one of a few names."""
    choices = tuple(choices)
    if value not in choices:
        raise UsageError(
            f"{field} must be one of {', '.join(choices)}. Received: {field}={shown(value)}."
        )
    return value


def flag(field: str, value: Any) -> bool:
    """True or False, also NumPy's."""
    plain = value.item() if hasattr(value, "item") else value
    if not isinstance(plain, bool):
        raise UsageError(f"{field} must be True or False. Received: {field}={shown(value)}.")
    return plain


def positive_integer(field: str, value: Any, most: int | None = None) -> int:
    """An integer from 1 to `most`; True and False are refused."""
    result = integer(value)
    if result is None or result < 1:
        raise UsageError(f"{field} must be a positive integer. Received: {field}={shown(value)}.")
    if most is not None and result > most:
        raise UsageError(f"{field} must be at most {most:,}. Received: {field}={shown(value)}.")
    return result


def number(field: str, value: Any) -> int | float:
    """A finite integer or float."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        result = math.nan
    else:
        result = int(value) if isinstance(value, numbers.Integral) else float(value)
    if not abs(result) <= sys.float_info.max:
        raise UsageError(f"{field} must be a number. Received: {field}={shown(value)}.")
    return result


def _number_that(fits: Callable[[float], bool], what: str, field: str, value: Any) -> int | float:
    result = number(field, value)
    if not fits(result):
        raise UsageError(f"{field} must {what}. Received: {field}={shown(value)}.")
    return result


# Checks of finite numbers: functions of the field and the value.
positive_number = functools.partial(_number_that, lambda x: x > 0, "be positive")
not_negative = functools.partial(_number_that, lambda x: x >= 0, "not be negative")
probability = functools.partial(_number_that, lambda x: 0 <= x <= 1, "lie in [0, 1]")
fraction = functools.partial(_number_that, lambda x: 0 <= x < 1, "lie in [0, 1)")
part = functools.partial(_number_that, lambda x: 0 < x <= 1, "lie in (0, 1]")
inner_fraction = functools.partial(_number_that, lambda x: 0 < x < 1, "lie in (0, 1)")


def label_names(labels: Any) -> tuple[str, ...]:
    """Class names as a tuple; sets, mappings and names of several lines are refused."""
    has_order = isinstance(labels, Iterable) and not isinstance(labels, (str, bytes, Set, Mapping))
    names = tuple(labels) if has_order else (None,)
    if not all(isinstance(name, str) for name in names):
        raise UsageError(
            "labels must be a sequence of strings, the class names in the order of the logits. "
            f"Received: labels={shown(labels)}."
        )
    wrong = next((i for i, name in enumerate(names) if not is_label(name)), None)
    if wrong is not None:
        raise UsageError(
            "labels must be lines of text without control characters, at most "
            f"{LONGEST_LABEL:,} characters long. Received: labels[{wrong}]={shown(names[wrong])}; "
            "rename the class."
        )
    return tuple(str(name) for name in names)


def is_label(name: str) -> bool:
    """Whether a class may have this name: labels.txt and other lists have a line for each class."""
    return len(name) <= LONGEST_LABEL and _ONE_LINE.match(name) is not None


def keras_vit_model(model: Any) -> None:
    """Checks that `model` is a keras_vit model, which has a spec, preprocessing and labels."""
    if not hasattr(model, "spec"):
        raise UsageError(f"expected a keras_vit.ViT or keras_vit.BiT. {received_model(model)}")


def reads_pictures(model: Any) -> None:
    """Checks that the input of a keras_vit model is made from pictures, which have 1 or 3 channels.

    Other models have no preprocessing.
    """
    if model.preprocessing is None:
        raise UsageError(
            "pictures become inputs of 1 channel (grey) or 3 (RGB). Received: "
            f"{getattr(model, 'name', 'a model')} with in_channels={model.spec.in_channels}; give "
            "it float inputs of your own."
        )


def classifies(model: Any, place: str) -> None:
    """Raises a `UsageError` if a model has other answers than classes of images.

    Args:
        model: the model; one that does not say its `task` classifies.
        place: what the message calls it.
    """
    task = getattr(model, "task", "classification")
    if task != "classification":
        raise UsageError(f"{place}: expected a classifier. Received: a model for {task}.")


def received_model(model: Any) -> str:
    """The end of an error message: which object was passed instead of a keras_vit model."""
    name = type(model).__name__
    if not hasattr(model, "get_config"):
        return f"Received: {name}."
    layers = getattr(model, "layers", [])
    if inner := next((layer for layer in layers if hasattr(layer, "spec")), None):
        return (
            f"Received: a {name} around the {type(inner).__name__} {inner.name!r}; pass that one, "
            f"which is model.get_layer({inner.name!r})."
        )
    if layers and (owner := getattr(layers[0], "_image_model", None)):
        return (
            f"Received: a {name} of other layers on the input of the {type(owner()).__name__} "
            f"{owner().name!r}; pass that one."
        )
    return (
        f"Received: a plain {name}, such as keras.models.clone_model makes, without preprocessing "
        "and labels. To copy a model: copy = keras_vit.ViT.from_config(original.get_config()); "
        "copy.set_weights(original.get_weights())"
    )
