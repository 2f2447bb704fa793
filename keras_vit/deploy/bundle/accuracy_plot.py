"""A plot of the size and the latency of files against their accuracy."""

from __future__ import annotations

from itertools import cycle
from typing import Any

from keras_vit._pages import BLUE, GREY, as_png, own_settings, short_name, subplots
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
    grade_counts = any(parity.get("informed", True) for parity in parities.values())
    metrics = ("mean_iou", "accuracy") if grade_counts else ()
    metrics += ("agreement", "cosine")
    metric = next(m for m in metrics if any(p.get(m) is not None for p in parities.values()))
    heights = {n: 100 * p[metric] for n, p in parities.items() if p.get(metric) is not None}
    keras = {p.get(f"keras_{metric}") for p in parities.values()} - {None}
    lines = sorted(100 * value for value in keras)
    panels = _costs({name: descriptions[name]["bytes"] for name in heights}, measured)
    # Open markers of several shapes: files with equal figures do not hide each other.
    looks = dict(zip(heights, zip(cycle(_COLOURS), cycle(_MARKERS), strict=False), strict=False))
    opened = {"markersize": 9, "markerfacecolor": "none", "markeredgewidth": 1.8}
    figure, (axes,) = subplots(5.5 * len(panels), 4, 1, len(panels), sharey=True, squeeze=False)
    for axis, (title, costs) in zip(axes, panels.items(), strict=True):
        for name, cost in costs.items():
            (colour, marker), label = looks[name], _short(name)
            axis.plot(cost, heights[name], marker, color=colour, label=label, zorder=3, **opened)
        for line in lines:
            axis.axhline(line, color=GREY, linestyle="--", linewidth=1, zorder=1)
        axis.set(xlabel=title, xlim=(0, 1.1 * max(costs.values())))
    _set_heights(axes[0], [*heights.values(), *lines])
    named = {"mean_iou": "mean IoU"}.get(metric, metric)
    axes[0].set_ylabel(f"{named}, %{' (dashed: Keras)' if lines else ''}")
    figure.legend(handles=axes[0].lines[: len(heights)], loc="outside right upper")
    return figure


def _set_heights(axis: Any, heights: list[float]) -> None:
    # Differences of a few tenths of a point are noise; the axis must not magnify them.
    pad = max(0.2 * (max(heights) - min(heights)), 0.5)
    bottom, top = min(heights) - pad, max(heights) + pad
    axis.set_ylim(bottom, top)
    axis.set_yticks([tick for tick in axis.get_yticks() if bottom < tick <= min(top, 100)])
    axis.ticklabel_format(useOffset=False)


def _costs(sizes: dict[str, int], measured: dict[str, Measured]) -> dict[str, dict[str, float]]:
    """The title of each horizontal axis, and the values of files on it."""
    threads = max((entry.threads for m in measured.values() for entry in m.latency), default=0)
    times = {
        name: entry.median_ms
        for name in sizes
        if name in measured
        for entry in measured[name].latency
        if entry.threads == threads
    }
    title = f"latency per image, ms, {threads} thread{'' if threads == 1 else 's'}"
    panels = {"size, MiB": {name: size / 2**20 for name, size in sizes.items()}}
    return panels | ({title: times} if times else {})


def _short(name: str) -> str:
    return short_name("".join(c if c.isprintable() else "?" for c in name), _MAX_NAME)
