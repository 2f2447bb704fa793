"""Prints what each layer of a model costs.

These are parameters, operations and the memory of activations. The operations are those of matrix
products and convolutions, a multiplication and an addition as two, by formula; --count also counts
them in TensorFlow's graph of the model. Activations are the values that the backward pass holds, an
estimate in float32.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from keras_vit import _checks
from keras_vit._errors import UsageError
from keras_vit.cli._arguments import option
from keras_vit.cli._options import check_model, check_run
from keras_vit.cli._program import load, spelled
from keras_vit.cli._progress import profile_table
from keras_vit.recipe import SELF_SUPERVISED


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Options of the command."""

    model: str = option("ViT_B16", check=check_model)
    """A model, such as ViT_S16 or BiT_R50x1; the name all lists them."""
    run: Path | None = None
    """Instead of a model: a run folder."""
    image_size: int | tuple[int, int] | None = option(None, check=_checks.positive_integer)
    """One number, or height and width, in pixels. Default: the run's, or the usual
    one of the model: 224, or less for tiny ones."""
    num_classes: int = option(1000, check=_checks.positive_integer)
    """Number of logits of a model; a run has its own."""
    every: bool = False
    """A line for each layer, also for those that cost the same."""
    count: bool = False
    """Build the model and count its operations in TensorFlow's graph too."""

    def __post_init__(self):
        check_run(self.run)


def run(arguments: Arguments) -> None:
    """Prints the table."""
    load(*(["tensorflow"] if arguments.count else []))
    from keras_vit import runs
    from keras_vit.models.profile import grouped, profile

    if arguments.count:
        from keras_vit.evaluation.flops import check_countable

        check_countable()
    run = None if arguments.run is None else runs.open_run(arguments.run)
    name, spec, classes, size = _model(arguments, run)
    layers = profile(spec, classes, size)
    height, width = size
    print(f"{name}, {height} x {width} pixels, {classes:,} classes\n")
    print(profile_table(layers if arguments.every else grouped(layers)))
    if run is not None and run.loss in SELF_SUPERVISED:
        print(
            f"\nthese are the costs of the classifier; the run was trained without classes (loss "
            f"{run.loss}), and what that costs is printed by {spelled('fit')} --dry-run."
        )
    if arguments.count:
        print(f"\n{_counted(spec, classes, size, layers)}")


def _model(arguments: Arguments, run: Any) -> tuple[str, Any, int, tuple[int, int]]:
    """The name, the spec, the number of classes and the image size."""
    from keras_vit.specs import as_size, spec_from_dict
    from keras_vit.variant_specs import USUAL_SIZES, VARIANTS, find_variant

    if run is not None:
        size = arguments.image_size or tuple(run.spec["image_size"])
        spec = spec_from_dict(run.spec["spec"])
        return run.spec["model"], spec, len(run.labels), as_size(size)
    name = find_variant(arguments.model)
    size = arguments.image_size or USUAL_SIZES.get(name, 224)
    return name, VARIANTS[name], arguments.num_classes, as_size(size)


def _counted(spec: Any, classes: int, size: tuple[int, int], layers: Any) -> str:
    from keras_vit.evaluation.flops import counted_flops
    from keras_vit.models.pretrained import model_class

    counted = counted_flops(model_class(spec)(spec, classes, size))
    expected = {layer.name: layer.flops for layer in layers if layer.flops}
    if counted != expected:
        differ = sorted({name for name, _ in counted.items() ^ expected.items()})
        raise UsageError(f"the formula and TensorFlow's graph differ in {', '.join(differ)}.")
    return f"TensorFlow's graph has the same {sum(counted.values()):,} operations, layer by layer"
