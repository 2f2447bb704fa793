"""Checks of single values, each with the one line that says what was expected and received.

Each returns the value as a plain int or float: NumPy's numbers cannot be written as JSON.
"""

from __future__ import annotations

import math
import numbers
import sys
from collections.abc import Sequence
from typing import Any

from keras_vit._errors import UsageError

COPYING = (
    "a copy that stays one is type(model).from_config(model.get_config()), where "
    "keras.models.clone_model returns a plain Functional."
)


def integer(value: Any) -> int | None:
    """The integer that a number is, 5 for np.int64(5) and 5.0; None if it is none.

    True and False are none either.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    if isinstance(value, numbers.Integral):
        return int(value)
    return int(value) if float(value).is_integer() else None


def choice(field: str, value: Any, choices: Sequence[str]) -> Any:
    """One of a few words."""
    if value not in choices:
        raise UsageError(
            f"{field} must be one of {', '.join(choices)}. Received: {field}={value!r}."
        )
    return value


def positive_integer(field: str, value: Any) -> int:
    """An integer of at least 1; True and False are none."""
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


def share(field: str, value: Any) -> int | float:
    """A number in [0, 1)."""
    found = number(field, value)
    if not 0 <= found < 1:
        raise UsageError(f"{field} must lie in [0, 1). Received: {field}={value!r}.")
    return found


def keras_vit_model(model: Any) -> None:
    """A ViT or a BiT of this library, which knows its spec, its preprocessing and its labels."""
    if not hasattr(model, "spec"):
        raise UsageError(
            "expected a keras_vit.ViT or keras_vit.BiT. "
            f"Received: {type(model).__name__}; {COPYING}"
        )
