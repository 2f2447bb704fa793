"""Plots and pictures; each function returns the bytes of an SVG or a PNG."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from keras_vit._figures import BLUE, GREY, as_svg, new_figure, own_settings
from keras_vit.evaluation.pictures import as_png, glowing, resized

_DARK_TO_LIGHT = ("#14243a", BLUE, "#d9772b", "#7a4fa0", GREY)


@own_settings()
def curve(metrics: list[dict[str, Any]], name: str) -> bytes:
    """The "loss" or "accuracy" by step, for training and held-out images, as SVG.

    A training that was stopped before an evaluation has no training metrics for that epoch, which
    leaves a gap.
    """
    figure = new_figure(4.5, 3.2)
    axis = figure.subplots()
    steps = [record["step"] for record in metrics]
    marker = "o" if len(steps) == 1 else None
    for key, label, color in ((name, "training", GREY), (f"val_{name}", "held out", BLUE)):
        values = [record.get(key, math.nan) for record in metrics]
        axis.plot(steps, values, color=color, label=label, marker=marker)
    axis.set(xlabel="steps", title=name)
    _whole_numbers(axis)
    axis.legend()
    return as_svg(figure)


@own_settings()
def confusion(matrix: list[list[int]], labels: tuple[str, ...]) -> bytes:
    """The confusion matrix as SVG; rows are true classes, columns predicted classes."""
    counts = np.array(matrix)
    fractions = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    side = min(max(3.0, 0.42 * len(labels) + 1.5), 14)
    figure = new_figure(side, side)
    axis = figure.subplots()
    axis.imshow(fractions, cmap="Blues", vmin=0, vmax=1)
    axis.set(xlabel="predicted", ylabel="true")
    if len(labels) <= 40:
        names = [name if len(name) <= 18 else name[:17] + "\u2026" for name in labels]
        turn = 0 if max(map(len, names)) <= 2 else 90
        axis.set_xticks(range(len(labels)), names, rotation=turn)
        axis.set_yticks(range(len(labels)), names)
    if len(labels) <= 25:
        for (row, column), count in np.ndenumerate(counts):
            if count:
                color = "white" if fractions[row, column] > 0.5 else "black"
                axis.text(column, row, str(count), ha="center", va="center", color=color)
    axis.spines[:].set_visible(False)
    axis.grid(visible=False)
    return as_svg(figure)


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of a diagram: its name, its points, and the deviation of each point if known."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    deviation: Sequence[float] | None = None


@own_settings()
def lines(panels: Sequence[tuple[dict[str, Any], Sequence[Line]]]) -> bytes:
    """Diagrams side by side as SVG; the same line has the same style in each.

    Lines differ in dashes, markers and lightness, so that they can be told apart in grey.

    Args:
        panels: for each diagram the settings of its axes (title, xlabel, ylabel, xscale), and its
            lines.
    """
    figure = new_figure(4.6 * len(panels), 3.6)
    axes = figure.subplots(1, len(panels), squeeze=False)
    names = list(dict.fromkeys(line.name for _, of_panel in panels for line in of_panel))
    for axis, (settings, of_panel) in zip(axes[0], panels, strict=True):
        for line in of_panel:
            # Few markers on a long line.
            style = _style(names.index(line.name)) | {"markevery": max(len(line.x) // 8, 1)}
            bars = {"yerr": line.deviation, "capsize": 3} if line.deviation is not None else {}
            axis.errorbar(line.x, line.y, label=line.name, **style, **bars)
        axis.set(**settings)
        if settings.get("xscale") == "log":
            _plain_numbers(axis)
        elif all(isinstance(x, int) for line in of_panel for x in line.x):
            _whole_numbers(axis)
    axes[0][0].legend()
    return as_svg(figure)


@own_settings()
def dots(groups: Sequence[tuple[str, Sequence[float]]], xlabel: str) -> bytes:
    """A row for each group as SVG: a small ring for each value and a large dot for their mean.

    Args:
        groups: names and values, from top to bottom.
        xlabel: what the values are, with their unit.
    """
    figure = new_figure(7.5, 0.9 + 0.34 * len(groups))
    axis = figure.subplots()
    for row, (_, values) in enumerate(groups):
        axis.scatter(values, [row] * len(values), s=26, facecolors="none", edgecolors=GREY)
        axis.scatter([np.mean(values)], [row], s=44, color=BLUE, zorder=3)
    axis.set_yticks(range(len(groups)), [name for name, _ in groups])
    axis.set(xlabel=xlabel, ylim=(len(groups) - 0.5, -0.5))
    axis.grid(visible=False, axis="y")
    return as_svg(figure)


def _plain_numbers(axis: Any) -> None:
    """Numbers such as 2,000 on a logarithmic x axis, instead of formulas."""
    from matplotlib import ticker

    low, high = axis.get_xlim()
    within = (1, 2, 5) if high < 100 * low else (1,)
    axis.xaxis.set_major_locator(ticker.LogLocator(subs=within))
    axis.xaxis.set_major_formatter(ticker.FuncFormatter(lambda x, _: f"{x:,g}"))
    axis.xaxis.set_minor_formatter(ticker.NullFormatter())


def _whole_numbers(axis: Any) -> None:
    """No fractions on an x axis of steps."""
    from matplotlib import ticker

    axis.xaxis.set_major_locator(ticker.MaxNLocator(integer=True, min_n_ticks=1))


def _style(i: int) -> dict[str, Any]:
    return {
        "color": _DARK_TO_LIGHT[i % len(_DARK_TO_LIGHT)],
        "linestyle": ("-", "--", "-.", ":")[i % 4],
        "marker": "os^DvP"[i % 6],
        "markersize": 5,
    }


def picture(image: np.ndarray, side: int = 192) -> bytes:
    """A uint8 RGB image as PNG, its long side `side` pixels; tiny images are enlarged in blocks."""
    return as_png(resized(Image.fromarray(image), side))


def overlay(image: np.ndarray, attention: np.ndarray, side: int = 192) -> bytes:
    """An image darkened where `attention` (rows, columns) in [0, 1] is low, as PNG."""
    return as_png(glowing(resized(Image.fromarray(image), side), attention))
