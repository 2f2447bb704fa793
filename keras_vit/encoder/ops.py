"""The operations in which the encoder is described."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal

# "tanh" and "erf" are two forms of GELU, "quick" is x * sigmoid(1.702 x), "silu" x * sigmoid(x).
Activation = Literal["tanh", "erf", "quick", "silu"]
# What makes probabilities of logits.
HeadActivation = Literal["softmax", "sigmoid"]


class Ops:
    """Its subclasses implement the operations: they compute, count, or record who reads what.

    A part is a function of `Ops` and of tensors (batch, tokens, channels). Operations with a name
    use the weights of this name in the part. Those that Python's operators express are defined
    here. A subclass that lacks an operation cannot run parts that use it.

    Attributes:
        spec: what has the fields of the model's `ViTSpec` that the part reads.
        path: the part's path in the model, "" or with a slash at its end.
    """

    spec: Any
    path: str = ""

    # Parts inside parts.

    def part(self, name: str, function: Callable, *values: Any) -> Any:
        """The part `name`, which is `function` of its operations and of the values."""
        with self.scope(name):
            return function(self.at(name), *values)

    def at(self, name: str) -> Ops:
        """The operations for the part `name`."""
        inner = copy.copy(self)
        inner.path = f"{self.path}{name}/"
        return inner

    def scope(self, name: str) -> AbstractContextManager:
        """A context for the names of what is computed in a part."""
        return contextlib.nullcontext()

    def tap(self, name: str, x: Any) -> None:
        """Notes a tensor under a name, for those who look inside."""

    # With weights.

    def dense(self, name: str, x: Any) -> Any:
        """A Dense layer: (..., inputs) to (..., units)."""
        raise NotImplementedError

    def norm(self, name: str, x: Any) -> Any:
        """LayerNorm over the last axis."""
        raise NotImplementedError

    def scale(self, name: str, x: Any) -> Any:
        """Each channel of x, multiplied by a weight.

        If x is the output of a Dense layer, nothing else may read it: exports fold the weight into
        that layer.
        """
        raise NotImplementedError

    def constant(self, name: str, x: Any) -> Any:
        """A weight (1, n, channels), repeated for each image of x: (batch, n, channels)."""
        raise NotImplementedError

    def tokens(self, x: Any) -> Any:
        """The learned tokens before the patches, for each image of x; None if there are none."""
        raise NotImplementedError

    def positions(self, x: Any) -> tuple[Any, Any]:
        """The positions of the learned tokens and those of the patches x, each None if absent."""
        raise NotImplementedError

    def attend(self, query: Any, key: Any, value: Any) -> Any:
        """softmax(query key^T / sqrt(head_dim)) value: `heads` of each to (batch, queries, width).

        Positions that act in attention are added to the logits.
        """
        raise NotImplementedError

    # Without weights.

    def patches(self, images: Any) -> Any:
        """The values of each patch: (batch, height, width, c) to (batch, patches, size^2 * c)."""
        raise NotImplementedError

    def heads(self, x: Any) -> Any:
        """(batch, tokens, width), divided into the attention heads."""
        raise NotImplementedError

    def rotate(self, x: Any) -> Any:
        """Turns the `heads` of queries or keys by the angles of their positions."""
        raise NotImplementedError

    def activation(self, name: Activation, x: Any) -> Any:
        """The function `name` of x."""
        raise NotImplementedError

    def tanh(self, x: Any) -> Any:
        """The hyperbolic tangent of x."""
        raise NotImplementedError

    def normalized(self, x: Any) -> Any:
        """x, divided by its L2 norm over the last axis."""
        raise NotImplementedError

    def product(self, x: Any, y: Any) -> Any:
        """x * y, element by element."""
        return x * y

    def add(self, name: str, x: Any, y: Any) -> Any:
        """x + y; the sum has a name."""
        return x + y

    def concat(self, parts: Sequence[Any], axis: int = 1) -> Any:
        """Tokens after tokens; with -1 for the axis, channels after channels."""
        raise NotImplementedError

    def first(self, x: Any, count: int) -> Any:
        """The first tokens: (batch, count, channels)."""
        return x[:, :count]

    def rest(self, x: Any, count: int) -> Any:
        """The tokens after the first `count`: (batch, tokens - count, channels)."""
        return x[:, count:] if count else x

    def mean(self, x: Any) -> Any:
        """The mean over tokens: (batch, channels)."""
        raise NotImplementedError

    def flat(self, x: Any) -> Any:
        """The channels of all tokens: (batch, tokens * channels)."""
        raise NotImplementedError

    def dropout(self, name: str, x: Any) -> Any:
        """x; in training with values dropped, by the layer of this name."""
        return x
