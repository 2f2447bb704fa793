"""The page of an inspection, its figures as SVG, and its numbers as JSON."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_vit import _files
from keras_vit._checks import keras_vit_model
from keras_vit._errors import UsageError
from keras_vit._templates import rendered
from keras_vit.evaluation.classification import ClassReport
from keras_vit.evaluation.inspection.distance import even_distance
from keras_vit.evaluation.inspection.features import LEAST_FRACTION
from keras_vit.evaluation.inspection.figures import figures
from keras_vit.evaluation.inspection.inspecting import Inspection
from keras_vit.specs import ResNetSpec

_NUMBERS = "inspection.json"


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
    drawn = figures(model, found, captions, errors)
    with _files.replacing_folder(out) as folder:
        for figure in itertools.chain(*drawn.values()):
            (folder / f"{figure.name}.svg").write_bytes(figure.svg)
        _files.write_json(folder / _NUMBERS, _numbers(model, found, captions, errors))
        text = rendered(
            "evaluation/inspection/report.html.j2",
            title=f"Inside {model.name}",
            facts={**_facts(model), **(facts or {})},
            spec=model.spec,
            is_resnet=isinstance(model.spec, ResNetSpec),
            image_size=model.image_size,
            found=found,
            errors=errors,
            figures=drawn,
            least_fraction=LEAST_FRACTION,
        )
        _files.write_text(folder / "index.html", text)
    return Path(out) / "index.html"


def check_for_inspection(out: str | os.PathLike) -> None:
    """Checks that an inspection may be written to `out`; nothing is written.

    Raises:
        UsageError: it is a file or a folder that holds something else, or cannot be written.
    """
    _files.check_replaceable(out, "inspection")


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
    content: dict[str, Any] = {
        "format": 1,
        "model": model.name,
        "image_size": list(model.image_size),
        "captions": list(captions),
    }
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
