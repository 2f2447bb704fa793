"""Attention rollout: which patches the class token attends to (paper, figure 6, appendix D.8)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from keras_vit._checks import keras_vit_model
from keras_vit.data.input_range import check_inputs
from keras_vit.evaluation.blocks import batches, each_block


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
    maps = [
        rollout((block.scores for block in each_block(model, part)), model.spec.prefix_tokens)
        for part in batches(model, inputs)
    ]
    return np.concatenate(maps).reshape(len(inputs), *model.grid)  # (n, rows, columns)


def rollout(attention_scores: Iterable[np.ndarray], prefix: int) -> np.ndarray:
    """Attention multiplied through the layers (Abnar and Zuidema 2020).

    In each layer, scores are averaged over heads, the identity is added for the residual, and rows
    are normalised. The layers are multiplied. The result is the class token's row over the
    patches, the mean row of class and distillation token, whose predictions are averaged, or the
    mean of all rows without such tokens, divided by its maximum.

    Args:
        attention_scores: an array (n, heads, tokens, tokens) for each layer, from input to output;
            each row sums to 1. Or one array (layers, n, heads, tokens, tokens).
        prefix: the number of tokens before the patches: 1 for a class token, 2 for a class and a
            distillation token.

    Returns:
        (n, patches); the largest value in each image is 1.
    """
    layers = [_with_residual(scores) for scores in attention_scores]
    count, tokens, _ = layers[0].shape
    rows = np.zeros((count, tokens))
    rows[:, : prefix or tokens] = 1 / (prefix or tokens)
    # From the last layer to the first, each product is of rows and a matrix, not of two matrices.
    for layer in reversed(layers):
        rows = np.einsum("nq,nqk->nk", rows, layer)
    patches = rows[:, prefix:]  # (n, patches)
    return patches / patches.max(axis=-1, keepdims=True)


def _with_residual(scores: np.ndarray) -> np.ndarray:
    """(n, heads, tokens, tokens) to (n, tokens, tokens), whose rows sum to 1."""
    mean = scores.mean(axis=1, dtype=np.float64) + np.eye(scores.shape[-1])
    return mean / mean.sum(axis=-1, keepdims=True)
