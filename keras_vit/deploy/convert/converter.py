"""Converts models to `.tflite` files: first to float32, and from that to each precision.

The graphs are written to disk and converted there, so that the model and its conversion are not in
memory at the same time.
"""

from __future__ import annotations

import dataclasses
import functools
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_vit._errors import RefusedError
from keras_vit._interrupts import deferred_interrupts
from keras_vit._keras import backend
from keras_vit.deploy.convert.float_file import convert, write_float_file
from keras_vit.deploy.convert.quantize import for_runtime, measured_ranges, quantized
from keras_vit.deploy.convert.saved_model import keras_module, save_module
from keras_vit.deploy.graph.graph_options import DEFAULTS, GraphOptions, InferenceGraph
from keras_vit.deploy.graph.inference import forward, inference_module, prepare
from keras_vit.deploy.graph.mask_outputs import mask_of, mask_size
from keras_vit.deploy.precisions import (
    PRECISIONS,
    Precision,
    Rules,
    check_calibration,
    precision_of,
)
from keras_vit.deploy.reference_scores import Reference
from keras_vit.deploy.resolve import About, Resolved, resolve
from keras_vit.deploy.stored_arrays import StoredArrays
from keras_vit.tflite.flatbuffer import MappedFile

# Number of images to compare a rebuilt graph on before it is converted.
_COMPARED = 2
# A graph with its weights on disk, or the folder of a SavedModel with layers of Keras.
Graph = InferenceGraph | Path
# A graph's name: rebuilt, also with balanced outlier channels, also for NPUs, or with the layers of
# Keras.
PLAIN, BALANCED, NPU, KERAS = "plain", "balanced", "npu", "keras"


@dataclasses.dataclass(frozen=True)
class MadeFile:
    """A file of one precision, and what it was made from.

    Attributes:
        precision: the precision, which sets the budget.
        content: the content of model.tflite.
        about: its model.
        float_layers: layers that stayed in float in a quantised file.
        calibration: the images that ranges were measured on; None if there were none.
        recipe: the layers that `auto` chose, as in recipe.json; None for other precisions.
        float_file: the float32 file that it was quantised from; None if it was not.
        earlier: of a file from an earlier bundle, what its model.json says of the conversion.
    """

    precision: Precision
    content: MappedFile
    about: About
    float_layers: tuple[str, ...] = ()
    calibration: np.ndarray | None = None
    recipe: dict[str, Any] | None = None
    float_file: MappedFile | None = None
    earlier: dict[str, Any] | None = None


class Converter:
    """Makes the files of one model, and caches their float files and measured ranges.

    The constructor writes the model's graphs to disk, where each is converted when it is first
    needed. The model itself is not needed afterwards.

    Args:
        resolved: the model, with the input and output of the files, and their rewrites.
        precisions: names in `PRECISIONS` of the files to make later.
        calibration: inputs of the file (n, height, width, 3), for precisions with measured ranges
            and to balance outlier channels in all quantised files.
        min_runtime: the oldest runtime that must run the files; None for any. Some precisions have
            another form for older runtimes.
        reference: Keras' scores for some images, to which those of a rebuilt graph are held.

    Attributes:
        about: the model.
        calibration: the images for measuring ranges.

    Raises:
        RefusedError: no file of a precision runs on `min_runtime`.
        UsageError: a precision needs images and there are none, or they were not preprocessed.
    """

    def __init__(
        self,
        resolved: Resolved,
        precisions: Iterable[str | None],
        calibration: np.ndarray | None = None,
        min_runtime: str | None = None,
        reference: Reference | None = None,
    ):
        self.calibration, self._min_runtime = calibration, min_runtime
        wanted = [for_runtime(precision_of(name), min_runtime) for name in precisions]
        for precision in wanted:
            check_calibration(precision, calibration)
        resolved.about.check_images(calibration)
        self._folder = tempfile.TemporaryDirectory()  # removed with this object and its files
        names = sorted({self._graph_of(precision) for precision in wanted})
        self._graphs, note = self._written(resolved, names, reference)
        self.about = dataclasses.replace(resolved.about, note=note)
        self._exact_layers = () if note else _exact_layers(resolved.graph)
        self._float_files: dict[str, MappedFile] = {}
        self._ranges: dict[Rules, dict] = {}

    def __call__(self, quantize: str | None = None, float_layers: Iterable[str] = ()) -> MappedFile:
        """The file of a precision.

        Args:
            quantize: one of the `precisions`; None for float32.
            float_layers: names of `quantizable_layers` that stay in float.

        Raises:
            UsageError: a layer is unknown, or images are needed and there are none.
        """
        precision = for_runtime(precision_of(quantize), self._min_runtime)
        content, rules = self.float_file(quantize), precision.rules
        if precision.calibrated and rules not in self._ranges:
            self._ranges[rules] = measured_ranges(content, precision, self.calibration)
        kept = {*float_layers, *self._exact_layers}
        return quantized(content, precision, self._ranges.get(rules), kept, self.about)

    def made(
        self, quantize: str | None = None, float_layers: Iterable[str] = (), recipe: Any = None
    ) -> MadeFile:
        """The file of a precision with a record of how it was made, which includes `recipe`."""
        precision = precision_of(quantize)
        layers = (*float_layers, *(self._exact_layers if precision.rules else ()))
        content = self(quantize, layers)
        calibration = None if precision.is_float else self.calibration
        float_file = self.float_file(quantize) if precision.rules else None
        return MadeFile(precision, content, self.about, layers, calibration, recipe, float_file)

    def float_file(self, quantize: str | None = None) -> MappedFile:
        """The float32 file that a precision is made from; weights are after its flatbuffer."""
        name = KERAS if self.about.note else self._graph_of(precision_of(quantize))
        if name not in self._float_files:
            path = Path(self._folder.name, f"{name}.tflite")
            write_float_graph(self._graphs[name], path)
            self._float_files[name] = MappedFile(path, self._folder)
        return self._float_files[name]

    def _graph_of(self, precision: Precision) -> str:
        """The graph of a file: files in integers have balanced channels if images show outliers."""
        if self.calibration is None or precision.is_float:
            return PLAIN
        return NPU if precision.is_for_npus else BALANCED

    def _written(
        self, resolved: Resolved, names: list[str], reference: Reference | None
    ) -> tuple[dict[str, Graph], str]:
        """Writes the graphs of these names; the model is not needed afterwards.

        If the scores of a rebuilt graph are not those of the reference, the model was changed in a
        way that its layers do not show, and Keras' own graph is written.

        Returns:
            The graphs, and why there is only Keras' own; "" if the model was rebuilt.
        """
        graphs: dict[str, Graph] = {}
        folder, note = Path(self._folder.name), resolved.about.note
        if not note:
            for name in names:
                images = None if name == PLAIN else self.calibration
                graph = dataclasses.replace(resolved.graph, for_npus=name == NPU)
                graphs[name] = _stored(graph, images, folder / name)
                note = note or _difference(graphs[name], reference)
            if note and backend() != "tensorflow":
                raise RefusedError(f"{note}; export it with KERAS_BACKEND=tensorflow.")
        if note:
            graphs = {KERAS: _saved(_as_it_is(resolved), folder / KERAS)}
        return graphs, note


