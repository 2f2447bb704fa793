"""A compressed model to a file that has its kernels as they were trained."""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_vit.deploy.compression.methods import Compressed
from keras_vit.deploy.convert.converter import Converter
from keras_vit.deploy.convert.quantize import measured_ranges, quantized
from keras_vit.deploy.inspect.flatbuffer import read_graph
from keras_vit.deploy.precisions import Precision, precision_of


def compressed_file(made: Compressed, calibration: np.ndarray | None = None) -> bytes:
    """The `.tflite` file of what `compress` made.

    Args:
        made: the compressed model, and what it was made for.
        calibration: preprocessed images (n, height, width, 3), for precisions that need ranges.

    Raises:
        UsageError: the precision needs images and there are none.
    """
    from keras_vit.deploy.graph.inference import GraphOptions

    precision = precision_of(made.wanted.quantize)
    # The converter gets no images, so all integers are "dynamic" to it: with images it would
    # balance outlier channels, which scales kernels.
    kind = "none" if precision.is_float else "dynamic"
    options = GraphOptions(rewrites=made.wanted.rewrites)
    content = Converter(made.model, [kind], options).float_file(kind)
    return quantized(content, precision, ranges=_ranges(content, precision, made, calibration))


def _ranges(
    content: bytes, precision: Precision, made: Compressed, calibration: np.ndarray | None
) -> dict[str, Any] | None:
    if not precision.calibrated:
        return None
    ranges = measured_ranges(content, precision, calibration)
    graph = read_graph(content)
    for operator in graph.operators:
        if operator.name == "FULLY_CONNECTED":
            tensors = [graph.read(operator)[0]]
            if len(graph.read(operator)) > 2:  # else its bias is added later, to the positions
                tensors += graph.written(operator)
            trained = made.ranges.get(graph.layer(operator), ())
            for tensor, ends in zip(tensors, trained, strict=False):
                ranges[tensor.name] = {
                    key: np.full_like(ranges[tensor.name][key], end)
                    for key, end in zip(("min", "max"), ends, strict=True)
                }
    return ranges
