"""A plot of the size and the latency of files against their accuracy."""

from __future__ import annotations

import io
import itertools
from typing import Any, NamedTuple

import numpy as np

from keras_vit._errors import MissingPackageError
from keras_vit._quiet import ignore_warning
from keras_vit.deploy.judge.measure import Measured

_GREY = "#8a8f98"
_COLOURS = ("#2a6fbb", "#c2621a", "#3a8f4d", "#b23a48", "#7b5ea7", "#8c6239", "#c2569b", "#4f6d7a")
_MAX_NAME = 24  # characters


def plot(descriptions: dict[str, dict[str, Any]], measured: dict[str, Measured]) -> bytes:
    """Plots size and latency against accuracy; without accuracy, against agreement or cosine.

    Args:
        descriptions: the model.json of each bundle, by the name of its folder.
        measured: the measurements of each file, by the same names; some may be missing.

    Returns:
        A PNG. The same arguments give the same bytes.

    Raises:
        ImportError: matplotlib is not installed.
    """
    stream = io.BytesIO()
    # This machine may have no font for the script of a name.
    ignore_warning("Glyph .* missing from font", __name__)
    draw(descriptions, measured).savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()


def draw(descriptions: dict[str, dict[str, Any]], measured: dict[str, Measured]) -> Any:
    """The matplotlib figure of `plot`; names overlap neither each other nor a point."""
    parities = {name: description["parity"] for name, description in descriptions.items()}
    accuracy_counts = any(parity.get("informed", True) for parity in parities.values())
    metric = next(
        candidate
        for candidate in (*(["accuracy"] if accuracy_counts else []), "agreement", "cosine")
        if any(parity.get(candidate) is not None for parity in parities.values())
    )
    heights = {n: 100 * p[metric] for n, p in parities.items() if p.get(metric) is not None}
    keras = {p.get("keras_accuracy") for p in parities.values() if metric == "accuracy"} - {None}
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
    axes[0].set_ylabel(f"{metric}, %{' (dashed: Keras)' if lines else ''}")
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # otherwise the names would move the axes
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
    """The title of each horizontal axis, and the value of each file on it."""
    threads = max((entry.threads for m in measured.values() for entry in m.latency), default=0)
    times = {
        name: entry.median_ms
        for name, m in measured.items()
        for entry in m.latency
        if entry.threads == threads
    }
    return {
        "size, MiB": {n: description["bytes"] / 2**20 for n, description in descriptions.items()},
        f"latency per image, ms, {threads} thread{'' if threads == 1 else 's'}": {
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
    # Differences of a few tenths of a point are noise; the axis must not magnify them.
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
    """Labels each point: beside it or, without room there, above or below with a leader line."""
    pixels, to_pixels = axis.figure.dpi / 72, axis.transData.transform
    # From right to left, so that a leader line does not cross names further to the right.
    points = sorted(points, key=lambda point: -point.x)
    dots = [to_pixels((point.x, point.y)) for point in points]
    occupied = [_box(*(dot - _DOT * pixels), *(dot + _DOT * pixels)) for dot in dots]
    heights = [to_pixels((0, line))[1] for line in lines]
    dashed = [_box(axis.bbox.x0, y - pixels, axis.bbox.x1, y + pixels) for y in heights]
    leaders = np.empty((0, 2))
    for point, dot in zip(points, dots, strict=True):
        for place in _PLACES:
            note, leader = _note(axis, point, place), _leader(dot, place, pixels)
            name = note.get_window_extent().padded(pixels)
            if (
                axis.bbox.count_contains(name.corners()) == 4
                and not name.count_overlaps([*occupied, *dashed])
                and not name.count_contains(leaders)
                and not sum(other.count_contains(leader) for other in occupied)
            ):
                break
            note.remove()
        else:
            note, leader = _note(axis, point, _PLACES[0]), _leader(dot, _PLACES[0], pixels)
        occupied.append(name)
        leaders = np.concatenate([leaders, leader])
        ends = axis.transData.inverted().transform([dot, *leader[-1:]])
        axis.plot(*ends.T, color=point.colour, linewidth=0.8)


class _Place(NamedTuple):
    """The position of a name relative to the centre of its dot, in typographic points."""

    right: float
    up: float
    ha: str
    va: str


_DOT, _NEAR, _LINE = 5, 8, 13  # radius of a dot, distance to its name, height of a name
_PLACES = [
    _Place(_NEAR, 0, "left", "center"),
    _Place(-_NEAR, 0, "right", "center"),
    *(  # above or below: the leader lines of points further left pass beside it
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


def _leader(dot: np.ndarray, place: _Place, pixels: float) -> np.ndarray:
    """Pixels (n, 2) on the line from a dot to its name; none for a name beside its dot."""
    if not place.up:
        return np.empty((0, 2))
    top = place.up + np.sign(place.up) * (_LINE - 3)
    steps = np.linspace(np.sign(place.up) * (_DOT + 1), top, 50) * pixels
    return dot + np.stack([np.zeros(50), steps], axis=1)


def _short(name: str) -> str:
    plain = "".join(c if c.isprintable() else "?" for c in name)
    return plain if len(plain) <= _MAX_NAME else plain[: _MAX_NAME - 1] + "\u2026"


def _box(*corners: float) -> Any:
    from matplotlib.transforms import Bbox

    return Bbox.from_extents(*corners)


def _figure(width: float, height: float) -> Any:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingPackageError("plots need matplotlib: pip install 'keras_vit[train]'") from None
    figure = Figure((width, height), dpi=144, layout="constrained")
    FigureCanvasAgg(figure)
    return figure
