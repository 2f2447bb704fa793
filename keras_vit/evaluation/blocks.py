"""A forward pass block by block, which keeps the attention scores of one block at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from keras_vit._keras import ops

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
        # The block itself would compute its attention a second time.
        attended, scores = block.attention(
            block.norm_attention(x), training=False, return_attention_scores=True
        )
        x = x + attended
        x = x + block.mlp(block.norm_mlp(x), training=False)
        yield Block(to_numpy(scores), x)


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
