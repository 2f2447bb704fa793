"""The record that describes a kind of pooling."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Pooling:
    """A kind of pooling: how the head's input is made of the encoder's output.

    The last five attributes are what the exact rewrites of exported graphs need to know. Their
    defaults are safe for every pooling.

    Attributes:
        class_token: whether the model has a learned token before the patches.
        layer: from a ViTSpec to the Keras layer, which must be called "pooling". It imports Keras
            itself. None where the head reads every token.
        weights: a row for each weight: official key, path in the layer, official shape in the
            letters of `weights/names.py`.
        infer: the layer's part of the inference graph, from `deploy.graph.inference._Graph` and
            (batch, tokens, hidden_dim) to (batch, hidden_dim). `graph.ops` are TensorFlow's
            functions under the names of `keras.ops`; `graph.weights` have our layers' names.
        reads_class_token_alone: whether the last block may leave out all other tokens.
        averages: whether the output is a weighted mean of tokens, with the same weights in every
            channel. The encoder's last norm then scales and shifts the output just as well.
        readers: Dense layers that read the encoder's last norm, if nothing else reads it.
        norms: its own LayerNorms, and the Dense layers that each of them is read by alone.
        fold_constants: replaces what is constant in the weights by less, in place, given a ViTSpec
            and the weights.
    """

    class_token: bool
    layer: Callable[[Any], Any] | None = None
    weights: str = ""
    infer: Callable[[Any, Any], Any] = lambda graph, x: x
    reads_class_token_alone: bool = False
    averages: bool = False
    readers: tuple[str, ...] = ()
    norms: Mapping[str, list[str]] = dataclasses.field(default_factory=dict)
    fold_constants: Callable[[Any, dict[str, np.ndarray]], None] = lambda spec, weights: None
