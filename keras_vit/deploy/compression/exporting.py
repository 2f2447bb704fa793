"""Converts a compressed model to a file with exactly the kernels that were trained."""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_vit.deploy.compression.methods import Compressed
from keras_vit.deploy.convert.converter import Converter, MadeFile
from keras_vit.deploy.convert.quantize import measured_ranges, quantized
from keras_vit.deploy.graph.options import GraphOptions
from keras_vit.deploy.precisions import Precision, check_calibration, precision_of
from keras_vit.deploy.resolve import Resolved, resolve
from keras_vit.tflite.flatbuffer import MappedFile, read_graph


def compressed_file(made: Compressed, calibration: np.ndarray | None = None) -> MappedFile:
    """The `.tflite` file of a compressed model.

    Args:
        made: the result of `compress`.
        calibration: preprocessed images (n, height, width, 3), for precisions that need ranges.

    Raises:
        UsageError: the precision needs images and there are none, or they were not preprocessed.
    """
    return made_file(made, resolved_model(made), calibration).content


def resolved_model(
    compressed: Compressed, name: str | None = None, labels: tuple[str, ...] | None = None
) -> Resolved:
    """The compressed model, with the rewrites that keep the kernels that were trained."""
    options = GraphOptions(rewrites=compressed.wanted.rewrites)
    return resolve(compressed.model, options, labels=labels, name=name)


def made_file(
    compressed: Compressed, resolved: Resolved, calibration: np.ndarray | None
) -> MadeFile:
    """The file with a record of how it was made; `resolved` is its `resolved_model`."""
    precision = precision_of(compressed.wanted.quantize)
    check_calibration(precision, calibration)
    resolved.about.check_images(calibration)
    # Without images the converter balances no outlier channels, which would scale kernels.
    converter = Converter(resolved, ["none"])
    content, about = converter.float_file(), converter.about
    ranges = _ranges(content, precision, compressed, calibration)
    content = quantized(content, precision, ranges, about=about)
    measured = calibration if precision.calibrated else None
    return MadeFile(precision, content, about, calibration=measured)


def _ranges(
    content: MappedFile, precision: Precision, made: Compressed, calibration: np.ndarray | None
) -> dict[str, Any] | None:
    if not precision.calibrated:
        return None
    ranges = measured_ranges(content, precision, calibration)
    graph = read_graph(content)
    for operator in graph.operators:
        if operator.name == "FULLY_CONNECTED":
            tensors = [graph.read(operator)[0]]
            if len(graph.read(operator)) > 2:  # otherwise its bias was folded into the positions
                tensors += graph.written(operator)
            trained = made.ranges.get(graph.layer(operator), ())
            for tensor, ends in zip(tensors, trained, strict=False):
                ranges[tensor.name] = {
                    key: np.full_like(ranges[tensor.name][key], end)
                    for key, end in zip(("min", "max"), ends, strict=True)
                }
    return ranges
