"""Checks of single values, each with the one line that says what was expected and received.

Each returns the value as a plain int or float: NumPy's numbers cannot be written as JSON.
"""

from __future__ import annotations

import math
import numbers
import reprlib
import sys
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from keras_vit._errors import UsageError


def integer(value: Any) -> int | None:
    """The value as an int: 5 for np.int64(5) and for 5.0.

    None if it is not an integer, and for True and False.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    if isinstance(value, numbers.Integral):
        return int(value)
    return int(value) if float(value).is_integer() else None


def choice(field: str, value: Any, choices: Sequence[str]) -> Any:
    """One of a few names."""
    if value not in choices:
        raise UsageError(
            f"{field} must be one of {', '.join(choices)}. Received: {field}={value!r}."
        )
    return value


def positive_integer(field: str, value: Any) -> int:
    """An integer of at least 1; True and False are refused."""
    found = integer(value)
    if found is None or found < 1:
        raise UsageError(f"{field} must be a positive integer. Received: {field}={value!r}.")
    return found


def number(field: str, value: Any) -> int | float:
    """A finite integer or float."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        found = math.nan
    else:
        found = int(value) if isinstance(value, numbers.Integral) else float(value)
    if not abs(found) <= sys.float_info.max:
        raise UsageError(f"{field} must be a number. Received: {field}={value!r}.")
    return found


def not_negative(field: str, value: Any) -> int | float:
    """A number of at least 0."""
    found = number(field, value)
    if found < 0:
        raise UsageError(f"{field} must not be negative. Received: {field}={value!r}.")
    return found


def fraction(field: str, value: Any) -> int | float:
    """A number in [0, 1)."""
    found = number(field, value)
    if not 0 <= found < 1:
        raise UsageError(f"{field} must lie in [0, 1). Received: {field}={value!r}.")
    return found


def label_names(labels: Any) -> tuple[str, ...]:
    """The names of classes, in their order."""
    has_order = isinstance(labels, Iterable) and not isinstance(labels, (str, bytes, Set, Mapping))
    names = tuple(labels) if has_order else (None,)
    if not all(isinstance(name, str) for name in names):
        raise UsageError(
            "labels must be a sequence of strings, the classes' names in the order of the logits. "
            f"Received: labels={reprlib.repr(labels)}."
        )
    return tuple(str(name) for name in names)


def keras_vit_model(model: Any) -> None:
    """A ViT or a BiT of this library, which knows its spec, its preprocessing and its labels."""
    if not hasattr(model, "spec"):
        raise UsageError(f"expected a keras_vit.ViT or keras_vit.BiT. {received_model(model)}")


def received_model(model: Any) -> str:
    """What an error received instead of a model of this library, in words."""
    name = type(model).__name__
    if not hasattr(model, "get_config"):
        return f"Received: {name}."
    return (
        f"Received: a plain {name}, such as keras.models.clone_model makes, without preprocessing "
        "and labels. Copy a model so: copy = keras_vit.ViT.from_config(original.get_config()); "
        "copy.set_weights(original.get_weights())"
    )
