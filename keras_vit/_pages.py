"""Pages and cards from the jinja2 templates beside the code that fills them in; their figures."""

from __future__ import annotations

import base64
import contextlib
import functools
import io
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_vit._errors import naming_install
from keras_vit._quiet import ignore_warning

BLUE, GREY = "#2a6fbb", "#8a8f98"
_SETTINGS = {
    # Text stays text, for the browser's fonts, and a $ does not start a formula.
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.size": 10,
    # The same data give the same bytes.
    "svg.hashsalt": "keras_vit",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
}
# Of figures with pictures or colour scales, whose colours a dark page cannot invert: their text is
# legible on white and on a dark page.
_ON_ANY_PAGE = {
    **dict.fromkeys(("figure.facecolor", "axes.facecolor"), "none"),
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor"), "#747b84"),
    **dict.fromkeys(("xtick.color", "ytick.color"), "#747b84"),
}
_lock = threading.Lock()


def rendered(template: str, **values: Any) -> str:
    """A template with its values.

    In HTML, all values are escaped. In Markdown, texts from outside, such as the names of classes,
    need the filter `code`.

    Args:
        template: its path in keras_vit, such as "evaluation/report.html.j2".
        values: the values by their names in the template; a missing one is an error.
    """
    return _environment().get_template(template).render(values)


def code(text: Any) -> str:
    """Any text as a code span of one line, so that nothing in it is markup, a link or a mention."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split()) or "?"
    fence = "`" * (max(map(len, re.findall("`+", plain)), default=0) + 1)
    pad = " " if "`" in (plain[0], plain[-1]) else ""
    return f"{fence}{pad}{plain}{pad}{fence}"


@contextlib.contextmanager
def own_settings(on_any_page: bool = False) -> Iterator[None]:
    """Matplotlib's settings belong to the whole process: one drawing at a time changes them.

    Only these settings are restored; others may have been changed by another thread.

    Args:
        on_any_page: draws on a transparent ground, with grey text.
    """
    settings = {**_SETTINGS, **(_ON_ANY_PAGE if on_any_page else {})}
    with naming_install("plots need matplotlib"):
        import matplotlib.figure
    with _lock:
        before = {name: matplotlib.rcParams[name] for name in settings}
        matplotlib.rcParams.update(settings)
        try:
            yield
        finally:
            matplotlib.rcParams.update(before)


def subplots(width: float, height: float, *grid: int, **settings: Any) -> tuple[Any, Any]:
    """As `pyplot.subplots`: a figure of this size in inches, and its axes.

    CSS and SVG have 96 pixels in an inch.
    """
    import matplotlib.figure

    figure = matplotlib.figure.Figure((width, height), layout="constrained")
    return figure, figure.subplots(*grid, **settings)


def short_name(text: str, longest: int = 18) -> str:
    """A text for which there is little room: at most `longest` characters."""
    return text if len(text) <= longest else f"{text[: longest - 1]}\u2026"


def as_svg(figure: Any) -> bytes:
    """The figure as SVG; the same data give the same bytes."""
    return _saved(figure, format="svg", metadata={"Date": None})


def as_png(figure: Any) -> bytes:
    """The figure as PNG; the same data give the same bytes."""
    return _saved(figure, format="png", metadata={"Software": None}, dpi=144)


@functools.cache
def _environment() -> Any:
    with naming_install("pages and cards need Jinja2"):
        import jinja2
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=lambda name: name.endswith(".html.j2"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "code": code,
        "cell": lambda text: str(text).replace("|", "\\|"),  # of a Markdown table
        "json": json.dumps,
        "number": "{:,}".format,
        "percent": "{:.2%}".format,
        "as": format,
        "data_url": _data_url,
    }
    return environment


def _data_url(content: bytes, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _saved(figure: Any, **settings: Any) -> bytes:
    stream = io.BytesIO()
    # Fonts missing on this machine do not matter in SVG, because the browser draws the text.
    ignore_warning("Glyph .* missing from font", __name__)
    figure.savefig(stream, **settings)
    return stream.getvalue()
