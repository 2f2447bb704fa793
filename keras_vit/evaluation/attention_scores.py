"""The attention scores of a ViT, block by block, and what they show.

Rollout: which patches reach the output (paper, figure 6, appendix D.8). Maps of heads: what each
head attends to. Distance: how far attention reaches (paper, figure 7, right, figure 11 and appendix
D.7).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from keras_vit._checks import keras_vit_model
from keras_vit._errors import UsageError
from keras_vit._keras import ops
from keras_vit.data.input_range import check_inputs
from keras_vit.encoder.block import transformer_block
from keras_vit.encoder.patch_grids import Grid
from keras_vit.layers.keras_ops import KerasOps

# Bytes of the attention scores of one block, and the largest batch.
_SCORES, _MOST_IMAGES = 64 << 20, 32


def attention_maps(model: Any, inputs: np.ndarray) -> np.ndarray:
    """The rollout of a ViT for preprocessed images: (n, rows, columns) in [0, 1].

    >>> from keras_vit import evaluation
    >>> evaluation.attention_maps(model, inputs[:1]).shape
    (1, 6, 6)

    Raises:
        UsageError: `model` is another object, or the values are not those of preprocessed images.
    """
    keras_vit_model(model)
    check_inputs(np.asarray(inputs), model.preprocessing)
    parts, spec = in_parts(inputs, images_at_once(model)), model.spec
    maps = [
        rollout((s for s, _ in each_block(model, p)), spec.prefix_tokens, spec.unread_tokens)
        for p in parts
    ]
    return np.concatenate(maps).reshape(len(inputs), *model.grid)  # (n, rows, columns)


def rollout(attention_scores: Iterable[np.ndarray], prefix: int, unread: int = 0) -> np.ndarray:
    """Attention multiplied through the layers (Abnar and Zuidema 2020).

    In each layer, scores are averaged over heads, the identity is added for the residual, and rows
    are normalised. The layers are multiplied. The result is the class token's row over the
    patches, the mean row of class and distillation token, whose predictions are averaged, or the
    mean row of all patches without such tokens, divided by its maximum.

    Args:
        attention_scores: an array (n, heads, tokens, tokens) for each layer, from input to output;
            each row sums to 1. Or one array (layers, n, heads, tokens, tokens).
        prefix: the number of tokens before the patches: 1 for a class token, 2 for a class and a
            distillation token, and as many more as there are registers.
        unread: how many of these, the last ones, the prediction does not read: registers, and the
            class token of EVA-02.

    Returns:
        (n, patches); the largest value in each image is 1.
    """
    layers = [_with_residual(scores) for scores in attention_scores]
    count, tokens, _ = layers[0].shape
    rows = np.zeros((count, tokens))
    readers = _readers(prefix, unread)
    rows[:, readers] = 1 / rows[:, readers].shape[1]
    # From the last layer to the first, each product is of rows and a matrix, not of two matrices.
    for layer in reversed(layers):
        rows = np.einsum("nq,nqk->nk", rows, layer)
    patches = rows[:, prefix:]  # (n, patches)
    return patches / patches.max(axis=-1, keepdims=True)


def head_maps(scores: np.ndarray, grid: Grid, unread: int = 0) -> np.ndarray:
    """What the class token attends to in each head (as in DINO, figure 1).

    Args:
        scores: attention scores (n, heads, tokens, tokens); the patches come last.
        grid: rows and columns of patches.
        unread: as in `rollout`.

    Returns:
        (n, heads, rows, columns): the row of the class token over the patches, the mean of the rows
        of class and distillation token, or the mean row of all patches without such tokens.
    """
    prefix = scores.shape[-1] - grid[0] * grid[1]
    readers = scores[:, :, _readers(prefix, unread), prefix:]
    maps = readers.mean(axis=2, dtype=np.float64)  # (n, heads, patches)
    return maps.reshape(*maps.shape[:2], *grid)  # (n, heads, rows, columns)


def attention_distance(scores: np.ndarray, grid: Grid, stride: int) -> np.ndarray:
    """The mean distance from a patch to the patches that it attends to, in pixels of the image.

    For each query patch, the sum over all patches of attention times distance; then the mean over
    the queries. Tokens before the patches are left out, as queries and as keys, and what is left
    is not normalised again: attention to a class token counts as a distance of 0.

    Args:
        scores: attention scores (..., tokens, tokens), query by key; the patches come last.
        grid: rows and columns of patches.
        stride: from one patch to the next in pixels: `ViTSpec.stride`.

    Returns:
        (...): of scores (n, heads, tokens, tokens), a distance for each image and head.
    """
    places = np.indices(grid).reshape(2, -1).T  # (patches, 2), raster order
    distances = stride * np.linalg.norm(places[:, None] - places[None], axis=-1)
    first = scores.shape[-1] - len(distances)
    patches = scores[..., first:, first:]
    return np.einsum("...qk,qk->...", patches, distances) / len(distances)


def even_distance(grid: Grid, stride: int, prefix: int) -> float:
    """The attention distance of scores that are the same for all tokens, in pixels."""
    tokens = grid[0] * grid[1] + prefix
    scores = np.full((tokens, tokens), 1 / tokens)
    return float(attention_distance(scores, grid, stride))


def each_block(model: Any, inputs: np.ndarray) -> Iterator[tuple[np.ndarray, Any]]:
    """What the blocks of a ViT compute, in turn, for preprocessed images (n, height, width, 3).

    The attention scores of one block at a time are in memory.

    Yields:
        The attention scores, float32 (n, heads, tokens, tokens), whose rows sum to 1; and the
        output, a tensor (n, tokens, hidden_dim).

    Raises:
        UsageError: the model is an EoMT, of whose tokens only some are of its encoder.
    """
    if model.spec.num_queries and model.num_classes:
        raise UsageError(
            "attention is shown of an encoder. Received: a model whose last blocks also see "
            f"{model.spec.num_queries} queries; build it with num_classes=0."
        )
    x = model.intermediates("embedded")(inputs, training=False)["embedded"]
    for i in range(model.spec.depth):
        block = model.get_layer(f"encoderblock_{i}")
        taps = {}
        x = transformer_block(KerasOps(block, training=False, taps=taps), x)
        yield to_numpy(taps["attention"]), x


def images_at_once(model: Any) -> int:
    """The number of images whose attention scores in one block take 64 MiB: from 1 to 32."""
    rows, columns = model.grid
    tokens = rows * columns + model.spec.prefix_tokens
    return min(max(_SCORES // (4 * model.spec.num_heads * tokens**2), 1), _MOST_IMAGES)


def in_parts(values: Any, size: int) -> Iterator[Any]:
    """An array in parts of `size` rows; the last one may be smaller."""
    for first in range(0, len(values), size):
        yield values[first : first + size]


def to_numpy(tensor: Any) -> np.ndarray:
    """A tensor of any float type as a float32 array."""
    return np.asarray(ops.cast(tensor, "float32"))


def _readers(prefix: int, unread: int) -> slice:
    """The tokens whose outputs the prediction reads: the first ones, or the patches."""
    return slice(prefix - unread) if prefix > unread else slice(prefix, None)


def _with_residual(scores: np.ndarray) -> np.ndarray:
    """(n, heads, tokens, tokens) to (n, tokens, tokens), whose rows sum to 1."""
    mean = scores.mean(axis=1, dtype=np.float64) + np.eye(scores.shape[-1])
    return mean / mean.sum(axis=-1, keepdims=True)
