"""Writes the graphs of a resolved model to disk, where TFLite's converter reads them.

This way the model and its conversion are not in memory at the same time.
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

# Number of images to compare a rebuilt graph on before it is converted.
_COMPARED = 4


@dataclasses.dataclass(frozen=True)
class Graphs:
    """The graphs that the files of one export are converted from.

    Attributes:
        folder: the folder of the graphs; it is removed with this record.
        options: the input and output of the graphs.
        calibration: the images for balancing outlier channels and for measuring ranges.
        note: why this is Keras' own graph; "" if the model was rebuilt as a faster one.
    """

    folder: tempfile.TemporaryDirectory
    options: Any
    calibration: np.ndarray | None
    note: str

    def path(self, precision: Precision) -> Path:
        """The SavedModel that files of a precision are converted from."""
        balanced = not self.note and balances(precision, self.calibration)
        return Path(self.folder.name) / ("balanced" if balanced else "plain")


def write_graphs(
    resolved: Resolved,
    precisions: Iterable[Precision],
    calibration: np.ndarray | None = None,
    reference: Reference | None = None,
) -> Graphs:
    """Writes the graphs that files of these precisions need.

    Args:
        resolved: the model; it is not needed afterwards.
        precisions: the precisions of the files.
        calibration: inputs of the files, for balancing outlier channels.
        reference: Keras' scores for some images. If the scores of a rebuilt graph differ, the model
            was changed in a way that its layers do not show, and Keras' own graph is written.
    """
    folder, note, options = tempfile.TemporaryDirectory(), resolved.note, resolved.options
    if not note:
        kinds = {balances(precision, calibration) for precision in precisions}
        for balanced in sorted(kinds):
            module = _rebuilt(resolved, calibration if balanced else None)
            note = note or _difference(module, options, reference)
            if note and backend() != "tensorflow":
                raise ParityError(f"{note}; export it with KERAS_BACKEND=tensorflow.")
            if not note:
                _save(module, Path(folder.name) / ("balanced" if balanced else "plain"))
    if note:
        _save(_as_it_is(resolved), Path(folder.name) / "plain")
    return Graphs(folder, options, calibration, note)


def balances(precision: Precision, calibration: np.ndarray | None) -> bool:
    """Whether outlier channels are balanced: in integer files, if there are images to find them."""
    return calibration is not None and not precision.is_float


def graph_module(resolved: Resolved) -> Any:
    """A `tf.Module` whose `serve(images)` gives {output: tensor}."""
    return _as_it_is(resolved) if resolved.note else _rebuilt(resolved, None)


def _as_it_is(resolved: Resolved) -> Any:
    options = resolved.options
    pixels = resolved.preprocessing if options.input == "uint8" else None
    return keras_module(resolved.keras, options.batch, options.output, pixels)


def _rebuilt(resolved: Resolved, calibration: np.ndarray | None) -> Any:
    from keras_vit.deploy.graph.inference import inference_module

    return inference_module(
        resolved.spec,
        arrays(resolved.weights),
        resolved.input_shape[:2],
        resolved.preprocessing,
        resolved.options,
        calibration,
        resolved.tail,
    )


def _difference(module: Any, options: Any, reference: Reference | None) -> str:
    """Describes how a rebuilt graph's scores differ from Keras'; "" if they do not."""
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
