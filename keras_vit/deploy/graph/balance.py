"""Scales outlier channels down before quantisation, without changing the output of the model.

A few channels of a trained ViT's residual stream are tens of times larger than the others
(Dettmers et al. 2022, "LLM.int8()"; Sun et al. 2024, "Massive activations"). Other values with the
same scale, in a tensor of activations or a row of weights, lose precision.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from keras_vit.deploy.graph.rewrites import Parameters, repeated, wiring_of
from keras_vit.specs import Spec, ViTSpec

# Smoothing costs a multiplication, so it is only applied if a row of a kernel is this much larger
# than the others.
_WORTH_SMOOTHING = 4.0


def balance(
    spec: ViTSpec, p: Parameters, ranges: dict[str, np.ndarray], as_map: bool = False
) -> None:
    """Balances rewritten parameters in place, given the ranges of channels on real images.

    Args:
        spec: spec of a ViT or a hybrid.
        p: its parameters, after rewrites for which `balances` is true.
        ranges: the result of `inference.channel_ranges`.
        as_map: whether the output is a feature map.
    """
    largest = np.max([ranges[f"encoderblock_{i}"] for i in range(spec.depth)], axis=0)
    scale = _powers_of_two(largest)
    wired = wiring_of(spec, p, as_map)
    foldable = wired.foldable(p)
    stream = {norm: foldable[norm] for norm in wired.stream_norms}
    _scale_stream(p, wired.stream_writers(p), stream, scale)
    for norm, readers in stream.items():
        if readers and readers[0] in ranges:
            _smooth(p, norm, readers, _largest(ranges[readers[0]], len(scale)) / scale)


def balances(spec: Spec, rewrites: Iterable[str]) -> bool:
    """Whether a graph can be balanced. A norm undoes the scale of its input only if it neither
    subtracts a mean nor adds a shift, and a BiT has no such norms."""
    return isinstance(spec, ViTSpec) and {"centre", "fold_norms"} <= set(rewrites)


def _scale_stream(
    p: Parameters, writers: list[str], stream: dict[str, list[str]], scale: np.ndarray
) -> None:
    # The stream holds x / scale. Norms undo that for their mean square, kernels for their input.
    for name in writers:
        p[name] = p[name] / scale
    for norm, readers in stream.items():
        if f"{norm}/gamma" in p:
            p[f"{norm}/gamma"] = p[f"{norm}/gamma"] * scale
        else:
            for reader in readers:
                kernel = p[f"{reader}/kernel"]
                p[f"{reader}/kernel"] = repeated(scale, kernel) * kernel
    p["stream/scale"] = scale


def _smooth(p: Parameters, norm: str, readers: list[str], activations: np.ndarray) -> None:
    # SmoothQuant (Xiao et al. 2023) with alpha = 0.5: weights and activations each take half of the
    # imbalance.
    kernels = [p[f"{reader}/kernel"] for reader in readers]
    rows = [_largest(np.abs(kernel).max(1), len(activations)) for kernel in kernels]
    rows = np.max(rows, axis=0)
    if rows.max() < _WORTH_SMOOTHING * np.median(rows):
        return
    smooth = np.sqrt(np.maximum(rows, 1e-12) / np.maximum(activations, 1e-12))
    smooth = (smooth / np.median(smooth)).astype(np.float32)
    for reader, kernel in zip(readers, kernels, strict=True):
        p[f"{reader}/kernel"] = kernel / repeated(smooth, kernel)
    p[f"{norm}/smooth"] = smooth


def _largest(values: np.ndarray, channels: int) -> np.ndarray:
    # The largest value of each channel over the tokens that a layer reads.
    return values.reshape(-1, channels).max(0)


def _powers_of_two(ranges: np.ndarray) -> np.ndarray:
    # Powers of two divide without rounding; channels at or below the median stay as they are.
    ratio = ranges / max(np.median(ranges), 1e-12)
    return np.exp2(np.maximum(np.round(np.log2(np.maximum(ratio, 1.0))), 0)).astype(np.float32)
