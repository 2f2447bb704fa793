"""A forward pass block by block, which keeps the attention scores of one block at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from keras_vit._keras import ops
from keras_vit.layers.keras_machine import KerasMachine
from keras_vit.parts.block import transformer_block

# Bytes of the attention scores of one block, and the largest batch.
_SCORES, _MOST_IMAGES = 64 << 20, 32


class Block(NamedTuple):
    """What one block computes.

    Attributes:
        scores: its attention scores, float32 (n, heads, tokens, tokens); each row sums to 1.
        tokens: its output, a tensor (n, tokens, hidden_dim).
    """

    scores: np.ndarray
    tokens: Any


def each_block(model: Any, inputs: np.ndarray) -> Iterator[Block]:
    """The blocks of a ViT in turn, for preprocessed images (n, height, width, 3)."""
    x = model.intermediates("embedded")(inputs, training=False)["embedded"]
    for i in range(model.spec.depth):
        block = model.get_layer(f"encoderblock_{i}")
        taps = {}
        x = transformer_block(KerasMachine(block, training=False, taps=taps), x)
        yield Block(to_numpy(taps["attention"]), x)


def batches(model: Any, inputs: np.ndarray) -> Iterator[np.ndarray]:
    """The inputs in parts that are small enough for `each_block`."""
    at_once = images_at_once(model)
    for first in range(0, len(inputs), at_once):
        yield inputs[first : first + at_once]


def images_at_once(model: Any) -> int:
    """The number of images whose attention scores in one block take 64 MiB: from 1 to 32."""
    rows, columns = model.grid
    tokens = rows * columns + model.spec.prefix_tokens
    return min(max(_SCORES // (4 * model.spec.num_heads * tokens**2), 1), _MOST_IMAGES)


def to_numpy(tensor: Any) -> np.ndarray:
    """A tensor of any float type as a float32 array."""
    return np.asarray(ops.cast(tensor, "float32"))
