"""Rematerialisation: activations are computed again in the backward pass instead of kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras_vit._keras import keras


def rematerialised(layer: keras.layers.Layer, function: Callable[[Any], Any], x: Any) -> Any:
    """`function(x)`, whose inner activations are not kept for the backward pass (Chen et al. 2016).

    Random draws are the same both times: the states of the layer's random generators are passed
    in and out, whereas a call inside `keras.remat` alone would advance them twice, and dropout
    would then drop other values in the backward pass.

    Args:
        layer: a built layer of Keras 3 that owns all variables that `function` uses.
        function: computes a tensor from a tensor.
        x: the tensor.
    """
    trained = layer.trainable_variables
    frozen, states = [], []
    for variable in layer.non_trainable_variables:
        (states if variable.path.endswith(_STATE) else frozen).append(variable)
    # Copies, because in TensorFlow `value` is the variable, which is assigned below.
    before = [variable.value * 1 for variable in states]

    def pure(x, *values):
        mapping = zip([*trained, *frozen, *states], [*values, *before], strict=True)
        with keras.StatelessScope(state_mapping=mapping) as scope:
            y = function(x)
        return y, *(scope.get_current_value(variable) for variable in states)

    y, *after = keras.remat(pure)(x, *(variable.value for variable in [*trained, *frozen]))
    for variable, value in zip(states, after, strict=True):
        variable.assign(value)
    return y


# Keras' name for the state of a random generator.
_STATE = "seed_generator_state"
