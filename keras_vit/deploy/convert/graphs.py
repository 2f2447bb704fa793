"""A resolved model to graphs on disk, which TFLite's converter reads.

They are on disk so that the model and its conversion need not be in memory together.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from keras_vit._interrupts import deferred_interrupts
from keras_vit._keras import backend
from keras_vit.deploy.convert.saved_model import keras_module, save_module
from keras_vit.deploy.judge.parity import ParityError
from keras_vit.deploy.judge.reference import Reference
from keras_vit.deploy.precisions import PRECISIONS, Precision
from keras_vit.deploy.resolve import Resolved, arrays

# Images that a rebuilt graph is compared on before it is converted.
_COMPARED = 4


@dataclasses.dataclass(frozen=True)
class Graphs:
    """The graphs that the files of one export are converted from.

    Attributes:
        folder: where they are; removed with this record.
        options: what they take and give.
        calibration: the images that balanced the outlier channels, and measure ranges.
        rewritten: whether the model was rebuilt as a faster graph; otherwise they are Keras' own.
        note: why not.
    """

    folder: tempfile.TemporaryDirectory
    options: Any
    calibration: np.ndarray | None
    rewritten: bool
    note: str

    def path(self, precision: Precision) -> Path:
        """The SavedModel that files of a precision start from."""
        balanced = self.rewritten and balances(precision, self.calibration)
        return Path(self.folder.name) / ("balanced" if balanced else "plain")


def write_graphs(
    resolved: Resolved,
    precisions: Iterable[Precision],
    options: Any,
    calibration: np.ndarray | None = None,
    reference: Reference | None = None,
) -> Graphs:
    """Writes the graphs that some precisions need.

    Args:
        resolved: the model, which is not needed any longer afterwards.
        precisions: those that will be made.
        options: a `GraphOptions`.
        calibration: images as the files take them, to balance outlier channels.
        reference: Keras' scores of some images. Where a rebuilt graph gives others, the model
            was changed in a way that its layers do not show, and Keras' own graph is written.
    """
    folder, note = tempfile.TemporaryDirectory(), resolved.note
    if not note:
        kinds = {balances(precision, calibration) for precision in precisions}
        for balanced in sorted(kinds):
            module = _rebuilt(resolved, options, calibration if balanced else None)
            note = note or _difference(module, options, reference)
            if note and backend() != "tensorflow":
                raise ParityError(f"{note}; export it with KERAS_BACKEND=tensorflow.")
            if not note:
                _save(module, Path(folder.name) / ("balanced" if balanced else "plain"))
    if note:
        _save(_as_it_is(resolved, options), Path(folder.name) / "plain")
    return Graphs(folder, options, calibration, not note, note)


def balances(precision: Precision, calibration: np.ndarray | None) -> bool:
    """Whether outlier channels are balanced: for integers, by what images show of them."""
    return calibration is not None and not precision.is_float


def graph_module(resolved: Resolved, options: Any) -> Any:
    """A `tf.Module` whose `serve(images)` gives {options.output: tensor}."""
    return _as_it_is(resolved, options) if resolved.note else _rebuilt(resolved, options, None)


def _as_it_is(resolved: Resolved, options: Any) -> Any:
    pixels = resolved.preprocessing if options.input == "uint8" else None
    return keras_module(resolved.keras, options.batch, options.output, pixels)


def _rebuilt(resolved: Resolved, options: Any, calibration: np.ndarray | None) -> Any:
    from keras_vit.deploy.graph.inference import inference_module

    return inference_module(
        resolved.spec,
        arrays(resolved.weights),
        resolved.input_shape[:2],
        resolved.preprocessing,
        options,
        calibration,
        resolved.tail,
    )


def _difference(module: Any, options: Any, reference: Reference | None) -> str:
    """How a rebuilt graph's scores differ from Keras', in words; "" where they do not."""
    if reference is None:
        return ""
    largest = 0.0
    for image, expected in zip(reference.inputs[:_COMPARED], reference.expected, strict=False):
        [actual] = module.serve(image[None])[options.output].numpy()
        largest = max(largest, float(np.abs(actual - expected).max()))
    scale = float(np.ptp(reference.expected)) / 2
    if largest <= PRECISIONS["none"].budget.difference * scale:
        return ""
    return (
        "the graph that is rebuilt from its spec gives other scores: they differ by "
        f"{largest / scale:.1e} of their scale"
    )


def _save(module: Any, folder: Path) -> None:
    with deferred_interrupts() as check_interrupts:
        save_module(module, folder, module.serve.get_concrete_function())
        check_interrupts()
