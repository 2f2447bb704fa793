"""Converts files, Pillow images, arrays and tensors to uint8 RGB arrays; finds picture files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from keras_vit._errors import UsageError
from keras_vit.data.decoding import decode_image, printable, to_rgb
from keras_vit.data.picture_formats import EXTENSIONS

_EXPECTED = "expected a path, a Pillow image, an array of pixels, or a list of these"
_CHANNELS = (1, 3, 4)


def rgb_images(images: Any) -> Iterable[np.ndarray]:
    """One or more images as uint8 RGB arrays (height, width, 3); each is read when it is taken.

    Args:
        images: as in `keras_vit.preprocess`, except symbolic tensors.

    Raises:
        UsageError: it has another type, or a picture cannot be read.
    """
    if _is_array(images):
        array = _array(images)
        if array.dtype.kind not in "OUS":
            return _of_array(array)
        # an array of paths, or of images of different sizes
        images = array if array.ndim else array.item()
    if isinstance(images, (str, os.PathLike, Image.Image)):
        return [_one(images)]
    if isinstance(images, (bytes, Mapping)) or not isinstance(images, Iterable):
        raise UsageError(f"{_EXPECTED}. Received: {type(images).__name__}.")
    return map(_one, images)


def find_pictures(paths: Iterable[str | os.PathLike]) -> list[Path]:
    """The files in `paths`, and all files with a picture's extension in the folders in `paths`.

    Folders are searched recursively; hidden files and folders in them are ignored.

    Raises:
        UsageError: a folder contains no picture.
    """
    return [file for path in paths for file in _files_of(Path(path))]


def read_picture(path: Path) -> np.ndarray:
    """A picture file as uint8 RGB (height, width, 3).

    Raises:
        UsageError: the file is absent or cannot be decoded; the message is one line with its name.
    """
    if not path.is_file():
        raise UsageError(f"{printable(path)}: there is no such file.")
    try:
        return decode_image(path)
    except OSError as error:
        raise UsageError(
            f"{printable(path)} cannot be opened: {error.strerror or error}."
        ) from None


def _one(image: Any) -> np.ndarray:
    if isinstance(image, (str, os.PathLike)):
        return _of_file(Path(image))
    if isinstance(image, Image.Image):
        try:
            return to_rgb(image)
        except OSError as error:  # Pillow reads the file when the pixels are first used
            raise UsageError(f"expected a complete Pillow image. Received: {error}.") from error
    if not _is_array(image):
        raise UsageError(f"{_EXPECTED}. Received: a list of {type(image).__name__}.")
    array = _array(image)
    if array.ndim not in (2, 3):
        raise UsageError(
            f"expected a list of single images. Received: {array.dtype} {array.shape}."
        )
    return _of_array(array)[0]


def _of_file(path: Path) -> np.ndarray:
    try:
        return decode_image(path)
    except IsADirectoryError:
        reader = "keras_vit.data.image_folder reads folders"
        raise UsageError(f"{printable(path)}: expected a picture; {reader}.") from None
    except OSError as error:
        raise UsageError(f"{printable(path)}: {error.strerror or error}.") from error


def _files_of(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    pictures = sorted(
        file
        for file in path.rglob("*")
        if file.suffix.lower() in EXTENSIONS
        and not any(part.startswith(".") for part in file.relative_to(path).parts)
        and file.is_file()
    )
    if not pictures:
        raise UsageError(f"{printable(path)} contains no pictures ({', '.join(EXTENSIONS)}).")
    return pictures


def _of_array(array: np.ndarray) -> list[np.ndarray]:
    """An image (height, width) or (height, width, channels), or a batch of the latter."""
    if array.ndim == 2:
        array = array[..., None]
    if array.ndim not in (3, 4) or array.shape[-1] not in _CHANNELS:
        raise UsageError(
            "expected pixels (height, width, channels) or (n, height, width, channels) with 1, 3 "
            f"or 4 channels. Received: {array.dtype} {array.shape}; channels come last, and a "
            "batch of grey images needs them too (x[..., None])."
        )
    array = _levels(array)
    images = list(array) if array.ndim == 4 else [array]
    if array.shape[-1] == 3:
        return images
    # In Pillow, grey images are (height, width).
    return [to_rgb(Image.fromarray(i[..., 0] if i.shape[-1] == 1 else i)) for i in images]


def _levels(array: np.ndarray) -> np.ndarray:
    """Numbers from 0 to 255, rounded to uint8."""
    if array.shape[0] and 0 in array.shape:
        raise UsageError(f"expected an image with pixels. Received: {array.dtype} {array.shape}.")
    if array.dtype == np.uint8 or array.size == 0:
        return array.astype(np.uint8)
    if array.dtype.kind not in "uif":
        raise UsageError(f"expected pixels from 0 to 255. Received: {array.dtype}.")
    least, most = array.min(), array.max()
    if not (least >= 0 and most <= 255):
        raise UsageError(
            f"expected pixels from 0 to 255. Received: {array.dtype} from {least:g} to {most:g}."
        )
    # Only integers from 0 to 1 could be a nearly black picture.
    if array.dtype.kind == "f" and 0 < most <= 1 and (array != np.rint(array)).any():
        raise UsageError(
            f"expected pixels from 0 to 255. Received: {array.dtype} from {least:g} to {most:g}; "
            "multiply by 255."
        )
    return np.rint(array).astype(np.uint8)


def _is_array(value: Any) -> bool:
    return hasattr(value, "__array__") or hasattr(value, "detach")


def _array(value: Any) -> np.ndarray:
    try:
        # torch's tensors may be on a GPU and have gradients.
        return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
    except Exception as error:  # symbolic tensors; each library raises a different error
        raise UsageError(f"{_EXPECTED}. Received: {type(value).__name__}.") from error
