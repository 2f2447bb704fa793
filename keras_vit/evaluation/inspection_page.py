"""The page of an inspection, its figures as SVG, and its numbers as JSON."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_vit import _files
from keras_vit._checks import keras_vit_model
from keras_vit._errors import UsageError
from keras_vit.evaluation import inspection_plots as plots
from keras_vit.evaluation.attention_scores import even_distance
from keras_vit.evaluation.classification import ClassReport
from keras_vit.evaluation.inspecting import Inspection
from keras_vit.evaluation.learned_weights import LEAST_FRACTION
from keras_vit.evaluation.results_page import write_results
from keras_vit.specs import ResNetSpec

_MOST_FILTERS = 64


def write_inspection(
    out: str | os.PathLike,
    model: Any,
    found: Inspection,
    captions: Sequence[str] = (),
    errors: ClassReport | None = None,
    facts: Mapping[str, str] | None = None,
) -> Path:
    """Writes index.html, the figures as SVG and inspection.json, and returns the page's path.

    Args:
        out: the folder; an inspection that is there is replaced.
        model: the model that was inspected.
        found: what `inspect_model` returned for it.
        captions: a line for each picture; () for their numbers.
        errors: the model's figures on labelled images, if there are any.
        facts: what else was inspected, in words, for the top of the page.

    Raises:
        UsageError: see `check_for_inspection`; or there are more or fewer captions than pictures.
    """
    keras_vit_model(model)
    check_for_inspection(out)
    pictures = 0 if found.pictures is None else len(found.pictures)
    captions = tuple(captions) or tuple(f"picture {i}" for i in range(1, pictures + 1))
    if len(captions) != pictures:
        raise UsageError(f"expected {pictures} captions. Received: {len(captions)}.")
    numbers = _numbers(model, found, captions, errors)
    filters, title = _filters(found)
    figures = {"filters": filters, **_figures(found, numbers, captions, errors)}
    with _files.replacing_folder(out) as folder:
        for name, svg in figures.items():
            (folder / f"{name}.svg").write_bytes(svg)
        page = write_results(
            folder,
            "inspection",
            numbers,
            "inspection",
            title=f"Inside {model.name}",
            facts={**_facts(model), **(facts or {})},
            spec=model.spec,
            is_resnet=isinstance(model.spec, ResNetSpec),
            image_size=model.image_size,
            found=found,
            errors=errors,
            captions=captions,
            figures=figures,
            filters_title=title,
            least_fraction=LEAST_FRACTION,
        )
    return Path(out) / page.name


def check_for_inspection(out: str | os.PathLike) -> None:
    """Checks that an inspection may be written to `out`; nothing is written.

    Raises:
        UsageError: it is a file or a folder that holds something else, or cannot be written.
    """
    _files.check_replaceable(out, "inspection")


def _filters(found: Inspection) -> tuple[bytes, str]:
    """The figure of the filters, and its title."""
    if found.filters is not None:
        patches, fractions = found.filters.patches, found.filters.fractions
        title = f"Principal components 1 to {len(patches)} of the embedding"
        return plots.filters(patches, title, fractions), title
    every = len(found.root_filters)
    of = f"the {every}" if every <= _MOST_FILTERS else f"{_MOST_FILTERS} of {every}"
    title = f"Filters of the first convolution, {of}"
    return plots.filters(found.root_filters[:_MOST_FILTERS], title), title


def _figures(
    found: Inspection, numbers: dict[str, Any], captions: Sequence[str], errors: ClassReport | None
) -> dict[str, bytes]:
    """The other figures of the page by their names; none of what was not found."""
    figures = {}
    if found.similarity is not None:
        figures["positions"] = plots.similarity(found.similarity)
    elif found.bias is not None:
        figures["positions"] = plots.bias(found.bias)
    if found.distance is not None:
        even = numbers["attention_distance"]["evenly_spread"]
        figures["distance"] = plots.distance(found.distance, even)
    for i, caption in enumerate(captions):
        picture, seen = found.pictures[i], found.features
        if found.rollout is not None:
            figures[f"rollout-{i + 1}"] = plots.rollout(picture, found.rollout[i], caption)
        if found.heads is not None:
            figures[f"heads-{i + 1}"] = plots.heads(picture, found.heads[i], caption)
        if seen is not None:
            figures[f"features-{i + 1}"] = plots.features(picture, seen.colours[i], seen, caption)
    if errors is not None:
        figures["errors"] = plots.errors(errors)
    return figures


def _facts(model: Any) -> dict[str, str]:
    (height, width), spec = model.image_size, model.spec
    size = f"{height} x {width} pixels"
    if isinstance(spec, ResNetSpec):
        return {"Model": f"{model.name}, a ResNet", "Input": size}
    rows, columns = model.grid
    return {
        "Model": f"{model.name}, {spec.depth} blocks of {spec.num_heads} heads",
        "Input": f"{size}: {rows} x {columns} patches of {spec.stride} pixels",
        "Positions": spec.position_embedding,
        "Pooling": spec.pooling,
    }


def _numbers(
    model: Any, found: Inspection, captions: Sequence[str], errors: ClassReport | None
) -> dict[str, Any]:
    """The content of inspection.json."""
    size = list(model.image_size)
    content: dict[str, Any] = {"model": model.name, "image_size": size, "captions": list(captions)}
    if found.distance is not None:
        content["attention_distance"] = {
            "unit": "pixels",
            "images": found.distance_images,
            "evenly_spread": even_distance(model.grid, model.spec.stride, model.spec.prefix_tokens),
            "blocks": found.distance.tolist(),  # a number for each head
        }
    if found.filters is not None:
        content["filter_variance"] = found.filters.fractions.tolist()
    if found.features is not None:
        content["feature_variance"] = found.features.fractions.tolist()
    if errors is not None:
        content["errors"] = dataclasses.asdict(errors)
    return content
