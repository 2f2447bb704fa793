"""Graphs to `.tflite` files: one float32 file of each graph, then each precision from it."""

from __future__ import annotations

import contextlib
import ctypes
import gc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from keras_vit._interrupts import deferred_interrupts
from keras_vit._quiet import quiet
from keras_vit.deploy.convert.graphs import Graphs, write_graphs
from keras_vit.deploy.convert.quantize import (
    check_calibration,
    for_runtime,
    measured_ranges,
    quantized,
)
from keras_vit.deploy.inspect.flatbuffer import TFLiteFile
from keras_vit.deploy.judge.files import MadeFile
from keras_vit.deploy.judge.reference import Reference
from keras_vit.deploy.precisions import Rules, precision_of
from keras_vit.deploy.resolve import Resolved, resolve


class Converter:
    """Makes the files of one model, and keeps what they share: float files and measured ranges.

    Once it is made, neither this object nor its caller needs the model any longer: its graphs are
    on disk, and are converted when their first file is asked for.

    Args:
        model: a Keras model, or what `resolve` says of it.
        precisions: the names in `PRECISIONS` that will be asked for.
        options: a `GraphOptions`: what the file takes and gives, and the rewrites.
        calibration: images as the file takes them (n, height, width, 3), for precisions with
            measured ranges, and to balance outlier channels in all quantised ones.
        min_runtime: the oldest runtime that must run the files; None for any. Precisions that
            have a form for older runtimes take it.
        reference: see `write_graphs`.

    Raises:
        RefusedError: `min_runtime` runs no file of a precision.
        UsageError: as `resolve`; or a precision needs images and there are none.
    """

    def __init__(
        self,
        model: Any,
        precisions: Iterable[str | None],
        options: Any = None,
        calibration: np.ndarray | None = None,
        min_runtime: str | None = None,
        reference: Reference | None = None,
    ):
        from keras_vit.deploy.graph.inference import GraphOptions

        options = options or GraphOptions()
        wanted = [for_runtime(precision_of(name), min_runtime) for name in precisions]
        for precision in wanted:
            check_calibration(precision, calibration)
        resolved = model if isinstance(model, Resolved) else resolve(model, options)
        self.graphs: Graphs = write_graphs(resolved, wanted, options, calibration, reference)
        self._min_runtime = min_runtime
        self._float_files: dict[Path, TFLiteFile] = {}
        self._ranges: dict[Rules, dict] = {}

    def __call__(self, quantize: str | None = None, float_layers: Iterable[str] = ()) -> TFLiteFile:
        """The file of a precision.

        Args:
            quantize: one of the `precisions`; None for float32.
            float_layers: names of `quantizable_layers` that stay float.

        Raises:
            UsageError: an unknown layer; images are needed and there are none.
        """
        precision = for_runtime(precision_of(quantize), self._min_runtime)
        content, rules = self.float_file(quantize), precision.rules
        if precision.calibrated and rules not in self._ranges:
            self._ranges[rules] = measured_ranges(content, precision, self.calibration)
        return quantized(content, precision, None, float_layers, self._ranges.get(rules))

    def made(
        self, quantize: str | None = None, float_layers: Iterable[str] = (), recipe: Any = None
    ) -> MadeFile:
        """The file of a precision, with what it was made from; `recipe` is for the record."""
        precision, layers = precision_of(quantize), tuple(float_layers)
        calibration = None if precision.is_float else self.calibration
        content = self(quantize, layers)
        return MadeFile(
            precision, content, self.options, self.rewritten, layers, calibration, recipe
        )

    def float_file(self, quantize: str | None = None) -> TFLiteFile:
        """The float32 file that a precision starts from, with its weights behind the flatbuffer."""
        graph = self.graphs.path(precision_of(quantize))
        if graph not in self._float_files:
            self._float_files[graph] = float_file(graph)
        return self._float_files[graph]

    @property
    def options(self) -> Any:
        """What the files take and give."""
        return self.graphs.options

    @property
    def calibration(self) -> np.ndarray | None:
        """The images that measure ranges."""
        return self.graphs.calibration

    @property
    def rewritten(self) -> bool:
        """Whether the model was rebuilt as a faster graph."""
        return self.graphs.rewritten


def to_tflite(
    model: Any,
    quantize: str | None = None,
    calibration: np.ndarray | None = None,
    options: Any = None,
    float_layers: Iterable[str] = (),
) -> TFLiteFile:
    """One file of one precision: see `Converter`."""
    return Converter(model, [quantize], options, calibration)(quantize, float_layers)


def float_file(graph: Path) -> TFLiteFile:
    """Converts a graph with its weights, a SavedModel, to a float32 file."""
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_saved_model(str(graph))
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    # Weights behind the flatbuffer: it may exceed 2 GB, and is not built twice.
    converter._experimental_use_buffer_offset = True
    release_memory()
    with quiet(), deferred_interrupts() as check_interrupts:  # the converter would swallow them
        content = converter.convert()
        check_interrupts()
    del converter
    release_memory()
    return TFLiteFile(content)


def release_memory() -> None:
    """Gives what is no longer used back to the system, before work that needs the room."""
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):  # glibc's, where there is one
        ctypes.CDLL(None).malloc_trim(0)
