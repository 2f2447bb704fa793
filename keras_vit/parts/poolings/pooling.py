"""The record that describes a kind of pooling."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np


class InferenceGraph(Protocol):
    """What the inference function of a pooling may use: a forward pass that is being built.

    Names of weights and layers are the paths in the Keras model, "pooling/mlp".

    Attributes:
        spec: the ViTSpec.
        weights: the weights by name.
        ops: TensorFlow's functions under the names of `keras.ops`.
    """

    spec: Any
    weights: Mapping[str, Any]
    ops: Any

    def scope(self, name: str) -> AbstractContextManager:
        """A context that adds a level to the names of operators."""

    def dense(self, name: str, x: Any) -> Any:
        """A Dense layer: (..., inputs) to (..., units)."""

    def mlp(self, name: str, x: Any) -> Any:
        """An MLP block: (batch, tokens, hidden_dim) to the same shape."""

    def norm(self, name: str, x: Any, centred: bool) -> Any:
        """LayerNorm. The mean of `centred` values is zero and is not computed."""

    def attention(self, name: str, queries: Any, keys: Any) -> Any:
        """Multi-head attention of (batch, queries, hidden_dim) to (batch, keys, hidden_dim)."""

    def scaled(self, query: Any) -> Any:
        """Queries, divided by the root of the head's size unless a rewrite did this before."""

    def heads(self, x: Any) -> Any:
        """(batch, tokens, hidden_dim) to (batch, heads, tokens, head_dim)."""

    def attended(self, name: str, logits: Any, value: Any) -> Any:
        """The output of attention from logits (b, h, queries, keys), values (b, h, keys, dim)."""

    def for_each_image(self, constant: Any, x: Any) -> Any:
        """A constant (1, n, hidden_dim), repeated for the batch of `x`: (batch, n, hidden_dim)."""

    def first_tokens(self, x: Any, count: int) -> Any:
        """(batch, tokens, hidden_dim) to (batch, count * hidden_dim)."""


@dataclasses.dataclass(frozen=True)
class Pooling:
    """A kind of pooling, which computes the head's input from the encoder's output.

    The exact rewrites of exported graphs use the last five attributes. Their defaults are safe
    for every pooling.

    Attributes:
        class_token: whether a learned token precedes the patches.
        distillation_token: whether a second learned token, which learns from a teacher, follows
            the class token. Then the output is (batch, 2 * hidden_dim), one half for each of the
            two classifiers of a `DistilledHead`.
        layer: a function of a ViTSpec that returns the Keras layer, which must be named "pooling".
            The function imports Keras itself. None if the head reads every token.
        weights: a row for each weight: official key, path in the layer, official shape in the
            letters of `weights/names.py`.
        infer: the layer in the inference graph: a function of an `InferenceGraph` and the tokens
            (batch, tokens, hidden_dim) that returns the head's input.
        reads_only_prefix: whether the last block may compute only the tokens before the patches.
        averages: whether the output is a weighted mean of the tokens, with the same weights in
            every channel, or several such means one after another. Then the scale and shift of the
            encoder's last norm can be applied after the pooling instead.
        readers: the Dense layers that read the encoder's last norm; () if other layers read it.
        norms: for each LayerNorm of the pooling, the Dense layers that read it; nothing else does.
        fold_constants: a function of a ViTSpec and the weights that replaces, in place, constant
            computations by their results.
    """

    class_token: bool
    distillation_token: bool = False
    layer: Callable[[Any], Any] | None = None
    weights: str = ""
    infer: Callable[[InferenceGraph, Any], Any] = lambda graph, x: x
    reads_only_prefix: bool = False
    averages: bool = False
    readers: tuple[str, ...] = ()
    norms: Mapping[str, list[str]] = dataclasses.field(default_factory=dict)
    fold_constants: Callable[[Any, dict[str, np.ndarray]], None] = lambda spec, weights: None

    @property
    def prefix_tokens(self) -> int:
        """The number of tokens before the patches."""
        return int(self.class_token) + int(self.distillation_token)
