"""A plot of the size and the latency of files against their accuracy."""

from __future__ import annotations

import itertools
from typing import Any

from keras_vit._figures import BLUE, GREY, as_png, own_settings, subplots
from keras_vit.tflite.measure import Measured

_COLOURS = (BLUE, "#c2621a", "#3a8f4d", "#b23a48", "#7b5ea7", "#8c6239", "#c2569b", "#4f6d7a")
_MARKERS = "os^DvP*"
_MAX_NAME = 24  # characters


@own_settings()
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
    return as_png(draw(descriptions, measured))


def draw(descriptions: dict[str, dict[str, Any]], measured: dict[str, Measured]) -> Any:
    """The matplotlib figure of `plot`."""
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
        title: {n: x for n, x in costs.items() if n in heights and x is not None}
        for title, costs in _costs(descriptions, measured).items()
    }
    panels = {title: costs for title, costs in panels.items() if costs}
    styles = dict(zip(heights, map(_style, itertools.count()), strict=False))
    figure, (axes,) = subplots(5.5 * len(panels), 4, 1, len(panels), sharey=True, squeeze=False)
    for axis, (title, costs) in zip(axes, panels.items(), strict=True):
        for name, cost in costs.items():
            axis.plot(cost, heights[name], label=_short(name), **styles[name])
        for line in lines:
            axis.axhline(line, color=GREY, linestyle="--", linewidth=1, zorder=1)
        axis.set(xlabel=title, xlim=(0, 1.1 * max(costs.values())))
    _set_heights(axes[0], [*heights.values(), *lines])
    axes[0].set_ylabel(f"{metric}, %{' (dashed: Keras)' if lines else ''}")
    figure.legend(handles=axes[0].lines[: len(heights)], loc="outside right upper")
    return figure


def _style(i: int) -> dict[str, Any]:
    """Open markers of several shapes: files with equal figures do not hide each other."""
    return {
        "color": _COLOURS[i % len(_COLOURS)],
        "marker": _MARKERS[i % len(_MARKERS)],
        "linestyle": "",
        "markersize": 9,
        "markerfacecolor": "none",
        "markeredgewidth": 1.8,
        "zorder": 3,
    }


def _set_heights(axis: Any, heights: list[float]) -> None:
    # Differences of a few tenths of a point are noise; the axis must not magnify them.
    pad = max(0.2 * (max(heights) - min(heights)), 0.5)
    bottom, top = min(heights) - pad, max(heights) + pad
    axis.set_ylim(bottom, top)
    axis.set_yticks([tick for tick in axis.get_yticks() if bottom < tick <= min(top, 100)])
    axis.ticklabel_format(useOffset=False)


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


def _short(name: str) -> str:
    plain = "".join(c if c.isprintable() else "?" for c in name)
    return plain if len(plain) <= _MAX_NAME else plain[: _MAX_NAME - 1] + "\u2026"
