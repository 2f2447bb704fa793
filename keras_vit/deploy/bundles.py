"""A model to bundles of several precisions: convert, run, compare, and only then write."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from keras_vit import _files
from keras_vit._errors import RefusedError, UsageError
from keras_vit.deploy.auto import BASE, choose_float_layers
from keras_vit.deploy.blocks import block_differences, first_difference
from keras_vit.deploy.bundle import write_bundle
from keras_vit.deploy.convert import Converter
from keras_vit.deploy.export import Exported, check, expected_scores, judge, to_pixels
from keras_vit.deploy.graph import GraphOptions
from keras_vit.deploy.parity import ParityError
from keras_vit.deploy.quantize import precision_of
from keras_vit.deploy.runtimes import check_version
from keras_vit.deploy.subject import Subject

# Enough to rank layers by, and to see in which block a difference begins.
_FEW = 8
# In half precision the sum of 768 squares overflows above a root mean square of 9; so, above 147.
_GPU_DIVISOR = 16.0


@dataclasses.dataclass(frozen=True)
class Demands:
    """What is asked of the files.

    Attributes:
        max_drop: points of accuracy that a quantised file may lose, where labels are known; None:
            0.5, of int4 1.5.
        min_runtime: the oldest runtime that must run them; None for any.
        target: "cpu"; "gpu" or "any" avoid what GPU delegates do not take, at some 2% of a CPU's
            time, and refuse what they would get wrong.
        images: at most this many are compared.
        calibrate: at most this many measure ranges.

    Raises:
        UsageError: `min_runtime` is no version.
    """

    max_drop: float | None = None
    min_runtime: str | None = None
    target: str = "cpu"
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
) -> tuple[dict[str, dict[str, Any]], list[str]]:
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
        What each model.json says, by precision; and for each file that does not meet the demands
        and is not written, why.

    Raises:
        UsageError: an unknown precision, images that one needs are missing, or no such recipe;
            nothing is written.
    """
    options, demands = options or GraphOptions(), demands or Demands()
    names = list(dict.fromkeys(quantize))
    if recipe is not None and "auto" not in names:
        raise UsageError(f"a recipe is for auto. Received: quantize={', '.join(names)}.")
    chosen = None if recipe is None else _read_recipe(recipe)
    if demands.target != "cpu":
        rewrites = options.rewrites - {"single_query"}  # a constant of rank 3 in a product
        options = dataclasses.replace(options, rewrites=rewrites, stream_divisor=_GPU_DIVISOR)
    inputs, targets = subject.comparison(demands.images)
    calibration = subject.calibration(demands.calibrate)
    if options.input == "uint8":
        inputs, calibration = (
            x if x is None else to_pixels(x, subject.preprocessing) for x in (inputs, calibration)
        )
    targets = None if options.output == "features" else targets
    say(f"Keras on {len(inputs)} {subject.images_from}")
    parameters = subject.model.count_params()
    expected = expected_scores(subject.model, inputs, options.output)
    bases = [BASE if name == "auto" else name for name in names]
    converter = Converter(subject.model, bases, options, calibration)
    subject.model = None
    descriptions, refused = {}, []
    for name in names:
        say(f"{name}: converting, then comparing")
        made = _Made(converter, name, inputs, expected, targets, demands, say)
        try:
            exported, found = made.export(chosen)
        except RefusedError as error:
            refused.append(str(error))
            continue
        precision = exported.verdict.precision
        descriptions[precision] = write_bundle(
            Path(out) / precision,
            exported,
            subject.labels,
            subject.preprocessing,
            subject.picture(),
            subject.name,
            subject.images_from,
            calibration if precision not in ("float32", "float16") else None,
            found,
            demands.max_drop,
            parameters,
        )
    return descriptions, refused


@dataclasses.dataclass(frozen=True)
class _Made:
    """One precision in the making."""

    converter: Converter
    name: str
    inputs: np.ndarray
    expected: np.ndarray
    targets: np.ndarray | None
    demands: Demands
    say: Callable[[str], None]

    def export(self, recipe: dict[str, Any] | None) -> tuple[Exported, dict[str, Any] | None]:
        """The file, which meets the demands, and what auto chose."""
        chosen = None
        if self.name == "auto":
            chosen = recipe or self.search()
        kept = chosen["float_layers"] if chosen else ()
        content = self.converter(BASE if self.name == "auto" else self.name, kept)
        exported = self.judged(content, kept)
        try:
            check(exported, self.demands.max_drop, self.demands.min_runtime, self.demands.target)
        except ParityError as error:
            raise ParityError(f"{error}{self.place(content)}") from None
        return exported, chosen

    def judged(self, content: bytes, kept: Iterable[str] = ()) -> Exported:
        precision = "auto" if self.name == "auto" else precision_of(self.name).name
        options = self.converter.options
        return judge(precision, content, options, self.inputs, self.expected, self.targets, kept)

    def search(self) -> dict[str, Any]:
        def holds(content: bytes) -> bool:
            try:
                self.judged(content).verdict.check(self.demands.max_drop)
            except ParityError:
                return False
            return True

        few = self.converter.calibration
        few = self.inputs[:_FEW] if few is None else few[:_FEW]
        return choose_float_layers(self.converter, few, holds, self.say).to_dict()

    def place(self, content: bytes) -> str:
        """Where the file begins to differ, in words."""
        base = BASE if self.name == "auto" else self.name
        reference = self.converter.float_file(base)
        differences = block_differences(reference, content, self.inputs[:_FEW])
        first = first_difference(differences)
        if first is None:
            return ""
        worst = max(differences, key=differences.get)
        return (
            f" Its blocks differ from the float file's by more than a tenth from {first} on, most "
            f"in {worst} ({differences[worst]:.0%})."
        )


def _read_recipe(path: str | os.PathLike) -> dict[str, Any]:
    recipe = _files.read_json(path, format=1, fields=("base", "float_layers"))
    names = recipe["float_layers"]
    listed = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if recipe["base"] != BASE or not listed:
        raise UsageError(f"{path} is no recipe of {BASE} with layers left float.")
    return recipe
