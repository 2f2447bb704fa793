"""The record that describes a kind of pooling."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Pooling:
    """A kind of pooling, which computes the head's input from the encoder's output.

    The exact rewrites of exported graphs use the last five attributes. Their defaults are safe
    for every pooling.

    Attributes:
        class_token: whether a learned token precedes the patches.
        layer: a function of a ViTSpec that returns the Keras layer, which must be named "pooling".
            The function imports Keras itself. None if the head reads every token.
        weights: a row for each weight: official key, path in the layer, official shape in the
            letters of `weights/names.py`.
        infer: the layer in the inference graph: a function of a `deploy.graph.inference._Graph`
            and the tokens (batch, tokens, hidden_dim) that returns (batch, hidden_dim).
            `graph.ops` has TensorFlow's functions under the names of `keras.ops`; `graph.weights`
            has the paths in the Keras model as names.
        reads_only_class_token: whether the last block may compute only the class token.
        averages: whether the output is a weighted mean of the tokens, with the same weights in
            every channel. Then the scale and shift of the encoder's last norm can be applied after
            the pooling instead.
        readers: the Dense layers that read the encoder's last norm; () if other layers read it.
        norms: for each LayerNorm of the pooling, the Dense layers that read it; nothing else does.
        fold_constants: a function of a ViTSpec and the weights that replaces, in place, constant
            computations by their results.
    """

    class_token: bool
    layer: Callable[[Any], Any] | None = None
    weights: str = ""
    infer: Callable[[Any, Any], Any] = lambda graph, x: x
    reads_only_class_token: bool = False
    averages: bool = False
    readers: tuple[str, ...] = ()
    norms: Mapping[str, list[str]] = dataclasses.field(default_factory=dict)
    fold_constants: Callable[[Any, dict[str, np.ndarray]], None] = lambda spec, weights: None
