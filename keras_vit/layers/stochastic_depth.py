"""Stochastic depth (Huang et al. 2016), as AugReg uses it."""

from __future__ import annotations

from keras_vit._errors import UsageError
from keras_vit._keras import keras, register
from keras_vit.layers.stays_float import StaysFloat

_ONE_DRAW = (None, 1, 1)  # (batch, tokens, hidden_dim)


@register
class StochasticDepth(StaysFloat, keras.layers.Dropout):
    """Drops a residual branch for whole examples, (batch, tokens, hidden_dim) to the same shape.

    Dropout with one draw an example: the branches that stay are scaled by 1 / (1 - rate).

    Args:
        rate: the chance that an example's branch is dropped.
        noise_shape: (None, 1, 1), one draw an example, and no other; as Dropout's configuration
            has it.

    Raises:
        UsageError: a `noise_shape` of another kind than one draw an example.
    """

    def __init__(self, rate: float, noise_shape: tuple | None = None, **kwargs):
        if noise_shape is not None and tuple(noise_shape) != _ONE_DRAW:
            raise UsageError(
                f"noise_shape must be {_ONE_DRAW}, one draw an example; "
                f"keras.layers.Dropout takes others. Received: noise_shape={noise_shape!r}."
            )
        super().__init__(rate, noise_shape=_ONE_DRAW, **kwargs)
