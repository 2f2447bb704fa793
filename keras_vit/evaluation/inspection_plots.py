"""The figures of an inspection; each function returns the bytes of an SVG.

Figures are narrow, so that their text can be read on a phone. All maps but the filters and the
features go from dark to light, so that they can be read in grey.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_vit._pages import BLUE, as_svg, own_settings, short_name, subplots
from keras_vit.evaluation.classification import ClassReport
from keras_vit.evaluation.learned_weights import PatchColours
from keras_vit.evaluation.plots import glowing, resized

_WIDTH = 4.8  # inches
_SIDE, _SMALL = 448, 224  # pixels of the long side of a picture, and of one among many maps
_MAP = {"cmap": "viridis", "interpolation": "none"}
_CAPTION = 0.2  # inches of a line below a tile
_MOST_POSITIONS = 24  # maps along one side of the figure of positions
# Inches of these maps at most, and of the number of a row or column.
_POSITIONS_WIDTH, _POSITIONS_HEIGHT, _NUMBER = 4.2, 6.0, 0.2
_LONGEST = 4  # how many times longer than its other side the figure of positions may be
_MOST_CLASSES = 25
_TITLE = 60  # characters of a title in a figure


@own_settings(on_any_page=True)
def filters(patches: np.ndarray, title: str, fractions: np.ndarray | None = None) -> bytes:
    """Filters (count, height, width, 3 or 1) as colours or greys; grey is zero, in each filter.

    Args:
        patches: the filters.
        title: the title.
        fractions: the fraction of the variance of each one, for its caption.
    """
    largest = np.abs(patches).max(axis=(1, 2, 3), keepdims=True)
    colours = 0.5 + 0.5 * patches / np.where(largest > 0, largest, 1)
    colours = np.repeat(colours, 3 // colours.shape[-1], axis=-1)
    if fractions is None:
        return _sheet(colours, [], 8, title)
    return _sheet(colours, [f"{fraction:.1%}" for fraction in fractions], 7, title)


@own_settings(on_any_page=True)
def similarity(maps: np.ndarray) -> bytes:
    """Similarity of positions (rows, columns, rows, columns): a grid of maps."""
    steps = _position_steps(*maps.shape[:2])
    maps = maps[:: steps[0], :: steps[1]]
    rows, columns, height, breadth = maps.shape
    grid = np.full((rows, columns, height + 1, breadth + 1), np.nan)  # a gap after each map
    grid[:, :, :height, :breadth] = maps
    # (rows, columns, height, breadth) to (rows * height, columns * breadth)
    canvas = grid.transpose(0, 2, 1, 3).reshape(rows * (height + 1), columns * (breadth + 1))
    ratio = canvas.shape[0] / canvas.shape[1]
    width = min(_POSITIONS_WIDTH, _POSITIONS_HEIGHT / ratio)
    # Title, labels and the colour bar are above and below.
    figure, axis = subplots(_WIDTH, width * ratio + 1.4)
    drawn = axis.imshow(canvas[:-1, :-1], **_MAP, vmin=-1, vmax=1, aspect="equal")
    for set_ticks, count, side, step, inches in (
        (axis.set_yticks, rows, height, steps[0], width * ratio),
        (axis.set_xticks, columns, breadth, steps[1], width),
    ):
        every = math.ceil(_NUMBER * count / inches)
        shown = np.arange(0, count, every)
        set_ticks(shown * (side + 1) + (side - 1) / 2, [str(i * step + 1) for i in shown])
    axis.set(xlabel="patch column", ylabel="patch row", title="Similarity of positions")
    axis.spines[:].set_visible(False)
    axis.grid(visible=False)
    axis.tick_params(length=0, labelsize=8)
    _scale(figure, axis, drawn, "cosine similarity")
    return as_svg(figure)


@own_settings(on_any_page=True)
def bias(maps: np.ndarray) -> bytes:
    """What relative positions add to the logits: (depth, heads, rows, columns)."""
    heads = maps.shape[1]
    names = [f"{i + 1}.{j + 1}" for i, j in np.ndindex(maps.shape[:2])]
    # (depth, heads, rows, columns) to (depth * heads, rows, columns)
    flat = maps.reshape(-1, *maps.shape[2:])
    largest = float(np.abs(maps).max()) or 1.0
    title = "Bias of the middle patch (block.head)"
    return _sheet(flat, names, heads, title, "added to the logit", (-largest, largest))


@own_settings(on_any_page=True)
def distance(distances: np.ndarray, even: float) -> bytes:
    """The attention distance of each head (depth, heads) by block, in pixels.

    Args:
        distances: in pixels.
        even: the distance of attention that is the same for all tokens.
    """
    depth, heads = distances.shape
    figure, axis = subplots(_WIDTH, 3.6)
    blocks = np.arange(1, depth + 1)
    axis.axhline(even, color="#747b84", linestyle="--", label="attention spread evenly")
    axis.plot(blocks, distances.mean(axis=1), color="#747b84", label="mean of the heads")
    dots = {"s": 22, "color": BLUE, "edgecolor": "white", "linewidth": 0.5, "zorder": 3}
    axis.scatter(np.repeat(blocks, heads), distances.ravel(), label="a head", **dots)
    axis.set(xlabel="block", ylabel="mean distance in pixels", title="Attention distance")
    axis.set(xticks=blocks[:: -(-depth // 12)])
    axis.set(ylim=(0, 1.25 * max(even, distances.max(), 1e-9)))
    axis.legend(fontsize=8, loc="upper left", ncols=2)
    return as_svg(figure)


@own_settings(on_any_page=True)
def rollout(picture: np.ndarray, attention: np.ndarray, title: str) -> bytes:
    """A picture (height, width, 3), and the same one bright where attention (rows, columns) is."""
    seen = resized(picture, _SIDE)
    captions = ["as the model sees it", "rollout, brightest: 1"]
    return _sheet([seen, glowing(seen, attention)], captions, 2, title)


@own_settings(on_any_page=True)
def heads(picture: np.ndarray, maps: np.ndarray, title: str) -> bytes:
    """A picture, and the attention of each head (heads, rows, columns), scaled to its largest."""
    images = [resized(picture, _SMALL), *(each / (each.max() or 1) for each in maps)]
    captions = ["picture", *(f"{i}: {each.max():.3f}" for i, each in enumerate(maps, 1))]
    return _sheet(images, captions, 5, title, "fraction of the head's largest weight")


@own_settings(on_any_page=True)
def features(picture: np.ndarray, colours: np.ndarray, found: PatchColours, title: str) -> bytes:
    """A picture, its features as colours (rows, columns, 3), and each component in grey."""
    count = len(found.fractions)
    images = [resized(picture, _SMALL), colours]
    captions = ["as the model sees it", f"{count} component{'' if count == 1 else 's'}"]
    images += [np.repeat(colours[..., i : i + 1], 3, axis=-1) for i in range(count)]
    captions += [f"component {i}: {share:.0%}" for i, share in enumerate(found.fractions, 1)]
    return _sheet(images, captions, 3, title)


@own_settings(on_any_page=True)
def errors(report: ClassReport) -> bytes:
    """The fraction of each class that is classified wrongly, the largest first."""
    places = [i for i, each in enumerate(report.classes) if each["support"]]
    places = sorted(places, key=lambda i: report.classes[i]["recall"])[:_MOST_CLASSES]
    classes, rows = [report.classes[i] for i in places], range(len(places))
    wrong = [100 * (1 - each["recall"]) for each in classes]
    figure, axis = subplots(_WIDTH, 0.24 * len(places) + 1)
    bars = axis.barh(rows, wrong, color=BLUE)
    axis.bar_label(bars, [_mistakes(report, i) for i in places], padding=2, fontsize=7.5)
    axis.set_yticks(rows, [short_name(each["label"]) for each in classes], fontsize=8)
    cut = "" if len(places) == len(report.classes) else f", the {len(places)} largest"
    # There is room for the texts on the right.
    axis.set(xlabel="wrong in %", title=f"Errors by class{cut}", xlim=(0, 1.8 * max(*wrong, 5)))
    axis.invert_yaxis()
    axis.grid(visible=False)
    return as_svg(figure)


def _mistakes(report: ClassReport, i: int) -> str:
    """How many images of a class are wrong, and which class they are taken for most often."""
    support = report.classes[i]["support"]
    count = round(support * (1 - report.classes[i]["recall"]))
    text = f"{count} of {support}"
    if not count or not report.confusion:
        return text
    others = np.array(report.confusion[i])
    others[i] = 0
    return f"{text}, most as {short_name(report.classes[int(others.argmax())]['label'])}"


def _position_steps(rows: int, columns: int) -> tuple[int, int]:
    """Of a grid of maps of its own size, every how many rows and columns are shown.

    The proportions of all maps side by side are those of the grid, squared. Of a long grid that is
    a strip in which nothing can be seen, so fewer maps along its long side are shown.
    """
    shown = [min(side, _MOST_POSITIONS) for side in (rows, columns)]
    most = (_LONGEST * shown[1] * columns / rows, _LONGEST * shown[0] * rows / columns)
    sides = zip((rows, columns), shown, most, strict=True)
    return tuple(math.ceil(side / max(min(count, int(limit)), 2)) for side, count, limit in sides)


def _sheet(
    images: Sequence[np.ndarray],
    captions: Sequence[str],
    columns: int,
    title: str,
    scale: str = "",
    limits: tuple[float, float] = (0, 1),
) -> bytes:
    """Images in rows, each with its caption below.

    Args:
        images: RGB (height, width, 3), or maps (rows, columns).
        captions: one for each, or none.
        columns: how many stand in a row.
        title: the title.
        scale: the name of the maps' values, if a bar shows their colours.
        limits: the values with the darkest and the lightest colour.
    """
    columns = min(columns, len(images))
    height, width = images[0].shape[:2]
    ratio = height / width
    inches = _WIDTH / (1.06 * columns)  # the width of an image
    below = _CAPTION / inches if captions else 0.0
    step, rows = ratio + below + 0.06, -(-len(images) // columns)
    figure, axis = subplots(_WIDTH, inches * step * rows + (1.0 if scale else 0.35))
    figure.suppressComposite = True  # otherwise all images become one of the lowest resolution
    for i, (image, caption) in enumerate(itertools.zip_longest(images, captions, fillvalue="")):
        left, top = 1.06 * (i % columns), step * (i // columns)
        place = (left, left + 1, top + ratio, top)
        drawn = axis.imshow(image, **_MAP, vmin=limits[0], vmax=limits[1], extent=place)
        size = 8 if columns < 8 else 5
        axis.text(left + 0.5, top + ratio + 0.03, caption, ha="center", va="top", fontsize=size)
    axis.set(xlim=(0, 1.06 * columns - 0.06), ylim=(step * rows - 0.06, 0))
    axis.set_axis_off()
    axis.set_title(short_name(title, _TITLE), fontsize=10)
    if scale:
        _scale(figure, axis, drawn, scale)
    return as_svg(figure)


def _scale(figure: Any, axis: Any, drawn: Any, name: str) -> None:
    bar = figure.colorbar(drawn, ax=axis, label=name, orientation="horizontal", aspect=40, pad=0.02)
    bar.outline.set_visible(False)
