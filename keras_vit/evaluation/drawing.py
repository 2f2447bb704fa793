"""What all drawings share: matplotlib's settings, figures, and their bytes as SVG or PNG."""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
from PIL import Image

from keras_vit._errors import MissingPackageError
from keras_vit._quiet import ignore_warning

_SETTINGS = {
    # Text stays text, for the browser's fonts, and a $ does not start a formula.
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.size": 10,
    # The same data give the same bytes.
    "svg.hashsalt": "keras_vit",
}
# Of figures with pictures or colour scales, whose colours a dark page cannot invert: their text is
# legible on white and on a dark page.
_ON_ANY_PAGE = {
    **dict.fromkeys(("figure.facecolor", "axes.facecolor"), "none"),
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor"), "#747b84"),
    **dict.fromkeys(("xtick.color", "ytick.color"), "#747b84"),
}
_lock = threading.Lock()


@contextlib.contextmanager
def own_settings(on_any_page: bool = False) -> Iterator[None]:
    """Matplotlib's settings belong to the whole process: one drawing at a time changes them.

    Only these settings are restored; others may have been changed by another thread.

    Args:
        on_any_page: draws on a transparent ground, with grey text.
    """
    settings = {**_SETTINGS, **(_ON_ANY_PAGE if on_any_page else {})}
    try:
        import matplotlib
    except ImportError:
        raise MissingPackageError("plots need matplotlib: pip install 'keras_vit[train]'") from None
    with _lock:
        before = {name: matplotlib.rcParams[name] for name in settings}
        matplotlib.rcParams.update(settings)
        try:
            yield
        finally:
            matplotlib.rcParams.update(before)


def new_figure(width: float, height: float) -> Any:
    """A figure of this size in inches; CSS and SVG have 96 pixels in an inch."""
    from matplotlib.figure import Figure

    return Figure((width, height), layout="constrained")


def as_svg(figure: Any) -> bytes:
    """The figure as SVG; the same data give the same bytes."""
    stream = io.BytesIO()
    # Fonts missing on this machine do not matter, because the browser draws the text.
    ignore_warning("Glyph .* missing from font", __name__)
    figure.savefig(stream, format="svg", metadata={"Date": None})  # no date: the same bytes
    return stream.getvalue()


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
