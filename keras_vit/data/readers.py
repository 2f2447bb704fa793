"""Functions of an index that return an image, which the input pipeline can read without Python."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from keras_vit._errors import UsageError
from keras_vit.data.checks import check_integers
from keras_vit.data.formats import PLAIN


@dataclasses.dataclass(frozen=True)
class InMemory:
    """Images in memory.

    Attributes:
        pixels: all images, uint8 (n, height, width, 3).
    """

    pixels: np.ndarray

    def __call__(self, index: int) -> np.ndarray:
        """The image, uint8 (height, width, 3)."""
        return self.pixels[index]

    def check(self, count: int) -> None:
        """Raises a `UsageError` unless these are `count` images."""
        shape = (count, *self.pixels.shape[1:3], 3)
        if self.pixels.dtype != np.uint8 or self.pixels.shape != shape:
            raise UsageError(
                f"pixels must be uint8 ({count}, height, width, 3), an image for each of the ids. "
                f"Received: {self.pixels.dtype} {self.pixels.shape}."
            )


@dataclasses.dataclass(frozen=True)
class Encoded:
    """Images in encoded files, or in records of files.

    Attributes:
        decode: a function of an index that returns the image, uint8 (height, width, 3); it is
            called from many threads.
        contents: a TensorFlow function of an index, int64 (), that returns the encoded image, a
            string.
        formats: the place of each image's format in `formats.PLAIN`, uint8 (n,). TensorFlow decodes
            plain JPEG and PNG files to the same pixels as `decode`.
        fault: a function of TensorFlow's message that returns a line about a file that was damaged
            or replaced since the source was opened, or ""; it is called only after an image could
            not be read.
    """

    decode: Callable[[int], np.ndarray]
    contents: Callable[[Any], Any]
    formats: np.ndarray
    fault: Callable[[str], str] = lambda message: ""

    def __call__(self, index: int) -> np.ndarray:
        """The image, uint8 (height, width, 3)."""
        return self.decode(index)

    def check(self, count: int) -> None:
        """Raises a `UsageError` unless these are `count` images."""
        check_integers("formats", self.formats, (count,), len(PLAIN), "places in PLAIN")
