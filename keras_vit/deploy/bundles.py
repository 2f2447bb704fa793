"""A model to bundles of several precisions: convert, run, compare, and only then write."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_vit import _checks, _files
from keras_vit._errors import RefusedError, UsageError
from keras_vit.deploy.bundle.bundle import check_replaceable, weights_sha256, write_bundle
from keras_vit.deploy.convert.auto import BASE, choose_float_layers
from keras_vit.deploy.convert.converter import Converter
from keras_vit.deploy.convert.quantize import check_layers, for_runtime
from keras_vit.deploy.export import (
    Exported,
    check,
    compared,
    judge_file,
    to_pixels,
)
from keras_vit.deploy.graph.inference import GraphOptions
from keras_vit.deploy.inspect.runtimes import check_version
from keras_vit.deploy.judge.blocks import first_difference, layer_differences
from keras_vit.deploy.judge.choosing import spread
from keras_vit.deploy.judge.parity import ParityError, check_reference
from keras_vit.deploy.judge.reference import expected_scores
from keras_vit.deploy.precisions import precision_of
from keras_vit.deploy.runner import Runner
from keras_vit.deploy.subject import Subject

# Images that are enough to rank layers by, and to see in which layer a difference begins.
_RANKED, _WATCHED = 8, 4
# Bytes of a float file that is run with all its inner values kept, beside the one it became.
_LARGEST_COMPARED = 2**31
_RECIPE = ("base", "model", "chosen_on", "float_layers", "sensitivity")


@dataclasses.dataclass(frozen=True)
class Demands:
    """What is asked of the files.

    Attributes:
        max_drop: points of accuracy that a quantised file may lose, where labels are known; None:
            0.5, of int4 1.5.
        min_runtime: the oldest runtime that must run them; None for any.
        images: at most this many are compared; auto chooses on as many others.
        calibrate: at most this many measure ranges.

    Raises:
        UsageError: `min_runtime` is no version.
    """

    max_drop: float | None = None
    min_runtime: str | None = None
    images: int = 500
    calibrate: int = 32

    def __post_init__(self):
        if self.min_runtime is not None:
            check_version(self.min_runtime)


def export_bundles(
    subject: Subject,
    quantize: Iterable[str],
    out: str | os.PathLike,
    options: GraphOptions | None = None,
    demands: Demands | None = None,
    recipe: str | os.PathLike | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Writes a bundle for each precision, in a folder of its name.

    Args:
        subject: the model and its images. Its `model` becomes None once it is no longer needed:
            a large one and its conversion need not fit into memory together.
        quantize: names in `PRECISIONS`, or "auto".
        out: the folder of the bundles.
        options: what the files take and give.
        demands: what is asked of them.
        recipe: a recipe.json of an earlier "auto", instead of a search.
        say: told of the progress, a line at a time.

    Returns:
        What each model.json says, by precision; and by precision, too, why a file does not meet
        the demands and is not written.

    Raises:
        ParityError: Keras' own scores prove nothing.
        UsageError: an unknown precision, images that one needs are missing, a recipe of something
            else, or a folder that holds no bundle would be replaced; nothing is written.
    """
    options, demands = options or GraphOptions(), demands or Demands()
    folders = {name: Path(out) / _precision(name) for name in quantize}
    for folder in folders.values():
        check_replaceable(folder)
    if recipe is not None and "auto" not in folders:
        raise UsageError(f"a recipe is for auto. Received: quantize={', '.join(folders)}.")
    chosen = None if recipe is None else _read_recipe(recipe, subject.name)
    parameters, weights = subject.model.count_params(), weights_sha256(subject.model)
    refused = dict(_too_new(folders, demands.min_runtime))
    names = [name for name in folders if _precision(name) not in refused]
    if not names:
        return {}, refused
    making = _making(subject, names, options, demands, chosen is None, say)
    if chosen is not None:
        check_layers(making.converter.float_file(BASE), chosen["float_layers"])
    written = {}
    for name in names:
        precision = _precision(name)
        say(f"{name}: converting, then comparing")
        try:
            exported, found = making.export(name, chosen)
        except RefusedError as error:
            refused[precision] = str(error)
            continue
        written[precision] = write_bundle(
            folders[name],
            exported,
            subject.labels,
            subject.preprocessing,
            subject.picture(),
            subject.name,
            subject.images_from,
            None if precision_of(name).is_float else making.converter.calibration,
            found,
            demands.max_drop,
            parameters,
            weights,
        )
    return written, refused


