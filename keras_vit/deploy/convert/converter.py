"""Converts graphs to `.tflite` files: first to float32, and from that to each precision."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from keras_vit.deploy.convert.graphs import Graphs, write_graphs
from keras_vit.deploy.convert.metadata import Metadata
from keras_vit.deploy.convert.quantize import (
    for_runtime,
    measured_ranges,
    quantized,
)
from keras_vit.deploy.inspect.flatbuffer import MappedFile
from keras_vit.deploy.judge.files import MadeFile
from keras_vit.deploy.judge.reference import Reference
from keras_vit.deploy.precisions import Rules, check_calibration, precision_of
from keras_vit.deploy.resolve import Resolved, resolve


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
        reference: see `write_graphs`.

    Attributes:
        metadata: what the files say of themselves.

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
        resolved_precisions = [for_runtime(precision_of(name), min_runtime) for name in precisions]
        for precision in resolved_precisions:
            check_calibration(precision, calibration)
        resolved.check_images(calibration)
        self.graphs: Graphs = write_graphs(resolved, resolved_precisions, calibration, reference)
        self.metadata = Metadata.of(resolved)
        self._min_runtime = min_runtime
        self._float_files: dict[bool, MappedFile] = {}
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
        ranges = self._ranges.get(rules)
        return quantized(content, precision, None, float_layers, ranges, self.metadata)

    def made(
        self, quantize: str | None = None, float_layers: Iterable[str] = (), recipe: Any = None
    ) -> MadeFile:
        """The file of a precision with a record of how it was made, which includes `recipe`."""
        precision, layers = precision_of(quantize), tuple(float_layers)
        calibration = None if precision.is_float else self.calibration
        content = self(quantize, layers)
        return MadeFile(
            precision, content, self.options, self.graphs.note, layers, calibration, recipe
        )

    def float_file(self, quantize: str | None = None) -> MappedFile:
        """The float32 file that a precision is made from; weights are after its flatbuffer."""
        balanced = self.graphs.balanced(precision_of(quantize))
        if balanced not in self._float_files:
            self._float_files[balanced] = self.graphs.convert(balanced)
        return self._float_files[balanced]

    @property
    def options(self) -> Any:
        """The input and output of the files."""
        return self.graphs.options

    @property
    def calibration(self) -> np.ndarray | None:
        """The images for measuring ranges."""
        return self.graphs.calibration


def to_tflite(
    model: Any,
    quantize: str | None = None,
    calibration: np.ndarray | None = None,
    options: Any = None,
    float_layers: Iterable[str] = (),
) -> bytes:
    """One file of one precision of a Keras model: see `resolve` and `Converter`."""
    converter = Converter(resolve(model, options), [quantize], calibration)
    return converter(quantize, float_layers).read_bytes()
