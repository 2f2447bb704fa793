"""Checks of arrays that describe images."""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_vit._errors import UsageError


def check_integers(field: str, values: Any, shape: tuple[int, ...], end: int, meaning: str) -> None:
    """Raises a `UsageError` unless `values` is an array of this shape of integers 0 to `end` - 1.

    Args:
        field, meaning: what the message calls the values, and an integer of them.
        values, shape, end: what is checked.
    """
    if not isinstance(values, np.ndarray):
        raise UsageError(f"{field} must be a NumPy array. Received: {type(values).__name__}.")
    if values.dtype.kind not in "iu" or values.shape != shape:
        raise UsageError(
            f"{field} must be integers {shape}, {meaning} for each example. "
            f"Received: {values.dtype} {values.shape}."
        )
    if values.size and not 0 <= values.min() <= values.max() < end:
        raise UsageError(
            f"{field} must be from 0 to {end - 1}, {meaning}. "
            f"Received: {values.min()} to {values.max()}."
        )
