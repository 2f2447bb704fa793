"""Stochastic depth (Huang et al. 2016), as in AugReg."""

from __future__ import annotations

from keras_vit._errors import UsageError
from keras_vit._keras import keras, register
from keras_vit.layers.base import StaysFloat

_ONE_DRAW = (None, 1, 1)  # (batch, tokens, hidden_dim)


@register
class StochasticDepth(StaysFloat, keras.layers.Dropout):
    """Drops a residual branch for whole examples; input and output (batch, tokens, hidden_dim).

    It is Dropout with one random draw per example. Branches that are kept are scaled by
    1 / (1 - rate).

    Args:
        rate: the probability that an example's branch is dropped.
        noise_shape: must be (None, 1, 1), one draw per example. The argument exists because
            Dropout's configuration contains it.

    Raises:
        UsageError: `noise_shape` is another shape.
    """

    def __init__(self, rate: float, noise_shape: tuple | None = None, **kwargs):
        if noise_shape is not None and tuple(noise_shape) != _ONE_DRAW:
            raise UsageError(
                f"noise_shape must be {_ONE_DRAW}, one draw per example; "
                f"keras.layers.Dropout accepts others. Received: noise_shape={noise_shape!r}."
            )
        super().__init__(rate, noise_shape=_ONE_DRAW, **kwargs)
