"""The place of an array in a file of another library, and its form there."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from keras_vit._errors import UsageError
from keras_vit.weights.names import fill, numbers

Shape = tuple[int, ...]


# The forms of an array in a file: functions to that form, and back to the order of official axes.
_FORMS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray]]] = {
    "same": (np.asarray, np.asarray),
    "flat": (lambda array: array.reshape(-1), np.asarray),
    "table": (lambda array: array[0], lambda array: array[None]),
    "norm": (lambda array: array.reshape(-1), np.asarray),
    "in": (lambda array: array.reshape(array.shape[0], -1).T, np.transpose),  # (outputs, inputs)
    "out": (lambda array: array.reshape(-1, array.shape[-1]).T, np.transpose),  # (outputs, inputs)
    "cells": (lambda array: array.transpose(3, 0, 1, 2), lambda array: array.transpose(1, 2, 3, 0)),
    "conv": (lambda array: array.transpose(3, 2, 0, 1), lambda array: array.transpose(2, 3, 1, 0)),
    # (1, 1 + n, D) to (1, n, D), and back with zeros for the class token
    "grid": (lambda array: array[:, 1:], lambda array: np.pad(array, ((0, 0), (1, 0), (0, 0)))),
    # (1, 1 + n, D) to (n, D), and back in the same way
    "rows": (lambda array: array[0, 1:], lambda array: np.pad(array, ((1, 0), (0, 0)))[None]),
}


class Place(NamedTuple):
    """The place of an official array in a file, and its form there.

    Attributes:
        key: the file's key.
        form: "same"; "flat" (one dimension); "table" (without the first axis, which has one entry);
            "norm" ((C,) or (1, 1, 1, C)); "in" and "out" (a matrix (outputs, inputs) as in PyTorch;
            the official array has one input axis for "in", one output axis for "out"); "cells" (the
            last axis is the first); "conv" (OIHW); "grid" (a position table without a row for the
            class token); "rows" (the same without the first axis).
        part, parts: if the file stacks several official arrays along the first axis, such as
            query, key and value in timm: the index of this array, and their number.
        scanned: whether layers are stacked along an additional first axis, as in big_vision.
        pairs: whether the pairs of channels that a rotation turns are neighbours there; here they
            are in the two halves of a head, the official array's last axis.
        zeros: a position in the second axis and a number of entries, which the file has there and
            the official array does not: they are zeros.
    """

    key: str = ""
    form: str = "same"
    part: int = 0
    parts: int = 1
    scanned: bool = False
    pairs: bool = False
    zeros: tuple[int, int] = (0, 0)

    def stored_shape(self, shape: Shape) -> Shape:
        """The shape in the file of an array whose official shape is `shape`."""
        one = _FORMS[self.form][0](np.broadcast_to(np.float32(0), shape)).shape  # needs no memory
        if self.zeros[1]:
            one = (one[0], one[1] + self.zeros[1], *one[2:])
        return (self.parts, *one) if self.scanned else (self.parts * one[0], *one[1:])

    def official_shape(self, stored: Shape) -> Shape:
        """The official shape for a stored shape, as far as it is known without the model."""
        if self.scanned:
            one = stored[1:]
        else:
            one = (stored[0] // self.parts, *stored[1:]) if stored else stored
        if self.form in ("in", "out", "conv") and len(one) in (2, 4):
            return tuple(one[axis] for axis in ((2, 3, 1, 0) if len(one) == 4 else (1, 0)))
        if self.form == "table":
            return (1, *one)
        if self.form == "rows":
            return (1, one[0] + 1, *one[1:]) if one else one
        if self.form == "cells":
            return (*one[1:], *one[:1])
        if self.zeros[1] and len(one) > 1:
            return (one[0], max(one[1] - self.zeros[1], 0), *one[2:])
        return (1, one[1] + 1, *one[2:]) if self.form == "grid" and len(one) > 1 else one

    def fits(self, stored: Shape, shape: Shape) -> bool:
        """Whether an array of shape `stored` can be converted to the official `shape`."""
        if self.form == "norm":
            stored = (math.prod(stored),) if set(stored[:-1]) <= {1} else stored
        return stored == self.stored_shape(shape)

    def official(self, stored: np.ndarray, shape: Shape) -> np.ndarray:
        """Converts the file's array to the official `shape`."""
        if self.parts > 1 or self.scanned:
            # (parts * n, ...) or (parts, ...) to (parts, n, ...)
            stored = stored.reshape(self.parts, -1, *stored.shape[1:])[self.part]
            stored = stored[0] if self.scanned else stored
        if self.zeros[1]:
            stored = self._without_zeros(stored)
        # (outputs, inputs) and (C,) to the official axes
        official = _FORMS[self.form][1](stored).reshape(shape)
        return _exchanged(official, -1, 2) if self.pairs else official

    def stored(self, official: np.ndarray) -> np.ndarray:
        """Converts an official array to the file's form; for a stack, to one part of it."""
        official = _exchanged(official, 2, -1) if self.pairs else official
        stored = _FORMS[self.form][0](official)
        start, count = self.zeros
        return np.insert(stored, [start] * count, 0, axis=1) if count else stored

    def _without_zeros(self, stored: np.ndarray) -> np.ndarray:
        start, count = self.zeros
        entries = np.s_[start : start + count]
        if np.any(stored[:, entries]):
            raise UsageError(
                f"{self.key} has positions for registers, which keras_vit does not have."
            )
        return np.delete(stored, entries, axis=1)


def _exchanged(array: np.ndarray, rows: int, columns: int) -> np.ndarray:
    # (..., rows * columns) to (..., columns * rows), whose last axis is transposed
    matrices = array.reshape(*array.shape[:-1], rows, columns)
    return matrices.swapaxes(-1, -2).reshape(array.shape)


def place_of(places: Mapping[str, Place], key: str) -> Place | None:
    """The place of an official key among those of templates; None if there is none."""
    for official, place in places.items():
        indices = numbers(official, key)
        if indices is not None:
            return place._replace(key=fill(place.key, **indices))
    return None