def _making(
    subject: Subject,
    names: list[str],
    options: GraphOptions,
    demands: Demands,
    search: bool,
    say: Callable[[str], None],
) -> _Making:
    def given(images: np.ndarray | None) -> np.ndarray | None:
        if images is None or options.input == "float32":
            return images
        return to_pixels(images, subject.preprocessing)

    def reference(images: np.ndarray, targets: np.ndarray | None, images_from: str) -> _Reference:
        inputs, images_from = given(images), f"{len(images)} {images_from}"
        say(f"Keras on {images_from}")
        expected = expected_scores(subject.model, inputs, options.output)
        check_reference(expected)
        return _Reference(inputs, expected, targets, images_from)

    judged = reference(*subject.comparison(demands.images), subject.images_from)
    chosen_on = None
    if "auto" in names and search:
        chosen_on = reference(*subject.choosing(demands.images), subject.chosen_from)
    bases = [BASE if name == "auto" else name for name in names]
    calibration = given(subject.calibration(demands.calibrate))
    converter = Converter(subject.model, bases, options, calibration, demands.min_runtime)
    subject.model = None
    return _Making(converter, judged, chosen_on, demands, say, subject.name)


class _Reference(NamedTuple):
    """Images, what Keras says to them, and their classes if known."""

    inputs: np.ndarray
    expected: np.ndarray
    targets: np.ndarray | None
    images_from: str


@dataclasses.dataclass(frozen=True)
class _Making:
    """What the files of one export share."""

    converter: Converter
    judged: _Reference
    chosen_on: _Reference | None
    demands: Demands
    say: Callable[[str], None]
    model: str

    def export(
        self, name: str, recipe: dict[str, Any] | None
    ) -> tuple[Exported, dict[str, Any] | None]:
        """The file, which meets the demands, and what auto chose."""
        chosen = (recipe or self.search()) if name == "auto" else None
        kept = chosen["float_layers"] if chosen else ()
        content = self.converter(_base(name), kept)
        options = self.converter.options
        exported = judge_file(_precision(name), content, options, *self.judged[:3], kept)
        blocks, layers = self.differences(name, content)
        exported = dataclasses.replace(exported, differences=blocks)
        try:
            check(exported, self.demands.max_drop, self.demands.min_runtime)
        except ParityError as error:
            raise ParityError(
                f"{error} This file was not written.{_place(layers)}{_choice(chosen)}"
            ) from None
        return exported, chosen

    def search(self) -> dict[str, Any]:
        def holds(content: bytes) -> bool:
            runner, options = Runner(content), self.converter.options
            try:
                verdict = compared("auto", runner, options, *self.chosen_on[:3])
                verdict.check(self.demands.max_drop)
            except ParityError:
                return False
            return True

        inputs = self.chosen_on.inputs
        few = inputs[spread(_RANKED, len(inputs))]
        choice = choose_float_layers(self.converter, few, holds, self.say)
        origin = {"model": self.model, "chosen_on": self.chosen_on.images_from}
        found = choice.to_dict() | origin
        return {field: found[field] for field in ("format", *_RECIPE)}

    def differences(self, name: str, content: bytes) -> tuple[dict[str, float], dict[str, float]]:
        """Of blocks and of layers, from the float file."""
        reference = self.converter.float_file(_base(name))
        if _precision(name) == "float32" or len(reference) > _LARGEST_COMPARED:
            return {}, {}
        return layer_differences(reference, content, self.judged.inputs[:_WATCHED])


def _base(name: str) -> str:
    return precision_of(name).base or name


def _precision(name: str) -> str:
    return precision_of(name).name


def _too_new(names: Iterable[str], min_runtime: str | None) -> Iterator[tuple[str, str]]:
    """The precisions that the oldest runtime runs no file of, before anything is converted."""
    for name in names:
        try:
            for_runtime(precision_of(_base(name)), min_runtime)
        except RefusedError as error:
            yield _precision(name), str(error)


def _place(differences: dict[str, float]) -> str:
    """Where a file begins to differ, in words."""
    first = first_difference(differences)
    if first is None:
        return ""
    worst = max(differences, key=differences.get)
    return (
        f" Its layers differ from the float file's by more than a tenth from {first} on, most "
        f"in {worst} ({differences[worst]:.0%})."
    )


def _choice(recipe: dict[str, Any] | None) -> str:
    """What auto had chosen, in words."""
    if recipe is None:
        return ""
    return (
        f" auto left {len(recipe['float_layers'])} layers float, chosen on {recipe['chosen_on']}: "
        "with more --images it chooses better."
    )


def _read_recipe(path: str | os.PathLike, model: str) -> dict[str, Any]:
    recipe = _files.read_json(path, format=1, fields=_RECIPE)
    names, sensitivity = recipe["float_layers"], recipe["sensitivity"]
    listed = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if recipe["base"] != BASE or not listed or not isinstance(sensitivity, dict):
        raise UsageError(f"{path} is no recipe of {BASE} with layers left float.")
    for layer, value in sensitivity.items():
        _checks.number(f"{path}: sensitivity of {layer}", value)
    if recipe["model"] != model:
        raise UsageError(f"{path} is a recipe for {recipe['model']}. Received: {model}.")
    return {field: recipe[field] for field in ("format", *_RECIPE)}
