"""A picture of what files cost against what they are worth."""

from __future__ import annotations

import io
import itertools
import logging
import warnings
from typing import Any, NamedTuple

import numpy as np

from keras_vit._errors import MissingPackageError
from keras_vit.deploy.judge.measure import Measured

_GREY = "#8a8f98"
_COLOURS = ("#2a6fbb", "#c2621a", "#3a8f4d", "#b23a48", "#7b5ea7", "#8c6239", "#c2569b", "#4f6d7a")
_LONGEST = 24  # characters of a name


def plot(descriptions: dict[str, dict[str, Any]], measured: dict[str, Measured]) -> bytes:
    """Size and latency against accuracy; where that does not count agreement, or the cosine.

    Args:
        descriptions: what each bundle's model.json says, by the name of its folder.
        measured: what each costs, by the same names; one may be missing.

    Returns:
        A PNG, the same for the same figures.

    Raises:
        ImportError: matplotlib is not installed.
    """
    stream = io.BytesIO()
    with warnings.catch_warnings():
        # A name in a script that this machine has no font for.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        draw(descriptions, measured).savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()


def draw(descriptions: dict[str, dict[str, Any]], measured: dict[str, Measured]) -> Any:
    """The matplotlib figure of `plot`; its names overlap neither each other nor a point."""
    parities = {name: description["parity"] for name, description in descriptions.items()}
    counts = any(parity.get("informed", True) for parity in parities.values())
    worth = next(
        figure
        for figure in (*(["accuracy"] if counts else []), "agreement", "cosine")
        if any(parity.get(figure) is not None for parity in parities.values())
    )
    heights = {n: 100 * p[worth] for n, p in parities.items() if p.get(worth) is not None}
    keras = {p.get("keras_accuracy") for p in parities.values() if worth == "accuracy"} - {None}
    lines = sorted(100 * accuracy for accuracy in keras)
    panels = {
        title: [
            _Point(_short(name), x, heights[name], colour)
            for (name, x), colour in zip(values.items(), itertools.cycle(_COLOURS), strict=False)
            if name in heights and x is not None
        ]
        for title, values in _costs(descriptions, measured).items()
    }
    panels = {title: points for title, points in panels.items() if points}
    figure = _figure(5.5 * len(panels), 4)
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axis, (title, points) in zip(axes, panels.items(), strict=True):
        _panel(axis, title, points, [*heights.values(), *lines], lines)
    axes[0].set_ylabel(f"{worth}, %{' (dashed: Keras)' if lines else ''}")
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # names shall not push the axes about
    for axis, points in zip(axes, panels.values(), strict=True):
        _label(axis, points, lines)
    return figure


class _Point(NamedTuple):
    name: str
    x: float
    y: float
    colour: str


def _costs(
    descriptions: dict[str, dict[str, Any]], measured: dict[str, Measured]
) -> dict[str, dict[str, float | None]]:
    """What stands on the horizontal axes: its title and the value of each file."""
    threads = max((entry.threads for m in measured.values() for entry in m.latency), default=0)
    times = {
        name: entry.median_ms
        for name, m in measured.items()
        for entry in m.latency
        if entry.threads == threads
    }
    return {
        "size, MiB": {n: description["bytes"] / 2**20 for n, description in descriptions.items()},
        f"latency of an image, ms, {threads} thread{'' if threads == 1 else 's'}": {
            name: times.get(name) for name in descriptions
        },
    }


def _panel(
    axis: Any, title: str, points: list[_Point], heights: list[float], lines: list[float]
) -> None:
    for point in points:
        axis.plot(
            point.x,
            point.y,
            "o",
            color=point.colour,
            markersize=8,
            markeredgecolor="white",
            zorder=3,
        )
    for line in lines:
        axis.axhline(line, color=_GREY, linestyle="--", linewidth=1, zorder=1)
    # Differences of a few tenths of a point are noise, and shall look like it.
    pad = max(0.2 * (max(heights) - min(heights)), 0.5)
    axis.set_xlim(0, 1.2 * max(point.x for point in points))
    bottom, top = min(heights) - pad, max(heights) + pad
    axis.set_ylim(bottom, top)
    axis.set_yticks([tick for tick in axis.get_yticks() if bottom < tick <= min(top, 100)])
    axis.ticklabel_format(useOffset=False)
    axis.set_xlabel(title)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.25)


