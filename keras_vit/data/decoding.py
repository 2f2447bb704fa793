"""A picture file to a uint8 RGB array, whatever a camera or a scraper made of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

_FORMATS = ("JPEG", "PNG")


def decode_image(path: Path) -> np.ndarray:
    """Decodes a JPEG or PNG of any mode to uint8 (height, width, 3).

    The camera's EXIF rotation is applied, transparent pixels are laid over white, 16-bit grey is
    scaled to 8 bits.

    Raises:
        OSError, ValueError: the file is not a whole JPEG or PNG, or claims absurdly many pixels.
    """
    with _open(path) as image:
        image = ImageOps.exif_transpose(image)
        if image.mode.startswith("I"):
            image = Image.fromarray((np.asarray(image) >> 8).clip(0, 255).astype(np.uint8))
        if image.has_transparency_data:
            image = image.convert("RGBA")
            white = Image.new("RGBA", image.size, "white")
            image = Image.alpha_composite(white, image)
        return np.asarray(image.convert("RGB"))


def check_image(path: Path) -> str:
    """Why `path` cannot be decoded, or "" if it can: the whole file is read."""
    try:
        if path.stat().st_size == 0:
            return "the file is empty"
        with _open(path) as image:
            image.draft("RGB", (1, 1))  # a JPEG's coefficients are read but not all transformed
            image.load()
    except Image.UnidentifiedImageError:
        return "not a JPEG or PNG image"
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        return str(error) or type(error).__name__
    return ""


def _open(path: Path) -> Image.Image:
    # Pillow itself refuses what claims more than 179 million pixels.
    return Image.open(path, formats=_FORMATS)
