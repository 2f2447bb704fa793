"""The sections of the page: what each figure is and how to read it, or why there is none."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Any

from keras_vit.evaluation import page
from keras_vit.evaluation.classification import ClassReport
from keras_vit.evaluation.inspection import plots
from keras_vit.evaluation.inspection.distance import even_distance
from keras_vit.evaluation.inspection.features import LEAST_FRACTION
from keras_vit.evaluation.inspection.inspecting import Inspection
from keras_vit.specs import ResNetSpec

_MOST_FILTERS = 64
_PAPER = "Dosovitskiy et al. 2021"
_NO_PICTURES = "There is none, because no pictures were given."
_NO_CLASSES = (
    "There are none: they need images with this model's classes, and a model with one answer for "
    "each image."
)
_NO_ATTENTION = "A ResNet has no attention."


@dataclasses.dataclass(frozen=True)
class Subject:
    """What the page is about: a model, what was found in it, and a line for each picture."""

    model: Any
    found: Inspection
    captions: Sequence[str]
    errors: ClassReport | None

    @property
    def is_resnet(self) -> bool:
        """Whether it is a BiT, which has no patches and no attention."""
        return isinstance(self.model.spec, ResNetSpec)

    @property
    def reader(self) -> str:
        """The tokens whose attention is shown, in words."""
        return {
            0: "the mean of all patches, because this model has no class token",
            1: "the class token",
            2: "the mean of class token and distillation token",
        }[self.model.spec.prefix_tokens]


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure: the name of its file, its SVG, and what it shows in words."""

    name: str
    svg: bytes
    alt: str


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of the page: its title, its text in paragraphs, and its figures."""

    title: str
    text: tuple[str, ...]
    figures: tuple[Figure, ...] = ()

    def html(self) -> str:
        """The section as HTML."""
        text = "".join(f"<p>{escape(each)}</p>" for each in self.text)
        images = "".join(page.image(each.svg, "svg+xml", each.alt) for each in self.figures)
        kind = "figures" if len(self.figures) > 1 else "figures one"
        return page.section(
            self.title, text + (f'<div class="{kind}">{images}</div>' * bool(images))
        )


def sections(subject: Subject) -> Iterator[Section]:
    """The sections of the page, in order."""
    for make in (_filters, _positions, _distance, _rollout, _heads, _features, _errors):
        yield make(subject)


def _filters(subject: Subject) -> Section:
    found = subject.found
    if found.filters is None:
        return _root_filters(subject)
    size, width = subject.model.spec.patch_size, subject.model.spec.hidden_dim
    count = len(found.filters.patches)
    title = f"Principal components 1 to {count} of the embedding"
    figure = plots.filters(found.filters.patches, title, found.filters.fractions)
    text = (
        f"The embedding multiplies each patch of {size} x {size} pixels by {width} filters. These "
        f"are the first {count} principal components of the filters, in reading order; the "
        "numbers are the fraction of the filters' variance that each one has.",
        f"Grey is a weight of zero, and {_weights_shown(subject)}, each component scaled by "
        "itself. After long training, components look like waves and contrasts of colour; noise "
        f"means that little was learned here. ({_PAPER}, figure 7, left.)",
    )
    return Section("Embedding filters", text, (Figure("filters", figure, title),))


def _root_filters(subject: Subject) -> Section:
    filters = subject.found.root_filters
    shown = filters[:_MOST_FILTERS]
    of = f"the {len(filters)}" if len(shown) == len(filters) else f"{len(shown)} of {len(filters)}"
    title = f"Filters of the first convolution, {of}"
    why = (
        "This model is a ResNet."
        if subject.is_resnet
        else "This model cuts its patches from the output of a ResNet and not from the picture, so "
        "the filters of its embedding have no colours."
    )
    text = (
        f"{why} These are the filters of the ResNet's first convolution, 7 x 7 pixels, "
        f"standardised as the model uses them. Grey is a weight of zero, and "
        f"{_weights_shown(subject)}, each filter scaled by itself. After long training, many look "
        "like edges, waves and contrasts of colour.",
    )
    return Section("Filters", text, (Figure("filters", plots.filters(shown, title), title),))


def _weights_shown(subject: Subject) -> str:
    if subject.model.spec.in_channels == 1:
        return "lighter is a positive weight, darker a negative one"
    return "colours are weights of red, green and blue"


def _positions(subject: Subject) -> Section:
    found, title = subject.found, "Positions"
    if subject.is_resnet:
        return Section(title, ("A ResNet has no position embedding.",))
    if found.similarity is not None:
        fixed = subject.model.spec.position_embedding == "sincos2d"
        how = (
            "These positions are fixed and not learned."
            if fixed
            else "If the model has learned where patches are, near patches are similar, and often "
            "those of the same row or column."
        )
        text = (
            "Each small map belongs to the patch in its row and column. It shows the cosine "
            "similarity of this patch's position embedding with those of all patches. " + how,
            "Positions of tokens before the patches, such as the class token, are left out. "
            f"({_PAPER}, figure 7, centre, and figure 10.)",
        )
        figure = plots.similarity(found.similarity)
        return Section(title, text, (Figure("positions", figure, "similarity of positions"),))
    if found.bias is not None:
        text = (
            "This model adds no positions to its patches. Instead each head adds a learned number "
            "to the attention logits, which depends on the offset between two patches. Each map "
            "shows what the patch in the middle of the grid adds for each patch that it attends "
            f"to: where a map is bright, the head attends more. ({_PAPER}, appendix D.4.)",
        )
        figure = plots.bias(found.bias)
        return Section(title, text, (Figure("positions", figure, "bias by position"),))
    return Section(
        title, ("This model has no positions: it sees its patches without their order.",)
    )


def _distance(subject: Subject) -> Section:
    found, title = subject.found, "Attention distance"
    if found.distance is None:
        return Section(title, (_NO_ATTENTION if subject.is_resnet else _NO_PICTURES,))
    model, count = subject.model, found.distance_images
    height, width = model.image_size
    even = even_distance(model.grid, model.spec.stride, model.spec.prefix_tokens)
    text = (
        "Each point is a head: the mean distance between a patch and the patches that it attends "
        f"to, weighted by attention, over {count:,} image{'' if count == 1 else 's'}, in pixels of "
        f"the input of {height} x {width}. It is what the size of the receptive field is in a "
        "convolutional network.",
        "A head far below the dashed line attends to its neighbourhood; the dashed line is "
        "attention to all tokens alike. In trained models, the first blocks often have heads of "
        "both kinds. Attention to tokens before the patches counts as a distance of 0. "
        f"({_PAPER}, figure 7, right, and figure 11.)",
    )
    figure = plots.distance(found.distance, even)
    return Section(title, text, (Figure("distance", figure, "attention distance by block"),))


def _rollout(subject: Subject) -> Section:
    title, found = "Attention rollout", subject.found
    if found.rollout is None:
        return Section(title, (_NO_ATTENTION if subject.is_resnet else _NO_PICTURES,))
    text = (
        "The attention of all blocks, averaged over the heads, mixed half and half with the "
        "residual connection, and multiplied through the blocks. Shown is how much of each patch "
        f"reaches {subject.reader}: bright patches contribute most.",
        "Each picture is scaled to its own maximum. Rollout follows attention only, and not what "
        "the values and the MLPs do with it, so it is a hint and no proof of what an answer comes "
        f"from. ({_PAPER}, figure 6 and appendix D.8; Abnar and Zuidema 2020.)",
    )
    return Section(
        title,
        text,
        _each(subject, "rollout", lambda i, name: plots.rollout(
            found.pictures[i], found.rollout[i], name
        )),
    )  # fmt: skip


def _heads(subject: Subject) -> Section:
    found = subject.found
    if found.heads is None:
        return Section("Heads", (_NO_ATTENTION if subject.is_resnet else _NO_PICTURES,))
    depth = subject.model.spec.depth
    text = (
        f"The attention of {subject.reader} to the patches, in each head of block {found.block} of "
        f"{depth}. Each map is scaled to its largest weight; below it are the number of the head "
        "and this weight, of the 1 that a head gives to all tokens together. (Caron et al. 2021, "
        "figure 1.)",
    )
    figures = _each(
        subject, "heads", lambda i, name: plots.heads(found.pictures[i], found.heads[i], name)
    )
    return Section(f"Heads of block {found.block}", text, figures)


def _features(subject: Subject) -> Section:
    title, found = "Features", subject.found.features
    if found is None:
        return Section(title, (_NO_PICTURES,))
    pictures, many = subject.found.pictures, len(subject.captions) > 1
    places = (
        "places of the last feature map" if subject.is_resnet else "patches after the last norm"
    )
    left_out = ""
    if len(found.fractions) < 3:
        left_out = (
            f" Components with less than {LEAST_FRACTION:.0%} of the variance are left out, so "
            "that noise does not look like structure."
        )
    text = (
        f"The first three principal components of the {places}"
        f"{', of all pictures here together' if many else ''}, as red, green and blue, and each in "
        f"grey. They have {found.fractions.sum():.0%} of the variance. Similar colours mean "
        f"similar features{', also between pictures' if many else ''}; the colours themselves "
        "mean nothing. Each component is scaled from its 2nd to its 98th percentile, also one with "
        f"a small fraction of the variance, which is the number below it.{left_out} "
        "(As in Oquab et al. 2024, figure 1; not in the paper on ViT.)",
    )
    figures = _each(
        subject,
        "features",
        lambda i, name: plots.features(pictures[i], found.colours[i], found, name),
    )
    return Section(title, text, figures)


def _errors(subject: Subject) -> Section:
    title, report = "Errors by class", subject.errors
    if report is None:
        return Section(title, (_NO_CLASSES,))
    several = not report.confusion
    count = "" if several else f" of {sum(each['support'] for each in report.classes):,} images"
    taken = "" if several else ", and the class for which it takes them most often"
    text = (
        f"The accuracy is {report.accuracy:.2%}{count}. For each class: the fraction of its images "
        f"that the model does not recognise{taken}.",
    )
    figures = (Figure("errors", plots.errors(report), "errors by class"),)
    return Section(title, text, figures)


def _each(subject: Subject, kind: str, draw: Callable[[int, str], bytes]) -> tuple[Figure, ...]:
    """A figure for each picture."""
    return tuple(
        Figure(f"{kind}-{i + 1}", draw(i, caption), f"{kind} of {caption}")
        for i, caption in enumerate(subject.captions)
    )