def _label(axis: Any, points: list[_Point], lines: list[float]) -> None:
    """Names each point where there is room: beside it, or above or below as a flag on a pole."""
    pixels, to_pixels = axis.figure.dpi / 72, axis.transData.transform
    # From the right, so that a pole passes the names that start further right.
    points = sorted(points, key=lambda point: -point.x)
    dots = [to_pixels((point.x, point.y)) for point in points]
    solid = [_box(*(dot - _DOT * pixels), *(dot + _DOT * pixels)) for dot in dots]
    heights = [to_pixels((0, line))[1] for line in lines]
    rules = [_box(axis.bbox.x0, y - pixels, axis.bbox.x1, y + pixels) for y in heights]
    poles = np.empty((0, 2))
    for point, dot in zip(points, dots, strict=True):
        for place in _PLACES:
            note, pole = _note(axis, point, place), _pole(dot, place, pixels)
            name = note.get_window_extent().padded(pixels)
            if (
                axis.bbox.count_contains(name.corners()) == 4
                and not name.count_overlaps([*solid, *rules])
                and not name.count_contains(poles)
                and not sum(other.count_contains(pole) for other in solid)
            ):
                break
            note.remove()
        else:
            note, pole = _note(axis, point, _PLACES[0]), _pole(dot, _PLACES[0], pixels)
        solid.append(name)
        poles = np.concatenate([poles, pole])
        ends = axis.transData.inverted().transform([dot, *pole[-1:]])
        axis.plot(*ends.T, color=point.colour, linewidth=0.8)


class _Place(NamedTuple):
    """Where a name stands, in typographic points from the middle of its dot."""

    right: float
    up: float
    ha: str
    va: str


_DOT, _NEAR, _LINE = 5, 8, 13  # half a dot's width, the distance to a name, the height of a name
_PLACES = [
    _Place(_NEAR, 0, "left", "center"),
    _Place(-_NEAR, 0, "right", "center"),
    *(  # as flags, which poles on their left can pass
        _Place(right, up, ha, "bottom" if up > 0 else "top")
        for ha, right in (("left", 3), ("right", -3))
        for distance in range(_NEAR, 200, _LINE)
        for up in (distance, -distance)
    ),
]


def _note(axis: Any, point: _Point, place: _Place) -> Any:
    return axis.annotate(
        point.name,
        (point.x, point.y),
        (place.right, place.up),
        textcoords="offset points",
        ha=place.ha,
        va=place.va,
        color=point.colour,
        fontsize=9,
        parse_math=False,
    )


def _pole(dot: np.ndarray, place: _Place, pixels: float) -> np.ndarray:
    """Pixels (n, 2) of the pole that carries a name, from its dot; none where it stands beside."""
    if not place.up:
        return np.empty((0, 2))
    top = place.up + np.sign(place.up) * (_LINE - 3)
    steps = np.linspace(np.sign(place.up) * (_DOT + 1), top, 50) * pixels
    return dot + np.stack([np.zeros(50), steps], axis=1)


def _short(name: str) -> str:
    plain = "".join(c if c.isprintable() else "?" for c in name)
    return plain if len(plain) <= _LONGEST else plain[: _LONGEST - 1] + "\u2026"


def _box(*corners: float) -> Any:
    from matplotlib.transforms import Bbox

    return Bbox.from_extents(*corners)


def _figure(width: float, height: float) -> Any:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingPackageError("plots need matplotlib: pip install 'keras_vit[train]'") from None
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    figure = Figure((width, height), dpi=144, layout="constrained")
    FigureCanvasAgg(figure)
    return figure
