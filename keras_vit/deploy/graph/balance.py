"""Outlier channels moved out of the way of quantisation, without changing what is computed.

A few channels of a trained ViT's residual stream are tens of times as large as the others
(Dettmers et al. 2022, "LLM.int8()"; Sun et al. 2024, "Massive activations"). Whatever shares a
scale with them, a tensor of activations or a row of weights, loses its own bits.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from keras_vit.deploy.graph.rewrites import Parameters, stream_readers, stream_writers
from keras_vit.specs import Spec, ViTSpec

# A multiplication is worth its time where some row of a kernel is this much above the others.
_WORTH_SMOOTHING = 4.0


def balance(spec: ViTSpec, p: Parameters, ranges: dict[str, np.ndarray]) -> None:
    """Balances rewritten parameters in place, given the ranges of channels on real images.

    Args:
        spec: of a ViT or hybrid.
        p: its parameters after rewrites that it `balances`.
        ranges: of `graph.channel_ranges`.
    """
    stream = np.max([ranges[f"encoderblock_{i}"] for i in range(spec.depth)], axis=0)
    scale = _powers_of_two(stream)
    _scale_stream(spec, p, scale)
    for norm, readers in stream_readers(spec, p).items():
        if readers and readers[0] in ranges:
            _smooth(p, norm, readers, ranges[readers[0]] / scale)


def balances(spec: Spec, rewrites: Iterable[str]) -> bool:
    """Whether graphs of these can be balanced: a BiT has no norms that undo a scale, and norms that
    take a mean or shift cannot."""
    return isinstance(spec, ViTSpec) and {"centre", "fold_norms"} <= set(rewrites)


def _scale_stream(spec: ViTSpec, p: Parameters, scale: np.ndarray) -> None:
    # The stream carries x / scale; norms undo it under the square and the kernels that read do.
    for name in stream_writers(spec, p):
        p[name] = p[name] / scale
    for norm, readers in stream_readers(spec, p).items():
        if f"{norm}/gamma" in p:
            p[f"{norm}/gamma"] = p[f"{norm}/gamma"] * scale
        else:
            for reader in readers:
                p[f"{reader}/kernel"] = scale[:, None] * p[f"{reader}/kernel"]
    p["stream/scale"] = scale


def _smooth(p: Parameters, norm: str, readers: list[str], activations: np.ndarray) -> None:
    # SmoothQuant (Xiao et al. 2023) at alpha = 0.5: half of an imbalance to either side.
    rows = np.max([np.abs(p[f"{reader}/kernel"]).max(1) for reader in readers], axis=0)
    if rows.max() < _WORTH_SMOOTHING * np.median(rows):
        return
    smooth = np.sqrt(np.maximum(rows, 1e-12) / np.maximum(activations, 1e-12))
    smooth = (smooth / np.median(smooth)).astype(np.float32)
    for reader in readers:
        p[f"{reader}/kernel"] = p[f"{reader}/kernel"] / smooth[:, None]
    p[f"{norm}/smooth"] = smooth


def _powers_of_two(ranges: np.ndarray) -> np.ndarray:
    # Powers of two divide without rounding; channels at or below the median stay as they are.
    ratio = ranges / max(np.median(ranges), 1e-12)
    return np.exp2(np.maximum(np.round(np.log2(np.maximum(ratio, 1.0))), 0)).astype(np.float32)
