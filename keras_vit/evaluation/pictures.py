"""Pictures in pages: their size, what of them the model attends to, and their bytes as PNG."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image


def as_png(image: Image.Image) -> bytes:
    """The image as PNG."""
    stream = io.BytesIO()
    image.save(stream, "PNG", optimize=True)
    return stream.getvalue()


def resized(image: Image.Image, side: int) -> Image.Image:
    """The image with a long side of `side` pixels; tiny images are enlarged in blocks."""
    ratio = side / max(image.size)
    size = tuple(max(round(length * ratio), 1) for length in image.size)
    method = Image.Resampling.NEAREST if ratio > 2 else Image.Resampling.BICUBIC
    return image.resize(size, method)


def glowing(image: Image.Image, attention: np.ndarray) -> Image.Image:
    """The image, darkened where `attention` (rows, columns) in [0, 1] is low.

    There it fades to dark blue, so that attention is visible on black pictures too.
    """
    mask = Image.fromarray(attention.astype(np.float32)).resize(
        image.size, Image.Resampling.BICUBIC
    )
    level = np.clip(np.asarray(mask), 0, 1)[..., None]
    light = 0.15 + 0.85 * level
    ground = np.array([12, 20, 60], np.float32)
    glow = np.array([255, 190, 70], np.float32) * 0.35 * level
    mixed = np.asarray(image, np.float32) * light + ground * (1 - light) + glow
    return Image.fromarray(mixed.clip(0, 255).astype(np.uint8))
