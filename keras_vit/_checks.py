"""Checks of single values, each with the one line that says what was expected and received."""

from __future__ import annotations

import sys
from typing import Any

from keras_vit._errors import UsageError


def positive_integer(field: str, value: Any) -> None:
    """An integer of at least 1; True and False are none."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"{field} must be a positive integer. Received: {field}={value!r}.")


def number(field: str, value: Any) -> float:
    """An integer or a float that is finite; returns it."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not abs(value) <= sys.float_info.max:
        raise UsageError(f"{field} must be a number. Received: {field}={value!r}.")
    return value


def not_negative(field: str, value: Any) -> None:
    """A number of at least 0."""
    if number(field, value) < 0:
        raise UsageError(f"{field} must not be negative. Received: {field}={value!r}.")


def share(field: str, value: Any) -> None:
    """A number in [0, 1)."""
    if not 0 <= number(field, value) < 1:
        raise UsageError(f"{field} must lie in [0, 1). Received: {field}={value!r}.")
