"""The JSON files that several rooms read, as schemas of `_json`.

A file that one room reads has its schema there. CONTRIBUTING.md says what the files mean.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from keras_vit import _json
from keras_vit._checks import MOST_CLASSES
from keras_vit._json import Name, Sides, Text
from keras_vit.specs import Preprocessing, ResNetSpec, ViTSpec


class RunSpec(Struct):
    """spec.json of a run folder."""

    model: Name
    spec: dict[str, Any]  # see `check_spec`
    num_classes: Annotated[int, Meta(ge=1, le=MOST_CLASSES)]
    image_size: Sides
    preprocessing: Preprocessing
    weights: Text = ""


class Row(Struct):
    """A row of table.json, of a file."""

    precision: str
    bytes: int
    accuracy: float | None
    agreement: float | None
    max_difference: float | None
    latency_ms: float | None
    name: str = ""
    sha256: str = ""


class Table(Struct):
    """table.json of a folder of bundles."""

    machine: str
    images: int
    rows: list[Row]


def check_spec(content: dict[str, Any], place: str, fix: str = "") -> None:
    """Checks the "spec" of a run or of a comment in weights, of a ViT or of a ResNet.

    Raises:
        UsageError: a field is absent or has another type.
    """
    schema = ResNetSpec if "layers" in content["spec"] else ViTSpec
    _json.check(content["spec"], place, schema, fix, root="$.spec")
