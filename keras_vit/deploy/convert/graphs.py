"""Writes the graphs of a resolved model to disk, and converts them to float32 files there.

This way the model and its conversion are not in memory at the same time.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from keras_vit._interrupts import deferred_interrupts
from keras_vit._keras import backend
from keras_vit.deploy.convert.saved_model import keras_module, save_module
from keras_vit.deploy.convert.skeleton import StoredGraph, write_float_file
from keras_vit.deploy.convert.tflite import convert
from keras_vit.deploy.inspect.flatbuffer import MappedFile
from keras_vit.deploy.judge.parity import ParityError
from keras_vit.deploy.judge.reference import Reference
from keras_vit.deploy.precisions import PRECISIONS, Precision
from keras_vit.deploy.resolve import Resolved, arrays, sources
from keras_vit.deploy.stored_arrays import StoredArrays

# Number of images to compare a rebuilt graph on before it is converted.
_COMPARED = 2


@dataclasses.dataclass(frozen=True)
class Graphs:
    """The graphs that the files of one export are converted from.

    Attributes:
        folder: the folder of the graphs and their float32 files; it is removed with this record.
        options: the input and output of the graphs.
        calibration: the images for balancing outlier channels and for measuring ranges.
        note: why this is Keras' own graph; "" if the model was rebuilt as a faster one.
        written: the graphs by whether their outlier channels are balanced: rebuilt graphs, or the
            folders of SavedModels where the graph has layers of Keras.
    """

    folder: tempfile.TemporaryDirectory
    options: Any
    calibration: np.ndarray | None
    note: str
    written: dict[bool, StoredGraph | Path]

    def balanced(self, precision: Precision) -> bool:
        """Whether files of a precision are made from the graph with balanced channels."""
        return not self.note and balances(precision, self.calibration)

    def convert(self, balanced: bool) -> MappedFile:
        """Converts one of the graphs to a float32 file, with its weights after the flatbuffer."""
        graph = self.written[balanced]
        path = Path(self.folder.name) / f"{_name(balanced)}.tflite"
        if isinstance(graph, Path):
            path.write_bytes(_converted(graph))
        elif not write_float_file(graph, path):
            path.write_bytes(_converted(_saved(graph.module(), path.with_suffix(".saved"))))
        return MappedFile(path, self.folder)


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
    folder, note = tempfile.TemporaryDirectory(), resolved.note
    written: dict[bool, StoredGraph | Path] = {}
    if not note:
        for balanced in sorted({balances(precision, calibration) for precision in precisions}):
            place = Path(folder.name) / _name(balanced)
            images = calibration if balanced else None
            written[balanced], scores = _rebuilt(resolved, images, place)
            note = note or _difference(scores, reference)
    if note and not resolved.note and backend() != "tensorflow":
        raise ParityError(f"{note}; export it with KERAS_BACKEND=tensorflow.")
    if note:
        written = {False: _saved(_as_it_is(resolved), Path(folder.name) / "keras")}
    return Graphs(folder, resolved.options, calibration, note, written)


def balances(precision: Precision, calibration: np.ndarray | None) -> bool:
    """Whether outlier channels are balanced: in integer files, if there are images to find them."""
    return calibration is not None and not precision.is_float


def graph_module(resolved: Resolved) -> Any:
    """A `tf.Module` whose `serve(images)` gives {output: tensor}."""
    return _as_it_is(resolved) if resolved.note else _rebuilt_module(resolved, None)


def _name(balanced: bool) -> str:
    return "balanced" if balanced else "plain"


def _as_it_is(resolved: Resolved) -> Any:
    options = resolved.options
    pixels = resolved.preprocessing if options.input == "uint8" else None
    return keras_module(resolved.keras, options.batch, options.output, pixels)


def _rebuilt(
    resolved: Resolved, calibration: np.ndarray | None, place: Path
) -> tuple[StoredGraph, Callable[[np.ndarray], Any]]:
    """A rebuilt graph, written to a new folder, and a function from images to its scores.

    Its weights are stored one by one, so that they are not in memory beside the model's.
    """
    from keras_vit.deploy.graph.inference import prepare

    options = resolved.options
    spec, size, preprocessing = resolved.spec, resolved.input_shape[:2], resolved.preprocessing
    weights = StoredArrays(place, sources(resolved.weights))
    prepare(spec, weights, size, preprocessing, options, calibration, resolved.tail is not None)
    weights.store()
    graph = StoredGraph(spec, size, preprocessing, options, weights, resolved.tail)
    return graph, lambda images: graph.scores(weights, images)


def _rebuilt_module(resolved: Resolved, calibration: np.ndarray | None) -> Any:
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


def _difference(scores: Callable[[np.ndarray], Any], reference: Reference | None) -> str:
    """Describes how a rebuilt graph's scores differ from Keras'; "" if they do not."""
    if reference is None:
        return ""
    largest = 0.0
    for image, expected in zip(reference.inputs[:_COMPARED], reference.expected, strict=False):
        [actual] = scores(image[None]).numpy()
        largest = max(largest, float(np.abs(actual - expected).max()))
    scale = float(np.ptp(reference.expected)) / 2
    if largest <= PRECISIONS["none"].budget.difference * scale:
        return ""
    return (
        "the graph that is rebuilt from its spec gives other scores: they differ by "
        f"{largest / scale:.1e} of their scale"
    )


def _saved(module: Any, folder: Path) -> Path:
    with deferred_interrupts() as check_interrupts:
        save_module(module, folder, module.serve.get_concrete_function())
        check_interrupts()
    return folder


def _converted(folder: Path) -> bytes:
    import tensorflow as tf

    return convert(tf.lite.TFLiteConverter.from_saved_model(str(folder)))
