"""Plots and pictures; each function returns the bytes of an SVG or a PNG."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from keras_vit._pages import BLUE, GREY, as_svg, own_settings, short_name, subplots

BACKGROUND = "background"  # the name of the class that overlays leave as it is
_DARK_TO_LIGHT = ("#14243a", BLUE, "#d9772b", "#7a4fa0", GREY)


@own_settings()
def curve(metrics: list[dict[str, Any]], name: str) -> bytes:
    """The "loss", "accuracy" or "mean_iou" by step, for training and held-out images, as SVG.

    A run that was stopped before an evaluation has no training metrics for that epoch, which
    leaves a gap.
    """
    figure, axis = subplots(4.5, 3.2)
    steps = [record["step"] for record in metrics]
    marker = "o" if len(steps) == 1 else None
    for key, label, color in ((name, "training", GREY), (f"val_{name}", "held out", BLUE)):
        values = [record.get(key, math.nan) for record in metrics]
        axis.plot(steps, values, color=color, label=label, marker=marker)
    axis.set(xlabel="steps", title=name.replace("_iou", " IoU"))
    _whole_numbers(axis)
    axis.legend()
    return as_svg(figure)


@own_settings()
def confusion(matrix: list[list[int]], labels: tuple[str, ...]) -> bytes:
    """The confusion matrix as SVG; rows are true classes, columns predicted classes."""
    counts = np.array(matrix)
    fractions = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    side = min(max(3.0, 0.42 * len(labels) + 1.5), 14)
    figure, axis = subplots(side, side)
    axis.imshow(fractions, cmap="Blues", vmin=0, vmax=1)
    axis.set(xlabel="predicted", ylabel="true")
    if len(labels) <= 40:
        names = [short_name(label) for label in labels]
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


class Series(NamedTuple):
    """A line of a diagram: its name, its points, and the deviation of each point if known."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    deviation: Sequence[float] | None = None


@own_settings()
def lines(panels: Sequence[tuple[dict[str, Any], Sequence[Series]]]) -> bytes:
    """Diagrams side by side as SVG; the same line has the same style in each.

    Lines differ in dashes, markers and lightness, so that they can be told apart in grey.

    Args:
        panels: for each diagram the settings of its axes (title, xlabel, ylabel, xscale), and its
            lines.
    """
    figure, (axes,) = subplots(4.6 * len(panels), 3.6, 1, len(panels), squeeze=False)
    names = list(dict.fromkeys(line.name for _, of_panel in panels for line in of_panel))
    for axis, (settings, of_panel) in zip(axes, panels, strict=True):
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
    axes[0].legend()
    return as_svg(figure)


@own_settings()
def dots(groups: Sequence[tuple[str, Sequence[float]]], xlabel: str) -> bytes:
    """A row for each group as SVG: a small ring for each value and a large dot for their mean.

    Args:
        groups: names and values, from top to bottom.
        xlabel: what the values are, with their unit.
    """
    figure, axis = subplots(7.5, 0.9 + 0.34 * len(groups))
    for row, (_, values) in enumerate(groups):
        axis.scatter(values, [row] * len(values), s=26, facecolors="none", edgecolors=GREY)
        axis.scatter([np.mean(values)], [row], s=44, color=BLUE, zorder=3)
    axis.set_yticks(range(len(groups)), [name for name, _ in groups])
    axis.set(xlabel=xlabel, ylim=(len(groups) - 0.5, -0.5))
    axis.grid(visible=False, axis="y")
    return as_svg(figure)


def picture(image: np.ndarray, side: int = 192) -> bytes:
    """A uint8 RGB image as PNG, its long side `side` pixels; tiny images are enlarged in blocks."""
    return _png(resized(image, side))


def overlay(image: np.ndarray, attention: np.ndarray, side: int = 192) -> bytes:
    """An image darkened where `attention` (rows, columns) in [0, 1] is low, as PNG."""
    return _png(glowing(resized(image, side), attention))


def with_mask(image: np.ndarray, mask: np.ndarray, labels: Sequence[str], side: int = 192) -> bytes:
    """`under_mask` as PNG."""
    return _png(under_mask(image, mask, labels, side))


def under_mask(image: np.ndarray, mask: np.ndarray, labels: Sequence[str], side: int) -> np.ndarray:
    """An image under the colours of its mask, uint8 (height, width, 3); the background has none.

    Args:
        image: uint8 (height, width, 3).
        mask: the class of each pixel, of any size in the same proportions, uint8; those beyond the
            labels have no class.
        labels: the names of the classes.
        side: the long side of the result in pixels.
    """
    picture = resized(image, side)
    size = picture.shape[1::-1]
    classes = np.asarray(Image.fromarray(mask).resize(size, Image.Resampling.NEAREST))
    table = np.zeros((256, 4), np.float32)
    for i, (label, colour) in enumerate(class_colours(labels)):
        table[i] = *(int(colour[j : j + 2], 16) for j in (1, 3, 5)), label != BACKGROUND
    colours, opacity = table[classes][..., :3], 0.6 * table[classes][..., 3:]
    mixed = picture * (1 - opacity) + colours * opacity
    return np.rint(mixed).astype(np.uint8)


def class_colours(labels: Sequence[str]) -> list[tuple[str, str]]:
    """The classes with a colour each, "#rrggbb": those of PASCAL VOC's masks.

    The bits of a class, from the lowest on, are in turn the highest bits of red, green and blue
    that are left. Black, the first, is only for a background.
    """
    colours = []
    first = int(labels[0] != BACKGROUND)
    for number in range(first, first + len(labels)):
        levels = [sum((number >> (3 * k + c) & 1) << (7 - k) for k in range(3)) for c in range(3)]
        colours.append("#" + "".join(f"{level:02x}" for level in levels))
    return list(zip(labels, colours, strict=True))


def resized(image: np.ndarray, side: int) -> np.ndarray:
    """The image with a long side of `side` pixels; tiny images are enlarged in blocks."""
    source = Image.fromarray(image)
    ratio = side / max(source.size)
    size = tuple(max(round(length * ratio), 1) for length in source.size)
    method = Image.Resampling.NEAREST if ratio > 2 else Image.Resampling.BICUBIC
    return np.asarray(source.resize(size, method))


def glowing(image: np.ndarray, attention: np.ndarray) -> np.ndarray:
    """The image, darkened where `attention` (rows, columns) in [0, 1] is low.

    There it fades to dark blue, so that attention is visible on black pictures too.
    """
    mask = Image.fromarray(attention.astype(np.float32))
    mask = mask.resize(image.shape[1::-1], Image.Resampling.BICUBIC)
    level = np.clip(np.asarray(mask), 0, 1)[..., None]
    light = 0.15 + 0.85 * level
    ground = np.array([12, 20, 60], np.float32)
    glow = np.array([255, 190, 70], np.float32) * 0.35 * level
    mixed = np.asarray(image, np.float32) * light + ground * (1 - light) + glow
    return mixed.clip(0, 255).astype(np.uint8)


def _png(image: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "PNG", optimize=True)
    return stream.getvalue()


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
    color, line = _DARK_TO_LIGHT[i % len(_DARK_TO_LIGHT)], ("-", "--", "-.", ":")[i % 4]
    return {"color": color, "linestyle": line, "marker": "os^DvP"[i % 6], "markersize": 5}
