"""Writes the graph of a resolved model to disk, and converts it to a float32 file there.

This way the model and its conversion are not in memory at the same time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from keras_vit._errors import RefusedError
from keras_vit._interrupts import deferred_interrupts
from keras_vit._keras import backend
from keras_vit.deploy.convert.saved_model import keras_module, save_module
from keras_vit.deploy.convert.skeleton import module_of, scores_of, write_float_file
from keras_vit.deploy.convert.tflite import convert
from keras_vit.deploy.precisions import PRECISIONS
from keras_vit.deploy.reference import Reference
from keras_vit.deploy.resolve import Resolved
from keras_vit.deploy.stored_arrays import StoredArrays

# Number of images to compare a rebuilt graph on before it is converted.
_COMPARED = 2
# A rebuilt graph with its weights on disk, or the folder of a SavedModel with layers of Keras.
Graph = Resolved | Path


def write_graphs(
    resolved: Resolved,
    folder: Path,
    balanced: Iterable[bool],
    calibration: np.ndarray | None,
    reference: Reference | None,
) -> tuple[dict[bool, Graph], str]:
    """Writes the graphs of a model; the model is not needed afterwards.

    Args:
        resolved: the model.
        folder: the folder to write to.
        balanced: whether outlier channels are balanced, for each graph to write.
        calibration: inputs of the files, for balancing.
        reference: Keras' scores for some images. If the scores of a rebuilt graph differ, the model
            was changed in a way that its layers do not show, and Keras' own graph is written.

    Returns:
        The graphs, and why there is only Keras' own; "" if the model was rebuilt.
    """
    graphs: dict[bool, Graph] = {}
    note = resolved.about.note
    if not note:
        for each in sorted(set(balanced)):
            images = calibration if each else None
            graphs[each] = _rebuilt(resolved, images, folder / _name(each))
            note = note or _difference(graphs[each], reference)
        if note and backend() != "tensorflow":
            raise RefusedError(f"{note}; export it with KERAS_BACKEND=tensorflow.")
    if note:
        graphs = {False: _saved(_as_it_is(resolved), folder / "keras")}
    return graphs, note


def write_float_graph(graph: Graph, folder: Path, balanced: bool) -> Path:
    """Converts one of the graphs to a float32 file, with its weights after the flatbuffer."""
    path = folder / f"{_name(balanced)}.tflite"
    if isinstance(graph, Path):
        path.write_bytes(_converted(graph))
    elif not write_float_file(graph, path):
        path.write_bytes(_converted(_saved(module_of(graph), path.with_suffix(".saved"))))
    return path


def graph_module(resolved: Resolved) -> Any:
    """A `tf.Module` whose `serve(images)` gives {output: tensor}."""
    from keras_vit.deploy.graph.inference import inference_module

    about = resolved.about
    if about.note:
        return _as_it_is(resolved)
    weights = {name: source() for name, source in resolved.weights.items()}
    size = resolved.input_shape[:2]
    return inference_module(
        resolved.spec, weights, size, about.preprocessing, about.options, tail=resolved.tail
    )


def _name(balanced: bool) -> str:
    return "balanced" if balanced else "plain"


def _as_it_is(resolved: Resolved) -> Any:
    options = resolved.about.options
    pixels = resolved.about.preprocessing if options.input == "uint8" else None
    return keras_module(resolved.keras, options.batch, options.output, pixels)


def _rebuilt(resolved: Resolved, calibration: np.ndarray | None, place: Path) -> Resolved:
    """The model with the weights of its graph in a new folder.

    They are stored one by one, so that they are not in memory beside the model's.
    """
    from keras_vit.deploy.graph.inference import prepare

    about, spec, size = resolved.about, resolved.spec, resolved.input_shape[:2]
    weights, has_tail = StoredArrays(place, resolved.weights), resolved.tail is not None
    prepare(spec, weights, size, about.preprocessing, about.options, calibration, has_tail)
    weights.store()
    return dataclasses.replace(resolved, keras=None, weights=weights)


def _difference(graph: Resolved, reference: Reference | None) -> str:
    """Describes how a rebuilt graph's scores differ from Keras'; "" if they do not."""
    if reference is None:
        return ""
    largest = 0.0
    for image, expected in zip(reference.inputs[:_COMPARED], reference.expected, strict=False):
        [actual] = scores_of(graph, graph.weights, image[None]).numpy()
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
