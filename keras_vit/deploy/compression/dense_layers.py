"""Prepares the Dense layers of a model, also those in blocks: folds norms, wraps and unwraps them.

The exporter's rewrites change kernels: folding multiplies their rows with a LayerNorm's scale, and
centring subtracts means. Zeros survive folding but not centring; quantised or clustered kernels
survive neither. So scales are folded into the kernels before training and stay 1, which makes
the later folding an identity. Centring is skipped, so each norm has to compute a mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from keras_vit._keras import keras
from keras_vit.deploy.graph.rewrites import rewrite
from keras_vit.deploy.resolve import parameters_of
from keras_vit.models.image_model import ImageModel
from keras_vit.weights.names import weight_names


def fold_norms(model: ImageModel) -> ImageModel:
    """An equivalent model in which norms before Dense layers have no scale and no shift.

    The shifts become biases, also of layers that had none.
    """
    weights = parameters_of(model)
    folded = rewrite(model.spec, dict(weights), model.preprocessing, {"fold_norms"}, uint8=False)
    for path, value in weights.items():
        if path not in folded:
            folded[path] = (np.ones_like if path.endswith("/gamma") else np.zeros_like)(value)
    biases = dict.fromkeys(("query_bias", "key_bias", "value_bias"), True)
    return with_weights(model, folded, **biases)


def wrap_dense(
    model: ImageModel, wrap: Callable[[keras.layers.Dense], Any]
) -> tuple[keras.Model, dict[str, Any]]:
    """Copies a model and replaces each Dense layer by `wrap(dense)`.

    Norms of the copy are not trained: their scales and shifts were folded and must not change.

    Returns:
        The copy, a plain functional model; and the wrapper of each Dense layer, by keras_vit's
        names ("encoderblock_0/mlp/dense_0").
    """
    wrappers = {}

    def copied(layer):
        copy = type(layer).from_config(layer.get_config())
        if layer.weights:
            copy.build(layer.input_shape)
            copy.set_weights(layer.get_weights())
        if isinstance(copy, keras.layers.Dense):
            wrappers[copy.name] = wrap(copy)
            return wrappers[copy.name]
        for path, parent, attribute, dense in list(_nested_dense(copy, copy.name)):
            wrappers[path] = wrap(dense)
            setattr(parent, attribute, wrappers[path])
        return copy

    copy = keras.models.clone_model(model, clone_function=copied)
    for layer in copy.submodules:
        if isinstance(layer, keras.layers.LayerNormalization):
            layer.trainable = False
    return copy, wrappers


def unwrapped(
    model: ImageModel, copy: keras.Model, wrappers: dict[str, Any], kernel: Callable[[Any], Any]
) -> ImageModel:
    """A model like the original with the current weights of its wrapped copy.

    Args:
        model: the original.
        copy, wrappers: the result of `wrap_dense`.
        kernel: a function that returns the kernel that a wrapper computes with.
    """
    weights = {}
    for name in _names(model):
        layer, _, part = name.path.rpartition("/")
        wrapper = wrappers.get(layer)
        if wrapper is None:
            value = name.variable(copy)
        else:
            value = kernel(wrapper) if part == "kernel" else wrapper.layer.bias
        weights[name.path] = np.asarray(value)
    return with_weights(model, weights)


def with_weights(model: ImageModel, weights: dict[str, np.ndarray], **fields: Any) -> ImageModel:
    """A new model like `model`, with these weights, and perhaps other fields of the spec."""
    config = model.get_config()
    copy = type(model).from_config({**config, "spec": {**config["spec"], **fields}})
    for name in _names(copy):
        name.variable(copy).assign(weights[name.path])
    return copy


def _names(model: ImageModel):
    return weight_names(model.spec, model.num_classes, model.image_size)


def _nested_dense(layer: Any, path: str) -> Iterator[tuple[str, Any, str, Any]]:
    # Not sorted as by `each_layer`: the copy's variables, and so sums over them, have this order.
    for attribute, value in list(vars(layer).items()):
        if isinstance(value, keras.layers.Dense):
            yield f"{path}/{attribute}", layer, attribute, value
        elif isinstance(value, keras.layers.Layer):
            yield from _nested_dense(value, f"{path}/{attribute}")
