"""Files of earlier bundles with other labels, in place of a conversion."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from keras_vit import _files
from keras_vit._errors import RefusedError, UsageError
from keras_vit.deploy.bundle.description import FORMAT, Described, read_bundle
from keras_vit.deploy.bundle.opened_bundle import try_file
from keras_vit.deploy.convert.converter import MadeFile
from keras_vit.deploy.convert.float_layers import read_recipe
from keras_vit.deploy.convert.replaced_head import with_head
from keras_vit.deploy.precisions import Precision, precision_of
from keras_vit.deploy.resolve import About, Resolved
from keras_vit.tflite.flatbuffer import MappedFile

# What model.json says of a conversion, which does not depend on the labels.
_OF_CONVERSION = ("calibration", "blocks", "made_with")


class EarlierFiles:
    """The files of bundles that zero-shot wrote, with the head of another model of this tower.

    They compute what the files of a `Converter` compute, because the head stays in float in every
    file and nothing else depends on the labels.

    Args:
        resolved: the model, with the input and output of the files.
        folder: the folder of the bundles, which are named after their precisions.
        precisions: the precisions of the files to make later.

    Attributes:
        about: the model.

    Raises:
        UsageError: a bundle is missing, is of another image tower, or its file has another input
            or output.
    """

    def __init__(self, resolved: Resolved, folder: Path, precisions: Iterable[Precision]):
        self.about, self._folder = resolved.about, folder
        if resolved.graph is None or not self.about.zero_shot:
            raise UsageError("relabel needs a model of zero_shot_model, and its rewrites.")
        self._head = [resolved.graph.weights[f"head/{name}"]() for name in ("kernel", "bias")]
        self._described = {
            precision.quantize: _described(folder / precision.name, precision, self.about)
            for precision in precisions
            if not precision.is_for_npus
        }

    def made(self, quantize: str, float_layers: Iterable[str] = (), recipe: Any = None) -> MadeFile:
        """The file of a precision with the model's head; its layers are those of the bundle.

        Raises:
            RefusedError: the head of this file cannot be replaced.
        """
        precision = precision_of(quantize)
        if precision.is_for_npus:
            raise RefusedError(
                "how NPUs round is measured on the float file, which is not here; convert it again."
            )
        place, found = self._folder / precision.name, self._described[quantize]
        if precision.base:
            recipe = read_recipe(place / "recipe.json", self.about.name, {precision.base})
        content = with_head(MappedFile(place / "model.tflite"), *self._head, self.about)
        layers = tuple(found.float_layers)
        earlier = {name: msgspec.to_builtins(getattr(found, name)) for name in _OF_CONVERSION}
        return MadeFile(precision, content, self.about, layers, None, recipe, earlier=earlier)


def read_words(folder: Path) -> Described:
    """What a bundle of zero-shot says of itself in model.json.

    Raises:
        UsageError: it is missing, damaged, or its head was trained.
    """
    found = _files.read_record(folder / "model.json", Described, format=FORMAT)
    if found.zero_shot is None:
        raise UsageError(f"{folder}: its labels were trained, so they cannot be replaced by words.")
    return found


def _described(folder: Path, precision: Precision, about: About) -> Described:
    """What model.json says, if the file can have the head of a model."""
    read_bundle(folder)
    found = read_words(folder)
    if found.precision != precision.name:
        raise UsageError(f"{folder}: expected {precision.name}. Received: {found.precision}.")
    if found.zero_shot.tower_sha256 != about.zero_shot["tower_sha256"]:
        raise UsageError(
            f"{folder} is of another image tower: of other weights, image size or pixels; convert "
            "the model."
        )
    expected = about.options.input, about.options.output
    received = found.input.dtype, found.output.kind
    if received != expected:
        raise UsageError(
            f"{folder}: expected input={expected[0]!r} and output={expected[1]!r}. Received: "
            f"{received[0]} and {received[1]}."
        )
    try_file(folder / "model.tflite")
    return found
