"""A folder of predicted masks, of their pictures under them, and a page of all."""

from __future__ import annotations

import collections
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from keras_vit import _files
from keras_vit._pages import rendered
from keras_vit.evaluation import plots
from keras_vit.labels import write_labels

_SIDES = 256, 1024  # pixels, of the long side of a picture under its mask
_OTHERS = "#e0e0c0"  # of no class, as PASCAL VOC's


def names_of(pictures: Sequence[str | os.PathLike]) -> list[str]:
    """A name for each picture's mask: its path in the folder of all, without its suffix.

    Two pictures of one name, such as a.jpg and a.png, keep their suffixes.
    """
    files = [_printable(os.path.abspath(picture)) for picture in pictures]
    folder = os.path.commonpath([os.path.dirname(file) for file in files])
    paths = [os.path.relpath(file, folder) for file in files]
    short = [os.path.splitext(path)[0] for path in paths]
    # Some file systems do not tell A from a.
    counts = collections.Counter(os.path.splitext(path)[0].lower() for path in set(paths))
    names = [
        path if counts[name.lower()] > 1 else name for path, name in zip(paths, short, strict=True)
    ]
    # a.jpg.bmp would be another a.jpg.
    is_clear = len({name.lower() for name in names}) == len(set(paths))
    return names if is_clear else paths


def _printable(path: str) -> str:
    """The path with a "?" for each byte that is not UTF-8, which no page can have."""
    return path.encode("utf-8", "replace").decode()


def write_mask(
    folder: Path, name: str, image: np.ndarray, mask: np.ndarray, labels: Sequence[str]
) -> None:
    """Writes masks/NAME.png and overlays/NAME.jpg.

    The mask is a PNG with a palette, whose values are the classes; it can be trained on.

    Args:
        folder: where the folders are made.
        name: of the picture, from `names_of`.
        image: uint8 (height, width, 3).
        mask: the class of each pixel, uint8 (height, width); 255 for none.
        labels: the names of the classes.
    """
    side = min(max(*mask.shape, _SIDES[0]), _SIDES[1])
    overlay = Image.fromarray(plots.under_mask(image, mask, labels, side))
    for path, picture in (
        (folder / "masks" / f"{name}.png", _with_palette(mask, labels)),
        (folder / "overlays" / f"{name}.jpg", overlay),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        picture.save(path, quality=90)  # which PNG ignores


def write_page(
    folder: Path,
    title: str,
    pictures: Sequence[tuple[str, list[tuple[str, float]]]],
    labels: Sequence[str],
) -> None:
    """Writes labels.txt and masks.html, which shows the pictures under their masks.

    Args:
        folder: that of `write_mask`.
        title: of the page.
        pictures: the names, with the shares of the classes from `shares_of`.
        labels: the names of the classes.
    """
    write_labels(folder / "labels.txt", labels)
    found = {label for _, shares in pictures for label, _ in shares}
    colours = [each for each in plots.class_colours(labels) if each[0] in found]
    values: dict[str, Any] = {"title": title, "pictures": pictures, "colours": colours}
    page = rendered("evaluation/masks.html.j2", facts={"Pictures": len(pictures)}, **values)
    _files.write_text(folder / "masks.html", page)


def _with_palette(mask: np.ndarray, labels: Sequence[str]) -> Image.Image:
    """The mask as a picture whose values are the classes."""
    colours = [colour for _, colour in plots.class_colours(labels)]
    colours += [_OTHERS] * (256 - len(colours))
    picture = Image.fromarray(mask)
    picture.putpalette(bytes.fromhex("".join(colours).replace("#", "")))
    return picture
