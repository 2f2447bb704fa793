"""The classes of images that may have several of them, or none."""

from __future__ import annotations

from typing import Any

import numpy as np


class ClassSets:
    """Rows of 0 and 1, uint8 (n, classes), that are made when they are needed.

    All rows together may be thousands of times larger than the list of the classes.

    `sets[key]` has the rows that NumPy's indexing selects, `np.asarray(sets)` all of them.

    Args:
        images: the image of each entry, integers (entries,).
        numbers: the class of each entry; repeated ones count once.
        shape: the numbers of images and of classes.

    Attributes:
        numbers: the classes of all images in a row, int64.
        starts: where those of each image begin, and their number, int64 (n + 1,).
    """

    def __init__(self, images: np.ndarray, numbers: np.ndarray, shape: tuple[int, int]):
        count, classes = self.shape = shape
        entries = np.unique(np.asarray(images, np.int64) * classes + numbers)
        self._images, self.numbers = np.divmod(entries, max(classes, 1))
        self.starts = np.searchsorted(self._images, np.arange(count + 1))

    @classmethod
    def of_rows(cls, rows: np.ndarray) -> ClassSets:
        """From 0 and 1 for each image and class (n, classes)."""
        return cls(*np.nonzero(rows), rows.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> np.ndarray:
        chosen = np.arange(len(self))[key]
        places = np.atleast_1d(chosen)
        rows = np.zeros((len(places), self.shape[1]), np.uint8)
        for row, place in zip(rows, places, strict=True):
            row[self.numbers[self.starts[place] : self.starts[place + 1]]] = 1
        return rows if np.ndim(chosen) else rows[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[:].astype(dtype or np.uint8, copy=False)

    @property
    def counts(self) -> np.ndarray:
        """The number of images of each class, int64 (classes,)."""
        return np.bincount(self.numbers, minlength=self.shape[1])

    @property
    def rarest(self) -> np.ndarray:
        """The rarest class of each image, the first of several, or 0 without any; int64 (n,)."""
        order = np.lexsort((self.numbers, self.counts[self.numbers], self._images))
        images, first = np.unique(self._images, return_index=True)
        rarest = np.zeros(len(self), np.int64)
        rarest[images] = self.numbers[order[first]]
        return rarest
