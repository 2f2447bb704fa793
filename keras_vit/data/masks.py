"""The class of each pixel of the images of a source."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from keras_vit._errors import UsageError
from keras_vit.data.source import ClassSets

NO_CLASS = 255  # of a pixel that counts neither in training nor in evaluation
_MOST_UNNAMED = 50  # values; smoothed edges of a mask have all of them


@dataclasses.dataclass(frozen=True)
class Masks:
    """The annotations of a source for semantic segmentation.

    Attributes:
        mask: a function of an index that returns the class of each pixel of the picture, uint8
            (height, width), or `NO_CLASS`; it is called from many threads.
        sets: the classes that occur in each mask.
        note: what a user should know of the masks, such as how many pixels have no class; or "".
    """

    mask: Callable[[int], np.ndarray]
    sets: ClassSets
    note: str = ""
    task = "segmentation"

    def check(self, count: int, classes: int) -> None:
        """Raises a `UsageError` unless these are masks of `count` images with so many classes."""
        if self.sets.shape != (count, classes):
            raise UsageError(
                f"masks must be of {count} images and {classes} classes. "
                f"Received: {self.sets.shape[0]} and {self.sets.shape[1]}."
            )
        if classes > NO_CLASS:
            raise UsageError(
                f"masks have {NO_CLASS} classes at most. Received: {classes}; join some."
            )

    def renumbered(self, order: np.ndarray, classes: int) -> Masks:
        """The masks in which class i is the class `order[i]` of so many; see `Annotations`."""
        numbers = np.full(NO_CLASS + 1, NO_CLASS, np.uint8)
        numbers[: len(order)] = order
        return dataclasses.replace(
            self,
            mask=lambda index: numbers[self.mask(index)],
            sets=self.sets.renumbered(order, classes),
        )

    def moved(self, index: Any, matrix: Any, size: tuple[int, int]) -> Any:
        """The class of each pixel of a moved image, uint8 (height, width); see `Annotations`."""
        import tensorflow as tf

        from keras_vit.data.geometry import moved_mask

        mask = tf.numpy_function(lambda i: self.mask(int(i)), [index], tf.uint8)
        mask = tf.ensure_shape(mask, (None, None))
        matrix = matrix(tf.shape(mask)) if callable(matrix) else matrix
        return moved_mask(mask, matrix, size, NO_CLASS)


def unnamed_classes(values: Iterable[int], place: str, fix: str) -> dict[int, tuple[int, str]]:
    """The class of each value of masks and its name, where the masks do not come with names.

    0 and 255 alone are "background" and "foreground". Otherwise 0 is "background", 7 is "class 7",
    and 255 has no class.

    Args:
        values: those that occur.
        place, fix: for the error: where the masks are, and what to do if the values are classes.

    Raises:
        UsageError: there are too many values.
    """
    values = {*values}
    if values == {0, NO_CLASS}:
        return {0: (0, "background"), NO_CLASS: (1, "foreground")}
    values -= {NO_CLASS}
    if len(values) > _MOST_UNNAMED:
        raise UsageError(
            f"{place}: the masks have {len(values)} different values, as after resizing with "
            f"smooth edges; {fix}."
        )
    names = {value: f"class {value}" if value else "background" for value in sorted(values)}
    return {value: (number, names[value]) for number, value in enumerate(names)}


def sets_of(masks: np.ndarray, classes: int) -> ClassSets:
    """The classes that occur in masks, uint8 (n, height, width)."""
    rows = np.zeros((len(masks), NO_CLASS + 1), np.uint8)
    rows[np.arange(len(masks))[:, None], masks.reshape(len(masks), -1)] = 1  # (n, pixels)
    return ClassSets.of_rows(rows[:, :classes])