def to_tflite(
    model: Any,
    quantize: str | None = None,
    calibration: np.ndarray | None = None,
    options: GraphOptions = DEFAULTS,
    float_layers: Iterable[str] = (),
) -> bytes:
    """One file of one precision of a Keras model: see `resolve` and `Converter`."""
    converter = Converter(resolve(model, options), [quantize], calibration)
    return converter(quantize, float_layers).read_bytes()


def write_float_graph(graph: Graph, path: Path) -> None:
    """Converts a graph to a float32 file, with its weights after the flatbuffer."""
    if not isinstance(graph, Path):
        if write_float_file(graph, path):
            return
        graph = _saved(inference_module(graph), path.with_suffix(".saved"))
    path.write_bytes(convert(tf.lite.TFLiteConverter.from_saved_model(str(graph))))


def graph_module(resolved: Resolved) -> Any:
    """A `tf.Module` whose `serve(images)` gives {output: tensor}."""
    if resolved.about.note:
        return _as_it_is(resolved)
    with tempfile.TemporaryDirectory() as folder:
        stored = StoredArrays(Path(folder, PLAIN), resolved.graph.weights)
        # Before `prepare`, so that each variable is read once: TensorFlow counts what it does, and
        # the numbers are in the names of functions in a SavedModel.
        stored.store()
        return inference_module(prepare(dataclasses.replace(resolved.graph, weights=stored)))


def _as_it_is(resolved: Resolved) -> Any:
    about, finish = resolved.about, lambda scores: scores
    if about.options.is_mask:
        size = mask_size(resolved.input_shape[:2], resolved.cell, about.options)
        finish = functools.partial(mask_of, size=size, output=about.options.output)
    return keras_module(resolved.keras, about.options, about.preprocessing, finish)


def _stored(graph: InferenceGraph, calibration: np.ndarray | None, folder: Path) -> InferenceGraph:
    """The graph, prepared, with its weights in a new folder.

    They are stored one by one, so that they are not in memory beside the model's.
    """
    stored = StoredArrays(folder, graph.weights)
    prepared = prepare(dataclasses.replace(graph, weights=stored), calibration)
    stored.store()
    return prepared


def _difference(graph: InferenceGraph, reference: Reference | None) -> str:
    """Describes how a rebuilt graph's scores differ from Keras'; "" if they do not."""
    if reference is None:
        return ""
    if graph.options.is_mask:  # Keras' scores are those of cells
        options = dataclasses.replace(graph.options, output="scores", output_stride=graph.spec.cell)
        graph = dataclasses.replace(graph, options=options)
    actual = [forward(graph, image[None]).numpy() for image in reference.inputs[:_COMPARED]]
    largest = float(np.abs(np.concatenate(actual) - reference.expected[:_COMPARED]).max())
    scale = float(np.ptp(reference.expected)) / 2
    if largest <= PRECISIONS["none"].budget.difference * scale:
        return ""
    return (
        "the graph that is rebuilt from its spec gives other scores: they differ by "
        f"{largest / scale:.1e} of their scale"
    )


def _exact_layers(graph: InferenceGraph) -> tuple[str, ...]:
    """The layers that stay in float in every file.

    A head that compares normalised features multiplies their cosines by a hundred or so, and with
    them what int8 rounds.
    """
    has_head = graph.tail is None and graph.options.scores_classes
    compares = has_head and getattr(graph.spec, "normalized_features", False)
    return ("head",) if compares and "head/kernel" in graph.weights else ()


def _saved(module: Any, folder: Path) -> Path:
    with deferred_interrupts() as check_interrupts:
        save_module(module, folder, module.serve.get_concrete_function())
        check_interrupts()
    return folder
