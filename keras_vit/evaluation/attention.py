"""Attention rollout: which patches the class token attends to (paper, figure 6, appendix D.8)."""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_vit._checks import keras_vit_model


def attention_maps(model: Any, inputs: np.ndarray) -> np.ndarray:
    """The rollout of a ViT for preprocessed images: (n, rows, columns) in [0, 1].

    >>> from keras_vit import evaluation
    >>> evaluation.attention_maps(model, inputs[:1]).shape
    (1, 6, 6)
    """
    keras_vit_model(model)
    names = [f"attention_{i}" for i in range(model.spec.depth)]
    scores = model.intermediates(*names)(inputs, training=False)
    stacked = np.stack([np.asarray(scores[name]) for name in names])  # (layers, n, heads, t, t)
    maps = rollout(stacked, model.spec.prefix_tokens)
    return maps.reshape(len(inputs), *model.grid)  # (n, rows, columns)


def rollout(attention_scores: np.ndarray, prefix: int) -> np.ndarray:
    """Attention multiplied through the layers (Abnar and Zuidema 2020).

    In each layer, scores are averaged over heads, the identity is added for the residual, and rows
    are normalised. The layers are multiplied. The result is the class token's row over the
    patches, the mean row of class and distillation token, whose predictions are averaged, or the
    mean of all rows without such tokens, divided by its maximum.

    Args:
        attention_scores: (layers, n, heads, tokens, tokens); each row sums to 1.
        prefix: the number of tokens before the patches: 1 for a class token, 2 for a class and a
            distillation token.

    Returns:
        (n, patches); the largest value in each image is 1.
    """
    layers = attention_scores.astype(np.float64).mean(axis=2)  # (layers, n, tokens, tokens)
    layers = layers + np.eye(layers.shape[-1])
    layers /= layers.sum(axis=-1, keepdims=True)
    joint = layers[0]
    for layer in layers[1:]:
        joint = layer @ joint
    readers = joint[:, :prefix] if prefix else joint
    rows = readers[:, :, prefix:].mean(axis=1)  # (n, patches)
    return rows / rows.max(axis=-1, keepdims=True)
