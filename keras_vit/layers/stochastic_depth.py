"""Stochastic depth (Huang et al. 2016), as AugReg uses it."""

from __future__ import annotations

from keras_vit._keras import keras, register


@register
class StochasticDepth(keras.layers.Dropout):
    """Drops a residual branch for whole examples, (batch, tokens, hidden_dim) to the same shape.

    Dropout with one draw an example: the branches that stay are scaled by 1 / (1 - rate).

    Args:
        rate: the chance that an example's branch is dropped.
    """

    def __init__(self, rate: float, **kwargs):
        kwargs.pop("noise_shape", None)
        super().__init__(rate, noise_shape=(None, 1, 1), **kwargs)
