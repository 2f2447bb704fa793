"""The figures of the page."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from keras_vit.evaluation.classification import ClassReport
from keras_vit.evaluation.inspection import plots
from keras_vit.evaluation.inspection.distance import even_distance
from keras_vit.evaluation.inspection.inspecting import Inspection

_MOST_FILTERS = 64


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure: the name of its file, its SVG, and what it shows in words."""

    name: str
    svg: bytes
    alt: str


def figures(
    model: Any, found: Inspection, captions: Sequence[str], errors: ClassReport | None
) -> dict[str, list[Figure]]:
    """The figures of each section of the page; none of what was not found."""

    def of_pictures(kind: str, draw: Callable[[int, str], bytes]) -> list[Figure]:
        return [
            Figure(f"{kind}-{i + 1}", draw(i, caption), f"{kind} of {caption}")
            for i, caption in enumerate(captions)
        ]

    drawn = {"filters": [_filters(found)]}
    if found.similarity is not None:
        svg = plots.similarity(found.similarity)
        drawn["positions"] = [Figure("positions", svg, "similarity of positions")]
    elif found.bias is not None:
        drawn["positions"] = [Figure("positions", plots.bias(found.bias), "bias by position")]
    if found.distance is not None:
        even = even_distance(model.grid, model.spec.stride, model.spec.prefix_tokens)
        svg = plots.distance(found.distance, even)
        drawn["distance"] = [Figure("distance", svg, "attention distance by block")]
    if found.rollout is not None:
        drawn["rollout"] = of_pictures(
            "rollout", lambda i, name: plots.rollout(found.pictures[i], found.rollout[i], name)
        )
    if found.heads is not None:
        drawn["heads"] = of_pictures(
            "heads", lambda i, name: plots.heads(found.pictures[i], found.heads[i], name)
        )
    if (seen := found.features) is not None:
        drawn["features"] = of_pictures(
            "features",
            lambda i, name: plots.features(found.pictures[i], seen.colours[i], seen, name),
        )
    if errors is not None:
        drawn["errors"] = [Figure("errors", plots.errors(errors), "errors by class")]
    return drawn


def _filters(found: Inspection) -> Figure:
    if found.filters is not None:
        patches, fractions = found.filters.patches, found.filters.fractions
        title = f"Principal components 1 to {len(patches)} of the embedding"
        return Figure("filters", plots.filters(patches, title, fractions), title)
    every = len(found.root_filters)
    of = f"the {every}" if every <= _MOST_FILTERS else f"{_MOST_FILTERS} of {every}"
    title = f"Filters of the first convolution, {of}"
    return Figure("filters", plots.filters(found.root_filters[:_MOST_FILTERS], title), title)
